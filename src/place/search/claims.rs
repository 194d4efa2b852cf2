//! The search over claims: which members go where, and with which devices.
//!
//! Equal members are placed one after another, on nodes in an order that does not go back. Every
//! choice of devices is tried that others could tell from the choices before it. The kinds of
//! members come in order of hardness. If that fails, members that found no place come earlier the
//! next time. The last round has no limit but the budget: if it ends before the budget does, there
//! is no plan. A group that asks for a domain is searched for in one domain after another.
//!
//! Members that have nodes are on a list, so that no gang is too large for the stack.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::domains::Solver;
use super::parts::Parts;
use super::problem::Problem;
use super::proof;
use super::question::{Question, names};
use super::together::{Effort, shortage};
use crate::claims::{Alike, Paused, PreparedClaims, Steps, scarcity};
use crate::framework::device_fit::choose_devices;
use crate::framework::{Evaluation, Framework};
use crate::model::{ClaimAllocation, IslandRule, Pod, PodGroup, TopologyRequest};
use crate::place::certificate::{CandidateLack, Certificate, Lack, Refusal};
use crate::place::error::PlaceError;
use crate::place::layout::{Layout, Member};
use crate::place::outcome::{Answer, Unplaced, UnplacedKind};
use crate::place::request::Task;
use crate::place::sequential::strategy::attempt;
use crate::place::sequential::workspace::Workspace;
use crate::place::topology::partition::names as path_names;
use crate::place::topology::requirement::Requirement;
use crate::state::{Cluster, DeviceNeed, Devices, NodeView, Row, Txn};

/// The filter that the search does without: it goes over the same devices itself.
const FILTER: &str = "DynamicResources";
/// Steps of each round but the last, and how many rounds there are before it.
const QUOTA: u64 = 200;
const ROUNDS: usize = 24;

/// The answer for a group with claims.
///
/// It is laid out by the sequential strategy first. If that does not place it, a group of pods is
/// searched for whole, in all the domains that it may go to.
pub(super) fn place(task: Task<'_>, workspace: &mut Workspace) -> Result<Answer, PlaceError> {
    if let Some(layout) = attempt(task, workspace)? {
        return Ok(Answer::Placed(layout));
    }
    let (cluster, group) = (task.cluster, task.group());
    if !is_searched(group) {
        return Ok(Answer::greedy(group.full_name()));
    }
    let rows = task.request.rows(cluster);
    let rows = rows.unwrap_or_else(|| cluster.nodes().map(NodeView::row).collect());
    let mut ask = Requirement::new(cluster, group);
    ask.need = ask.need.max(1);
    if ask.need > ask.all() {
        let too_few = Some((ask.all(), ask.need));
        return Ok(infeasible(task, &ask, Vec::new(), too_few));
    }
    let candidates = ask.candidates(cluster, &rows)?;
    let mut lacks = sums_and_counts(task, workspace, candidates.len())?;
    let is_judged = task.framework.filters().iter().any(|own| own.name() == FILTER);
    let required: Vec<&Pod> = ask.required().into_iter().map(|(_, pod)| pod).collect();
    let (mut open, mut proven) = (false, true);
    let (mut budget, mut effort) = (task.request.budget, Effort::default());
    let mut search = None;
    for (at, (key, candidate)) in candidates.iter().enumerate() {
        let rows = candidate.rows(Some(&rows)).unwrap_or(&rows);
        if lacks[at] == Lack::Searched && is_judged {
            let scarce = scarcity(cluster, task.framework.selectors(), &required, rows);
            lacks[at] = scarce.map_or(Lack::Searched, |own| Lack::Devices {
                pod: own.pod,
                claim: own.claim,
                request: own.request,
                same: own.same,
                each: own.each,
                need: own.need,
                fits: own.fits,
            });
        }
        if lacks[at] == Lack::Searched && is_judged && ask.need == ask.all() {
            let short = shortage(task, workspace, rows, &mut effort);
            lacks[at] = short.map_or(Lack::Searched, |own| Lack::Claims {
                pods: own.pods,
                need: own.need,
                fits: own.fits,
            });
        }
        if lacks[at] != Lack::Searched {
            continue;
        }
        let search = search.get_or_insert_with(|| ClaimSearch::new(task));
        search.begin(rows);
        let part = budget / (candidates.len() - at) as u64;
        let mut left = part;
        let found = search.solve(&mut left)?;
        budget -= part - left;
        match found {
            Solved::Found => {
                let mut layout = search.take_layout();
                if let Some(domain_key) = key.and_then(|key| ask.domain_key(cluster, key)) {
                    let asked = (ask.name.clone(), Some(&group.topology));
                    let range = (0, layout.members.len());
                    let domain = domain_key.record(cluster, asked, &candidate.path, range);
                    layout.domains.push(domain);
                }
                return Ok(Answer::Placed(layout));
            }
            Solved::Never => proven &= !search.faulted && search.is_complete(),
            Solved::Open => open = true,
        }
    }
    let whole = lacks.iter().all(|lack| *lack != Lack::Searched) || ask.need == ask.all();
    if open || !proven || !whole {
        let reason = Unplaced::new(group.full_name(), UnplacedKind::Exhausted);
        return Ok(Answer::unplaced(reason, None));
    }
    let candidates = candidates.iter().zip(lacks).map(|((key, candidate), lack)| CandidateLack {
        key: key.map(String::from),
        path: path_names(cluster, &candidate.path).map(|name| name.map(String::from)).collect(),
        lack,
    });
    Ok(infeasible(task, &ask, candidates.collect(), None))
}

/// The answer for a group that fits none of its domains, or has too few members.
fn infeasible(
    task: Task<'_>,
    ask: &Requirement<'_>,
    candidates: Vec<CandidateLack>,
    too_few: Option<(u32, u32)>,
) -> Answer {
    let mut reason = Unplaced::new(task.group().full_name(), UnplacedKind::Infeasible);
    let refusal = Refusal { group: ask.name.clone(), candidates, too_few };
    reason.certificate = Some(Certificate { refusal });
    Answer::unplaced(reason, None)
}

/// Whether the search knows all that a group asks of the topology.
fn is_searched(group: &PodGroup) -> bool {
    let TopologyRequest { slices, spread, balanced, ranked, island, .. } = &group.topology;
    let plain = slices.is_empty() && spread.is_none() && !balanced && !ranked;
    group.groups.is_empty() && !group.leader && plain && *island == IslandRule::default()
}

/// The lacks of the domains of a group by sums and counts, devices of claims apart; [`Lack::Searched`]
/// where these show none.
fn sums_and_counts(
    task: Task<'_>,
    workspace: &mut Workspace,
    candidates: usize,
) -> Result<Vec<Lack>, PlaceError> {
    let Task { cluster, framework, gang, request } = task;
    let (rows, rooms) = (request.rows(cluster), &mut workspace.caches.capacity);
    let mut model = Problem::new(cluster, framework, gang, request.now, rows, rooms);
    let parts = Parts::new(&model, gang.group(), false);
    let mut lacks = vec![Lack::Searched; candidates];
    let found = proof::of(&mut Solver::new(&mut model, &parts)?).refusal.candidates;
    if found.len() == candidates {
        for (lack, found) in lacks.iter_mut().zip(found) {
            *lack = found.lack;
        }
    }
    Ok(lacks)
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
    rows: &'a [Row],
    alike: Arc<Alike>,
    txn: Txn,
    placed: Vec<Member>,
    steps: u64,
    /// Whether a search for devices was given up, so that nothing is proven.
    faulted: bool,
}

/// A member that is being placed.
struct Turn<'a> {
    /// The place of its kind in the order, and its own among the kind.
    kind: usize,
    member: usize,
    pod: (u32, &'a Pod),
    /// The nodes of its kind in order, and the one that it may go to.
    nodes: Arc<[Row]>,
    at: usize,
    offer: Option<Offered>,
    /// The end of the changes before it was placed, if it is.
    before: Option<usize>,
    /// Whether it was placed at least once.
    some: bool,
}

/// Choices of devices on a node that are not tried yet.
struct Offered {
    devices: Option<Devices>,
    /// `None` for a pod without claims.
    claims: Option<PreparedClaims>,
    paused: Option<Paused>,
}

/// The outcome of a turn.
enum Seat {
    Taken,
    /// There is no other node, and no other choice of devices.
    None,
    /// The steps have run out.
    Open,
}

impl<'a> ClaimSearch<'a> {
    /// A search without rows. O(pods + devices × different demands).
    fn new(task: Task<'a>) -> ClaimSearch<'a> {
        let Task { cluster, framework, gang, .. } = task;
        let group = gang.group();
        let waiting = group.pods.iter().enumerate();
        let waiting = waiting.filter(|(_, pod)| pod.scheduling_gates.is_empty());
        let mut kinds: Vec<(Question, Kind<'a>)> = Vec::new();
        let named = names(group.pods.iter());
        let mut prepared = Vec::new();
        for (number, pod) in waiting {
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
            rows: &[],
            alike,
            txn: cluster.txn(),
            placed: Vec::new(),
            steps: 0,
            faulted: false,
        }
    }

    /// Begins anew, in some rows.
    fn begin(&mut self, rows: &'a [Row]) {
        self.rows = rows;
        self.faulted = false;
        self.kinds.iter_mut().for_each(|kind| kind.failures = 0);
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

    fn take_layout(&mut self) -> Layout {
        Layout { members: core::mem::take(&mut self.placed), domains: Vec::new() }
    }

    /// Searches in rounds, then to the end.
    fn solve(&mut self, budget: &mut u64) -> Result<Solved, PlaceError> {
        for round in 0..=ROUNDS {
            let last = round == ROUNDS;
            let quota = if last { *budget } else { (*budget).min(QUOTA << (round / 6)) };
            self.steps = quota;
            self.txn = self.cluster.txn();
            self.placed.clear();
            let mut order: Vec<usize> = (0..self.kinds.len()).collect();
            order.sort_by_key(|&kind| {
                let own = &self.kinds[kind];
                (Reverse(own.failures), Reverse(own.devices), own.members.len(), kind)
            });
            let solved = self.run(&order)?;
            *budget -= quota - self.steps;
            if solved != Solved::Open || *budget == 0 {
                return Ok(solved);
            }
        }
        Ok(Solved::Open)
    }

    /// Places all members, or finds out that there is no way.
    fn run(&mut self, order: &[usize]) -> Result<Solved, PlaceError> {
        let Some(first) = self.turn(order, (0, 0), None) else { return Ok(Solved::Found) };
        let mut turns = vec![first];
        while let Some(turn) = turns.last_mut() {
            if let Some(before) = turn.before.take() {
                self.placed.pop();
                self.txn.rollback_to(before)?;
            }
            match self.seat(turn)? {
                Seat::Open => return Ok(Solved::Open),
                Seat::None => {
                    if !turn.some {
                        self.kinds[order[turn.kind]].failures += 1;
                    }
                    turns.pop();
                }
                Seat::Taken => {
                    let last = (turn.kind, turn.member + 1);
                    let from = (Arc::clone(&turn.nodes), turn.at);
                    let Some(next) = self.turn(order, last, Some(from)) else {
                        return Ok(Solved::Found);
                    };
                    turns.push(next);
                }
            }
        }
        Ok(Solved::Never)
    }

    /// The turn of a member, or of the first of the next kind; `None` if all have nodes. Members of a
    /// kind go on `from` the node of the one before.
    fn turn(
        &self,
        order: &[usize],
        (mut kind, mut member): (usize, usize),
        from: Option<(Arc<[Row]>, usize)>,
    ) -> Option<Turn<'a>> {
        let mut from = from;
        while self.kinds[*order.get(kind)?].members.len() == member {
            (kind, member, from) = (kind + 1, 0, None);
        }
        let (nodes, at) = from.unwrap_or_else(|| (self.nodes_by_room().into(), 0));
        let pod = self.kinds[order[kind]].members[member];
        Some(Turn { kind, member, pod, nodes, at, offer: None, before: None, some: false })
    }

    /// Places a member on the next node, or with the next choice of devices.
    fn seat(&mut self, turn: &mut Turn<'a>) -> Result<Seat, PlaceError> {
        let (number, pod) = turn.pod;
        loop {
            let Some(&row) = turn.nodes.get(turn.at) else { return Ok(Seat::None) };
            if turn.offer.is_none() {
                if self.steps == 0 {
                    return Ok(Seat::Open);
                }
                self.steps -= 1;
                turn.offer = self.offered(pod, row);
            }
            let Some(offer) = &mut turn.offer else {
                turn.at += 1;
                continue;
            };
            match self.next_choice(offer, row) {
                Ok(Some(claims)) => {
                    turn.some = true;
                    if self.steps == 0 {
                        return Ok(Seat::Open);
                    }
                    self.steps -= 1;
                    let held = Devices::with_claims(offer.devices.clone(), claims);
                    let before = self.txn.changes();
                    self.txn.place_with(pod, row, held.clone())?;
                    self.placed.push(Member { number, row, devices: held });
                    turn.before = Some(before);
                    return Ok(Seat::Taken);
                }
                Ok(None) => {}
                Err(_) => self.faulted = true,
            }
            turn.offer = None;
            turn.at += 1;
        }
    }

    /// The choices of devices for a pod on a node, before any is tried; `None` if it cannot go there.
    fn offered(&self, pod: &Pod, row: Row) -> Option<Offered> {
        let (framework, shape, txn) = (self.task.framework, pod.shape(), &self.txn);
        let (group, now) = (self.task.group(), self.task.request.now);
        let node = txn.view(row)?;
        let evaluation = Evaluation::new(&self.others, txn, shape, Some(group), now);
        evaluation.filter(node).ok()?;
        let needs = DeviceNeed::of(txn, shape);
        let chosen = choose_devices(framework.device_choice(), txn, shape, Some(node), &needs);
        let devices = chosen.ok()?;
        let claims = PreparedClaims::new(txn, framework.selectors(), shape).ok()?;
        if claims.as_ref().is_some_and(|claims| !claims.elsewhere(node).is_empty()) {
            return None;
        }
        Some(Offered { devices, claims, paused: Some(Paused::new(Steps(STEPS_A_NODE))) })
    }

    /// The next choice of devices for claims on a node; `None` if there are no more.
    fn next_choice(
        &self,
        offer: &mut Offered,
        row: Row,
    ) -> Result<Option<Vec<ClaimAllocation>>, String> {
        let Offered { claims, paused, .. } = offer;
        let Some(node) = self.txn.view(row) else { return Ok(None) };
        match claims {
            None => Ok(paused.take().map(|_| Vec::new())),
            Some(claims) => claims.next(&self.txn, node, &self.alike, paused),
        }
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
        let mut rows = self.rows.to_vec();
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
