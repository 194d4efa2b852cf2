//! Events, metrics and histograms of the scheduler.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::base::{ObjectName, Time};
use crate::queue::terms::shortage::Shortage;

/// A change of one group, with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct GroupEvent {
    /// Time of the change.
    pub at: Time,
    /// Full name of the root group.
    pub group: ObjectName,
    /// The change.
    pub change: GroupChange,
}

/// A change of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum GroupChange {
    /// The group is known from now on.
    Added,
    /// The group was removed.
    Removed,
    /// The group cannot be tried until its gate opens.
    Gated(Gate),
    /// The group is in the active queue.
    Queued,
    /// The group is backing off.
    BackedOff {
        /// End of the back-off.
        until: Time,
    },
    /// No placement was found; the group waits for a change that could help.
    Unschedulable(Shortage),
    /// The group moved behind its equals after repeated failures.
    Demoted {
        /// Consecutive failures.
        attempts: u32,
    },
    /// The group was promised a start, by [backfill](crate::queue::Backfill), or another one than before.
    Promised {
        /// The start, no later than which it has its place while estimates hold.
        at: Time,
        /// Whether it is later than the start promised before.
        later: bool,
    },
    /// A plan was found, and a permit holds it. Its pods use capacity.
    Held {
        /// Number of pods in the plan.
        pods: usize,
        /// Name of the permit.
        by: String,
        /// Deadline of the hold.
        until: Time,
    },
    /// The hold reached its deadline.
    HoldExpired,
    /// The held plan was released.
    HoldReleased {
        /// The reason, for people.
        reason: String,
    },
    /// A plan went out to be prepared.
    Preparing {
        /// Number of pods in the plan.
        pods: usize,
        /// Deadline of the preparation.
        until: Time,
    },
    /// A plan went out to be bound.
    Binding {
        /// Number of pods in the plan.
        pods: usize,
    },
    /// A pod could not be bound.
    BindFailed {
        /// Full name of the pod.
        pod: ObjectName,
        /// The reason, for people.
        reason: String,
    },
    /// The whole plan is being taken back.
    Undone {
        /// The reason, for people.
        reason: String,
    },
    /// Another scheduler's commit came first.
    Conflict {
        /// The conflict, for people.
        reason: String,
    },
    /// The gang has started: at least its minimum runs.
    Started {
        /// Time from first being ready to the start.
        waited: Duration,
    },
    /// Late members of a started gang run.
    Joined {
        /// Number of pods that joined.
        pods: usize,
    },
    /// The gang fell below its minimum.
    BelowMinimum,
    /// The gang is back at its minimum.
    Recovered,
    /// The gang was below its minimum for too long and is to be evicted.
    EvictionAsked {
        /// Number of pods to evict.
        pods: usize,
    },
    /// A time is over that the group could use ([`EvictionCause`](crate::queue::EvictionCause)); it is
    /// to be evicted.
    Overdue {
        /// Number of pods to evict.
        pods: usize,
    },
    /// Victims or moves were found; the room is held for the group until they have gone.
    Preempting {
        /// Number of units to evict.
        victims: usize,
        /// Number of units to move.
        #[cfg_attr(feature = "serde", serde(default))]
        moves: usize,
        /// Number of pods of all of them.
        pods: usize,
        /// Deadline of the claim to their room.
        until: Time,
    },
    /// Pods of the group are to be evicted for another.
    Preempted {
        /// Full name of the group that room is made for.
        by: ObjectName,
        /// Number of pods to evict.
        pods: usize,
    },
    /// Pods of the group are to move so that another fits.
    Moving {
        /// Full name of the group that room is made for.
        by: ObjectName,
        /// Number of pods to move.
        pods: usize,
    },
    /// Pods of the group are not to be evicted, or to move, any more.
    EvictionCancelled {
        /// Number of pods that stay.
        pods: usize,
    },
    /// The embedder paused the group.
    Paused,
    /// The embedder resumed the group.
    Resumed,
    /// A reservation began.
    Reserving {
        /// Deadline of the reservation.
        until: Time,
    },
    /// The reserved capacity changed.
    Reserved {
        /// Number of pods that the reserved capacity holds.
        pods: usize,
    },
    /// The reservation ended.
    ReservationEnded {
        /// The reason.
        reason: ReservationEnd,
    },
    /// The request is invalid; the group cannot be tried until it changes.
    Failed {
        /// The reason, for people.
        reason: String,
    },
    /// All members have finished.
    Finished,
}

/// The condition that keeps a group from being tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum Gate {
    /// Too few members: pods of a leaf that exist and are not gated, or child groups that satisfy
    /// their own minimum.
    Members {
        /// Full name of the group in the tree.
        group: ObjectName,
        /// Members present.
        have: u64,
        /// Members required.
        need: u64,
    },
    /// A partner of the same gang group is not ready.
    Partner {
        /// Full name of the partner.
        group: ObjectName,
    },
    /// The gang is being evicted.
    Evicting,
}

impl Gate {
    /// The group that lacks members, or the partner that is not ready.
    pub fn group(&self) -> Option<&ObjectName> {
        match self {
            Gate::Members { group, .. } | Gate::Partner { group } => Some(group),
            Gate::Evicting => None,
        }
    }
}

/// The reason for the end of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum ReservationEnd {
    /// The group was placed.
    Used,
    /// The reservation reached its timeout.
    Timeout,
    /// The group no longer waits, or no longer ranks among those that may reserve.
    Outranked,
    /// The group would not fit an empty cluster.
    Infeasible,
}

/// Totals since the scheduler was created, for export as metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Metrics {
    /// Attempts to place a group. A look at a claim that capacity is short for is none.
    pub attempts: u64,
    /// Attempts that found a plan.
    pub placed: u64,
    /// Attempts that a permit denied.
    pub denied: u64,
    /// Failed attempts explained by too little capacity.
    pub short_of_capacity: u64,
    /// Failed attempts explained by too little quota.
    #[cfg_attr(feature = "serde", serde(default))]
    pub short_of_quota: u64,
    /// Failed attempts that capacity does not explain.
    pub no_placement: u64,
    /// Groups woken because the capacity that they waited for is there.
    pub woken: u64,
    /// Groups woken by a change that may help them.
    pub woken_by_hint: u64,
    /// Groups tried again after
    /// [`Settings::max_in_unschedulable`](crate::queue::Settings::max_in_unschedulable).
    pub periodic_retries: u64,
    /// Groups started.
    pub started: u64,
    /// Pods bound.
    pub bound: u64,
    /// Pods that could not be bound.
    pub bind_failures: u64,
    /// Plans taken back while being bound.
    pub undone: u64,
    /// Plans lost to another scheduler.
    pub conflicts: u64,
    /// Holds that reached their deadline.
    pub holds_expired: u64,
    /// Gangs reported for eviction.
    pub evictions: u64,
    /// Groups evicted because a time was over that they could use.
    #[cfg_attr(feature = "serde", serde(default))]
    pub overdue: u64,
    /// Reservations begun.
    pub reservations: u64,
    /// Reservations that reached their timeout.
    pub reservation_timeouts: u64,
    /// Searches for victims.
    #[cfg_attr(feature = "serde", serde(default))]
    pub victim_searches: u64,
    /// Searches after which a group waited for its victims.
    #[cfg_attr(feature = "serde", serde(default))]
    pub preemptions: u64,
    /// Units that were to be evicted for others.
    #[cfg_attr(feature = "serde", serde(default))]
    pub victims: u64,
    /// Units that were to move so that others fit.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moves: u64,
    /// Units of all those that were taken back.
    #[cfg_attr(feature = "serde", serde(default))]
    pub evictions_cancelled: u64,
    /// Events dropped because the log was full.
    pub events_dropped: u64,
    /// Starts promised to groups that wait.
    #[cfg_attr(feature = "serde", serde(default))]
    pub promises: u64,
    /// Promises replaced by later ones: an estimate was too low, or room was lost.
    #[cfg_attr(feature = "serde", serde(default))]
    pub promises_broken: u64,
    /// Groups started before one that waits for its promised start.
    #[cfg_attr(feature = "serde", serde(default))]
    pub backfilled: u64,
    /// Time from first being ready to the start.
    pub waiting: Histogram,
    /// Time from a plan to the last of its bindings.
    pub binding: Histogram,
    /// Attempts up to the start of a group.
    pub tries: Histogram,
}

impl Metrics {
    /// Adds to a total, saturating: a restored total may be any number.
    pub(in crate::queue) fn add(
        &mut self,
        amount: u64,
        total: impl FnOnce(&mut Metrics) -> &mut u64,
    ) {
        let total = total(self);
        *total = total.saturating_add(amount);
    }

    /// Adds one to a total.
    pub(in crate::queue) fn add_one(&mut self, total: impl FnOnce(&mut Metrics) -> &mut u64) {
        self.add(1, total);
    }
}

/// A histogram with one bucket for each power of two.
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
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds a duration, in whole milliseconds.
    pub fn add_duration(&mut self, duration: Duration) {
        self.add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }

    /// The upper bound of each bucket, exclusive, with its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u128, u64)> {
        let counts = self.buckets.iter().take(u64::BITS as usize + 1).enumerate();
        counts.map(|(bucket, count)| (1_u128 << bucket, *count))
    }

    /// Number of values, saturating.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Sum of the values, saturating.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// Events not yet polled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct EventLog {
    pub(in crate::queue) events: VecDeque<GroupEvent>,
}

/// Total time that a group spent in each state before it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Waits {
    /// Gated or paused.
    pub gated: Duration,
    /// In the active queue.
    pub queued: Duration,
    /// Backing off.
    pub backing_off: Duration,
    /// Unschedulable: no placement was found, and nothing that could help has changed.
    pub unschedulable: Duration,
    /// Held by a permit.
    pub permitting: Duration,
    /// Being bound or unbound.
    pub binding: Duration,
}

#[cfg(test)]
mod tests;
