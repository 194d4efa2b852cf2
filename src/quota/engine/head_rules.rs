//! Rules that decide between heads of queues.
//!
//! Source: Kueue's `scheduler.go` and `cluster_queue.go`.

use core::cmp::Ordering;
use core::time::Duration;

use crate::Time;
use crate::quota::books::share::ShareValue;
use crate::quota::model::claim::VictimReason;

/// A rule that decides between heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct HeadRules {
    /// Whether queues with the smaller shares go first; otherwise heads that borrow less.
    pub fair: bool,
    /// Whether heads that need victims go first.
    pub preemptors_first: bool,
    /// Whether heads whose side of the tree does not borrow what they ask for go before those whose
    /// side does, whatever the shares.
    pub non_borrowing_first: bool,
    /// Whether the priority counts before the time.
    pub by_priority: bool,
    /// Whether a claim whose pods were not ready in time goes behind those that waited meanwhile.
    pub by_eviction: bool,
}

/// Why a claim lost its quota before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Its pods were not ready in time.
    PodsReadyTimeout,
    /// A check of its admission failed.
    AdmissionCheck,
    /// It was a victim.
    Preempted(VictimReason),
}

impl Default for HeadRules {
    fn default() -> HeadRules {
        HeadRules {
            fair: false,
            preemptors_first: false,
            non_borrowing_first: true,
            by_priority: true,
            by_eviction: true,
        }
    }
}

/// A head among others, on one side of the tree. Fields in which two differ are compared by
/// [`HeadRules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadStanding {
    /// Whether it needs victims.
    pub preempts: bool,
    /// Whether its side of the tree, with it, borrows any of what it asks for.
    pub borrows: bool,
    /// The share of its side, with it.
    pub share: ShareValue,
    /// How far up the tree it borrows from.
    pub level: u32,
    /// The priority.
    pub priority: i64,
    /// Since when it waits.
    pub since: Time,
}

impl HeadRules {
    /// Since when a claim counts as waiting: its creation, or where it goes back in the queue the time
    /// it lost its quota.
    ///
    /// If priority does not count before time, a victim of a queue that borrows goes right behind
    /// claims that came when it was evicted. So it does not take its place back.
    pub fn since(&self, created: Time, losses: &[(Time, LossReason)]) -> Time {
        let back = |&(at, reason): &(Time, LossReason)| match reason {
            LossReason::PodsReadyTimeout => self.by_eviction.then_some(at),
            LossReason::AdmissionCheck => Some(at),
            LossReason::Preempted(VictimReason::InCohortReclaimWhileBorrowing) => {
                (!self.by_priority).then(|| at.after(Duration::from_millis(1)))
            }
            LossReason::Preempted(_) => None,
        };
        losses.iter().find_map(back).unwrap_or(created)
    }

    /// Compares two heads: `Less` if the first goes first. Equal heads go in the order of uid
    /// and name.
    pub fn compare(&self, a: &HeadStanding, b: &HeadStanding) -> Ordering {
        let first = |rule: bool, a: bool, b: bool| {
            if rule { b.cmp(&a) } else { Ordering::Equal }
        };
        let shares = || a.share.cmp(&b.share);
        let by_share = || first(self.non_borrowing_first, !a.borrows, !b.borrows).then_with(shares);
        let priority = if self.by_priority { b.priority.cmp(&a.priority) } else { Ordering::Equal };
        first(self.preemptors_first, a.preempts, b.preempts)
            .then_with(|| if self.fair { by_share() } else { a.level.cmp(&b.level) })
            .then(priority)
            .then(a.since.cmp(&b.since))
    }
}
