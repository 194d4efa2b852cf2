//! KAI-Scheduler's semantics: fair shares by level, priority and remainder; turns; victims.
//!
//! The tests here are on plain tables of queues ([`QueueShares`]), so that the dialect
//! ([`Tenants::kai`](crate::quota::Tenants::kai)) and the session in `examples/conformance` share them.
//!
//! Source: KAI-Scheduler, commit 72de64f (March 2026), plugins `proportion`, `elastic` and
//! `minruntime`.

mod dialect;
mod division;
mod min_runtime;
mod order;
mod queues;
mod settings;
pub(in crate::quota) mod tables;
mod turns;
mod yields;

pub use division::{DivisionRules, Sibling, divide};
pub use min_runtime::{MinRuntime, ReclaimMethod, RuntimeQueue, is_protected};
pub use order::{
    ElasticState, KaiJobStanding, PodSetState, elastic_state, job_order, pod_set_order,
};
pub use queues::{
    Contender, KaiQuantities, OverCapacity, QueueShare, QueueShares, Ratio, ReclaimStrategy,
    Reclaimer, ResourceShare,
};
pub use settings::{KaiSettings, QueueMinRuntime};
pub use tables::CLUSTER;
