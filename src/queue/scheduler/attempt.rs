//! Attempts to place a group, and the fate of a group without a place.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::bookings::borrower;
use super::{Scheduler, Timer};
use crate::base::Time;
use crate::model::{Pod, PodGroup};
use crate::place::{Outcome, PlaceError, UnplacedKind};
use crate::queue::groups::{Phase, QueuedGroup, full_name};
use crate::queue::holds::{close_bookings, open_bookings};
use crate::queue::line::refusals::Avoiding;
use crate::queue::line::shortage::{KnownRoom, wake_hint};
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::{GroupChange, ReservationEnd};
use crate::queue::terms::shortage::Shortage;
use crate::queue::terms::wake::WakeCondition;
use crate::state::Plan;

impl Scheduler {
    /// Plan for a tree, committed to the cluster if there is one; with tenants, within quota. The
    /// `promised` plan is tried first, or the one that the group is nominated to.
    pub(super) fn find_plan(
        &mut self,
        id: GroupId,
        gang: &[GroupId],
        tree: &PodGroup,
        room: KnownRoom,
        promised: Option<&Plan>,
    ) -> AttemptResult {
        if !self.holds.claims(id) {
            self.report.count(|metrics| &mut metrics.attempts);
        }
        if self.owes_a_place(id) {
            let shortage = Shortage::Placement { outcome: String::from("moves are under way") };
            return AttemptResult::Unschedulable(shortage, WakeCondition::AnyChange);
        }
        let known = promised.cloned().or_else(|| self.holds.nominated(id).cloned());
        if self.tenancy.is_none() {
            return self.find_place(id, gang, tree, room, known.as_ref());
        }
        if self.holds.is_moving(id)
            && let Some(plan) = self.holds.nominated(id).cloned()
            && let Some(plan) = self.commit_with_quota(id, &plan)
        {
            self.report.count(|metrics| &mut metrics.placed);
            return AttemptResult::Plan(plan, None);
        }
        let mut tree = tree.clone();
        let lifted = self.lift_charges(id);
        match self.admit(gang, &mut tree) {
            Err(refused) => {
                self.restore_charges(lifted);
                let (shortage, wake_on) = *refused;
                self.report.count(|metrics| &mut metrics.short_of_quota);
                AttemptResult::Unschedulable(shortage, wake_on)
            }
            Ok(admitted) => {
                // A plan that waits for victims is of the flavors that were reserved with it.
                let is_reserved = admitted.iter().all(|given| given.is_reserved);
                let known = known
                    .filter(|known| is_reserved || !self.holds.claims(id) && is_of(known, &tree));
                let result = self.find_place(id, gang, &tree, room, known.as_ref());
                if let AttemptResult::Plan(plan, _) = &result {
                    self.charge_plan(admitted, plan);
                } else {
                    self.withdraw(admitted);
                    self.restore_charges(lifted);
                }
                result
            }
        }
    }

    /// Plan for a tree, whatever quota says, with booked room that it may use.
    fn find_place(
        &mut self,
        id: GroupId,
        gang: &[GroupId],
        tree: &PodGroup,
        room: KnownRoom,
        known: Option<&Plan>,
    ) -> AttemptResult {
        let now = self.world.now();
        let who = || borrower(&self.groups, gang, now);
        let open = open_bookings(&self.holds, &mut self.world, who);
        if open.is_empty() {
            return self.find_place_beside(id, gang, tree, room, known);
        }
        let mut result = self.find_place_beside(id, gang, tree, KnownRoom::Unknown, known);
        let plan = match &mut result {
            AttemptResult::Plan(plan, _) => Some(&*plan),
            AttemptResult::Unschedulable(_, wake_on) => {
                // The wait index does not count booked room.
                *wake_on = WakeCondition::AnyChange;
                None
            }
            AttemptResult::Error(_) => None,
        };
        if let Some(who) = borrower(&self.groups, gang, now) {
            close_bookings(&mut self.holds, &mut self.world, &open, (&who, plan));
        }
        result
    }

    /// Plan for a tree beside all room that is kept for others.
    fn find_place_beside(
        &mut self,
        id: GroupId,
        gang: &[GroupId],
        tree: &PodGroup,
        room: KnownRoom,
        known: Option<&Plan>,
    ) -> AttemptResult {
        let now = self.world.now();
        let (groups, refusals) = (&self.groups, &self.refusals);
        let shape_of = |pod: &Pod| groups.shape_of(pod);
        let known = known.filter(|known| !refusals.meets(known, now, shape_of));
        let avoiding = refusals.avoid(tree, now, shape_of);
        if let Some(plan) = known.and_then(|known| self.commit_nomination(id, gang, known)) {
            self.report.count(|metrics| &mut metrics.placed);
            return AttemptResult::Plan(plan, None);
        }
        if room != KnownRoom::Enough
            && let Some((shortage, wake_on)) = self.line.shortage(&self.world, tree, room)
        {
            // A look at a claim that capacity is short for is no attempt.
            if !self.holds.claims(id) {
                self.report.count(|metrics| &mut metrics.short_of_capacity);
            }
            return AttemptResult::Unschedulable(shortage, wake_on);
        }
        let strategy = self.groups.get(&id).and_then(QueuedGroup::strategy);
        let asked = avoiding.as_ref().map_or(tree, |own| &own.tree);
        let mut outcome = self.world.place(self.world.request(asked, strategy, now));
        if let Some(Avoiding { shortage, .. }) = avoiding
            && !outcome.as_ref().is_ok_and(has_place)
        {
            outcome = self.world.place(self.world.request(tree, strategy, now));
            if outcome.as_ref().is_ok_and(has_place) {
                self.report.count(|metrics| &mut metrics.no_placement);
                return AttemptResult::Unschedulable(shortage, WakeCondition::AnyChange);
            }
        }
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error @ PlaceError::Scattered { .. }) => {
                self.report.count(|metrics| &mut metrics.no_placement);
                let shortage = Shortage::Placement { outcome: error.to_string() };
                return AttemptResult::Unschedulable(shortage, WakeCondition::AnyChange);
            }
            Err(error) => return AttemptResult::Error(error),
        };
        let (plan, held) = match outcome {
            Outcome::Placed(plan) => (plan, None),
            Outcome::Held { plan, until, by } => (plan, Some((until, by))),
            Outcome::Denied { by, reason } => {
                self.report.count(|metrics| &mut metrics.denied);
                return AttemptResult::Unschedulable(
                    Shortage::Permit { by, reason },
                    WakeCondition::AnyChange,
                );
            }
            Outcome::Unplaced(unplaced) => {
                self.report.count(|metrics| &mut metrics.no_placement);
                let outcome = match unplaced.kind {
                    UnplacedKind::Exhausted => "exhausted",
                    UnplacedKind::Greedy => "greedy",
                    _ => "infeasible",
                };
                let shortage = Shortage::Placement { outcome: String::from(outcome) };
                return AttemptResult::Unschedulable(
                    shortage,
                    wake_hint(self.world.framework(), tree),
                );
            }
        };
        if plan.is_empty() {
            // The minimum already runs, and no pending member can join.
            self.report.count(|metrics| &mut metrics.no_placement);
            let shortage =
                Shortage::Placement { outcome: String::from("no pending member can join") };
            return AttemptResult::Unschedulable(shortage, wake_hint(self.world.framework(), tree));
        }
        if let Some(shortage) = self.delays_promise(&plan) {
            return AttemptResult::Unschedulable(shortage, WakeCondition::Never);
        }
        match self.world.commit(&plan) {
            Ok(()) => {
                self.report.count(|metrics| &mut metrics.placed);
                AttemptResult::Plan(plan, held)
            }
            Err(error) => {
                let shortage = Shortage::Placement { outcome: error.to_string() };
                AttemptResult::Unschedulable(shortage, WakeCondition::AnyChange)
            }
        }
    }

    /// The groups that a group is placed with, and their pending members as one tree; `None` if it
    /// does not wait for a place: its phase says so then.
    pub(super) fn gang_and_tree(&mut self, id: GroupId) -> Option<(Vec<GroupId>, PodGroup)> {
        let gang = match self.groups.gang_group(id) {
            Ok(gang) => gang,
            Err(gate) => {
                self.set_phase(id, Phase::Gated(gate.clone()));
                self.emit(id, GroupChange::Gated(gate));
                return None;
            }
        };
        if gang.len() > 1 {
            // A reservation that one of them has alone would be in the way of all.
            for other in &gang {
                if self.holds.room(*other).is_some_and(|own| own.owners() != gang) {
                    self.end_reservation(*other, ReservationEnd::Outranked);
                }
            }
        }
        let tree = self.groups.joint_tree(&gang);
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
                queued.set_shortage(Some(shortage.clone()));
            }
            let latest = self.world.now().after(self.world.settings().max_in_unschedulable);
            let retry = match shortage {
                Shortage::Refused { retry, .. } => Some(latest.min(*retry)),
                _ => (!counted).then_some(latest),
            };
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
        let Some(policy) = self.world.settings().discipline.reservation() else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(ready) = queued.ready_since().filter(|_| self.holds.room(id).is_none()) else {
            return;
        };
        let past = self.holds.past(id).cloned().unwrap_or_default();
        let when = ready.after(policy.after).max(past.not_before());
        if when > self.world.now() {
            self.timers.insert((when, Timer::Reservation(id)));
        } else if !past.is_infeasible(self.epoch) && self.holds.with_room().count() < policy.at_most
        {
            self.holds.set_due(None);
        }
    }

    /// A group with a reservation has no wake condition: it is tried after every change.
    pub(super) fn stay_unschedulable(&mut self, id: GroupId, shortage: &Shortage) {
        let Some(queued) = self.groups.get(&id) else { return };
        if *queued.phase() == Phase::Queued {
            self.mark_unschedulable(&[id], shortage, &WakeCondition::Never);
        } else if *queued.wake_on() != WakeCondition::Never {
            self.wait_for(id, WakeCondition::Never);
        }
    }
}

/// Whether all pods of a plan are of a tree: quota may be given to some of them alone, and on nodes
/// of some flavors.
fn is_of(plan: &Plan, tree: &PodGroup) -> bool {
    let own: BTreeMap<String, &Pod> =
        tree.all_pods().into_iter().map(|pod| (full_name(pod), pod)).collect();
    plan.assignments()
        .all(|to| own.get(&full_name(to.pod())).is_some_and(|pod| pod.shape() == to.pod().shape()))
}

/// Whether a search has found a place for some pod.
fn has_place(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Placed(plan) | Outcome::Held { plan, .. } => !plan.is_empty(),
        _ => false,
    }
}

/// Result of an attempt to place a group.
pub(in crate::queue) enum AttemptResult {
    Plan(Plan, Option<(Time, String)>),
    Unschedulable(Shortage, WakeCondition),
    Error(PlaceError),
}
