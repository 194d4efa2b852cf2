//! An embeddable scheduling core for gangs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod base;
pub mod framework;
#[cfg(feature = "serde")]
pub mod kubernetes;
pub mod model;
pub mod place;
pub mod plugins;
pub mod queue;
pub mod state;

pub use base::{Quantity, QuantityError, RowSet, Time};
pub use framework::{Framework, Strategy, laws};
pub use place::{CommitError, Outcome, PlaceError, Planner, Request, place_gang};
pub use queue::Scheduler;
pub use state::{Cluster, Plan, StateError, Txn};
