//! An embeddable scheduling core for gangs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod base;
pub mod framework;
pub mod model;
pub mod state;

pub use base::{Quantity, QuantityError, RowSet, Time};
pub use state::{Cluster, Plan, StateError, Txn};
