//! Repair: the costs of the ways to bring members back that failing nodes took.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::seek::Found;
use crate::model::PodGroup;
use crate::place::{Outcome, Planner};
use crate::preempt::{Candidate, Policy, Preemptor, RunningWork};
use crate::queue::groups::QueuedGroup;
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::world::World;
use crate::state::PodView;

/// The work that is lost if units leave for a group, in pod-milliseconds.
pub(super) fn work_of(world: &World, found: &Found) -> u64 {
    let now = world.now();
    let run = |pod: &crate::preempt::EvictedPod| {
        let own = world.cluster().pod(&pod.namespace, &pod.name);
        let start = own.and_then(PodView::start).unwrap_or(now);
        u64::try_from(now.since(start).as_millis()).unwrap_or(u64::MAX)
    };
    let victims = found.victims.iter().map(|victim| victim.work_lost);
    let moved = found.moves.iter().map(|step| run(&step.pod));
    victims.chain(moved).fold(0, u64::saturating_add)
}

/// The work that a group loses if it leaves whole; `None` if it may not.
pub(super) fn own_work(
    world: &World,
    running_work: &RunningWork,
    policy: &dyn Policy,
    queued: &QueuedGroup,
) -> Option<u64> {
    let mut is_kept = false;
    queued.root().visit(&mut |group| is_kept |= group.non_preemptible);
    let running = queued.members().values().filter(|member| member.runs());
    let views: Vec<PodView<'_>> = running
        .filter_map(|own| world.cluster().pod(own.pod().namespace(), &own.pod().name))
        .collect();
    let breaks = running_work.budgets().any(|budget| {
        let own = views.iter().filter(|pod| budget.is_charged_for(**pod)).count() as u64;
        own > 0 && own > u64::try_from(budget.disruptions_allowed).unwrap_or(0)
    });
    if is_kept || breaks {
        return None;
    }
    let now = world.now();
    let run = |pod: &PodView<'_>| {
        let run = now.since(pod.start().unwrap_or(now));
        u64::try_from(run.as_millis()).unwrap_or(u64::MAX)
    };
    let all = views.iter().map(run).fold(0, u64::saturating_add);
    let preemptor = Preemptor { group: queued.root(), now, runs: true };
    let find = || views.first().copied();
    let (priority, pods) = (queued.root().priority, views.len());
    let unit = Candidate { priority, group: Some(queued.root()), pods, find: &find };
    Some(if pods == 0 { 0 } else { policy.work_lost(&preemptor, &unit, all) })
}

/// All members of a group as a tree that fits beside those that run, in another place; `None` if it
/// does not.
pub(super) fn room_elsewhere(world: &World, queued: &QueuedGroup) -> Option<PodGroup> {
    let named: BTreeSet<u64> = queued
        .members()
        .iter()
        .filter(|(_, member)| member.runs() || member.is_ready())
        .map(|(seq, _)| *seq)
        .collect();
    let mut room = queued.tree_of(&queued.members().placed_anew(&named));
    set_apart(&mut room);
    let request = world.request(&room, queued.strategy(), world.now());
    let cluster = world.cluster();
    let found = Planner::new().place(cluster, world.framework(), request);
    let all = named.len();
    matches!(found, Ok(Outcome::Placed(plan)) if plan.len() == all).then_some(room)
}

/// The name of the booking that keeps room for a gang that moves.
pub(super) fn booking_of(queued: &QueuedGroup) -> String {
    format!("repair of {}", queued.name())
}

/// Puts a tree into the namespace of placeholders, so that members that run do not bind it.
fn set_apart(group: &mut PodGroup) {
    group.namespace = RESERVED_NAMESPACE.into();
    group.gang_group.clear();
    for pod in &mut group.pods {
        pod.shape_mut().namespace = RESERVED_NAMESPACE.into();
    }
    group.groups.iter_mut().for_each(set_apart);
}
