//! The house: rules on the structure of phalanx's own sources, held by `tests/house.rs`.
//!
//! [`Sources`] is one reader of the sources, on `syn`. [`rules`] are functions from sources and a
//! table to complaints; [`limits`] holds the tables. Each rule has made-up sources in its unit tests:
//! one with a violation, which it must find, and one without.

pub mod graph;
pub mod limits;
mod load;
mod reader;
pub mod rules;
pub mod sources;
mod tokens;
pub mod walk;

pub use sources::Sources;
