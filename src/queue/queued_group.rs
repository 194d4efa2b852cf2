//! A root group in the scheduler, with its members and phase.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::ids::{QueueKey, Ticket};
use super::observe::{Gate, Waits};
use super::shortage::Shortage;
use super::wake::hints::WakeCondition;
use crate::base::{ObjectName, Time};
use crate::framework::Strategy;
use crate::model::{GroupPolicy, Pod, PodGroup};
use crate::state::{Cluster, Plan};

/// A root group, its members, and its phase.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct QueuedGroup {
    /// The tree, without pods.
    pub(super) root: PodGroup,
    pub(super) name: ObjectName,
    /// Full names of the leaves, in tree order.
    pub(super) leaves: Vec<String>,
    /// By number of arrival, the order in which they are tried.
    pub(super) members: BTreeMap<u64, Member>,
    pub(super) phase: Phase,
    pub(super) phase_since: Time,
    pub(super) waits: Waits,
    pub(super) paused: bool,
    pub(super) evicting: bool,
    pub(super) started: bool,
    pub(super) below_since: Option<Time>,
    /// Whether its minimum was raised above what runs, and what runs has not reached it since.
    pub(super) is_raised: bool,
    /// Time at which the group was first ready to be tried since it last ran.
    pub(super) ready_since: Option<Time>,
    /// Sort key in its queue, while the group waits.
    pub(super) key: Option<QueueKey>,
    /// Time at which the group joined the queue, or was last demoted.
    pub(super) since: Time,
    /// Consecutive failures.
    pub(super) attempts: u32,
    /// Consecutive conflicts.
    pub(super) conflicts: u32,
    pub(super) not_before: Time,
    pub(super) strategy: Option<Strategy>,
    pub(super) wake_on: WakeCondition,
    pub(super) shortage: Option<Shortage>,
    pub(super) nominated: Option<Plan>,
    /// Whether the nomination is the group's claim to the room of its victims.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) preempting: bool,
    /// Whether it is being evicted whole for others.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) preempted: bool,
    /// Searches for victims in a row that found none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) searches: u32,
    #[cfg_attr(feature = "serde", serde(default = "no_time"))]
    pub(super) no_search_before: Time,
    pub(super) reservation: Option<Reservation>,
    /// Earliest time of the next reservation, after one that timed out.
    pub(super) no_reservation_before: Time,
    /// Domains in which a reservation timed out, until every domain has.
    pub(super) tried_domains: BTreeSet<String>,
    /// Epoch of the nodes for which an empty cluster was found too small.
    pub(super) infeasible_at: Option<u64>,
}

/// A pod of a group.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Member {
    /// Index of its leaf.
    pub(super) leaf: usize,
    pub(super) pod: Pod,
    pub(super) state: MemberState,
    /// The last plan that placed it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) ticket: Option<Ticket>,
}

/// State of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum MemberState {
    /// Waits for a placement; not in the cluster.
    Pending,
    /// Planned; in the cluster.
    Planned,
    /// Bound; in the cluster.
    Bound,
    /// Being unbound; in the cluster until that is reported.
    Unbinding,
    /// Finished.
    Done,
}

/// Phase of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Phase {
    Idle,
    Gated(Gate),
    Queued,
    BackingOff(Time),
    /// With the time of the next periodic attempt, if there is one.
    Unschedulable(Option<Time>),
    Held(Ticket),
    Binding(Ticket),
    Undoing,
    Paused,
    Failed(String),
}

impl Phase {
    pub(super) fn waits(&self) -> bool {
        matches!(self, Phase::Queued | Phase::BackingOff(_) | Phase::Unschedulable(_))
    }

    pub(super) fn busy(&self) -> bool {
        matches!(self, Phase::Held(_) | Phase::Binding(_) | Phase::Undoing)
    }
}

/// Capacity reserved for a group.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Reservation {
    pub(super) since: Time,
    pub(super) until: Time,
    /// The chosen domain, as label key and value; `None` if the group may go anywhere.
    pub(super) domain: Option<(String, String)>,
    /// Placeholder pods and their nodes.
    pub(super) placeholders: Vec<(Pod, String)>,
    /// How many of them, from the first on, hold the capacity of a whole member.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) whole: usize,
}

impl Reservation {
    /// A reservation whose placeholders hold the capacity of whole members.
    pub(super) fn new(
        (since, until): (Time, Time),
        domain: Option<(String, String)>,
        placeholders: Vec<(Pod, String)>,
    ) -> Reservation {
        let whole = placeholders.len();
        Reservation { since, until, domain, placeholders, whole }
    }
}

#[cfg(feature = "serde")]
fn no_time() -> Time {
    Time::ZERO
}

/// Full name of a pod.
pub(super) fn full_name(pod: &Pod) -> String {
    pod.full_name().into()
}

/// Moves the pods out of a tree, leaf by leaf.
pub(super) fn split(group: &mut PodGroup, leaves: &mut Vec<(String, Vec<Pod>)>) {
    if group.groups.is_empty() {
        leaves.push((group.full_name().into(), core::mem::take(&mut group.pods)));
    }
    for inner in &mut group.groups {
        split(inner, leaves);
    }
}

/// A gated pod that keeps an empty leaf a leaf. It is never placed.
pub(super) fn empty_leaf_pod(leaf: &PodGroup) -> Pod {
    let mut pod = Pod::new().in_namespace(&*leaf.namespace).name(format!("{}//none", leaf.name));
    pod.scheduling_gates.push("phalanx/empty-leaf".to_owned());
    pod
}

/// Number of members of a leaf, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MemberCounts {
    /// Pending without gates, planned, or running.
    pub(super) existing: u64,
    /// Bound to a node that exists.
    pub(super) running: u64,
    /// Pending without gates.
    pub(super) pending: u64,
    pub(super) done: u64,
}

impl QueuedGroup {
    pub(super) fn new(root: PodGroup, leaves: Vec<String>, now: Time) -> QueuedGroup {
        QueuedGroup {
            name: root.full_name(),
            root,
            leaves,
            members: BTreeMap::new(),
            phase: Phase::Idle,
            phase_since: now,
            waits: Waits::default(),
            paused: false,
            evicting: false,
            started: false,
            below_since: None,
            is_raised: false,
            ready_since: None,
            key: None,
            since: now,
            attempts: 0,
            conflicts: 0,
            not_before: Time::ZERO,
            strategy: None,
            wake_on: WakeCondition::Never,
            shortage: None,
            nominated: None,
            preempting: false,
            preempted: false,
            searches: 0,
            no_search_before: Time::ZERO,
            reservation: None,
            no_reservation_before: Time::ZERO,
            tried_domains: BTreeSet::new(),
            infeasible_at: None,
        }
    }

    /// Member counts, leaf by leaf.
    pub(super) fn counts(&self, cluster: &Cluster) -> Vec<MemberCounts> {
        let mut counts = alloc::vec![MemberCounts::default(); self.leaves.len()];
        for member in self.members.values() {
            let Some(count) = counts.get_mut(member.leaf) else { continue };
            match member.state {
                MemberState::Pending if member.pod.scheduling_gates.is_empty() => {
                    count.existing += 1;
                    count.pending += 1;
                }
                MemberState::Pending | MemberState::Unbinding => {}
                MemberState::Planned => count.existing += 1,
                MemberState::Bound => {
                    let pod = cluster.pod(member.pod.namespace(), &member.pod.name);
                    if pod.is_some_and(|pod| pod.node().is_some()) {
                        count.existing += 1;
                        count.running += 1;
                    }
                }
                MemberState::Done => count.done += 1,
            }
        }
        counts
    }

    /// The gate of a tree: its first group with too few members, if that keeps the root below its
    /// minimum.
    pub(super) fn gate(&self, counts: &[MemberCounts]) -> Option<Gate> {
        let existing = |leaf: &MemberCounts| leaf.existing + leaf.done;
        deficit(&self.root, &mut counts.iter(), &existing).0
    }

    /// Whether enough members run or have finished.
    pub(super) fn has_minimum(&self, counts: &[MemberCounts]) -> bool {
        let running = |leaf: &MemberCounts| leaf.running + leaf.done;
        deficit(&self.root, &mut counts.iter(), &running).0.is_none()
    }

    /// The first group of the tree that would get some of these members, yet less than its minimum;
    /// or the root, if it would stay below its own. Members that run, are planned or have finished
    /// count.
    pub(super) fn part_of(&self, cluster: &Cluster, members: &BTreeSet<u64>) -> Option<Gate> {
        let mut counts = self.counts(cluster);
        // From here on, `existing` is what there would be, and `pending` what would be new.
        for count in &mut counts {
            count.existing = count.existing.saturating_sub(count.pending) + count.done;
            count.pending = 0;
        }
        for (_, member) in self.members.iter().filter(|(seq, _)| members.contains(seq)) {
            let Some(count) = counts.get_mut(member.leaf) else { continue };
            count.pending += 1;
            if matches!(member.state, MemberState::Pending | MemberState::Unbinding) {
                count.existing += 1;
            }
        }
        let root = deficit(&self.root, &mut counts.iter(), &|count| count.existing).0;
        part_of_inner(&self.root, &mut counts.as_slice()).or(root)
    }

    /// Whether every group of the tree that keeps members that run keeps its minimum without some.
    pub(super) fn keeps_minima(&self, cluster: &Cluster, gone: &BTreeSet<u64>) -> bool {
        let mut counts = self.counts(cluster);
        // From here on, `existing` is what would count, and `pending` what of it would run.
        for count in &mut counts {
            count.pending = count.running;
        }
        for (_, member) in self.members.iter().filter(|(seq, _)| gone.contains(seq)) {
            if let Some(count) = counts.get_mut(member.leaf)
                && member.state == MemberState::Bound
            {
                count.pending = count.pending.saturating_sub(1);
            }
        }
        for count in &mut counts {
            count.existing = count.pending + count.done;
        }
        let root = deficit(&self.root, &mut counts.iter(), &|count| count.existing).0;
        root.is_none() && part_of_inner(&self.root, &mut counts.as_slice()).is_none()
    }

    /// Whether no member runs but for these, and one of these does.
    pub(super) fn is_left_without(&self, cluster: &Cluster, members: &BTreeSet<u64>) -> bool {
        let runs = |member: &Member| {
            let pod = cluster.pod(member.pod.namespace(), &member.pod.name);
            member.state == MemberState::Bound && pod.is_some_and(|pod| pod.node().is_some())
        };
        let mut bound = self.members.iter().filter(|(_, member)| runs(member)).peekable();
        bound.peek().is_some() && bound.all(|(seq, _)| members.contains(seq))
    }

    /// The tree of the pending members. The planner counts running members itself; finished ones
    /// are subtracted from the minimum.
    pub(super) fn pending_tree(&self, counts: &[MemberCounts]) -> PodGroup {
        let mut pods: Vec<Vec<Pod>> = alloc::vec![Vec::new(); self.leaves.len()];
        for member in self.members.values() {
            if member.state == MemberState::Pending
                && member.pod.scheduling_gates.is_empty()
                && let Some(pods) = pods.get_mut(member.leaf)
            {
                pods.push(member.pod.clone());
            }
        }
        let mut leaves = counts.iter().zip(pods);
        build(&self.root, &mut leaves)
    }

    pub(super) fn pending(&self) -> usize {
        self.members
            .values()
            .filter(|member| {
                member.state == MemberState::Pending && member.pod.scheduling_gates.is_empty()
            })
            .count()
    }
}

/// Adds the time spent in a phase to the waiting times.
pub(super) fn add_wait(waits: &mut Waits, phase: &Phase, elapsed: Duration) {
    let wait = match phase {
        Phase::Gated(_) | Phase::Paused => &mut waits.gated,
        Phase::Queued => &mut waits.queued,
        Phase::BackingOff(_) => &mut waits.backing_off,
        Phase::Unschedulable(_) => &mut waits.unschedulable,
        Phase::Held(_) => &mut waits.permitting,
        Phase::Binding(_) | Phase::Undoing => &mut waits.binding,
        Phase::Idle | Phase::Failed(_) => return,
    };
    *wait = wait.saturating_add(elapsed);
}

/// The gate of a tree, given what counts in each leaf; and the number of pods that count.
fn deficit<'a>(
    group: &PodGroup,
    counts: &mut impl Iterator<Item = &'a MemberCounts>,
    count: &impl Fn(&MemberCounts) -> u64,
) -> (Option<Gate>, u64) {
    let short = |have, need| Gate::Members { group: group.full_name(), have, need };
    let need = u64::from(group.policy.minimum());
    if group.groups.is_empty() {
        let have = counts.next().map_or(0, count);
        return ((have < need).then(|| short(have, need)), have);
    }
    let (mut first, mut have, mut pods) = (None, 0, 0);
    for inner in &group.groups {
        let (gate, more) = deficit(inner, &mut *counts, count);
        have += u64::from(gate.is_none());
        pods += more;
        first = first.or(gate);
    }
    let least = group.min_pods.map_or(0, u64::from);
    let gate = if have < need {
        // Child groups that are missing altogether are the tree's own shortage.
        let enough_groups = group.groups.len() as u64 >= need;
        Some(first.filter(|_| enough_groups).unwrap_or_else(|| short(have, need)))
    } else {
        (pods < least).then(|| short(pods, least))
    };
    (gate, pods)
}

/// The first group within a tree that would get members, yet less than its minimum. Takes the
/// counts of its leaves off the front.
fn part_of_inner(group: &PodGroup, counts: &mut &[MemberCounts]) -> Option<Gate> {
    let (own, rest) = counts.split_at(leaf_count(group).min(counts.len()));
    let mut inner_counts = own;
    let inner = group.groups.iter().find_map(|inner| part_of_inner(inner, &mut inner_counts));
    *counts = rest;
    let gets = own.iter().any(|count| count.pending > 0);
    inner.or_else(|| deficit(group, &mut own.iter(), &|count| count.existing).0.filter(|_| gets))
}

fn build<'a>(
    group: &PodGroup,
    leaves: &mut impl Iterator<Item = (&'a MemberCounts, Vec<Pod>)>,
) -> PodGroup {
    let mut built = PodGroup { pods: Vec::new(), groups: Vec::new(), ..group.clone() };
    if group.groups.is_empty() {
        let Some((count, pods)) = leaves.next() else { return built };
        built.pods = pods;
        if built.pods.is_empty() {
            built.pods.push(empty_leaf_pod(&built));
        }
        lower(&mut built.policy, count.done);
        return built;
    }
    let (mut over, mut finished) = (0, 0);
    for inner in &group.groups {
        // A child group whose members have all finished needs no domain; only its count matters.
        let mut counts = Vec::new();
        let mut held = Vec::new();
        for _ in 0..leaf_count(inner) {
            if let Some((count, pods)) = leaves.next() {
                counts.push(count);
                held.push(pods);
            }
        }
        let idle = counts.iter().all(|count| count.running + count.pending == 0);
        let (short, done) = deficit(inner, &mut counts.iter().copied(), &|count| count.done);
        finished += done;
        if idle && short.is_none() {
            over += 1;
        } else {
            built.groups.push(build(inner, &mut counts.into_iter().zip(held)));
        }
    }
    lower(&mut built.policy, over);
    built.min_pods = group
        .min_pods
        .map(|least| least.saturating_sub(u32::try_from(finished).unwrap_or(u32::MAX)))
        .filter(|least| *least > 0);
    built
}

fn lower(policy: &mut GroupPolicy, by: u64) {
    if let GroupPolicy::Gang { min_count } = policy {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        *min_count = min_count.saturating_sub(by).max(1);
    }
}

fn leaf_count(group: &PodGroup) -> usize {
    if group.groups.is_empty() { 1 } else { group.groups.iter().map(leaf_count).sum() }
}

/// Adds a pod to each leaf that has none, so that the tree can be checked.
pub(super) fn fill_empty(group: &mut PodGroup) {
    if group.groups.is_empty() && group.pods.is_empty() {
        group.pods.push(empty_leaf_pod(group));
    }
    for inner in &mut group.groups {
        fill_empty(inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(existing: u64, running: u64, done: u64) -> MemberCounts {
        MemberCounts { existing, running, pending: existing - running, done }
    }

    #[test]
    fn a_tree_counts_as_soon_as_enough_roles_do() {
        let role = |name: &str, min| PodGroup::gang(name, min);
        let root =
            PodGroup::gang("job", 2).group(role("a", 2)).group(role("b", 3)).group(role("c", 1));
        let queued =
            QueuedGroup::new(root, alloc::vec!["a".into(), "b".into(), "c".into()], Time::ZERO);
        let short = queued.gate(&[count(2, 0, 0), count(2, 0, 0), count(0, 0, 0)]);
        let Some(Gate::Members { group, have, need }) = short else { panic!("{short:?}") };
        assert_eq!((group.as_str(), have, need), ("default/b", 2, 3));
        assert!(queued.gate(&[count(2, 0, 0), count(2, 0, 0), count(1, 0, 0)]).is_none());
        assert!(queued.gate(&[count(2, 0, 0), count(2, 0, 1), count(0, 0, 0)]).is_none());
        assert!(!queued.has_minimum(&[count(2, 2, 0), count(3, 2, 0), count(0, 0, 0)]));
        assert!(queued.has_minimum(&[count(2, 2, 0), count(3, 2, 0), count(0, 0, 1)]));
    }

    #[test]
    fn a_minimum_of_pods_beside_one_of_groups_gates_and_shrinks() {
        let mut root =
            PodGroup::gang("job", 1).group(PodGroup::gang("a", 1)).group(PodGroup::gang("b", 1));
        root.min_pods = Some(4);
        let mut queued = QueuedGroup::new(root, alloc::vec!["a".into(), "b".into()], Time::ZERO);
        let short = queued.gate(&[count(2, 0, 0), count(1, 0, 0)]);
        let Some(Gate::Members { group, have, need }) = short else { panic!("{short:?}") };
        assert_eq!((group.as_str(), have, need), ("default/job", 3, 4));
        assert!(queued.gate(&[count(2, 0, 1), count(1, 0, 0)]).is_none());
        assert!(!queued.has_minimum(&[count(3, 2, 0), count(1, 1, 0)]));
        assert!(queued.has_minimum(&[count(3, 3, 0), count(1, 0, 1)]));
        let pod = Pod::new().name("a-0");
        queued
            .members
            .insert(0, Member { leaf: 0, pod, state: MemberState::Pending, ticket: None });
        assert_eq!(queued.pending_tree(&[count(1, 0, 2), count(0, 0, 1)]).min_pods, Some(1));
        assert_eq!(queued.pending_tree(&[count(1, 0, 3), count(0, 0, 1)]).min_pods, None);
    }

    #[test]
    fn finished_members_are_taken_off_the_minimum_and_empty_leaves_stand() {
        let root =
            PodGroup::gang("job", 2).group(PodGroup::gang("a", 2)).group(PodGroup::gang("b", 2));
        let mut queued = QueuedGroup::new(root, alloc::vec!["a".into(), "b".into()], Time::ZERO);
        let pod = Pod::new().name("b-0");
        queued
            .members
            .insert(0, Member { leaf: 1, pod, state: MemberState::Pending, ticket: None });
        let tree = queued.pending_tree(&[count(0, 0, 2), count(1, 0, 1)]);
        assert_eq!(tree.groups.len(), 1);
        assert_eq!((tree.policy.minimum(), tree.groups[0].policy.minimum()), (1, 1));
        let tree = queued.pending_tree(&[count(0, 0, 1), count(1, 0, 0)]);
        assert_eq!(tree.groups[0].pods[0].scheduling_gates.len(), 1);
        assert!(tree.check().is_ok());
    }
}
