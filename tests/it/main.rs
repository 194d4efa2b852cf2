//! The integration tests: one program, a module a topic, a file a promise.
//!
//! Apart stand `conformance` (the recorded answers of other schedulers) and `examples` (the modules
//! of the example programs, which name each other from the root of a program).

// A soak leaves out modules that have no longer streams for it, and nothing random that vectors could change.
#![cfg_attr(soak, allow(dead_code, reason = "helpers of the modules that are left out"))]
#![allow(
    clippy::assigning_clones,
    clippy::doc_markdown,
    clippy::explicit_auto_deref,
    clippy::format_push_string,
    clippy::needless_borrows_for_generic_args,
    clippy::needless_for_each,
    clippy::needless_pass_by_value,
    clippy::needless_range_loop,
    clippy::nonminimal_bool,
    clippy::range_plus_one,
    clippy::redundant_closure_for_method_calls,
    clippy::semicolon_if_nothing_returned,
    clippy::single_match_else,
    clippy::type_complexity,
    clippy::unused_self,
    reason = "a matter of taste in worlds and models of tests"
)]

mod api;
mod autoscale;
mod claims;
mod devices;
mod everything;
mod koordinator;
mod kubernetes_preemption;
mod lifecycle;
#[cfg(not(soak))]
mod manifests;
mod marred;
mod placement;
mod plugins;
mod preempt;
mod reclaim;
mod simulate;
mod support;
mod tenants;
mod topology;
mod volumes;
mod watches;
