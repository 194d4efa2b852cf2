//! The life of groups: waiting, deciding, permitting, binding, retrying.
//!
//! [`Scheduler`] is a pure state machine. Events and the time go in by `handle_*`; decisions,
//! events and the next wake-up come out by `poll_*` and [`Scheduler::next_wake`]. It has no clock,
//! no thread and no I/O.

mod binding;
mod claim;
mod class;
mod cohort;
mod decide;
mod inputs;
mod lack;
mod loose;
mod losses;
pub mod observe;
mod phases;
mod room;
mod scheduler;
pub mod settings;
#[cfg(feature = "serde")]
mod snapshot;
mod unit;
mod watch;

pub use observe::{
    Counters, Gate, GroupChange, GroupEvent, Histogram, Lacks, ReservationEnd, Waits,
};
pub use scheduler::{
    BoundPod, Decision, GroupState, GroupStatus, Memory, QueueError, ReservationView, Scheduler,
    Work,
};
pub use settings::{
    Backoff, HeadOfLine, OnBindFailure, PriorityThenTime, QueueOrder, ReservationPolicy, Settings,
    Waiting,
};
#[cfg(feature = "serde")]
pub use snapshot::SavedScheduler;
pub use unit::Ticket;
