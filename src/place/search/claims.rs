//! The search over claims: which members go where, and with which devices.
//!
//! Equal members are placed one after another, on nodes in an order that does not go back. Every
//! choice of devices is tried that others could tell from the choices before it. The kinds of
//! members come in order of hardness. If that fails, members that found no place come earlier the
//! next time. The last round has no limit but the budget: if it ends before the budget does, there
//! is no plan.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::claims::{Alike, How, PreparedClaims, Steps};
use crate::framework::device_fit::choose_devices;
use crate::framework::{Evaluation, Framework};
use crate::model::{ClaimAllocation, ClaimSource, ClaimSpec, Pod, PodShape};
use crate::place::error::PlaceError;
use crate::place::layout::{Layout, Member};
use crate::place::outcome::{Answer, Unplaced, UnplacedKind};
use crate::place::request::Task;
use crate::place::sequential::strategy::attempt;
use crate::place::sequential::workspace::Workspace;
use crate::state::{Cluster, DeviceNeed, Devices, NodeView, Row, Txn};

/// The filter that the search does without: it goes over the same devices itself.
const FILTER: &str = "DynamicResources";
/// The deepest search: each member counts as eight, and each of its devices as one. A member is a few
/// calls within each other, so that a deeper search would use up the stack of a small thread.
const DEEPEST: u64 = 1_024;
/// Steps of each round but the last, and how many rounds there are before it.
const QUOTA: u64 = 200;
const ROUNDS: usize = 24;

/// The answer for a group with claims.
///
/// A group with a topology request, or one whose members need not all be placed, is laid out by the
/// sequential strategy. If that does not place it, a simple one is searched for whole.
pub(super) fn place(
    task: Task<'_>,
    workspace: &mut Workspace,
    simple: bool,
) -> Result<Answer, PlaceError> {
    if let Some(layout) = attempt(task, workspace)? {
        return Ok(Answer::Placed(layout));
    }
    let name = task.group().full_name();
    if !simple {
        return Ok(Answer::greedy(name));
    }
    let mut search = ClaimSearch::new(task);
    if search.depth() > DEEPEST {
        return Ok(Answer::unplaced(Unplaced::new(name, UnplacedKind::Exhausted), None));
    }
    let found = search.solve()?;
    let whole = task.group().policy.minimum() as usize >= search.members;
    Ok(match found {
        Solved::Found => Answer::Placed(search.layout()),
        Solved::Never if whole && !search.faulted && search.is_complete() => {
            Answer::unplaced(Unplaced::new(name, UnplacedKind::Infeasible), None)
        }
        _ => Answer::unplaced(Unplaced::new(name, UnplacedKind::Exhausted), None),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Solved {
    Found,
    Never,
    /// The quota or the budget has run out.
    Open,
}

/// Members that ask for the same.
struct Kind<'a> {
    members: Vec<(u32, &'a Pod)>,
    /// The least number of devices of one.
    devices: u64,
    /// How often one has found no place.
    failures: u64,
}

struct ClaimSearch<'a> {
    cluster: &'a Cluster,
    task: Task<'a>,
    /// All filters but that for claims.
    others: Framework,
    kinds: Vec<Kind<'a>>,
    members: usize,
    rows: Vec<Row>,
    alike: Arc<Alike>,
    txn: Txn,
    placed: Vec<Member>,
    steps: u64,
    /// Whether a search for devices was given up, so that nothing is proven.
    faulted: bool,
}

/// Where a search stands: the place of its kind in the order, how many of its members have nodes,
/// and from which node on the next may go.
#[derive(Clone, Copy)]
struct At {
    kind: usize,
    member: usize,
    from: usize,
}

impl<'a> ClaimSearch<'a> {
    fn new(task: Task<'a>) -> ClaimSearch<'a> {
        let Task { cluster, framework, gang, request } = task;
        let group = gang.group();
        let rows = request.rows(cluster);
        let rows = rows.unwrap_or_else(|| cluster.nodes().map(NodeView::row).collect());
        let waiting = group.pods.iter().enumerate();
        let waiting = waiting.filter(|(_, pod)| pod.scheduling_gates.is_empty());
        let mut kinds: Vec<(Question, Kind<'a>)> = Vec::new();
        let named = names(group.pods.iter());
        let (mut members, mut prepared) = (0, Vec::new());
        for (number, pod) in waiting {
            members += 1;
            let question = Question::of(cluster, pod.shape(), &named);
            let member = (number as u32, pod);
            if let Some((_, kind)) = kinds.iter_mut().find(|(own, _)| *own == question) {
                kind.members.push(member);
            } else {
                let kind = Kind { members: vec![member], devices: 0, failures: 0 };
                kinds.push((question, kind));
            }
            prepared.push(PreparedClaims::new(cluster, framework.selectors(), pod.shape()));
        }
        let prepared: Vec<&PreparedClaims> =
            prepared.iter().filter_map(|own| own.as_ref().ok()?.as_ref()).collect();
        let alike = Arc::new(PreparedClaims::alike(cluster.claims(), &prepared));
        let mut kinds: Vec<Kind<'a>> = kinds.into_iter().map(|(_, kind)| kind).collect();
        for kind in &mut kinds {
            let shape = kind.members[0].1.shape();
            let claims = PreparedClaims::new(cluster, framework.selectors(), shape);
            kind.devices = claims.ok().flatten().map_or(0, |claims| claims.least_devices());
        }
        ClaimSearch {
            cluster,
            task,
            others: framework.without_filter(FILTER),
            kinds,
            members,
            rows,
            alike,
            txn: cluster.txn(),
            placed: Vec::new(),
            steps: 0,
            faulted: false,
        }
    }

    /// How deep the search goes; see [`DEEPEST`].
    fn depth(&self) -> u64 {
        let own = |kind: &Kind<'_>| {
            kind.devices.saturating_add(8).saturating_mul(kind.members.len() as u64)
        };
        self.kinds.iter().map(own).fold(0, u64::saturating_add)
    }

    /// Whether the search, run to its end, has left nothing out: the order of members and the choice
    /// of other devices change no verdict.
    fn is_complete(&self) -> bool {
        let filters = self.others.filters();
        self.task.gang.all_shapes().iter().all(|shape| {
            let alone = !shape.has_pod_affinity() && shape.spread.is_empty();
            let settled = |name: &str| matches!(name, "InterPodAffinity" | "PodTopologySpread");
            let mut filters = filters.iter();
            shape.devices.is_empty()
                && shape.zones.is_empty()
                && filters.all(|own| {
                    own.declare(shape).is_counting_bound() || alone && settled(own.name())
                })
        })
    }

    fn layout(self) -> Layout {
        Layout { members: self.placed, domains: Vec::new() }
    }

    /// Searches in rounds, then to the end.
    fn solve(&mut self) -> Result<Solved, PlaceError> {
        let mut budget = self.task.request.budget;
        for round in 0..=ROUNDS {
            let last = round == ROUNDS;
            let quota = if last { budget } else { budget.min(QUOTA << (round / 6)) };
            self.steps = quota;
            self.txn = self.cluster.txn();
            self.placed.clear();
            let mut order: Vec<usize> = (0..self.kinds.len()).collect();
            order.sort_by_key(|&kind| {
                let own = &self.kinds[kind];
                (Reverse(own.failures), Reverse(own.devices), own.members.len(), kind)
            });
            let at = At { kind: 0, member: 0, from: 0 };
            let solved = self.next(&order, at, &mut Vec::new())?;
            budget -= quota - self.steps;
            if solved != Solved::Open || budget == 0 {
                return Ok(solved);
            }
        }
        Ok(Solved::Open)
    }

    /// Places the next member, and all after it. `nodes` are those of its kind in order.
    fn next(
        &mut self,
        order: &[usize],
        at: At,
        nodes: &mut Vec<Row>,
    ) -> Result<Solved, PlaceError> {
        let Some(&kind) = order.get(at.kind) else { return Ok(Solved::Found) };
        if at.member == self.kinds[kind].members.len() {
            let next = At { kind: at.kind + 1, member: 0, from: 0 };
            return self.next(order, next, &mut Vec::new());
        }
        if at.member == 0 {
            *nodes = self.nodes_by_room();
        }
        let (number, pod) = self.kinds[kind].members[at.member];
        let mut some = false;
        for place in at.from..nodes.len() {
            let row = nodes[place];
            if self.steps == 0 {
                return Ok(Solved::Open);
            }
            self.steps -= 1;
            let shape = pod.shape();
            let group = self.task.group();
            let evaluation =
                Evaluation::new(&self.others, &self.txn, shape, Some(group), self.task.request.now);
            if self.txn.view(row).is_none_or(|node| evaluation.filter(node).is_err()) {
                continue;
            }
            let next = At { member: at.member + 1, from: place, ..at };
            match self.on_node(order, next, nodes, ((number, pod), row), &mut some)? {
                Solved::Never => {}
                solved => return Ok(solved),
            }
        }
        if !some {
            self.kinds[kind].failures += 1;
        }
        Ok(Solved::Never)
    }

    /// Places a member on a node with one choice of devices after another.
    fn on_node(
        &mut self,
        order: &[usize],
        next: At,
        nodes: &mut Vec<Row>,
        ((number, pod), row): ((u32, &'a Pod), Row),
        some: &mut bool,
    ) -> Result<Solved, PlaceError> {
        let (framework, shape) = (self.task.framework, pod.shape());
        // The search for devices reads the cluster as it is now, while members after this one are
        // placed in the transaction.
        let now = Cluster::clone(&self.txn);
        let Some(node) = now.view(row) else { return Ok(Solved::Never) };
        let needs = DeviceNeed::of(&now, shape);
        let chosen = choose_devices(framework.device_choice(), &now, shape, Some(node), &needs);
        let Ok(devices) = chosen else { return Ok(Solved::Never) };
        let Ok(claims) = PreparedClaims::new(&now, framework.selectors(), shape) else {
            return Ok(Solved::Never);
        };
        let mut result = Ok(Solved::Never);
        let mut accept = |search: &mut Self, offer: Vec<ClaimAllocation>| {
            *some = true;
            let held = Devices::with_claims(devices.clone(), offer);
            result = search.with(order, next, nodes, (number, pod, row), held);
            !matches!(result, Ok(Solved::Never))
        };
        let Some(claims) = claims else {
            accept(self, Vec::new());
            return result;
        };
        if !claims.elsewhere(node).is_empty() {
            return Ok(Solved::Never);
        }
        let alike = Arc::clone(&self.alike);
        let how = How { steps: Steps(STEPS_A_NODE), alike: Some(&alike), more: None };
        let found = claims.each(&now, node, how, &mut |offer| accept(self, offer));
        if found.is_err() {
            self.faulted = true;
        }
        result
    }

    /// Places a member, and all after it; takes it back if they have no place.
    fn with(
        &mut self,
        order: &[usize],
        next: At,
        nodes: &mut Vec<Row>,
        (number, pod, row): (u32, &'a Pod, Row),
        devices: Option<Devices>,
    ) -> Result<Solved, PlaceError> {
        if self.steps == 0 {
            return Ok(Solved::Open);
        }
        self.steps -= 1;
        let before = self.txn.changes();
        self.txn.place_with(pod, row, devices.clone())?;
        self.placed.push(Member { number, row, devices });
        let solved = self.next(order, next, nodes)?;
        if solved == Solved::Never {
            self.placed.pop();
            self.txn.rollback_to(before)?;
        }
        Ok(solved)
    }

    /// The nodes, those with the fewest free devices first.
    fn nodes_by_room(&self) -> Vec<Row> {
        let book = self.txn.claims();
        let mut free: BTreeMap<&str, usize> = BTreeMap::new();
        for slice in book.slices() {
            let crate::model::NodeReach::Node(node) = &slice.nodes else { continue };
            let usage = book.pool_usage(&slice.driver, &slice.pool);
            let used = |name: &str| usage.is_some_and(|usage| usage.contains_key(name));
            let idle = slice.devices.iter().filter(|device| !used(&device.name)).count();
            *free.entry(node).or_default() += idle;
        }
        let mut rows = self.rows.clone();
        let room = |row: Row| {
            let name = self.txn.view(row).map_or("", |node| node.name());
            (free.get(name).copied().unwrap_or(0), self.txn.columns.rank[row])
        };
        rows.sort_by_key(|row| room(*row));
        rows
    }
}

/// How many devices are tried for one member on one node.
const STEPS_A_NODE: u64 = 1 << 20;

/// The request of a member, whatever its claims are called.
#[derive(PartialEq, Eq)]
struct Question {
    shape: PodShape,
    claims: Vec<Asked>,
}

#[derive(PartialEq, Eq)]
enum Asked {
    /// For itself alone.
    Own(Arc<ClaimSpec>),
    /// A claim that others name too, or that has its devices.
    Shared(ClaimSource),
}

impl Question {
    fn of(cluster: &Cluster, shape: &PodShape, named: &BTreeMap<&str, usize>) -> Question {
        let own = |source: &ClaimSource| match source {
            ClaimSource::Own(spec) => Asked::Own(Arc::clone(spec)),
            ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                let record = cluster.claims().claim(&shape.namespace, name);
                let alone = named.get(&**name) == Some(&1);
                match record.and_then(|record| record.claim()) {
                    Some(claim)
                        if alone && record.is_some_and(|own| own.allocation().is_none()) =>
                    {
                        Asked::Own(Arc::clone(&claim.spec))
                    }
                    _ => Asked::Shared(source.clone()),
                }
            }
            source => Asked::Shared(source.clone()),
        };
        let claims = shape.claims.iter().map(|claim| own(&claim.source)).collect();
        let mut shape = shape.clone();
        shape.claims.clear();
        Question { shape, claims }
    }
}

/// How many members name each claim.
fn names<'a>(pods: impl Iterator<Item = &'a Pod>) -> BTreeMap<&'a str, usize> {
    let mut names = BTreeMap::new();
    for own in pods.flat_map(|pod| &pod.shape().claims) {
        if let ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } = &own.source {
            *names.entry(&**name).or_default() += 1;
        }
    }
    names
}
