//! Past usage: averages that decay by a half-life.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::Time;
use crate::quota::books::tree::{QueueId, QueueTree};
use crate::quota::model::claim::FlavorResource;

/// The average of one amount, up to a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::quota) struct Average {
    pub(in crate::quota) value: f64,
    pub(in crate::quota) at: Time,
}

/// Averages of what queues have used, in which an amount counts half as much for each half-life that
/// has passed since.
///
/// The average at a time `t` is `∫ used(s) · λ · 2^(−(t − s)/half-life) ds` over all `s` before, with
/// `λ = ln 2 / half-life`: usage that stays is approached, and halved in a half-life once it ends.
/// Between two changes usage stands still. So the integral over the interval is exact, and nothing is
/// sampled: `average ← d · average + (1 − d) · used` with `d = 2^(−elapsed/half-life)`.
///
/// Source: Kueue's admission fair sharing and KAI-Scheduler's time-based fair share, which count the same
/// by samples.
#[derive(Debug, Clone, Default)]
pub(in crate::quota) struct Past {
    half_life: Option<Duration>,
    now: Time,
    /// Changes are tried and taken back at one time: nothing is counted.
    pub(in crate::quota) is_paused: bool,
    averages: BTreeMap<(QueueId, FlavorResource), Average>,
}

impl Past {
    pub(in crate::quota) fn new(half_life: Option<Duration>) -> Past {
        Past { half_life: half_life.filter(|own| !own.is_zero()), ..Past::default() }
    }

    pub(in crate::quota) fn is_counted(&self) -> bool {
        self.half_life.is_some()
    }

    pub(in crate::quota) fn now(&self) -> Time {
        self.now
    }

    /// Time passes; it does not go back.
    pub(in crate::quota) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// The average of an amount of a queue, of which so much is used now.
    pub(in crate::quota) fn average(&self, queue: QueueId, of: FlavorResource, used: i64) -> f64 {
        let Some(half_life) = self.half_life else { return 0.0 };
        let Some(own) = self.averages.get(&(queue, of)) else { return 0.0 };
        own.until(self.now, half_life, used)
    }

    /// Counts what a leaf and the queues above it have used until now, before that changes. O(depth · log).
    pub(in crate::quota) fn settle(&mut self, tree: &QueueTree, leaf: QueueId, of: FlavorResource) {
        let Some(half_life) = self.half_life.filter(|_| !self.is_paused) else { return };
        let now = self.now;
        for queue in tree.path(leaf) {
            // A queue that has used nothing so far has an average of 0 at any time.
            let own = self.averages.entry((queue, of)).or_insert(Average { value: 0.0, at: now });
            own.value = own.until(now, half_life, tree.sums(queue, of).used);
            own.at = now;
        }
    }

    /// Counts what all queues have used until now, before queues change; the past of a queue stays its
    /// own, wherever it is moved. O(averages).
    pub(in crate::quota) fn settle_all(&mut self, tree: &QueueTree) {
        let Some(half_life) = self.half_life else { return };
        let now = self.now;
        for (&(queue, of), own) in &mut self.averages {
            own.value = own.until(now, half_life, tree.sums(queue, of).used);
            own.at = now;
        }
        self.averages.retain(|(queue, _), _| tree.spec(*queue).is_some());
    }

    /// Begins to count for the queues above a queue that has been moved there with its usage.
    pub(in crate::quota) fn begin(&mut self, tree: &QueueTree, queue: QueueId) {
        if self.half_life.is_none() {
            return;
        }
        for queue in tree.path(queue) {
            for (of, _) in tree.books(queue).filter(|(of, _)| tree.sums(queue, *of).used > 0) {
                let none = Average { value: 0.0, at: self.now };
                self.averages.entry((queue, of)).or_insert(none);
            }
        }
    }

    /// All averages, in no order that lasts.
    pub(in crate::quota) fn all(&self) -> impl Iterator<Item = (QueueId, FlavorResource, Average)> {
        self.averages.iter().map(|(&(queue, of), own)| (queue, of, *own))
    }

    /// Takes averages that were saved, in place of all.
    pub(in crate::quota) fn restore(
        &mut self,
        now: Time,
        all: impl Iterator<Item = (QueueId, FlavorResource, Average)>,
    ) {
        if self.half_life.is_some() {
            self.now = now;
            self.averages = all.map(|(queue, of, own)| ((queue, of), own)).collect();
        }
    }
}

impl Average {
    /// The average at a later time, if so much was used in between.
    fn until(self, now: Time, half_life: Duration, used: i64) -> f64 {
        let elapsed = now.since(self.at);
        if elapsed.is_zero() {
            return self.value;
        }
        let rest = libm::exp2(-(elapsed.as_secs_f64() / half_life.as_secs_f64()));
        rest * self.value + (1.0 - rest) * used as f64
    }
}
