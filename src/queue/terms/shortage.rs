//! Shortages: why no placement was found.

use alloc::string::String;

use crate::base::{ObjectName, Time};
use crate::model::Amounts;
use crate::quota::Limited;

/// The reason why an attempt to place a group failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum Shortage {
    /// Too little capacity: even if nothing else were placed, pods that the group cannot do without
    /// do not fit. No strategy can place it until they do.
    Capacity {
        /// Full name of the group in the tree that is short.
        group: ObjectName,
        /// Requests of each of the pods.
        requests: Amounts,
        /// Lower bound on the number of pods that must fit.
        needed: u64,
        /// Upper bound on the number that fit, in the best domain.
        available: u64,
        /// Label key of the required domain, if there is one.
        level: Option<String>,
    },
    /// No placement: capacity does not rule the group out, but its strategy found no place.
    Placement {
        /// The outcome: `infeasible`, `exhausted`, `greedy`, or the error.
        outcome: String,
    },
    /// A denial by a permit.
    Permit {
        /// Name of the permit.
        by: String,
        /// The reason, for people.
        reason: String,
    },
    /// A failed binding.
    Binding {
        /// The reason, for people.
        reason: String,
    },
    /// Nodes that have refused the group's pods: there would be a place with them.
    Refused {
        /// Number of nodes that are left out.
        nodes: u64,
        /// The first of them, by name.
        node: String,
        /// The reason that was given for it.
        reason: String,
        /// When the first of them is tried again.
        retry: Time,
    },
    /// A place that another group has been promised: with [backfill](crate::queue::Backfill), the group
    /// may not pass the first of the line, since that would start later than promised.
    Promised {
        /// Full name of the group that was promised its start.
        to: ObjectName,
        /// The promised start.
        at: Time,
    },
    /// Too little quota: the group is not placed before its queue may use what it asks for.
    Quota {
        /// The queue.
        queue: String,
        /// The flavor; empty where none is short.
        flavor: String,
        /// The resource; empty where none is short.
        resource: String,
        /// The request of the group.
        needed: i64,
        /// The amount that the queue may have now.
        available: i64,
        /// Why it may not have more.
        reason: QuotaReason,
    },
}

/// Why a queue may not use what a group asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum QuotaReason {
    /// No flavor could ever serve it, whatever others give back.
    Never,
    /// The limit of the queue, or of one above it.
    Limit {
        /// The queue of the limit.
        queue: String,
    },
    /// The limit of a user or group in the queue, or in one above it. The shortage has the amount that
    /// the limit leaves; nobody yields for it.
    UserLimit {
        /// The queue of the limit.
        queue: String,
        /// The user or group.
        limited: Limited,
        /// The resource, in all of its flavors; `None`: the number of claims.
        resource: Option<String>,
        /// The limit.
        limit: i64,
    },
    /// Others use it, and it cannot be taken from them.
    InUse,
    /// Others use it, and it may be taken from some of them.
    Reclaimable {
        /// How many groups would have to give back.
        victims: usize,
    },
    /// It is put aside for a group that has waited longer.
    PutAside {
        /// The group.
        group: String,
    },
    /// The queue admits nothing: it is stopped or being removed, or a flavor of it is not there.
    Inactive,
    /// The claim is refused.
    Refused {
        /// The reason, for people.
        reason: String,
    },
}

impl Shortage {
    /// Whether quota is short, and nothing else could help but quota that moves.
    pub(in crate::queue) fn waits_for_quota_alone(&self) -> bool {
        match self {
            Shortage::Quota { reason, .. } => !matches!(reason, QuotaReason::Reclaimable { .. }),
            _ => false,
        }
    }
}
