//! The client half of a scheduler for Kubernetes on `phalanx`: all that talks to the API server.
//!
//! Decisions stay with the program, on a thread of its own. Watches and results go to it by one channel,
//! as [`Input`]; its [`Order`](bind::Order)s and [`Note`](status::Note)s come back by two others.
//!
//! ```text
//!  watch ──Input──▶ the program (owns the Scheduler) ──Order──▶ bind
//!    ▲                  ▲   └──Note──▶ status                      │
//!    │                  └───────────────Input──────────────────────┤
//!    └────────────────────────  API server  ◀──────────────────────┘
//! ```
//!
//! | module | task |
//! |---|---|
//! | [`api`] | requests and answers, counted by result |
//! | [`watch`] | watches that end and expire, one task a kind |
//! | [`discovery`] | the versions that the server serves |
//! | [`bind`] | bindings and evictions, many in flight, answers in doubt |
//! | [`prepare`] | claims and volumes before a binding, and their undoing |
//! | [`status`] | conditions and events |
//! | [`lease`] | leader election |
//! | [`convert`] | decisions of a scheduler as orders |
//! | [`objects`] | any resource as a whole: queues, configuration |
//! | [`log`] | lines of JSON on standard error |
//!
//! A whole scheduler is `examples/own_score.rs`.

pub mod api;
pub mod bind;
mod binder;
pub mod convert;
pub mod discovery;
pub mod lease;
pub mod log;
mod node_lock;
pub mod objects;
pub mod prepare;
pub mod status;
pub mod watch;

use std::time::Instant;

use phalanx::kubernetes::watch::{Kind, WatchEvent};

/// News from the API server, for the thread that decides.
#[derive(Debug)]
pub enum Input {
    /// The initial events of a watch follow.
    ListBegins(Kind),
    /// Events of a watch, in order.
    Watch {
        /// The kind that is watched.
        kind: Kind,
        /// The events.
        events: Vec<WatchEvent>,
        /// When they arrived.
        at: Instant,
    },
    /// A resource cannot be watched; the scheduler does without it.
    Refused(Kind),
    /// Results of orders.
    Reports(Vec<bind::Report>),
}
