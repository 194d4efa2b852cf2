//! Counting of capacity: the shortage of a group, and the changes that wake it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::ObjectName;
use crate::framework::Framework;
use crate::model::{Pod, PodGroup, PodShape};
use crate::place::topology::pinned::{running, runs};
use crate::queue::line::capacity::{has_capacity_bound, reads_beyond_node, scarcest_request};
use crate::queue::line::wake::index::WaitIndex;
use crate::queue::terms::shortage::Shortage;
use crate::queue::terms::wake::WakeCondition;
use crate::state::Cluster;

/// Knowledge before an attempt of the room that nodes have for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) enum KnownRoom {
    /// Nothing: it is counted.
    Unknown,
    /// The wait index has seen every change ([`Scheduler::apply_changes`](crate::queue::Scheduler) ran
    /// last), and need not be brought in step to count it.
    InStep,
    /// As many pods have room as must have.
    Enough,
}

/// The shortage of capacity of a tree of pending members, and the condition to wake it on.
///
/// Selects the largest shortage: a group that must be placed, and a shape of which it needs at
/// least `needed` pods while no domain has capacity for as many. `None` if there is none.
pub(in crate::queue) fn find_shortage(
    cluster: &Cluster,
    framework: &Framework,
    wait_index: &mut WaitIndex,
    tree: &PodGroup,
    in_step: bool,
) -> Option<(Shortage, WakeCondition)> {
    let mut wants = Vec::new();
    collect(cluster, tree, true, &mut wants);
    let mut worst: Option<(u64, Shortage, WakeCondition)> = None;
    for want in wants {
        let pods = (&want.shape, want.level.as_deref());
        let found = wait_index.available(cluster, framework, pods, want.needed, in_step);
        let short = want.needed.saturating_sub(found);
        if short > worst.as_ref().map_or(0, |(worst, _, _)| *worst) {
            let shortage = Shortage::Capacity {
                group: want.group,
                requests: want.shape.requests.clone(),
                needed: want.needed,
                available: found,
                level: want.level.clone(),
            };
            let wake_on = WakeCondition::Capacity {
                shape: want.shape,
                level: want.level,
                needed: want.needed,
            };
            worst = Some((short, shortage, wake_on));
        }
    }
    worst.map(|(_, shortage, wake_on)| (shortage, wake_on))
}

/// The wake condition of a failure that capacity does not explain.
pub(in crate::queue) fn wake_hint(framework: &Framework, tree: &PodGroup) -> WakeCondition {
    let mut requests = Vec::new();
    for (shape, _) in shapes(tree.all_pods().into_iter()) {
        if reads_beyond_node(framework, &shape) || !has_capacity_bound(framework, &shape) {
            return WakeCondition::AnyChange;
        }
        match scarcest_request(&shape) {
            Some(request) => requests.push(request),
            None => return WakeCondition::AnyChange,
        }
    }
    requests.sort_unstable();
    requests.dedup();
    WakeCondition::Nodes(requests)
}

struct Want {
    group: ObjectName,
    shape: Arc<PodShape>,
    level: Option<String>,
    needed: u64,
}

/// Gathers the lower bounds of a tree. Beside the root, only groups that must be placed and require
/// a domain add to them.
fn collect(cluster: &Cluster, group: &PodGroup, is_root: bool, wants: &mut Vec<Want>) {
    if is_root || group.topology.require.is_some() {
        let pods = group.all_pods();
        let all: u64 = pods.iter().filter(|pod| pod.scheduling_gates.is_empty()).count() as u64;
        for (shape, count) in shapes(pods.into_iter()) {
            let mut needed = forced(cluster, group, &shape);
            if is_root && count == all {
                // At least one pod must be placed, and all are of this shape.
                needed = needed.max(1);
            }
            if needed > 0 {
                let level = group.topology.firm_level().map(String::from);
                wants.push(Want { group: group.full_name(), shape, level, needed });
            }
        }
    }
    let open: Vec<&PodGroup> = group.groups.iter().filter(|inner| !runs(cluster, inner)).collect();
    if open.len() as u64 == open_need(cluster, group) {
        for inner in open {
            collect(cluster, inner, false, wants);
        }
    }
}

/// Number of child groups that must be placed beside the running ones.
fn open_need(cluster: &Cluster, group: &PodGroup) -> u64 {
    let running = group.groups.iter().filter(|inner| runs(cluster, inner)).count() as u64;
    u64::from(group.policy.minimum()).saturating_sub(running)
}

/// Lower bound on the pending pods of a shape in any placement that satisfies the minimum.
fn forced(cluster: &Cluster, group: &PodGroup, shape: &PodShape) -> u64 {
    if group.groups.is_empty() {
        let need = u64::from(group.policy.minimum()).saturating_sub(running(cluster, group) as u64);
        let free = group.pods.iter().filter(|pod| pod.scheduling_gates.is_empty());
        let others = free.filter(|pod| **pod.shape() != *shape).count() as u64;
        return need.saturating_sub(others);
    }
    let open = group.groups.iter().filter(|inner| !runs(cluster, inner));
    let mut least: Vec<u64> = open.map(|inner| forced(cluster, inner, shape)).collect();
    least.sort_unstable();
    let need = usize::try_from(open_need(cluster, group)).unwrap_or(usize::MAX);
    least.iter().take(need).fold(0, |sum, more| sum.saturating_add(*more))
}

/// The pending members without which a tree does not start, by shape: of each leaf the first, of
/// each inner group the first groups; one at least.
pub(in crate::queue) fn needed_members(
    cluster: &Cluster,
    tree: &PodGroup,
) -> Vec<(Arc<PodShape>, u64)> {
    fn collect<'a>(cluster: &Cluster, group: &'a PodGroup, members: &mut Vec<&'a Pod>) {
        let most = |need: u64| usize::try_from(need).unwrap_or(usize::MAX);
        if group.groups.is_empty() {
            let running = running(cluster, group) as u64;
            let need = u64::from(group.policy.minimum()).saturating_sub(running);
            let pods = group.pods.iter().filter(|pod| pod.scheduling_gates.is_empty());
            members.extend(pods.take(most(need)));
        } else {
            let open = group.groups.iter().filter(|inner| !runs(cluster, inner));
            for inner in open.take(most(open_need(cluster, group))) {
                collect(cluster, inner, members);
            }
        }
    }
    let mut members = Vec::new();
    collect(cluster, tree, &mut members);
    if members.is_empty() {
        members.extend(tree.all_pods().into_iter().find(|pod| pod.scheduling_gates.is_empty()));
    }
    shapes(members.into_iter())
}

/// The distinct shapes of the pods without gates, in order of first occurrence, each with its
/// number of pods.
pub(in crate::queue) fn shapes<'a>(
    pods: impl Iterator<Item = &'a Pod>,
) -> Vec<(Arc<PodShape>, u64)> {
    let mut shapes: Vec<(Arc<PodShape>, u64)> = Vec::new();
    for pod in pods.filter(|pod| pod.scheduling_gates.is_empty()) {
        // Equal shapes are mostly neighbours, and mostly share one allocation.
        match shapes.iter_mut().rev().find(|(shape, _)| shape == pod.shape()) {
            Some((_, count)) => *count += 1,
            None => shapes.push((Arc::clone(pod.shape()), 1)),
        }
    }
    shapes
}

#[cfg(test)]
mod tests;
