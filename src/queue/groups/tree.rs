//! Trees of groups without their pods, and trees of pending members.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::counts::{MemberCounts, deficit, leaf_count};
use crate::model::{GroupPolicy, Pod, PodGroup};

/// Full names of the groups of a tree.
pub(in crate::queue) fn tree_names(root: &PodGroup) -> Vec<String> {
    let mut names = Vec::new();
    root.visit(&mut |group| names.push(group.full_name().into()));
    names
}

/// The minima of a tree taken together: of pods in leaves, and of pods in all.
pub(in crate::queue) fn minima(group: &PodGroup) -> u64 {
    let mut sum = 0_u64;
    group.visit(&mut |inner| {
        let own = if inner.groups.is_empty() { inner.policy.minimum() } else { 0 };
        sum = sum.saturating_add(own.max(inner.min_pods.unwrap_or(0)).into());
    });
    sum
}

/// Moves the pods out of a tree, leaf by leaf.
pub(in crate::queue) fn split(group: &mut PodGroup, leaves: &mut Vec<(String, Vec<Pod>)>) {
    if group.groups.is_empty() {
        leaves.push((group.full_name().into(), core::mem::take(&mut group.pods)));
    }
    for inner in &mut group.groups {
        split(inner, leaves);
    }
}

/// A gated pod that keeps an empty leaf a leaf. It is never placed.
pub(in crate::queue) fn empty_leaf_pod(leaf: &PodGroup) -> Pod {
    let mut pod = Pod::new().in_namespace(&*leaf.namespace).name(format!("{}//none", leaf.name));
    pod.scheduling_gates.push("phalanx/empty-leaf".to_owned());
    pod
}

/// Adds a pod to each leaf that has none, so that the tree can be checked.
pub(in crate::queue) fn fill_empty(group: &mut PodGroup) {
    if group.groups.is_empty() && group.pods.is_empty() {
        group.pods.push(empty_leaf_pod(group));
    }
    for inner in &mut group.groups {
        fill_empty(inner);
    }
}

/// The tree with its pending members, leaf by leaf.
pub(super) fn build<'a>(
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
