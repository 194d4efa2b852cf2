//! Queues, flavors and claims as they are stated, and amounts.

pub(in crate::quota) mod amount;
pub(in crate::quota) mod claim;
pub(in crate::quota) mod error;
pub(in crate::quota) mod flavor;
pub(in crate::quota) mod limit;
pub(in crate::quota) mod queue;
