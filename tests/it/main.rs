//! The integration tests: one program, a module a topic, a file a promise.
//!
//! Apart stand `conformance` (the recorded answers of other schedulers) and `examples` (the modules
//! of the example programs, which name each other from the root of a program).

mod api;
mod autoscale;
mod devices;
mod house;
mod koordinator;
mod kubernetes_preemption;
mod lifecycle;
mod manifests;
mod placement;
mod plugins;
mod preempt;
mod simulate;
mod support;
mod tenants;
mod topology;
