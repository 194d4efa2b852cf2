//! An embeddable scheduling core for gangs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod base;
#[cfg(feature = "serde")]
pub mod kubernetes;
pub mod model;

pub use base::{Quantity, QuantityError, RowSet, Time};
