//! Run time of a group, over all of its runs.

use core::time::Duration;

use crate::base::Time;

/// Time that a group has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct RunTime {
    /// Start of the present run.
    since: Option<Time>,
    /// Time of the runs before.
    before: Duration,
    /// End of the last run.
    ended: Time,
}

impl RunTime {
    /// A run begins.
    pub(super) fn begin(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// The present run began earlier, with its first pod; not before the last one ended.
    pub(super) fn began_at(&mut self, start: Option<Time>) {
        if let (Some(since), Some(start)) = (&mut self.since, start) {
            *since = start.max(self.ended).min(*since);
        }
    }

    /// The run ends. If it was the last that its time allows, the next ones have it anew.
    pub(super) fn end(&mut self, now: Time, is_over: bool) {
        let Some(since) = self.since.take() else { return };
        self.ended = now;
        let all = self.before.saturating_add(now.since(since));
        self.before = if is_over { Duration::ZERO } else { all };
    }

    /// The time that the runs before have left of so much.
    pub(super) fn left(&self, most: Duration) -> Duration {
        most.saturating_sub(self.before)
    }

    /// The time at which the present run has used up so much.
    pub(super) fn limit(&self, most: Duration) -> Option<Time> {
        Some(self.since?.after(self.left(most)))
    }
}
