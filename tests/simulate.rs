//! The layer simulate by itself: a program that builds quickly, until it is folded into `it`.

#[path = "it/simulate/mod.rs"]
mod simulate;
#[allow(dead_code, unused_imports, reason = "the other tests use it too")]
#[path = "it/support/mod.rs"]
mod support;
