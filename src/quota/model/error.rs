//! Errors of quota.

use alloc::string::String;

/// A queue or a claim that makes no sense. That a claim does not fit is not among these: it is an
/// answer. The state is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// There is no queue of this name, or the id is of one that is gone.
    #[error("queue {0:?}: is not known")]
    UnknownQueue(String),
    /// Claims go to leaves.
    #[error("queue {0:?}: is no leaf, and takes no claims")]
    NotALeaf(String),
    /// An amount is negative.
    #[error("queue {queue:?}: {field} of {resource} in flavor {flavor:?} is negative")]
    Negative {
        /// The queue.
        queue: String,
        /// The flavor.
        flavor: String,
        /// The resource.
        resource: String,
        /// The field of the amount.
        field: &'static str,
    },
    /// A resource stands in two groups of a queue, or a flavor twice in one.
    #[error("queue {queue:?}: {name:?} stands twice in its resource groups")]
    Twice {
        /// The queue.
        queue: String,
        /// The resource or the flavor.
        name: String,
    },
    /// A claim asks for, or gives back, an amount that is negative or beyond [`MOST`](crate::quota::MOST),
    /// or more than is held.
    #[error("claim {claim:?}: {amount} of {resource} cannot be counted")]
    Amount {
        /// The claim.
        claim: String,
        /// The resource.
        resource: String,
        /// The amount.
        amount: i64,
    },
    /// A claim of this name holds quota already.
    #[error("claim {0:?}: holds quota already")]
    Held(String),
    /// No claim of this name holds quota.
    #[error("claim {0:?}: holds no quota")]
    NotHeld(String),
    /// The assignment is of another claim, or names a flavor that the queue does not have.
    #[error("claim {0:?}: the assignment does not go with it")]
    Foreign(String),
}
