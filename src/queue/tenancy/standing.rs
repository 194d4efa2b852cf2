//! Standing: groups that can give quota back now, each as one unit that leaves.

use alloc::format;
use alloc::vec::Vec;

use crate::base::Time;
use crate::preempt::{EvictedPod, Victim};
use crate::queue::groups::{MemberState, QueuedGroup};
use crate::queue::tenancy::owners::Owners;
use crate::queue::terms::ids::GroupId;
use crate::queue::world::World;
use crate::state::PodView;

/// Whether a group that quota names can give back.
pub(super) enum Standing {
    /// The group can.
    Free,
    /// The group is being evicted already.
    Going,
    /// The group cannot before a time; `None`: not before it changes.
    Kept(Option<Time>),
}

/// The standing of a group that quota names.
pub(super) fn standing(owners: Owners<'_>, id: GroupId) -> Standing {
    let Owners { world, groups, removals, .. } = owners;
    let Some(queued) = groups.get(&id) else { return Standing::Kept(None) };
    let soon = world.now().after(world.settings().backoff.after(1));
    if queued.leaves_whole() {
        // A group that moves gives nothing back.
        let moves = removals.iter().any(|own| own.root() == Some(id) && !own.is_victim());
        return if moves { Standing::Kept(Some(soon)) } else { Standing::Going };
    }
    let mut is_fixed = queued.phase().busy();
    queued.root().visit(&mut |group| is_fixed |= group.non_preemptible);
    if is_fixed {
        return Standing::Kept(None);
    }
    let is_in_flight = |pod: &PodView<'_>| {
        let name = format!("{}/{}", pod.namespace(), pod.name());
        removals.of_pod(&name).next().is_some()
    };
    let mut until = protected_until(world, queued);
    let mut runs = false;
    for pod in pods_of(world, queued) {
        let name = format!("{}/{}", pod.namespace(), pod.name());
        until = until.max(removals.refused_until(&name));
        // Some of its members go, or have lost their node: that is settled first.
        if is_in_flight(&pod) || pod.node().is_none() {
            until = until.max(Some(soon));
        }
        runs = true;
    }
    match until.filter(|until| *until > world.now()) {
        Some(until) => Standing::Kept(Some(until)),
        None if runs => Standing::Free,
        None => Standing::Kept(Some(soon)),
    }
}

/// The end of the minimum run times in a group.
fn protected_until(world: &World, queued: &QueuedGroup) -> Option<Time> {
    let mut until = None;
    queued.root().visit(&mut |group| {
        let Some(least) = group.min_run_time.max(queued.root().min_run_time) else { return };
        for pod in world.cluster().pods_of(group) {
            until = until.max(Some(pod.start().unwrap_or(world.now()).after(least)));
        }
    });
    until
}

/// The pods of a group that are in the cluster.
fn pods_of<'a>(world: &'a World, queued: &'a QueuedGroup) -> impl Iterator<Item = PodView<'a>> {
    let members = queued.members().values();
    let bound = members
        .filter(|member| !matches!(member.state(), MemberState::Pending | MemberState::Done));
    bound.filter_map(|member| world.cluster().pod(member.pod().namespace(), &member.pod().name))
}

/// A group that gives back, as one unit.
pub(in crate::queue) fn whole_victim(world: &World, queued: &QueuedGroup) -> Victim {
    let mut work_lost = 0_u64;
    let mut pods = Vec::new();
    for pod in pods_of(world, queued) {
        let run = pod
            .start()
            .map_or(0, |start| world.now().as_millis().saturating_sub(start.as_millis()));
        work_lost = work_lost.saturating_add(run);
        pods.push(EvictedPod::of(pod));
    }
    pods.sort();
    Victim {
        name: queued.name().clone(),
        whole: true,
        group: Some(queued.name().clone()),
        priority: queued.root().priority,
        work_lost,
        pods,
    }
}
