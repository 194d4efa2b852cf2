//! Tests of preemption.

#[path = "it/support/mod.rs"]
mod support;

#[path = "preempt/mod.rs"]
mod preempt;
