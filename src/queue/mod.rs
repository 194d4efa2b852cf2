//! The scheduler: a queue of pending groups, with permits, binding, reservations and retries.
//!
//! [`Scheduler`] is a pure state machine. `handle_*` methods take events and their times;
//! [`Scheduler::poll_decision`] and [`Scheduler::poll_event`] return decisions and events, and
//! [`Scheduler::next_wake`] the time of the next timer. It has no clock, no thread and no I/O.

mod backfill;
mod fact;
mod groups;
mod holds;
mod line;
mod removals;
mod report;
pub(crate) mod scheduler;
mod settings;
mod tenancy;
pub(crate) mod terms;
mod world;

pub use backfill::PromiseView;
pub use scheduler::QueueStatus;
#[cfg(feature = "serde")]
pub use scheduler::SavedScheduler;
pub use settings::{
    Backfill, BackfillRule, Backoff, Discipline, Elastic, HeadOfLine, OnBindFailure,
    PreemptionSettings, PriorityThenTime, QueueOrder, Repair, ReservationPolicy, Settings, Waiting,
};
pub use terms::booking::{Booking, BookingChange, BookingOwner, BookingView};
pub use terms::decision::{BoundPod, EvictionCause, RepairCosts, RepairWay};
pub use terms::gone::Gone;
pub use terms::ids::Ticket;
pub use terms::observe::{
    Gate, GroupChange, GroupEvent, Histogram, Metrics, ReservationEnd, Waits,
};
pub use terms::shortage::{QuotaReason, Shortage};
pub use terms::spares::{SpareAmount, Spares};
pub use terms::status::{
    DesiredSize, GroupState, GroupStatus, MemoryStats, NoPreemption, ReservationView, WakeStats,
};

// Public at the root of the crate.
#[allow(unused_imports, reason = "the layers above name them here")]
pub(crate) use self::{scheduler::Scheduler, terms::decision::Decision, terms::error::QueueError};
