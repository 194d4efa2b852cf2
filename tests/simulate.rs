//! The layer simulate by itself, for development.
#[path = "it/simulate/mod.rs"]
mod simulate;
#[path = "it/support/mod.rs"]
mod support;
