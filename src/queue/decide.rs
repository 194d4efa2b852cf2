//! Decisions: the choice of the next group, and the attempt to place it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::decision::Decision;
use super::evictions::is_there;
use super::ids::GroupId;
use super::observe::{GroupChange, ReservationEnd};
use super::queued_group::Phase;
use super::scheduler::{Scheduler, Timer};
use super::shortage::{KnownRoom, Shortage, find_shortage, wake_hint};
use super::wake::hints::WakeCondition;
use crate::base::Time;
use crate::model::{GroupPolicy, PodGroup};
use crate::place::{Outcome, PlaceError, UnplacedKind};
use crate::state::Plan;

/// Result of an attempt to place a group.
pub(super) enum AttemptResult {
    Plan(Plan, Option<(Time, String)>),
    Unschedulable(Shortage, WakeCondition),
    Error(PlaceError),
}

impl Scheduler {
    /// The next decision; `None` if there is nothing to do until the next input or
    /// [`Scheduler::next_wake`].
    ///
    /// Groups are tried in queue order until one is placed. Each attempt costs one request to the
    /// planner, unless counting capacity alone shows that the group cannot be placed.
    pub fn poll_decision(&mut self, now: Time) -> Option<Decision> {
        self.expire(now, true);
        loop {
            if let Some(mut decision) = self.outbox.pop_front() {
                if let Decision::Bind { ticket, plan, .. } = &mut decision
                    && let Some(in_flight) = self.in_flight.get(ticket)
                {
                    // Members may have been deleted since the decision was queued.
                    plan.clone_from(&in_flight.plan);
                }
                if let Decision::Preempt { ticket, victims, moves, .. } = &mut decision {
                    // Victims may have gone, been taken back, or failed.
                    self.update_evictions();
                    victims.retain(|victim| self.preemption.is_open(*ticket, &victim.name));
                    for victim in &mut *victims {
                        victim.pods.retain(|pod| is_there(&self.cluster, pod));
                    }
                    moves.retain(|step| {
                        self.preemption.is_open(*ticket, &step.unit)
                            && is_there(&self.cluster, &step.pod)
                    });
                    if victims.is_empty() && moves.is_empty() {
                        continue;
                    }
                    self.have_been_asked(*ticket, victims, moves);
                }
                if let Decision::CancelEvictions { victims, .. } = &mut decision {
                    victims.retain(|victim| {
                        victim.pods.iter().any(|pod| is_there(&self.cluster, pod))
                    });
                    if victims.is_empty() {
                        continue;
                    }
                }
                return Some(decision);
            }
            self.apply_changes();
            if core::mem::take(&mut self.reservations_due) {
                self.update_reservations();
                continue;
            }
            if self.settings.backfill.is_some() {
                if self.backfill() || self.search_again() {
                    continue;
                }
                return self.outbox.pop_front();
            }
            self.partners.groups_checked += 1;
            let ready = self.next_ready();
            if let Some(id) = self.wait_index.next(&self.cluster, &self.framework, ready.as_ref()) {
                // The missing capacity is there, so the back-off does not apply.
                self.metrics.add_one(|metrics| &mut metrics.woken);
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
                continue;
            }
            match ready {
                Some(key) => self.attempt(key.group),
                None if self.search_again() => {}
                None => return self.outbox.pop_front(),
            }
        }
    }

    /// Applies the recorded changes to the wait index and wakes the groups that wait for a hint.
    /// Groups that wait for capacity are woken one at a time in queue order, so that no more are
    /// woken than the capacity can serve.
    fn apply_changes(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let changes = core::mem::take(&mut self.changes);
        self.preemption.searches_due = true;
        for id in self.wait_index.wake(&self.cluster, &self.framework, &changes) {
            let Some(queued) = self.groups.get(&id) else { continue };
            if !matches!(queued.phase, Phase::Unschedulable(_)) {
                continue;
            }
            let until = queued.not_before;
            self.metrics.add_one(|metrics| &mut metrics.woken_by_hint);
            if until > self.now {
                self.set_phase(id, Phase::BackingOff(until));
                self.emit(id, GroupChange::BackedOff { until });
            } else {
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
            }
        }
    }

    /// Attempt to place a group, with its gang group.
    fn attempt(&mut self, id: GroupId) {
        self.drop_unsuitable_nomination(id);
        if self.reserving.contains(&id) {
            // Other reservations may use what this attempt changed.
            self.reservations_due |= self.refresh_reservation(id);
            return;
        }
        let Some((gang, tree)) = self.gang_and_tree(id) else { return };
        match self.find_plan(id, &gang, &tree, KnownRoom::InStep) {
            AttemptResult::Plan(plan, held) => self.start_plan(gang, plan, held),
            AttemptResult::Unschedulable(shortage, wake_on) => {
                let may_help = !shortage.waits_for_quota_alone();
                if !(may_help && self.preempt(id, &tree, &shortage)) {
                    self.mark_unschedulable(&gang, &shortage, &wake_on);
                }
            }
            AttemptResult::Error(error) => self.fail(&gang, &error),
        }
    }

    /// The groups that a group is placed with, and their pending members as one tree; `None` if it
    /// does not wait for a place: its phase says so then.
    pub(super) fn gang_and_tree(&mut self, id: GroupId) -> Option<(Vec<GroupId>, PodGroup)> {
        let gang = match self.gang_group(id) {
            Ok(gang) => gang,
            Err(gate) => {
                self.set_phase(id, Phase::Gated(gate.clone()));
                self.emit(id, GroupChange::Gated(gate));
                return None;
            }
        };
        let tree = self.joint_tree(&gang);
        if tree.is_none() {
            self.set_phase(id, Phase::Idle);
        }
        Some((gang, tree?))
    }

    /// Fails groups whose request the planner refuses.
    pub(super) fn fail(&mut self, groups: &[GroupId], error: &PlaceError) {
        let reason = error.to_string();
        for &id in groups {
            self.set_phase(id, Phase::Failed(reason.clone()));
            self.end_reservation(id, ReservationEnd::Outranked);
            self.emit(id, GroupChange::Failed { reason: reason.clone() });
        }
    }

    /// The pending members of one or several groups as one tree; `None` if there are none.
    pub(super) fn joint_tree(&self, groups: &[GroupId]) -> Option<PodGroup> {
        let mut trees: Vec<PodGroup> = groups
            .iter()
            .filter_map(|id| self.groups.get(id))
            .filter(|queued| queued.pending() > 0)
            .map(|queued| queued.pending_tree(&queued.counts(&self.cluster)))
            .collect();
        if trees.len() <= 1 {
            return trees.pop();
        }
        let first = trees.first()?;
        let all = u32::try_from(trees.len()).unwrap_or(u32::MAX);
        let name = format!("{}+{}", first.name, trees.len() - 1);
        let mut joint = PodGroup::gang(name, all).in_namespace(first.namespace.clone());
        joint.policy = GroupPolicy::Gang { min_count: all };
        joint.groups = trees;
        Some(joint)
    }

    /// Plan for a tree, committed to the cluster if there is one; with tenants, within quota.
    pub(super) fn find_plan(
        &mut self,
        id: GroupId,
        gang: &[GroupId],
        tree: &PodGroup,
        room: KnownRoom,
    ) -> AttemptResult {
        self.metrics.add_one(|metrics| &mut metrics.attempts);
        if self.tenancy.is_none() {
            return self.find_place(id, gang, tree, room);
        }
        let mut tree = tree.clone();
        match self.admit(gang, &mut tree) {
            Err(refused) => {
                let (shortage, wake_on) = *refused;
                self.metrics.add_one(|metrics| &mut metrics.short_of_quota);
                self.tried(id, true);
                AttemptResult::Unschedulable(shortage, wake_on)
            }
            Ok(admitted) => {
                // A plan that waits for victims is of the flavors that were reserved with it.
                let is_reserved = admitted.iter().all(|given| given.is_reserved);
                let aside = self.groups.get_mut(&id).filter(|queued| queued.preempting);
                let aside = aside.filter(|_| !is_reserved).and_then(|own| own.nominated.take());
                let result = self.find_place(id, gang, &tree, room);
                if let AttemptResult::Plan(plan, _) = &result {
                    self.charge_plan(admitted, plan);
                } else {
                    self.withdraw(admitted);
                    if let Some(queued) = self.groups.get_mut(&id).filter(|_| aside.is_some()) {
                        queued.nominated = aside;
                    }
                }
                self.tried(id, false);
                result
            }
        }
    }

    /// Plan for a tree, whatever quota says.
    fn find_place(
        &mut self,
        id: GroupId,
        gang: &[GroupId],
        tree: &PodGroup,
        room: KnownRoom,
    ) -> AttemptResult {
        if let Some(plan) = self.commit_nomination(id, gang) {
            self.metrics.add_one(|metrics| &mut metrics.placed);
            return AttemptResult::Plan(plan, None);
        }
        let is_in_step = room == KnownRoom::InStep;
        if room != KnownRoom::Enough
            && let Some((shortage, wake_on)) = find_shortage(
                &self.cluster,
                &self.framework,
                &mut self.wait_index,
                tree,
                is_in_step,
            )
        {
            self.metrics.add_one(|metrics| &mut metrics.short_of_capacity);
            return AttemptResult::Unschedulable(shortage, wake_on);
        }
        let strategy = self.groups.get(&id).and_then(|queued| queued.strategy);
        let request = self.request(tree, strategy, self.now);
        let outcome = match self.planner.place(&self.cluster, &self.framework, request) {
            Ok(outcome) => outcome,
            Err(error @ PlaceError::Scattered { .. }) => {
                self.metrics.add_one(|metrics| &mut metrics.no_placement);
                let shortage = Shortage::Placement { outcome: error.to_string() };
                return AttemptResult::Unschedulable(shortage, WakeCondition::AnyChange);
            }
            Err(error) => return AttemptResult::Error(error),
        };
        let (plan, held) = match outcome {
            Outcome::Placed(plan) => (plan, None),
            Outcome::Held { plan, until, by } => (plan, Some((until, by))),
            Outcome::Denied { by, reason } => {
                self.metrics.add_one(|metrics| &mut metrics.denied);
                return AttemptResult::Unschedulable(
                    Shortage::Permit { by, reason },
                    WakeCondition::AnyChange,
                );
            }
            Outcome::Unplaced(unplaced) => {
                self.metrics.add_one(|metrics| &mut metrics.no_placement);
                let outcome = match unplaced.kind {
                    UnplacedKind::Exhausted => "exhausted",
                    UnplacedKind::Greedy => "greedy",
                    _ => "infeasible",
                };
                let shortage = Shortage::Placement { outcome: String::from(outcome) };
                return AttemptResult::Unschedulable(shortage, wake_hint(&self.framework, tree));
            }
        };
        if plan.is_empty() {
            // The minimum already runs, and no pending member can join.
            self.metrics.add_one(|metrics| &mut metrics.no_placement);
            let shortage =
                Shortage::Placement { outcome: String::from("no pending member can join") };
            return AttemptResult::Unschedulable(shortage, wake_hint(&self.framework, tree));
        }
        if let Some(shortage) = self.delays_promise(&plan) {
            return AttemptResult::Unschedulable(shortage, WakeCondition::Never);
        }
        match self.cluster.commit(&self.framework, &plan) {
            Ok(()) => {
                self.metrics.add_one(|metrics| &mut metrics.placed);
                AttemptResult::Plan(plan, held)
            }
            Err(error) => {
                let shortage = Shortage::Placement { outcome: error.to_string() };
                AttemptResult::Unschedulable(shortage, WakeCondition::AnyChange)
            }
        }
    }

    /// Groups for which no placement was found: records the shortage and the wake condition.
    pub(super) fn mark_unschedulable(
        &mut self,
        groups: &[GroupId],
        shortage: &Shortage,
        wake_on: &WakeCondition,
    ) {
        let counted =
            matches!(wake_on, WakeCondition::Capacity { .. } | WakeCondition::Quota { .. });
        let placeable = !matches!(wake_on, WakeCondition::Quota { .. });
        for &id in groups {
            self.count_failure(id);
            if let Some(queued) = self.groups.get_mut(&id) {
                queued.shortage = Some(shortage.clone());
            }
            let retry = (!counted).then(|| self.now.after(self.settings.max_in_unschedulable));
            self.set_phase(id, Phase::Unschedulable(retry));
            self.wait_for(id, wake_on.clone());
            self.emit(id, GroupChange::Unschedulable(shortage.clone()));
            if placeable {
                self.consider_reservation(id);
            }
        }
    }

    /// Schedules the time at which a group becomes eligible for a reservation.
    fn consider_reservation(&mut self, id: GroupId) {
        let Some(policy) = self.settings.reservation else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(ready) = queued.ready_since.filter(|_| queued.reservation.is_none()) else {
            return;
        };
        let when = ready.after(policy.after).max(queued.no_reservation_before);
        if when > self.now {
            self.timers.insert((when, Timer::Reservation(id)));
        } else if queued.infeasible_at != Some(self.epoch) && self.reserving.len() < policy.at_most
        {
            self.reservations_due = true;
        }
    }
}
