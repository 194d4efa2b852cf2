//! Preemption as kube-scheduler has it, beside its recorded answers (`tests/conformance.rs`).

mod properties;
mod rules;
