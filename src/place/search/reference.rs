//! Brute force: the executable definition of the groups that the search strategy can place.
//!
//! Every choice of domains, in canonical order, and in each every order and every node for the
//! members. It shares with the search what defines a request (which keys confine a group, which
//! nodes make a domain), and neither sums nor packing nor budget.
//!
//! The canonical order: all members before minima only. Groups come as given, parents before
//! children, leaders after their siblings. Domains come as [`BruteForce::candidates`] orders them,
//! each before the group is left out. Members come as given; nodes in the order of ties.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::strategy::is_beyond_search;
use crate::framework::device_fit::choose_for;
use crate::framework::{DomainContext, Evaluation};
use crate::model::{Pod, PodShape};
use crate::place::error::PlaceError;
use crate::place::layout::{Layout, Member};
use crate::place::outcome::{Answer, Unplaced, UnplacedKind};
use crate::place::request::Task;
use crate::place::sequential::{self, weighed};
use crate::place::topology::partition::{Candidate, all_rows};
use crate::place::topology::pinned::{Home, home, refuse_scattered, running};
use crate::place::topology::requirement::Requirement;
use crate::place::topology::tiers::DomainSense;
use crate::state::{Cluster, Devices, LabelValue, ResourceId, Row, Txn};

/// The most pending members that a group may have.
const MOST_MEMBERS: usize = 10;
/// The most groups and slices that a group may consist of.
const MOST_PARTS: usize = 64;

/// The answer of brute force; of a group that is left to the sequential strategy, the answer of
/// that one's reference. Exponential in the number of members.
pub(crate) fn place(task: Task<'_>) -> Result<Answer, PlaceError> {
    let group = || task.group().full_name();
    if task.group().any(&is_beyond_search) {
        return sequential::strategy::reference(task);
    }
    let pods = task.group().all_pods();
    let members = pods.iter().filter(|pod| pod.scheduling_gates.is_empty()).count();
    if members > MOST_MEMBERS {
        return Err(PlaceError::TooManyMembers { group: group(), members, most: MOST_MEMBERS });
    }
    let root = Requirement::new(task.cluster, task.group());
    let mut parts = Vec::new();
    flatten(&root, None, None, &mut parts);
    if parts.len() > MOST_PARTS {
        let what = "more than 64 groups and slices in its reference";
        return Err(PlaceError::Unsupported { group: group(), what });
    }
    for part in parts.iter().filter(|part| !part.slice) {
        let ask = part.ask;
        refuse_scattered(task.cluster, DomainSense::Path, (ask.group, &ask.leaders))?;
    }
    let dimensions = dimensions(task, &root);
    let rows = task.request.rows(task.cluster).unwrap_or_else(|| all_rows(task.cluster));
    for whole in [true, false] {
        let choices = vec![None; parts.len()];
        let mut search = BruteForce {
            task,
            pods: &pods,
            parts: &parts,
            dimensions: &dimensions,
            choices,
            whole,
        };
        if let Some(layout) = search.choose(0, &rows)? {
            return Ok(Answer::Placed(layout));
        }
    }
    let reason = Unplaced::new(group(), UnplacedKind::Infeasible);
    Ok(Answer::unplaced(reason, None))
}

/// A group or a slice, in a list where parents come before children.
struct Part<'a> {
    ask: &'a Requirement<'a>,
    parent: Option<usize>,
    /// The sibling whose domain it shares, if it leads one.
    led: Option<usize>,
    slice: bool,
}

impl Part<'_> {
    /// The domain of its loosest key that its running members leave open to its leaders.
    fn home(&self, cluster: &Cluster) -> Option<(String, Vec<Option<LabelValue>>)> {
        let key = self.ask.loosest().filter(|_| running(cluster, self.ask.group) > 0)?;
        let domain_key = self.ask.domain_key(cluster, key);
        match home(cluster, (self.ask.group, &self.ask.leaders), key, domain_key.as_ref()) {
            Ok(Home::In(path)) => Some((key.into(), path.to_vec())),
            _ => None,
        }
    }
}

fn flatten<'a>(
    ask: &'a Requirement<'a>,
    parent: Option<usize>,
    led: Option<usize>,
    parts: &mut Vec<Part<'a>>,
) {
    let own = parts.len();
    let slice = parent.is_some_and(|parent| core::ptr::eq(parts[parent].ask.group, ask.group));
    parts.push(Part { ask, parent, led, slice });
    let leads =
        |inner: &Requirement<'_>| inner.group.leader && !core::ptr::eq(inner.group, ask.group);
    let mut first = None;
    for inner in ask.inside.iter().filter(|inner| !leads(inner)) {
        first = first.or(Some(parts.len()));
        flatten(inner, Some(own), None, parts);
    }
    for inner in ask.inside.iter().filter(|inner| leads(inner)) {
        flatten(inner, Some(own), first, parts);
    }
}

/// Pods (`None`) and the resources that members request, the scarcest first: by what the group
/// takes at least, as a fraction of what is free on all nodes.
fn dimensions(task: Task<'_>, root: &Requirement<'_>) -> Vec<Option<ResourceId>> {
    let judged = |pod: &Pod| task.framework.judges_room(pod.shape());
    let mut found = vec![None];
    for pod in task.group().all_pods().into_iter().filter(|pod| judged(pod)) {
        for (name, _) in pod.shape().requests.iter().filter(|(_, amount)| *amount > 0) {
            let id = task.cluster.resource(name).map(Some);
            found.extend(id.filter(|id| !found.contains(id)));
        }
    }
    let rows = task.request.rows(task.cluster).unwrap_or_else(|| all_rows(task.cluster));
    let mut ranked: Vec<(i64, i64, usize)> = Vec::new();
    for (place, dimension) in found.iter().enumerate() {
        let takes = |pod: &Pod| match dimension {
            _ if !judged(pod) => 0,
            None => 1,
            Some(id) => pod.shape().requests.of(task.cluster.resource_name(*id)).max(0),
        };
        ranked.push((root.least(&takes), free(task, &rows, *dimension).max(1), place));
    }
    ranked.sort_by(|a, b| {
        let cross = |x: i64, y: i64| i128::from(x) * i128::from(y);
        cross(b.0, a.1).cmp(&cross(a.0, b.1)).then(b.2.cmp(&a.2))
    });
    ranked.into_iter().map(|(_, _, place)| found[place]).collect()
}

/// How much is free on some nodes together.
fn free(task: Task<'_>, rows: &[Row], dimension: Option<ResourceId>) -> i64 {
    let views = rows.iter().filter_map(|&row| task.cluster.view(row));
    let amounts = views.map(|node| match dimension {
        None => node.free_pods().max(0),
        Some(resource) => node.free(resource).max(0),
    });
    amounts.fold(0, i64::saturating_add)
}

/// A member on its node.
struct Placed {
    part: usize,
    /// Its place among the pods of the part.
    pod: usize,
    row: Row,
    devices: Option<Devices>,
}

/// Identity of a state: of each placed member its part, its shape, its node and its devices.
type State = Vec<(usize, u32, Row, Vec<Vec<u32>>)>;

/// The domain of a part: its key and path, if it has one, and its rows.
#[derive(Clone)]
struct Choice {
    domain: Option<(String, Vec<Option<LabelValue>>)>,
    rows: Vec<Row>,
}

struct BruteForce<'s, 'a> {
    task: Task<'a>,
    /// All pods of the tree.
    pods: &'s [&'a Pod],
    parts: &'s [Part<'a>],
    dimensions: &'s [Option<ResourceId>],
    /// The domain of each part; `None` where it is left out.
    choices: Vec<Option<Choice>>,
    /// Whether every member must be placed.
    whole: bool,
}

impl BruteForce<'_, '_> {
    /// The first layout in canonical order, given the domains of the parts before `at`.
    fn choose(&mut self, at: usize, rows: &[Row]) -> Result<Option<Layout>, PlaceError> {
        let Some(part) = self.parts.get(at) else {
            return if self.is_enough() { self.lay_out() } else { Ok(None) };
        };
        let within = match part.parent {
            None => Some(rows.to_vec()),
            Some(parent) => self.choices[parent].as_ref().map(|choice| choice.rows.clone()),
        };
        let choices = within.map_or_else(|| Ok(Vec::new()), |rows| self.candidates(at, &rows))?;
        for choice in choices {
            self.choices[at] = Some(choice);
            if let Some(found) = self.choose(at + 1, rows)? {
                return Ok(Some(found));
            }
        }
        self.choices[at] = None;
        if at == 0 || self.whole { Ok(None) } else { self.choose(at + 1, rows) }
    }

    /// The domains a part may have within some rows. They are ordered by level of preference, then
    /// by domain-level scores with all members on the first node. Then come the least room in the
    /// scarcest resource, and the name.
    fn candidates(&self, at: usize, within: &[Row]) -> Result<Vec<Choice>, PlaceError> {
        // A leader stays in the domain of the sibling it leads.
        let led_rows;
        let within = match self.parts[at].led {
            None => within,
            Some(led) => {
                led_rows = self.rows_of_led(led, within)?;
                &led_rows
            }
        };
        let found = self.parts[at].ask.candidates(self.task.cluster, within)?;
        let mut choices = Vec::with_capacity(found.len());
        for tier in found.chunk_by(|a, b| a.0 == b.0) {
            let choice = |(key, candidate): &(Option<&str>, Candidate)| Choice {
                domain: key.map(|key| (String::from(key), candidate.path.clone())),
                rows: candidate.rows(Some(within)).unwrap_or(within).to_vec(),
            };
            let tier: Vec<Choice> = tier.iter().map(choice).collect();
            let scores = self.domain_scores(at, &tier);
            let mut ranked: Vec<_> = scores.into_iter().zip(tier).collect();
            ranked.sort_by_cached_key(|(score, choice)| {
                let room = self.dimensions.iter().map(|d| free(self.task, &choice.rows, *d));
                (Reverse(*score), room.collect::<Vec<i64>>())
            });
            choices.extend(ranked.into_iter().map(|(_, choice)| choice));
        }
        Ok(choices)
    }

    /// The rows of a part that its leaders share: the rows of its domain. If it is left out and
    /// members run, they are the rows of the domain that its loosest key leaves open to it.
    fn rows_of_led(&self, led: usize, within: &[Row]) -> Result<Vec<Row>, PlaceError> {
        if let Some(choice) = &self.choices[led] {
            return Ok(choice.rows.clone());
        }
        let (cluster, ask) = (self.task.cluster, self.parts[led].ask);
        if running(cluster, ask.group)
            + ask.leaders.iter().map(|l| running(cluster, l)).sum::<usize>()
            == 0
        {
            return Ok(within.to_vec());
        }
        let found = ask.candidates(cluster, within)?;
        let loosest = found.iter().find(|(key, _)| *key == ask.loosest());
        let rows = loosest.map(|(_, candidate)| candidate.rows(Some(within)).unwrap_or(within));
        Ok(rows.unwrap_or(&[]).to_vec())
    }

    fn domain_scores(&self, at: usize, tier: &[Choice]) -> Vec<i64> {
        let mut totals = vec![0; tier.len()];
        let below = (0..self.parts.len()).filter(|&part| self.is_within(part, at));
        let pods = below.flat_map(|part| self.parts[part].ask.pods.iter());
        let shapes: Vec<&PodShape> = pods.map(|pod| &**pod.shape()).collect();
        for (weight, plugin) in self.task.framework.domain_scores() {
            let raws: Vec<i64> = tier
                .iter()
                .map(|candidate| {
                    let first = candidate.rows.first().copied().unwrap_or(Row::new(0));
                    let proposed: Vec<_> = shapes.iter().map(|shape| (*shape, first)).collect();
                    let group = self.parts[at].ask.group;
                    let (cluster, rows) = (self.task.cluster, &candidate.rows);
                    plugin.score(&DomainContext::new(cluster, group, rows, &proposed))
                })
                .collect();
            let own = weighed(*weight, plugin.normalization(), raws);
            totals.iter_mut().zip(own).for_each(|(total, score)| *total += score);
        }
        totals
    }

    /// Whether a part is another, or inside it.
    fn is_within(&self, part: usize, outer: usize) -> bool {
        part == outer || self.parts[part].parent.is_some_and(|up| self.is_within(up, outer))
    }

    /// Whether enough children of each part have a domain, and enough pods to choose from.
    fn is_enough(&self) -> bool {
        (0..self.parts.len()).filter(|&at| self.choices[at].is_some()).all(|at| {
            let counts = |&child: &usize| {
                let ask = self.parts[child].ask;
                let counted = self.choices[child].is_some() || ask.need == 0;
                self.parts[child].parent == Some(at) && counted
            };
            let children = (0..self.parts.len()).filter(counts);
            let weight: u32 = children.map(|child| self.parts[child].ask.weight).sum();
            let ask = self.parts[at].ask;
            ask.pods.len() as u32 + weight >= ask.need
        })
    }

    /// Members on nodes within the domains chosen, in an order in which every filter passes.
    fn lay_out(&self) -> Result<Option<Layout>, PlaceError> {
        let mut txn = self.task.cluster.txn().rearranging();
        let mut placed = Vec::new();
        let found = self.walk(&mut txn, &mut placed, &mut BTreeSet::new())?;
        Ok(found.then(|| self.layout(&placed)))
    }

    fn walk(
        &self,
        txn: &mut Txn,
        placed: &mut Vec<Placed>,
        seen: &mut BTreeSet<State>,
    ) -> Result<bool, PlaceError> {
        if self.is_done(placed) {
            return Ok(true);
        }
        let Task { framework, request, .. } = self.task;
        for (at, part) in self.parts.iter().enumerate() {
            let Some(choice) = &self.choices[at] else { continue };
            for (number, &pod) in part.ask.pods.iter().enumerate() {
                let free = |other: &usize| !placed.iter().any(|p| (p.part, p.pod) == (at, *other));
                // Among equal pods the first goes first.
                let twin = |other: &usize| part.ask.pods[*other].shape() == pod.shape();
                if (0..=number).filter(twin).find(free) != Some(number) {
                    continue;
                }
                for &row in &choice.rows {
                    let shape = pod.shape();
                    let (leaf, now) = (Some(part.ask.group), request.now);
                    let judged = Evaluation::new(framework, txn, shape, leaf, now);
                    if txn.view(row).is_none_or(|node| judged.filter(node).is_err()) {
                        continue;
                    }
                    let Ok(devices) = choose_for(framework, txn, shape, row) else { continue };
                    txn.place_with(pod, row, devices.clone())?;
                    placed.push(Placed { part: at, pod: number, row, devices });
                    if seen.insert(self.state(placed)) && self.walk(txn, placed, seen)? {
                        return Ok(true);
                    }
                    placed.pop();
                    txn.rollback_to(placed.len())?;
                }
            }
        }
        Ok(false)
    }

    /// Whether something is placed, and of each part as much as it needs.
    fn is_done(&self, placed: &[Placed]) -> bool {
        !placed.is_empty()
            && self.parts.iter().enumerate().all(|(at, part)| {
                let pods = &part.ask.pods;
                let need = if self.whole { pods.len() } else { part.ask.need as usize };
                let enough = || placed.iter().filter(|placed| placed.part == at).count() >= need;
                self.choices[at].is_none() || pods.is_empty() || enough()
            })
    }

    fn state(&self, placed: &[Placed]) -> State {
        let state = placed.iter().map(|one| {
            let lists = one.devices.iter().flat_map(|lists| lists.iter().cloned());
            let shape = self.task.gang.shape_of()[self.number(one)];
            (one.part, shape, one.row, lists.collect())
        });
        let mut state: State = state.collect();
        state.sort_unstable();
        state
    }

    /// The place of a member among all pods of the tree.
    fn number(&self, placed: &Placed) -> usize {
        let pod = self.parts[placed.part].ask.pods[placed.pod];
        self.pods.iter().position(|other| core::ptr::eq(*other, pod)).unwrap_or(0)
    }

    fn layout(&self, placed: &[Placed]) -> Layout {
        let mut layout = Layout::default();
        layout.members.extend(placed.iter().map(|one| Member {
            number: self.number(one) as u32,
            row: one.row,
            devices: one.devices.clone(),
        }));
        for (at, choice) in self.choices.iter().enumerate() {
            let (cluster, part) = (self.task.cluster, &self.parts[at]);
            let domain = match choice {
                Some(choice) => choice.domain.clone(),
                None => part.home(cluster),
            };
            let Some((domain_key, path)) =
                domain.and_then(|(key, path)| Some((part.ask.domain_key(cluster, &key)?, path)))
            else {
                continue;
            };
            // In a slice, only the plan's own members are held to its domain.
            let asked = (!part.slice).then_some(&part.ask.group.topology);
            // Its leaders share the domain.
            let leads = |leader: &usize| self.parts[*leader].led == Some(at);
            let shares: Vec<usize> = (0..self.parts.len()).filter(leads).chain([at]).collect();
            let is_inside =
                |one: &usize| shares.iter().any(|&outer| self.is_within(placed[*one].part, outer));
            let inside: Vec<usize> = (0..placed.len()).filter(is_inside).collect();
            for run in inside.chunk_by(|a, b| a + 1 == *b) {
                let (asked, range) = ((part.ask.name.clone(), asked), (run[0], run[0] + run.len()));
                layout.domains.push(domain_key.record(cluster, asked, &path, range));
            }
        }
        layout
    }
}
