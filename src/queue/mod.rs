//! The scheduler: a queue of pending groups, with permits, binding, reservations and retries.
//!
//! [`Scheduler`] is a pure state machine. `handle_*` methods take events and their times;
//! [`Scheduler::poll_decision`] and [`Scheduler::poll_event`] return decisions and events, and
//! [`Scheduler::next_wake`] the time of the next timer. It has no clock, no thread and no I/O.

mod backfill;
mod binding;
mod cancellation;
mod capacity;
mod claims;
mod components;
mod decide;
pub(crate) mod decision;
mod drain;
pub(crate) mod error;
mod evictions;
mod gang_group;
mod held_places;
mod ids;
mod inputs;
mod lost_members;
mod moves;
mod nomination;
mod observe;
mod orphans;
mod partners;
mod parts;
mod phases;
mod preemption;
mod queued_group;
mod quota_admission;
mod quota_sleepers;
mod reclaim;
mod reservation;
pub(crate) mod scheduler;
mod settings;
mod shortage;
#[cfg(feature = "serde")]
mod snapshot;
mod status;
mod takeable;
mod tenancy;
#[cfg(feature = "serde")]
mod tenancy_saved;
mod timers;
mod turns;
mod victims;
mod waiting_queues;
mod wake;

pub use backfill::promise::PromiseView;
pub use backfill::settings::{Backfill, BackfillRule};
pub use decision::BoundPod;
pub use ids::Ticket;
pub use observe::{Gate, GroupChange, GroupEvent, Histogram, Metrics, ReservationEnd, Waits};
pub use settings::{
    Backoff, HeadOfLine, OnBindFailure, PreemptionSettings, PriorityThenTime, QueueOrder,
    ReservationPolicy, Settings, Waiting,
};
pub use shortage::{QuotaReason, Shortage};
#[cfg(feature = "serde")]
pub use snapshot::SavedScheduler;
pub use status::{GroupState, GroupStatus, MemoryStats, NoPreemption, ReservationView, WakeStats};
pub use turns::QueueStatus;

// Public at the root of the crate.
#[allow(unused_imports, reason = "the layers above name them here")]
pub(crate) use self::{decision::Decision, error::QueueError, scheduler::Scheduler};
