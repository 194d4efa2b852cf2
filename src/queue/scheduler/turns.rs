//! Turns: the next group, and groups that sleep and are woken.

use super::Scheduler;
use super::attempt::AttemptResult;
use crate::queue::groups::{Phase, QueuedGroup};
use crate::queue::line::shortage::KnownRoom;
use crate::queue::tenancy::Owners;
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::queue::terms::observe::GroupChange;

impl Scheduler {
    pub(super) fn wake_for_quota(&mut self, id: GroupId) {
        let phase = self.groups.get(&id).map(QueuedGroup::phase);
        if matches!(phase, Some(Phase::Unschedulable(_))) {
            self.report.count(|metrics| &mut metrics.woken);
            self.set_phase(id, Phase::Queued);
            self.emit(id, GroupChange::Queued);
        }
    }

    /// Wakes groups for which quota has moved: the first of each queue that may fit.
    pub(super) fn wake_sleepers(&mut self) {
        let Some((tenancy, owners)) = self.tenancy_and_owners() else { return };
        for id in tenancy.take_woken(owners) {
            self.wake_for_quota(id);
        }
    }

    /// The group whose turn it is: the first of the queue whose turn it is.
    pub(super) fn next_ready(&mut self) -> Option<QueueKey> {
        if self.tenancy.is_none() {
            return self.line.first_ready().cloned();
        }
        self.wake_sleepers();
        let changed = self.line.take_changed_heads();
        let (world, groups, holds) = (&self.world, &self.groups, &self.holds);
        let owners = Owners { world, groups, holds, removals: &self.removals };
        self.tenancy.as_mut()?.next_ready(owners, &self.line, changed)
    }

    /// Applies the recorded changes to the wait index and wakes the groups that wait for a hint.
    /// Groups that wait for capacity are woken one at a time in queue order, so that no more are
    /// woken than the capacity can serve.
    pub(super) fn apply_changes(&mut self) {
        let Some(helped) = self.line.tell(&self.world) else { return };
        self.removals.set_searches_due();
        for id in helped {
            let Some(queued) = self.groups.get(&id) else { continue };
            if !matches!(queued.phase(), Phase::Unschedulable(_)) {
                continue;
            }
            let until = queued.not_before();
            self.report.count(|metrics| &mut metrics.woken_by_hint);
            if until > self.world.now() {
                self.set_phase(id, Phase::BackingOff(until));
                self.emit(id, GroupChange::BackedOff { until });
            } else {
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
            }
        }
    }

    /// Attempt to place a group, with its gang group.
    pub(super) fn attempt(&mut self, id: GroupId) {
        self.drop_unsuitable_nomination(id);
        if self.holds.room(id).is_some() {
            // Other reservations may use what this attempt changed.
            if self.refresh_reservation(id, &mut None) {
                self.holds.set_due(None);
            }
            return;
        }
        let Some((gang, tree)) = self.gang_and_tree(id) else { return };
        match self.find_plan(id, &gang, &tree, KnownRoom::InStep, None) {
            AttemptResult::Plan(plan, held) => self.start_plan(gang, plan, held),
            AttemptResult::Unschedulable(shortage, wake_on) => {
                let may_help = !shortage.waits_for_quota_alone();
                let stays = |own: &Self| own.groups.get(&id).is_some_and(QueuedGroup::stays_below);
                let stayed = stays(self);
                if !(may_help && self.preempt(id, &tree, &shortage)) {
                    if !stayed && stays(self) {
                        // Some of the members may come back before there is room for all.
                        return self.attempt(id);
                    }
                    self.mark_unschedulable(&gang, &shortage, &wake_on);
                }
            }
            AttemptResult::Error(error) => self.fail(&gang, &error),
        }
    }
}
