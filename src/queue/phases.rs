//! Phase changes of groups; queues, timers and the wait index follow.

use alloc::vec::Vec;

use super::ids::{GroupId, QueueKey};
use super::queued_group::{Phase, add_wait};
use super::scheduler::{Scheduler, Timer};
use super::settings::Waiting;
use super::wake::hints::WakeCondition;

impl Scheduler {
    /// A change of phase; queues, timers and waiting times follow.
    pub(super) fn set_phase(&mut self, id: GroupId, phase: Phase) {
        let now = self.now;
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let elapsed = now.since(queued.phase_since);
        add_wait(&mut queued.waits, &queued.phase, elapsed);
        queued.phase_since = now;
        if let Phase::BackingOff(time) | Phase::Unschedulable(Some(time)) = queued.phase {
            self.timers.remove(&(time, Timer::Phase(id)));
        }
        if let Phase::BackingOff(time) | Phase::Unschedulable(Some(time)) = phase {
            self.timers.insert((time, Timer::Phase(id)));
        }
        let waits = phase.waits();
        let ready = phase == Phase::Queued;
        if !matches!(phase, Phase::Unschedulable(_))
            && let Some(key) = &queued.key
        {
            self.wait_index.unsubscribe(key, &core::mem::take(&mut queued.wake_on));
            if let Some(tenancy) = &mut self.tenancy {
                tenancy.wake(id);
            }
        }
        queued.phase = phase;
        self.release_kept(id);
        self.update_readiness(id);
        self.partners.set_stale(id, true);
        if !waits {
            if let Some(tenancy) = &mut self.tenancy {
                tenancy.gave_up(id);
            }
            self.drop_key(id);
            return;
        }
        let Some(queued) = self.groups.get_mut(&id) else { return };
        queued.ready_since.get_or_insert(now);
        if ready && self.settings.backfill.is_some() {
            self.backfill.arrived.insert(id);
        }
        if queued.key.is_none() {
            self.make_key(id);
        }
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(key) = &queued.key else { return };
        let queue = &queued.root.queue;
        self.queues.put(queue, key, ready, self.settings.rule(queue));
    }

    fn make_key(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let rank = self.order.rank(&Waiting {
            group: &queued.root,
            since: queued.since,
            attempts: queued.attempts,
            pending: queued.pending(),
        });
        let priority = core::cmp::Reverse(queued.root.priority);
        let key = QueueKey { rank, priority, since: queued.since, group: id };
        queued.key = Some(key.clone());
        if self.settings.backfill.is_some() {
            self.backfill.line.insert(key.clone());
        }
        let (queue, ready) = (&queued.root.queue, queued.phase == Phase::Queued);
        self.queues.put(queue, &key, ready, self.settings.rule(queue));
    }

    pub(super) fn drop_key(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let Some(key) = queued.key.take() else { return };
        self.backfill.line.remove(&key);
        let queue = &queued.root.queue;
        self.queues.remove(queue, &key, self.settings.rule(queue));
    }

    /// Sorts a waiting group into its queue again.
    pub(super) fn rekey(&mut self, id: GroupId) {
        let Some(old) = self.groups.get(&id).and_then(|queued| queued.key.clone()) else { return };
        self.drop_key(id);
        self.make_key(id);
        if let Some(queued) = self.groups.get(&id)
            && let Some(new) = &queued.key
        {
            self.wait_index.rekey(&old, new, &queued.wake_on);
            if let Some(tenancy) = &mut self.tenancy {
                tenancy.sleepers.rekey(new);
            }
        }
    }

    pub(super) fn rekey_all(&mut self) {
        let waiting: Vec<GroupId> = self
            .groups
            .iter()
            .filter(|(_, queued)| queued.key.is_some())
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            self.rekey(id);
        }
    }

    pub(super) fn wait_for(&mut self, id: GroupId, wake_on: WakeCondition) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let Some(key) = &queued.key else { return };
        let old = core::mem::replace(&mut queued.wake_on, wake_on);
        self.wait_index.unsubscribe(key, &old);
        self.wait_index.subscribe(&self.cluster, &self.framework, key, &queued.wake_on);
        self.sleep_for_quota(id);
        self.ask_for_quota(id);
    }
}
