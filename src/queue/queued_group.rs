//! One root group and its members.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::observe::{Gate, Lacks, Waits};
use super::wake::hints::Watched;
use crate::base::Time;
use crate::framework::Strategy;
use crate::model::{GroupPolicy, Pod, PodGroup, PodShape};
use crate::state::{Cluster, Plan};

/// The number of a root group, given in order of arrival.
pub(crate) type UnitId = u64;

/// A plan that is on its way: what a decision to bind carries, and its results refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Ticket(pub(crate) u64);

/// A root group, its members, and where it stands.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Unit {
    /// The tree, without pods.
    pub(crate) root: PodGroup,
    pub(crate) name: String,
    /// Leaves in the order of the tree.
    pub(crate) leaves: Vec<String>,
    /// By number of arrival, which is the order in which they are tried.
    pub(crate) members: BTreeMap<u64, Member>,
    pub(crate) phase: Phase,
    pub(crate) phase_since: Time,
    pub(crate) waits: Waits,
    pub(crate) paused: bool,
    pub(crate) evicting: bool,
    pub(crate) started: bool,
    pub(crate) below_since: Option<Time>,
    /// When it was ready to be tried first, since it ran last.
    pub(crate) ready_since: Option<Time>,
    /// Where it stands in the queue, while it waits.
    pub(crate) key: Option<Key>,
    /// When it joined the queue, or was demoted last.
    pub(crate) since: Time,
    /// Failures in a row.
    pub(crate) attempts: u32,
    /// Conflicts in a row.
    pub(crate) conflicts: u32,
    pub(crate) not_before: Time,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) watched: Watched,
    pub(crate) lacks: Option<Lacks>,
    pub(crate) nominated: Option<Plan>,
    pub(crate) reservation: Option<Reserved>,
    /// A reservation was given up; none before this time.
    pub(crate) no_reservation_before: Time,
    /// Domains in which a reservation was given up, until none is left.
    pub(crate) given_up: BTreeSet<String>,
    /// It was found not to fit an empty cluster of this epoch.
    pub(crate) hopeless_at: Option<u64>,
}

/// A pod of a group.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Member {
    /// Its place among the leaves.
    pub(crate) leaf: usize,
    pub(crate) pod: Pod,
    pub(crate) place: Place,
}

/// Where a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Place {
    /// Nowhere.
    Pending,
    /// Planned; in the cluster.
    Planned,
    /// Bound; in the cluster.
    Bound,
    /// To be taken off its node; in the cluster until that is done.
    Unbinding,
    /// Finished.
    Done,
}

/// What the members of a group wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Phase {
    Idle,
    Gated(Gate),
    Queued,
    BackingOff(Time),
    /// With the time of the next try whatever happens, if there is one.
    Sleeping(Option<Time>),
    Held(Ticket),
    Binding(Ticket),
    Undoing,
    Paused,
    Failed(String),
}

impl Phase {
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Phase::Queued | Phase::BackingOff(_) | Phase::Sleeping(_))
    }

    pub(crate) fn busy(&self) -> bool {
        matches!(self, Phase::Held(_) | Phase::Binding(_) | Phase::Undoing)
    }
}

/// Capacity put aside for a group.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Reserved {
    pub(crate) since: Time,
    pub(crate) until: Time,
    /// The domain all of it is in, once chosen: label key and value.
    pub(crate) domain: Option<(String, String)>,
    /// Stand-ins and their nodes.
    pub(crate) claims: Vec<(Pod, String)>,
}

/// The place of a group in the queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Key {
    pub(crate) rank: i64,
    pub(crate) priority: Reverse<i32>,
    pub(crate) since: Time,
    pub(crate) unit: UnitId,
}

/// The full name of a pod.
pub(crate) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name)
}

/// Takes the pods out of a tree, leaf by leaf.
pub(crate) fn split(group: &mut PodGroup, leaves: &mut Vec<(String, Vec<Pod>)>) {
    if group.groups.is_empty() {
        leaves.push((group.full_name(), core::mem::take(&mut group.pods)));
    }
    for inner in &mut group.groups {
        split(inner, leaves);
    }
}

/// A pod that stands in an empty leaf, so that the leaf is a leaf. It is gated, hence never
/// placed.
pub(crate) fn stand_in(leaf: &PodGroup) -> Pod {
    let mut pod = Pod::new().in_namespace(&*leaf.namespace).name(format!("{}//none", leaf.name));
    pod.scheduling_gates.push("phalanx/stand-in".to_owned());
    pod
}

/// How many members a leaf has, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Exist and may be placed, or are placed.
    pub(crate) existing: u64,
    /// On a node that exists.
    pub(crate) running: u64,
    /// Wait for a place, and may be placed.
    pub(crate) pending: u64,
    pub(crate) done: u64,
}

impl Unit {
    pub(crate) fn new(root: PodGroup, leaves: Vec<String>, now: Time) -> Unit {
        Unit {
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
            ready_since: None,
            key: None,
            since: now,
            attempts: 0,
            conflicts: 0,
            not_before: Time::ZERO,
            strategy: None,
            watched: Watched::Nothing,
            lacks: None,
            nominated: None,
            reservation: None,
            no_reservation_before: Time::ZERO,
            given_up: BTreeSet::new(),
            hopeless_at: None,
        }
    }

    /// Members by kind, leaf by leaf.
    pub(crate) fn tallies(&self, cluster: &Cluster) -> Vec<Tally> {
        let mut tallies = alloc::vec![Tally::default(); self.leaves.len()];
        for member in self.members.values() {
            let Some(tally) = tallies.get_mut(member.leaf) else { continue };
            match member.place {
                Place::Pending if member.pod.scheduling_gates.is_empty() => {
                    tally.existing += 1;
                    tally.pending += 1;
                }
                Place::Pending | Place::Unbinding => {}
                Place::Planned => tally.existing += 1,
                Place::Bound => {
                    let pod = cluster.pod(member.pod.namespace(), &member.pod.name);
                    if pod.is_some_and(|pod| pod.node().is_some()) {
                        tally.existing += 1;
                        tally.running += 1;
                    }
                }
                Place::Done => tally.done += 1,
            }
        }
        tallies
    }

    /// The first group of the tree that has too few members to count, if that keeps the tree from
    /// counting.
    pub(crate) fn short(&self, tallies: &[Tally]) -> Option<Gate> {
        let count = |tally: &Tally| tally.existing + tally.done;
        deficit(&self.root, &mut tallies.iter(), &count).0
    }

    /// Whether enough members run, or have finished.
    pub(crate) fn satisfied(&self, tallies: &[Tally]) -> bool {
        let count = |tally: &Tally| tally.running + tally.done;
        deficit(&self.root, &mut tallies.iter(), &count).0.is_none()
    }

    /// The tree of the members that wait. Members that run are counted by the planner; those that
    /// have finished are taken off the minimum.
    pub(crate) fn tree(&self, tallies: &[Tally]) -> PodGroup {
        let mut pods: Vec<Vec<Pod>> = alloc::vec![Vec::new(); self.leaves.len()];
        for member in self.members.values() {
            if member.place == Place::Pending
                && member.pod.scheduling_gates.is_empty()
                && let Some(pods) = pods.get_mut(member.leaf)
            {
                pods.push(member.pod.clone());
            }
        }
        let mut leaves = tallies.iter().zip(pods);
        build(&self.root, &mut leaves)
    }

    pub(crate) fn pending(&self) -> usize {
        self.members
            .values()
            .filter(|member| {
                member.place == Place::Pending && member.pod.scheduling_gates.is_empty()
            })
            .count()
    }
}

/// What keeps a tree from counting, given what counts in each leaf; and how many pods do in all.
fn deficit<'a>(
    group: &PodGroup,
    tallies: &mut impl Iterator<Item = &'a Tally>,
    count: &impl Fn(&Tally) -> u64,
) -> (Option<Gate>, u64) {
    let short = |have, need| Gate::Members { group: group.full_name(), have, need };
    let need = u64::from(group.policy.minimum());
    if group.groups.is_empty() {
        let have = tallies.next().map_or(0, count);
        return ((have < need).then(|| short(have, need)), have);
    }
    let (mut first, mut have, mut pods) = (None, 0, 0);
    for inner in &group.groups {
        let (gate, more) = deficit(inner, &mut *tallies, count);
        have += u64::from(gate.is_none());
        pods += more;
        first = first.or(gate);
    }
    let least = group.min_pods.map_or(0, u64::from);
    let gate = if have < need {
        // Groups that have not come at all are the tree's own lack.
        let enough_groups = group.groups.len() as u64 >= need;
        Some(first.filter(|_| enough_groups).unwrap_or_else(|| short(have, need)))
    } else {
        (pods < least).then(|| short(pods, least))
    };
    (gate, pods)
}

fn build<'a>(
    group: &PodGroup,
    leaves: &mut impl Iterator<Item = (&'a Tally, Vec<Pod>)>,
) -> PodGroup {
    let mut built = PodGroup { pods: Vec::new(), groups: Vec::new(), ..group.clone() };
    if group.groups.is_empty() {
        let Some((tally, pods)) = leaves.next() else { return built };
        built.pods = pods;
        if built.pods.is_empty() {
            built.pods.push(stand_in(&built));
        }
        lower(&mut built.policy, tally.done);
        return built;
    }
    let (mut over, mut finished) = (0, 0);
    for inner in &group.groups {
        // A group all of whose members have finished stands in no domain; it is only counted.
        let mut tallies = Vec::new();
        let mut held = Vec::new();
        for _ in 0..leaf_count(inner) {
            if let Some((tally, pods)) = leaves.next() {
                tallies.push(tally);
                held.push(pods);
            }
        }
        let idle = tallies.iter().all(|tally| tally.running + tally.pending == 0);
        let (short, done) = deficit(inner, &mut tallies.iter().copied(), &|tally| tally.done);
        finished += done;
        if idle && short.is_none() {
            over += 1;
        } else {
            built.groups.push(build(inner, &mut tallies.into_iter().zip(held)));
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

/// The distinct shapes of the pods that may be placed, in order of first sight, each with the
/// number of pods that have it.
pub(crate) fn shapes<'a>(pods: impl Iterator<Item = &'a Pod>) -> Vec<(Arc<PodShape>, u64)> {
    let mut shapes: Vec<(Arc<PodShape>, u64)> = Vec::new();
    for pod in pods.filter(|pod| pod.scheduling_gates.is_empty()) {
        // Equal shapes are mostly neighbours, and mostly shared.
        let same = |(shape, _): &&mut (Arc<PodShape>, u64)| {
            Arc::ptr_eq(shape, pod.shape()) || shape == pod.shape()
        };
        match shapes.iter_mut().rev().find(same) {
            Some((_, count)) => *count += 1,
            None => shapes.push((Arc::clone(pod.shape()), 1)),
        }
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(existing: u64, running: u64, done: u64) -> Tally {
        Tally { existing, running, pending: existing - running, done }
    }

    #[test]
    fn a_tree_counts_as_soon_as_enough_roles_do() {
        let role = |name: &str, min| PodGroup::gang(name, min);
        let root =
            PodGroup::gang("job", 2).group(role("a", 2)).group(role("b", 3)).group(role("c", 1));
        let unit = Unit::new(root, alloc::vec!["a".into(), "b".into(), "c".into()], Time::ZERO);
        let short = unit.short(&[tally(2, 0, 0), tally(2, 0, 0), tally(0, 0, 0)]);
        let Some(Gate::Members { group, have, need }) = short else { panic!("{short:?}") };
        assert_eq!((group.as_str(), have, need), ("default/b", 2, 3));
        assert!(unit.short(&[tally(2, 0, 0), tally(2, 0, 0), tally(1, 0, 0)]).is_none());
        assert!(unit.short(&[tally(2, 0, 0), tally(2, 0, 1), tally(0, 0, 0)]).is_none());
        assert!(!unit.satisfied(&[tally(2, 2, 0), tally(3, 2, 0), tally(0, 0, 0)]));
        assert!(unit.satisfied(&[tally(2, 2, 0), tally(3, 2, 0), tally(0, 0, 1)]));
    }

    #[test]
    fn a_minimum_of_pods_beside_one_of_groups_gates_and_shrinks() {
        let mut root =
            PodGroup::gang("job", 1).group(PodGroup::gang("a", 1)).group(PodGroup::gang("b", 1));
        root.min_pods = Some(4);
        let mut unit = Unit::new(root, alloc::vec!["a".into(), "b".into()], Time::ZERO);
        let short = unit.short(&[tally(2, 0, 0), tally(1, 0, 0)]);
        let Some(Gate::Members { group, have, need }) = short else { panic!("{short:?}") };
        assert_eq!((group.as_str(), have, need), ("default/job", 3, 4));
        assert!(unit.short(&[tally(2, 0, 1), tally(1, 0, 0)]).is_none());
        assert!(!unit.satisfied(&[tally(3, 2, 0), tally(1, 1, 0)]));
        assert!(unit.satisfied(&[tally(3, 3, 0), tally(1, 0, 1)]));
        let pod = Pod::new().name("a-0");
        unit.members.insert(0, Member { leaf: 0, pod, place: Place::Pending });
        assert_eq!(unit.tree(&[tally(1, 0, 2), tally(0, 0, 1)]).min_pods, Some(1));
        assert_eq!(unit.tree(&[tally(1, 0, 3), tally(0, 0, 1)]).min_pods, None);
    }

    #[test]
    fn finished_members_are_taken_off_the_minimum_and_empty_leaves_stand() {
        let root =
            PodGroup::gang("job", 2).group(PodGroup::gang("a", 2)).group(PodGroup::gang("b", 2));
        let mut unit = Unit::new(root, alloc::vec!["a".into(), "b".into()], Time::ZERO);
        let pod = Pod::new().name("b-0");
        unit.members.insert(0, Member { leaf: 1, pod, place: Place::Pending });
        let tree = unit.tree(&[tally(0, 0, 2), tally(1, 0, 1)]);
        assert_eq!(tree.groups.len(), 1);
        assert_eq!((tree.policy.minimum(), tree.groups[0].policy.minimum()), (1, 1));
        let tree = unit.tree(&[tally(0, 0, 1), tally(1, 0, 0)]);
        assert_eq!(tree.groups[0].pods[0].scheduling_gates.len(), 1);
        assert!(tree.check().is_ok());
    }
}
