//! YuniKorn's queues: limits along the path, fair shares, priorities with offsets and fences, and
//! the rest of guarantees.
//!
//! [`Tenants::yunikorn`](crate::quota::Tenants::yunikorn) puts them in charge of a scheduler; the search for
//! victims on nodes is in `examples/conformance`.

pub(in crate::quota) mod dialect;
mod guarantees;
mod order;
mod queues;
mod resource;
pub mod resources;
mod settings;

pub use guarantees::{Guarantees, is_over_guarantee, is_under_guarantee};
pub use order::{ApplicationStanding, QueueStanding, SortPolicy};
pub use queues::{MIN_PRIORITY, PriorityRule, QueueState, Queues, YuniKornPreemptionPolicy};
pub use resource::Resource;
pub use settings::{QueueRules, YuniKornSettings};
