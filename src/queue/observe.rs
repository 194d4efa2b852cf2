//! What a scheduler tells of itself: events, counters, histograms.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::shortage::Shortage;
use crate::base::Time;

/// What happened to a group, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GroupEvent {
    /// When.
    pub at: Time,
    /// The full name of the root group.
    pub group: String,
    /// What.
    pub change: GroupChange,
}

/// What happened to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum GroupChange {
    /// It is known now.
    Added,
    /// It is known no more.
    Removed,
    /// It may not be tried yet.
    Gated(Gate),
    /// It is in the queue.
    Queued,
    /// It is out of the queue for a while.
    BackedOff {
        /// Until when.
        until: Time,
    },
    /// It was tried in vain, and waits for something to change.
    Unschedulable(Shortage),
    /// It went behind its equals after failing again and again.
    Demoted {
        /// Failures in a row.
        attempts: u32,
    },
    /// A plan was found, and a permit wants it to wait. The pods take room.
    Held {
        /// How many pods.
        pods: usize,
        /// The permit.
        by: String,
        /// When to give up.
        until: Time,
    },
    /// The permit took too long.
    HoldExpired,
    /// What was held is held no more.
    HoldReleased {
        /// Why.
        reason: String,
    },
    /// A plan went out to be bound.
    Binding {
        /// How many pods.
        pods: usize,
    },
    /// A pod could not be bound.
    BindFailed {
        /// The pod.
        pod: String,
        /// Why.
        reason: String,
    },
    /// The plan is taken back whole.
    Undone {
        /// Why.
        reason: String,
    },
    /// Another scheduler's commit came first.
    Conflict {
        /// What moved.
        reason: String,
    },
    /// It runs: as many as its minimum asks for, or more.
    Started {
        /// How long it waited since it was ready first.
        waited: Duration,
    },
    /// Members that came late run too.
    Joined {
        /// How many.
        pods: usize,
    },
    /// It fell below its minimum.
    BelowMinimum,
    /// It has its minimum again.
    Recovered,
    /// It was below its minimum for too long.
    EvictionAsked {
        /// How many pods are to go.
        pods: usize,
    },
    /// The embedder paused it.
    Paused,
    /// The embedder resumed it.
    Resumed,
    /// It began to put capacity aside.
    Reserving {
        /// When it gives up.
        until: Time,
    },
    /// It puts so much aside now.
    Reserved {
        /// Room for so many pods.
        pods: usize,
    },
    /// It puts nothing aside any more.
    ReservationEnded {
        /// Why.
        reason: ReservationEnd,
    },
    /// It cannot be tried at all until it changes.
    Failed {
        /// Why.
        reason: String,
    },
    /// All members have finished.
    Finished,
}

/// Why a group may not be tried yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub enum Gate {
    /// A group of its tree has too few members: pods of a leaf that exist and are not gated, or
    /// groups that have enough themselves.
    Members {
        /// The group.
        group: String,
        /// How many there are.
        have: u64,
        /// How many there must be.
        need: u64,
    },
    /// A group that must start together with it is not ready.
    Partner {
        /// The partner.
        group: String,
    },
    /// It is being evicted.
    Evicting,
}

/// Why a reservation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub enum ReservationEnd {
    /// The group was placed.
    Used,
    /// It took too long.
    Timeout,
    /// The group is no longer among the first, or no longer waits.
    Outranked,
    /// The group would not fit an empty cluster.
    Infeasible,
}

/// Totals since the beginning, for an embedder's metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Metrics {
    /// Groups tried.
    pub attempts: u64,
    /// Tries that found a plan.
    pub placed: u64,
    /// Tries that ended on a permit's denial.
    pub denied: u64,
    /// Tries in vain that a count explains.
    pub short_of_capacity: u64,
    /// Tries in vain that no count explains.
    pub no_placement: u64,
    /// Groups woken because what they lacked is there.
    pub woken: u64,
    /// Groups woken because something changed that they may have read.
    pub woken_by_hint: u64,
    /// Groups tried again because of the periodic floor.
    pub periodic_retries: u64,
    /// Groups started.
    pub started: u64,
    /// Pods bound.
    pub bound: u64,
    /// Pods that could not be bound.
    pub bind_failures: u64,
    /// Gangs taken back while they were being bound.
    pub undone: u64,
    /// Plans lost to another scheduler.
    pub conflicts: u64,
    /// Holds that expired.
    pub holds_expired: u64,
    /// Gangs reported for eviction.
    pub evictions: u64,
    /// Reservations begun.
    pub reservations: u64,
    /// Reservations given up at their timeout.
    pub reservation_timeouts: u64,
    /// Events dropped because nobody polled them.
    pub events_dropped: u64,
    /// Waiting time from ready to started.
    pub waiting: Histogram,
    /// Time from a plan to all of its pods bound.
    pub binding: Histogram,
    /// Tries until a group started.
    pub tries: Histogram,
}

/// Counts of values by power of two.
///
/// Bucket `i` counts values below `2^i` that are not below `2^(i−1)`; bucket 0 counts zeros.
/// Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Histogram {
    buckets: Vec<u64>,
    sum: u64,
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds a duration, in whole milliseconds.
    pub fn add_duration(&mut self, duration: Duration) {
        self.add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }

    /// The upper bound of each bucket, exclusive, with its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u128, u64)> {
        self.buckets.iter().enumerate().map(|(bucket, count)| (1_u128 << bucket, *count))
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of the values, saturating.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// Events not yet polled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct EventLog {
    pub(super) events: VecDeque<GroupEvent>,
}

/// How long a group spent in each state on its way, all told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub struct Waits {
    /// Without enough members, or paused.
    pub gated: Duration,
    /// In the queue, ready to be tried.
    pub queued: Duration,
    /// Backing off.
    pub backing_off: Duration,
    /// Lacking something.
    pub unschedulable: Duration,
    /// Held by a permit.
    pub permitting: Duration,
    /// Being bound, or taken back.
    pub binding: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_power_of_two() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 1_000, u64::MAX] {
            histogram.add(value);
        }
        let counts: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(1, 1), (2, 1), (4, 2), (8, 1), (1_024, 1), (1 << 64, 1)]);
        assert_eq!((histogram.count(), histogram.sum()), (7, u64::MAX));
    }
}
