//! The scheduler against a real API server, as a black box: objects go in, and what the API server
//! then holds is checked.
//!
//! `CONTROL_PLANE` names a script that starts and stops a control plane; without it every test says
//! so and is skipped. The tests share one control plane and take turns, each with nodes and a
//! namespace of its own. `SCHEDULER_PROGRAM` names another scheduler to test.

mod claims;
mod gangs;
mod nodes;
mod pods;
mod preemption;
mod replicas;
mod restarts;
mod scenario;
mod server;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "the comparison uses the rest")]
mod support;
mod tenants;
