//! Phases of a group: its place in the queue, the running part, and its leaving.
//!
//! | health \ event | enough members run | too few run | its minimum is raised | nothing is left |
//! |---|---|---|---|---|
//! | `New` | `Whole` | `New`, or `HalfBound` where that is watched | | |
//! | `HalfBound` | `Whole` | | | `New` |
//! | `Whole` | | `Below` | `Raised` | `New` |
//! | `Raised` | `Whole` | | | `New` |
//! | `Below` | `Whole` | | | `New` |

use alloc::string::String;
use core::time::Duration;

use crate::base::Time;
use crate::queue::terms::ids::Ticket;
use crate::queue::terms::observe::{Gate, Waits};

/// Phase of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum Phase {
    Idle,
    Gated(Gate),
    Queued,
    BackingOff(Time),
    /// With the time of the next periodic attempt, if there is one.
    Unschedulable(Option<Time>),
    Held(Ticket),
    Binding(Ticket),
    Undoing,
    Paused,
    Failed(String),
}

impl Phase {
    pub(in crate::queue) fn waits(&self) -> bool {
        matches!(self, Phase::Queued | Phase::BackingOff(_) | Phase::Unschedulable(_))
    }

    pub(in crate::queue) fn busy(&self) -> bool {
        matches!(self, Phase::Held(_) | Phase::Binding(_) | Phase::Undoing)
    }

    /// The plan that is held or being bound.
    pub(in crate::queue) fn ticket(&self) -> Option<Ticket> {
        match self {
            Phase::Held(ticket) | Phase::Binding(ticket) => Some(*ticket),
            _ => None,
        }
    }
}

/// How much of a group runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum Life {
    /// It has not started.
    #[default]
    New,
    /// It has not started, and too few of its members are bound.
    HalfBound { since: Time },
    /// It has started, and its minimum runs.
    Whole,
    /// It has started, and its minimum was raised above what runs since.
    Raised,
    /// It has started, and fell below its minimum.
    Below { since: Time },
}

/// Whether a group is to leave whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum Leaving {
    #[default]
    Stays,
    /// It was below its minimum for too long.
    Stale,
    /// It makes room for others.
    Preempted,
    /// Its run time is over.
    Overdue,
    /// Room that it was lent is booked from now on.
    Lent,
}

/// How much of a group runs, and whether it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct Health {
    life: Life,
    leaving: Leaving,
}

/// Counts that the health of a group follows.
#[derive(Debug, Clone, Copy)]
pub(in crate::queue) struct Vitals {
    /// Whether enough members run or have finished.
    pub(in crate::queue) has_minimum: bool,
    /// Whether none is planned, bound or finished.
    pub(in crate::queue) is_gone: bool,
    /// Whether none is bound, or being unbound.
    pub(in crate::queue) has_left: bool,
    /// Whether one runs.
    pub(in crate::queue) runs: bool,
    /// Whether a plan of the group is under way.
    pub(in crate::queue) is_busy: bool,
    /// Whether a gang that has not started is held to its minimum too.
    pub(in crate::queue) watches_half_bound: bool,
}

/// A change of health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::queue) struct HealthChange {
    /// Whether it has started now.
    pub(in crate::queue) started: bool,
    /// Whether its minimum runs again.
    pub(in crate::queue) recovered: bool,
    /// Whether it has fallen below its minimum.
    pub(in crate::queue) fell: bool,
    /// Whether it has left, as it was to.
    pub(in crate::queue) has_left: bool,
    /// Whether its partners may see another group.
    pub(in crate::queue) turned: bool,
    /// Since when it was below its minimum, where it is not any more.
    pub(in crate::queue) ended: Option<Time>,
}

impl Health {
    pub(in crate::queue) fn started(self) -> bool {
        matches!(self.life, Life::Whole | Life::Raised | Life::Below { .. })
    }

    /// Since when it is below its minimum.
    pub(in crate::queue) fn below_since(self) -> Option<Time> {
        match self.life {
            Life::HalfBound { since } | Life::Below { since } => Some(since),
            _ => None,
        }
    }

    pub(in crate::queue) fn leaves(self) -> bool {
        self.leaving != Leaving::Stays
    }

    pub(in crate::queue) fn is_preempted(self) -> bool {
        self.leaving == Leaving::Preempted
    }

    /// Whether it leaves because its run time is over.
    pub(in crate::queue) fn is_overdue(self) -> bool {
        self.leaving == Leaving::Overdue
    }

    /// Whether it leaves though no room is needed of it.
    pub(in crate::queue) fn leaves_anyway(self) -> bool {
        self.leaves() && !self.is_preempted()
    }

    /// A time is over that it could use: its run time, or that of room which it was lent. Returns
    /// whether its pods are still to be asked for: not if it leaves anyway.
    pub(in crate::queue) fn overdue(&mut self, is_lent: bool) -> bool {
        let is_new = !self.leaves_anyway();
        if !is_lent {
            self.leaving = Leaving::Overdue;
        } else if is_new {
            self.leaving = Leaving::Lent;
        }
        is_new
    }

    /// Members that run lose nothing by a minimum that is raised over them.
    pub(in crate::queue) fn raise(&mut self) {
        if self.life == Life::Whole {
            self.life = Life::Raised;
        }
    }

    /// Pods that keep running no longer count as members.
    pub(in crate::queue) fn forget_start(&mut self) {
        self.life = match self.life {
            Life::Below { since } => Life::HalfBound { since },
            Life::Whole | Life::Raised => Life::New,
            life => life,
        };
    }

    /// It is evicted because it is below its minimum. Returns since when; `None` if it is not below,
    /// or leaves already.
    pub(in crate::queue) fn evict(&mut self) -> Option<Time> {
        let since = self.below_since()?;
        if self.leaves() {
            return None;
        }
        self.leaving = Leaving::Stale;
        self.life = if self.started() { Life::Whole } else { Life::New };
        Some(since)
    }

    /// It counts as below its minimum since another time.
    pub(in crate::queue) fn fell_at(&mut self, now: Time) {
        if let Life::HalfBound { since } | Life::Below { since } = &mut self.life {
            *since = now;
        }
    }

    /// It makes room for others.
    pub(in crate::queue) fn preempt(&mut self) {
        self.leaving = Leaving::Preempted;
    }

    /// It stays, though it was to make room.
    pub(in crate::queue) fn stay(&mut self) {
        self.leaving = Leaving::Stays;
    }

    /// The health after a change of members.
    pub(in crate::queue) fn update(&mut self, now: Time, vitals: Vitals) -> HealthChange {
        let before = *self;
        let mut change = HealthChange::default();
        let begun = self.started() || self.leaves() || self.below_since().is_some();
        let is_over = if self.leaves() { vitals.has_left } else { vitals.is_gone };
        if begun && is_over {
            // The group starts from the beginning.
            *self = Health::default();
        } else if vitals.has_minimum && !self.leaves() {
            change.recovered = self.below_since().is_some();
            change.started = !self.started() && vitals.runs && !vitals.is_busy;
            self.life = if self.started() || change.started { Life::Whole } else { Life::New };
        } else if !self.leaves() {
            let watched = vitals.watches_half_bound && vitals.runs && !vitals.is_busy;
            match self.life {
                Life::Whole => self.life = Life::Below { since: now },
                Life::New if watched => self.life = Life::HalfBound { since: now },
                _ => {}
            }
            change.fell = *self != before;
        }
        change.ended = before.below_since().filter(|_| self.below_since().is_none());
        change.has_left = before.leaves() && !self.leaves();
        change.turned = (before.started(), before.leaves()) != (self.started(), self.leaves());
        change
    }
}

/// Adds the time spent in a phase to the waiting times.
pub(in crate::queue) fn add_wait(waits: &mut Waits, phase: &Phase, elapsed: Duration) {
    let wait = match phase {
        Phase::Gated(_) | Phase::Paused => &mut waits.gated,
        Phase::Queued => &mut waits.queued,
        Phase::BackingOff(_) => &mut waits.backing_off,
        Phase::Unschedulable(_) => &mut waits.unschedulable,
        Phase::Held(_) => &mut waits.permitting,
        Phase::Binding(_) | Phase::Undoing => &mut waits.binding,
        Phase::Idle | Phase::Failed(_) => return,
    };
    *wait = wait.saturating_add(elapsed);
}
