//! The scheduler: a queue of pending groups, with permits, binding, reservations and retries.
//!
//! [`Scheduler`] is a pure state machine. `handle_*` methods take events and their times;
//! [`Scheduler::poll_decision`] and [`Scheduler::poll_event`] return decisions and events, and
//! [`Scheduler::next_wake`] the time of the next timer. It has no clock, no thread and no I/O.

mod binding;
mod capacity;
mod claims;
mod components;
mod decide;
mod decision;
mod error;
mod gang_group;
mod ids;
mod inputs;
mod lost_members;
mod nomination;
mod observe;
mod orphans;
mod partners;
mod phases;
mod queued_group;
mod quota_admission;
mod quota_sleepers;
mod reservation;
mod scheduler;
mod settings;
mod shortage;
#[cfg(feature = "serde")]
mod snapshot;
mod status;
mod tenancy;
#[cfg(feature = "serde")]
mod tenancy_saved;
mod turns;
mod waiting_queues;
mod wake;

pub use decision::{BoundPod, Decision};
pub use error::QueueError;
pub use ids::Ticket;
pub use observe::{Gate, GroupChange, GroupEvent, Histogram, Metrics, ReservationEnd, Waits};
pub use scheduler::Scheduler;
pub use settings::{
    Backoff, HeadOfLine, OnBindFailure, PriorityThenTime, QueueOrder, ReservationPolicy, Settings,
    Waiting,
};
pub use shortage::{QuotaReason, Shortage};
#[cfg(feature = "serde")]
pub use snapshot::SavedScheduler;
pub use status::{GroupState, GroupStatus, MemoryStats, ReservationView, WakeStats};
pub use turns::QueueStatus;
