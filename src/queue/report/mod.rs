//! The report: decisions, events and totals that the embedder reads.

use alloc::collections::VecDeque;

use crate::base::{ObjectName, Time};
use crate::queue::terms::decision::Decision;
use crate::queue::terms::observe::{EventLog, GroupChange, GroupEvent, Metrics};

/// Decisions and events that have not been polled, and totals.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Report {
    outbox: VecDeque<Decision>,
    log: EventLog,
    metrics: Metrics,
}

impl Report {
    /// A report that continues from a save.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn of(
        outbox: VecDeque<Decision>,
        log: EventLog,
        metrics: Metrics,
    ) -> Report {
        Report { outbox, log, metrics }
    }

    /// Adds a decision behind the others.
    pub(in crate::queue) fn decide(&mut self, decision: Decision) {
        self.outbox.push_back(decision);
    }

    /// The oldest decision that has not been polled.
    pub(in crate::queue) fn next_decision(&mut self) -> Option<Decision> {
        self.outbox.pop_front()
    }

    /// Decisions that have not been polled, oldest first.
    pub(in crate::queue) fn decisions(&self) -> &VecDeque<Decision> {
        &self.outbox
    }

    /// Records a change of a group. If more than `most` events wait, the oldest are dropped and
    /// counted.
    pub(in crate::queue) fn event(
        &mut self,
        at: Time,
        group: ObjectName,
        change: GroupChange,
        most: usize,
    ) {
        self.log.events.push_back(GroupEvent { at, group, change });
        while self.log.events.len() > most {
            self.log.events.pop_front();
            self.metrics.add_one(|metrics| &mut metrics.events_dropped);
        }
    }

    /// The oldest event that has not been polled.
    pub(in crate::queue) fn next_event(&mut self) -> Option<GroupEvent> {
        self.log.events.pop_front()
    }

    /// Events that have not been polled.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn log(&self) -> &EventLog {
        &self.log
    }

    pub(in crate::queue) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The totals, to add to.
    pub(in crate::queue) fn totals(&mut self) -> &mut Metrics {
        &mut self.metrics
    }

    /// Adds one to a total.
    pub(in crate::queue) fn count(&mut self, total: impl FnOnce(&mut Metrics) -> &mut u64) {
        self.metrics.add_one(total);
    }
}
