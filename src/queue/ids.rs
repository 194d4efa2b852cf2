//! Identifiers of queued groups and of plans in flight, and the position of a group in its queue.

use core::cmp::Reverse;

use crate::base::Time;

/// The number of a root group, given in order of arrival.
pub(super) type GroupId = u64;

/// A plan that is on its way: what a decision to bind carries, and its results refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Ticket(pub(super) u64);

/// The place of a group in the queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct QueueKey {
    pub(super) rank: i64,
    pub(super) priority: Reverse<i32>,
    pub(super) since: Time,
    pub(super) group: GroupId,
}
