//! Repair: the ways to bring members back that failing nodes took, and the choice among them.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::seek::Found;
use super::{Scheduler, Timer};
use crate::model::PodGroup;
use crate::place::{Outcome, Planner};
use crate::preempt::{Candidate, Policy, Preemptor, RunningWork};
use crate::queue::groups::QueuedGroup;
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::booking::{Booking, BookingOwner};
use crate::queue::terms::decision::{Decision, EvictionCause, RepairCosts, RepairWay};
use crate::queue::terms::ids::GroupId;
use crate::queue::world::World;
use crate::state::PodView;

/// The way that was taken for a group that does not fit.
pub(super) enum Repaired {
    /// It goes on as any other: with victims, or without.
    As(Option<Found>),
    /// It moves whole.
    Moves,
}

impl Scheduler {
    /// The cheapest way for a gang that failing nodes took members from, if it is one. `found` is what
    /// the search for victims came to.
    pub(super) fn repair(&mut self, id: GroupId, found: Option<Found>) -> Repaired {
        let Some(settings) = self.world.settings().elastic.repair else {
            return Repaired::As(found);
        };
        let Some(queued) = self.groups.get(&id).filter(|own| own.is_repaired()) else {
            return Repaired::As(found);
        };
        let goes_now = |own: &Found| own.victims.is_empty() && own.moves.is_empty();
        let missing = queued.missing();
        if missing == 0 || self.holds.claims(id) || found.as_ref().is_some_and(goes_now) {
            return Repaired::As(found);
        }
        let worth = u64::try_from(settings.worth.as_millis()).unwrap_or(u64::MAX);
        let is_alone = self.groups.gang_group(id).is_ok_and(|gang| gang.len() == 1);
        let name = booking_of(queued);
        let may_move = is_alone
            && !self.holds.is_moving(id)
            && !self.holds.bookings().any(|own| own.booking.name == name);
        let room = may_move.then(|| room_elsewhere(&self.world, queued)).flatten();
        let (work, policy) = (self.removals.running_work(), &*self.policy);
        let costs = RepairCosts {
            stays: queued.runs_minimum().then(|| worth.saturating_mul(missing.into())),
            yields: found.as_ref().map(|found| work_of(&self.world, found)),
            moves: room.as_ref().and_then(|_| own_work(&self.world, work, policy, queued)),
        };
        let mut way = costs.cheapest();
        if let (Some(RepairWay::Move), Some(room)) = (way, room)
            && !self.keep_elsewhere(id, room)
        {
            way = RepairCosts { moves: None, ..costs }.cheapest();
        }
        let Some(way) = way else { return Repaired::As(found) };
        if self.groups.get_mut(&id).is_some_and(|queued| queued.say_repair(way))
            && let Some(group) = self.groups.get(&id).map(|queued| queued.name().clone())
        {
            self.report.decide(Decision::Repair { group, missing, way, costs });
        }
        if way == RepairWay::Yield {
            return Repaired::As(found);
        }
        if let Some(found) = found {
            self.withdraw(found.admitted);
        }
        if way == RepairWay::Stay {
            return Repaired::As(None);
        }
        self.evict_overdue(id, self.world.now(), EvictionCause::Repair);
        Repaired::Moves
    }

    /// Keeps room for all of a group under a name, until it starts there. Returns whether it is kept.
    fn keep_elsewhere(&mut self, id: GroupId, room: PodGroup) -> bool {
        let Some(settings) = self.world.settings().elastic.repair else { return false };
        let Some(queued) = self.groups.get(&id) else { return false };
        let pods = room.all_pods().len();
        let now = self.world.now();
        let until = now.after(settings.move_within);
        if until <= now {
            return false;
        }
        let name = booking_of(queued);
        let owner = BookingOwner::Group(queued.name().clone());
        let booking = Booking::new(name.clone(), room, (now, until)).owner(owner).once();
        let number = self.take_number();
        self.timers.insert((until, Timer::Booking(number)));
        self.holds.book(number, booking);
        self.update_bookings();
        let kept = self.holds.bookings().find(|view| view.booking.name == name);
        let is_kept = kept.is_some_and(|view| view.kept.values().sum::<usize>() == pods);
        if !is_kept {
            let free = self.holds.end_booking(&mut self.world, number);
            self.room_released(&free);
        }
        is_kept
    }
}

/// The work that is lost if units leave for a group, in pod-milliseconds.
fn work_of(world: &World, found: &Found) -> u64 {
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
fn own_work(
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
        let own = views.iter().filter(|pod| budget.covers(**pod)).count() as u64;
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
fn room_elsewhere(world: &World, queued: &QueuedGroup) -> Option<PodGroup> {
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
fn booking_of(queued: &QueuedGroup) -> String {
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
