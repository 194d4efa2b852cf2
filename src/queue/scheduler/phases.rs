//! Phases and health of groups; queues, timers and sleepers follow.

use alloc::vec::Vec;

use super::{Scheduler, Timer};
use crate::base::Time;
use crate::queue::groups::{Phase, QueuedGroup};
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::GroupChange;
use crate::queue::terms::wake::WakeCondition;

impl Scheduler {
    /// A change of phase; queues, timers and waiting times follow.
    pub(super) fn set_phase(&mut self, id: GroupId, phase: Phase) {
        let now = self.world.now();
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let waits = phase.waits();
        let ready = phase == Phase::Queued;
        let sleeps = matches!(phase, Phase::Unschedulable(_));
        let timer = |phase: &Phase| match phase {
            Phase::BackingOff(time) | Phase::Unschedulable(Some(time)) => Some(*time),
            _ => None,
        };
        if *queued.phase() == Phase::Queued
            && !ready
            && let Some(tenancy) = &mut self.tenancy
            && let Some(key) = queued.key()
        {
            tenancy.end_turn(&queued.root().queue, key);
        }
        let after = timer(&phase);
        if let Some(time) = timer(&queued.enter(phase, now)) {
            self.timers.remove(&(time, Timer::Phase(id)));
        }
        self.timers.extend(after.map(|time| (time, Timer::Phase(id))));
        if !sleeps && queued.key().is_some() {
            self.line.rouse(queued);
            if let Some(tenancy) = &mut self.tenancy {
                tenancy.wake(id);
            }
        }
        self.release_kept(id);
        self.groups.update_readiness(id);
        self.groups.partners_mut().set_stale(id, true);
        if !waits {
            if let Some(tenancy) = &mut self.tenancy {
                tenancy.gave_up(id);
            }
            self.drop_key(id);
            return;
        }
        if ready && self.world.settings().discipline.backfill().is_some() {
            self.backfill.note_arrived(id);
        }
        let Some(queued) = self.groups.get(&id) else { return };
        if queued.key().is_none() {
            self.make_key(id);
        } else {
            self.line.update(self.world.settings(), queued);
        }
    }

    fn make_key(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let key = self.line.join(self.world.settings(), id, queued);
        if self.world.settings().discipline.backfill().is_some() {
            self.backfill.put_in_line(key);
        }
    }

    fn drop_key(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        if let Some(key) = self.line.leave(self.world.settings(), queued) {
            self.backfill.leave_line(&key);
        }
    }

    /// Sorts a waiting group into its queue again.
    pub(super) fn rekey(&mut self, id: GroupId) {
        let Some(old) = self.groups.get(&id).and_then(|queued| queued.key().cloned()) else {
            return;
        };
        self.drop_key(id);
        self.make_key(id);
        if let Some(queued) = self.groups.get(&id)
            && let Some(new) = queued.key()
        {
            self.line.rekey(&old, queued);
            if let Some(tenancy) = &mut self.tenancy {
                if *queued.phase() == Phase::Queued && old < *new {
                    // Groups between its old place and its new one are not behind it any more.
                    tenancy.end_turn(&queued.root().queue, &old);
                }
                tenancy.rekey(new);
            }
        }
    }

    pub(super) fn rekey_all(&mut self) {
        let waiting: Vec<GroupId> = self
            .groups
            .iter()
            .filter(|(_, queued)| queued.key().is_some())
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            self.rekey(id);
        }
    }

    pub(super) fn wait_for(&mut self, id: GroupId, wake_on: WakeCondition) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        if queued.key().is_none() {
            return;
        }
        self.line.sleep(&self.world, queued, wake_on);
        self.sleep_for_quota(id);
        self.ask_for_quota(id);
    }

    /// Takes a group out of its queue, unless it has a plan in flight.
    pub(super) fn leave_queue(&mut self, id: GroupId) {
        if self.groups.get(&id).is_some_and(|queued| !queued.phase().busy()) {
            self.set_phase(id, Phase::Idle);
        }
    }

    /// Counts a failure: the back-off grows, and the group may be demoted.
    pub(super) fn count_failure(&mut self, id: GroupId) {
        let (now, settings) = (self.world.now(), self.world.settings());
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let attempts = queued.count_failure(now, settings.backoff);
        if let Some(after) = settings.demote_after
            && after > 0
            && attempts.is_multiple_of(after)
        {
            queued.join_behind(now);
            self.rekey(id);
            self.emit(id, GroupChange::Demoted { attempts });
        }
    }

    /// Sets the timer of the end of a group's run time, if that is another than before.
    pub(super) fn watch_run_time(&mut self, id: GroupId, former: Option<Time>) {
        let limit = self.groups.get(&id).and_then(QueuedGroup::run_limit);
        if limit == former {
            return;
        }
        if let Some(time) = former {
            self.timers.remove(&(time, Timer::RunTime(id)));
        }
        self.timers.extend(limit.map(|time| (time, Timer::RunTime(id))));
    }

    /// Updates whether a group has started and whether it is below its minimum.
    pub(super) fn update_health(&mut self, id: GroupId) {
        let now = self.world.now();
        let stale_after = self.world.settings().stale_after;
        let watches = self.world.settings().evict_half_bound;
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let former = queued.run_limit();
        let (change, waited) = queued.update_health(now, watches);
        if change.started {
            let cluster = self.world.cluster();
            let starts = queued.members().values().filter_map(|member| {
                cluster.pod(member.pod().namespace(), &member.pod().name)?.start()
            });
            let first = starts.min();
            queued.began_at(first);
        }
        self.watch_run_time(id, former);
        if let Some(since) = change.ended {
            self.timers.remove(&(since.after(stale_after), Timer::Below(id)));
        }
        if change.has_left {
            self.set_leaving(id, false);
        }
        if change.turned {
            // The phase may stay: a paused group that begins anew is a partner again.
            self.groups.update_readiness(id);
        }
        if change.fell {
            self.timers.insert((now.after(stale_after), Timer::Below(id)));
            self.emit(id, GroupChange::BelowMinimum);
        }
        if change.recovered {
            self.emit(id, GroupChange::Recovered);
        }
        if change.started {
            self.report.count(|metrics| &mut metrics.started);
            self.report.totals().waiting.add_duration(waited);
            self.emit(id, GroupChange::Started { waited });
        }
    }
}
