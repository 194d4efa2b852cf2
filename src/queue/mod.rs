//! The life of groups: waiting, deciding, permitting, binding, retrying.
//!
//! [`Scheduler`] is a pure state machine. Events and the time go in by `handle_*`; decisions,
//! events and the next wake-up come out by `poll_*` and [`Scheduler::next_wake`]. It has no clock,
//! no thread and no I/O.

mod binding;
mod capacity;
mod decide;
mod gang_group;
mod inputs;
mod lost_members;
pub mod observe;
mod phases;
mod queued_group;
mod reservation;
mod scheduler;
pub mod settings;
mod shortage;
#[cfg(feature = "serde")]
mod snapshot;
mod wake;

pub use observe::{
    Counters, Gate, GroupChange, GroupEvent, Histogram, Lacks, ReservationEnd, Waits,
};
pub use queued_group::Ticket;
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
