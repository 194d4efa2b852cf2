//! Identifiers of queued groups and plans in flight, and the sort key of a queue.

use core::cmp::Reverse;

use crate::base::Time;

/// Number of a root group, in order of arrival.
pub(in crate::queue) type GroupId = u64;

/// Identifier of a plan in flight: [`Decision::Bind`](crate::queue::Decision::Bind) carries it, and so do
/// the results of the plan. It is not used again for another plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Ticket(pub(in crate::queue) u64);

/// Sort key of a waiting group in its queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct QueueKey {
    pub(in crate::queue) rank: i64,
    pub(in crate::queue) priority: Reverse<i32>,
    /// One more than the members above the minimum of a group that grows by turns; 0 of others.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(in crate::queue) grown: u32,
    pub(in crate::queue) since: Time,
    pub(in crate::queue) group: GroupId,
}
