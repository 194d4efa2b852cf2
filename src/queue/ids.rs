//! Identifiers of queued groups and plans in flight, and the sort key of a queue.

use core::cmp::Reverse;

use crate::base::Time;

/// Number of a root group, in order of arrival.
pub(super) type GroupId = u64;

/// Identifier of a plan in flight: [`Decision::Bind`](super::Decision::Bind) carries it, and so do
/// the results of the plan. It is not used again for another plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Ticket(pub(super) u64);

/// Sort key of a waiting group in its queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct QueueKey {
    pub(super) rank: i64,
    pub(super) priority: Reverse<i32>,
    pub(super) since: Time,
    pub(super) group: GroupId,
}
