//! Promises: a place and a time.

use crate::base::{ObjectName, Time};
use crate::state::{Cluster, Plan};

use super::demand::Demand;
use crate::queue::ids::GroupId;

/// The start promised to a group.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct Promise {
    pub(in crate::queue) at: Time,
    pub(in crate::queue) plan: Plan,
    /// Number of losses when the plan was made.
    pub(in crate::queue) losses: u64,
}

/// A promised start, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PromiseView {
    /// Full name of the root group.
    pub group: ObjectName,
    /// The start, no later than which the group has its place while estimates are upper bounds and
    /// no room is lost.
    pub at: Time,
    /// The place.
    pub plan: Plan,
}

/// A group of the line with its start.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) group: GroupId,
    pub(super) demand: Demand,
    pub(super) at: Time,
    pub(super) end: Time,
    /// The start promised before.
    pub(super) before: Option<Time>,
}

/// What the promise to the first of the line leaves to the others. It is computed again whenever
/// room is given back.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Standing {
    /// The first of the line.
    pub(in crate::queue) head: GroupId,
    pub(in crate::queue) at: Time,
    /// What is free at that time beside the first of the line.
    pub(in crate::queue) free: Demand,
    /// The cluster at that time, once a group is to be judged by it.
    pub(in crate::queue) then: Option<Then>,
}

/// The cluster at a promised start.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Then {
    /// Without the first of the line.
    pub(in crate::queue) without: Cluster,
    /// With it at its place.
    pub(in crate::queue) with: Cluster,
}
