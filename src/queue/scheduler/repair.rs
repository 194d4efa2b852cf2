//! Repair: the ways to bring members back that failing nodes took, and the choice among them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use super::Scheduler;
use super::seek::Found;
use crate::model::{Effect, PodGroup};
use crate::place::{Outcome, Planner};
use crate::preempt::{Candidate, Preemptor};
use crate::queue::groups::{MemberState, QueuedGroup, full_name};
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::booking::{Booking, BookingOwner};
use crate::queue::terms::decision::{Decision, EvictionCause, RepairCosts, RepairWay};
use crate::queue::terms::ids::GroupId;
use crate::state::{NodeView, PodView};

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
        let room = self.room_elsewhere(id);
        let costs = RepairCosts {
            stays: queued.runs_minimum().then(|| worth.saturating_mul(missing.into())),
            yields: found.as_ref().map(|found| self.work_of(found)),
            moves: room.as_ref().and_then(|_| self.own_work(id)),
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

    /// The work that is lost if units leave for a group, in pod-milliseconds.
    fn work_of(&self, found: &Found) -> u64 {
        let now = self.world.now();
        let run = |pod: &crate::preempt::EvictedPod| {
            let own = self.world.cluster().pod(&pod.namespace, &pod.name);
            let start = own.and_then(PodView::start).unwrap_or(now);
            u64::try_from(now.since(start).as_millis()).unwrap_or(u64::MAX)
        };
        let victims = found.victims.iter().map(|victim| victim.work_lost);
        let moved = found.moves.iter().map(|step| run(&step.pod));
        victims.chain(moved).fold(0, u64::saturating_add)
    }

    /// The work that a group loses if it leaves whole; `None` if it may not.
    fn own_work(&self, id: GroupId) -> Option<u64> {
        let queued = self.groups.get(&id)?;
        let mut is_kept = false;
        queued.root().visit(&mut |group| is_kept |= group.non_preemptible);
        let running = queued.members().values().filter(|member| member.runs());
        let views: Vec<PodView<'_>> = running
            .filter_map(|own| self.world.cluster().pod(own.pod().namespace(), &own.pod().name))
            .collect();
        let breaks = self.removals.running_work().budgets().any(|budget| {
            let own = views.iter().filter(|pod| budget.covers(**pod)).count() as u64;
            own > 0 && own > u64::try_from(budget.disruptions_allowed).unwrap_or(0)
        });
        if is_kept || breaks {
            return None;
        }
        let now = self.world.now();
        let run = |pod: &PodView<'_>| {
            let run = now.since(pod.start().unwrap_or(now));
            u64::try_from(run.as_millis()).unwrap_or(u64::MAX)
        };
        let all = views.iter().map(run).fold(0, u64::saturating_add);
        let preemptor = Preemptor { group: queued.root(), now, runs: true };
        let find = || views.first().copied();
        let (priority, pods) = (queued.root().priority, views.len());
        let unit = Candidate { priority, group: Some(queued.root()), pods, find: &find };
        Some(if pods == 0 { 0 } else { self.policy.work_lost(&preemptor, &unit, all) })
    }

    /// All members of a group as a tree that fits beside those that run, in another place; `None` if it
    /// does not, or is tried together with others.
    fn room_elsewhere(&self, id: GroupId) -> Option<PodGroup> {
        if self.groups.gang_group(id).ok()?.len() != 1 || self.holds.is_moving(id) {
            return None;
        }
        let queued = self.groups.get(&id)?;
        let named: BTreeSet<u64> = queued
            .members()
            .iter()
            .filter(|(_, member)| member.runs() || member.is_ready())
            .map(|(seq, _)| *seq)
            .collect();
        let mut room = queued.tree_of(&queued.members().placed_anew(&named));
        set_apart(&mut room);
        let request = self.world.request(&room, queued.strategy(), self.world.now());
        let cluster = self.world.cluster();
        let found = Planner::new().place(cluster, self.world.framework(), request);
        let all = named.len();
        matches!(found, Ok(Outcome::Placed(plan)) if plan.len() == all).then_some(room)
    }

    /// Keeps room for all of a group under a name, until it starts there. Returns whether it is kept.
    fn keep_elsewhere(&mut self, id: GroupId, room: PodGroup) -> bool {
        let Some(name) = self.groups.get(&id).map(|queued| queued.name().clone()) else {
            return false;
        };
        let Some(settings) = self.world.settings().elastic.repair else { return false };
        let pods = room.all_pods().len();
        let now = self.world.now();
        let until = now.after(settings.move_within);
        let booking = Booking::new(format!("repair of {name}"), room, (now, until));
        let own = booking.name.clone();
        let booking = booking.owner(BookingOwner::Group(name)).once();
        if self.handle_booking(booking, now).is_err() {
            return false;
        }
        self.update_bookings();
        let kept = self.bookings().into_iter().find(|view| view.booking.name == own);
        let is_kept = kept.is_some_and(|view| view.kept.values().sum::<usize>() == pods);
        if !is_kept {
            let _ = self.handle_booking_removed(&own, now);
        }
        is_kept
    }

    /// Whether a group stays below its size until there is room.
    pub(super) fn stays_below(&self, id: GroupId) -> bool {
        self.groups.get(&id).is_some_and(QueuedGroup::stays_below)
    }

    /// Members on a node that is gone count as lost.
    pub(super) fn note_lost(&mut self, members: &[(GroupId, u64)]) {
        let mut lost: BTreeMap<GroupId, u32> = BTreeMap::new();
        for &(id, seq) in members {
            let member = self.groups.find(id, seq);
            if member.is_some_and(|own| own.state() == MemberState::Bound) {
                *lost.entry(id).or_default() += 1;
            }
        }
        for (id, count) in lost {
            if let Some(queued) = self.groups.get_mut(&id) {
                queued.lose(count);
            }
        }
    }

    /// Whether a member runs on a node that repels what runs there, and nobody had it evicted.
    pub(super) fn is_on_failing_node(&self, id: GroupId, seq: u64) -> bool {
        let Some(member) = self.groups.find(id, seq).filter(|member| member.runs()) else {
            return false;
        };
        let pod = member.pod();
        let view = self.world.cluster().pod(pod.namespace(), &pod.name);
        let fails = |node: NodeView<'_>| {
            node.taints().iter().any(|taint| taint.effect == Effect::NoExecute)
        };
        view.and_then(PodView::node).is_some_and(fails)
            && self.removals.of_pod(&full_name(pod)).next().is_none()
    }

    /// A member leaves its node: it counts as lost if that fails.
    pub(super) fn note_left(&mut self, id: GroupId, seq: u64) {
        if self.is_on_failing_node(id, seq)
            && let Some(queued) = self.groups.get_mut(&id)
        {
            queued.lose(1);
        }
    }

    /// Members run again, or others in their place.
    pub(super) fn note_back(&mut self, id: GroupId, count: usize) {
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.regain(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// Number of members of groups that run.
    pub(super) fn running_of(&self, groups: &BTreeSet<GroupId>) -> BTreeMap<GroupId, usize> {
        let running = |id: &GroupId| Some((*id, self.groups.get(id)?.members().running()));
        groups.iter().filter_map(running).collect()
    }
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
