//! Moving groups from one phase to another, and keeping queues, timers and sleepers in step.

use alloc::vec::Vec;
use core::time::Duration;

use super::observe::Waits;
use super::queued_group::{Key, Phase, UnitId};
use super::scheduler::{Lane, Scheduler, Timer};
use super::settings::Waiting;
use super::wake::hints::Watched;

impl Scheduler {
    /// Moves a unit to another phase, and keeps queues, timers and waiting times in step.
    pub(crate) fn set_phase(&mut self, id: UnitId, phase: Phase) {
        let now = self.now;
        let Some(unit) = self.units.get_mut(&id) else { return };
        let elapsed = now.since(unit.phase_since);
        add_wait(&mut unit.waits, &unit.phase, elapsed);
        unit.phase_since = now;
        if let Phase::BackingOff(time) | Phase::Sleeping(Some(time)) = unit.phase {
            self.timers.remove(&(time, Timer::Phase(id)));
        }
        if let Phase::BackingOff(time) | Phase::Sleeping(Some(time)) = phase {
            self.timers.insert((time, Timer::Phase(id)));
        }
        let waits = phase.waits();
        let ready = phase == Phase::Queued;
        if !matches!(phase, Phase::Sleeping(_))
            && let Some(key) = &unit.key
        {
            self.watches.unsubscribe(key, &core::mem::take(&mut unit.watched));
        }
        unit.phase = phase;
        if !waits {
            self.drop_key(id);
            return;
        }
        unit.ready_since.get_or_insert(now);
        if unit.key.is_none() {
            self.make_key(id);
        }
        let Some(unit) = self.units.get(&id) else { return };
        let (Some(key), Some(lane)) = (&unit.key, self.lanes.get_mut(&unit.root.queue)) else {
            return;
        };
        if ready {
            lane.ready.insert(key.clone());
        } else {
            lane.ready.remove(key);
        }
    }

    fn make_key(&mut self, id: UnitId) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let rank = self.order.rank(&Waiting {
            group: &unit.root,
            since: unit.since,
            attempts: unit.attempts,
            pending: unit.pending(),
        });
        let priority = core::cmp::Reverse(unit.root.priority);
        let key = Key { rank, priority, since: unit.since, unit: id };
        unit.key = Some(key.clone());
        if !self.lanes.contains_key(&unit.root.queue) {
            self.lanes.insert(unit.root.queue.clone(), Lane::default());
        }
        if let Some(lane) = self.lanes.get_mut(&unit.root.queue) {
            if unit.phase == Phase::Queued {
                lane.ready.insert(key.clone());
            }
            lane.waiting.insert(key);
        }
    }

    pub(crate) fn drop_key(&mut self, id: UnitId) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let Some(key) = unit.key.take() else { return };
        if let Some(lane) = self.lanes.get_mut(&unit.root.queue) {
            lane.waiting.remove(&key);
            lane.ready.remove(&key);
            if lane.waiting.is_empty() {
                self.lanes.remove(&unit.root.queue);
            }
        }
    }

    /// Puts a waiting unit in its place anew.
    pub(crate) fn rekey(&mut self, id: UnitId) {
        let Some(old) = self.units.get(&id).and_then(|unit| unit.key.clone()) else { return };
        self.drop_key(id);
        self.make_key(id);
        if let Some(unit) = self.units.get(&id)
            && let Some(new) = &unit.key
        {
            self.watches.rekey(&old, new, &unit.watched);
        }
    }

    pub(crate) fn rekey_all(&mut self) {
        let waiting: Vec<UnitId> =
            self.units.iter().filter(|(_, unit)| unit.key.is_some()).map(|(id, _)| *id).collect();
        for id in waiting {
            self.rekey(id);
        }
    }

    pub(crate) fn sleep_on(&mut self, id: UnitId, watched: Watched) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let Some(key) = &unit.key else { return };
        let old = core::mem::replace(&mut unit.watched, watched);
        self.watches.unsubscribe(key, &old);
        self.watches.subscribe(&self.cluster, &self.framework, key, &unit.watched);
    }
}

/// Adds to the time spent in a phase.
pub(crate) fn add_wait(waits: &mut Waits, phase: &Phase, elapsed: Duration) {
    let wait = match phase {
        Phase::Gated(_) | Phase::Paused => &mut waits.gated,
        Phase::Queued => &mut waits.queued,
        Phase::BackingOff(_) => &mut waits.backing_off,
        Phase::Sleeping(_) => &mut waits.sleeping,
        Phase::Held(_) => &mut waits.permitting,
        Phase::Binding(_) | Phase::Undoing => &mut waits.binding,
        Phase::Idle | Phase::Failed(_) => return,
    };
    *wait = wait.saturating_add(elapsed);
}
