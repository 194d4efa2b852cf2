//! Counts of members by leaf, and the minima of trees that they are held to.

use crate::model::PodGroup;
use crate::queue::terms::observe::Gate;

/// Number of members of a leaf, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::queue) struct MemberCounts {
    /// Pending without gates, planned, or running.
    pub(in crate::queue) existing: u64,
    /// Bound to a node that exists.
    pub(in crate::queue) running: u64,
    /// Pending without gates.
    pub(in crate::queue) pending: u64,
    pub(in crate::queue) done: u64,
}

/// The gate of a tree, given what counts in each leaf; and the number of pods that count.
pub(super) fn deficit<'a>(
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
pub(super) fn part_of_inner(group: &PodGroup, counts: &mut &[MemberCounts]) -> Option<Gate> {
    let (own, rest) = counts.split_at(leaf_count(group).min(counts.len()));
    let mut inner_counts = own;
    let inner = group.groups.iter().find_map(|inner| part_of_inner(inner, &mut inner_counts));
    *counts = rest;
    let gets = own.iter().any(|count| count.pending > 0);
    inner.or_else(|| deficit(group, &mut own.iter(), &|count| count.existing).0.filter(|_| gets))
}

/// Number of leaves of a tree.
pub(super) fn leaf_count(group: &PodGroup) -> usize {
    if group.groups.is_empty() { 1 } else { group.groups.iter().map(leaf_count).sum() }
}
