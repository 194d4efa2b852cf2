//! Errors of quota.

use alloc::string::String;
use core::fmt;

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
    /// A limit by user and group makes no sense.
    #[error("queue {queue:?}: limit {number} {problem}")]
    UserLimit {
        /// The queue.
        queue: String,
        /// The number of the limit in the queue, from 0.
        number: usize,
        /// Its fault.
        problem: LimitProblem,
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

/// The fault of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitProblem {
    /// It names neither a user nor a group.
    OfNobody,
    /// It bounds nothing.
    OfNothing,
    /// A name stands in two limits of the queue, or twice in one.
    Twice(String),
    /// A name follows `*`.
    AfterAnyone(String),
    /// The amount of a resource is negative.
    Negative(String),
}

impl fmt::Display for LimitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitProblem::OfNobody => f.write_str("names neither a user nor a group"),
            LimitProblem::OfNothing => f.write_str("bounds nothing"),
            LimitProblem::Twice(name) => write!(f, "names {name:?}, as another does"),
            LimitProblem::AfterAnyone(name) => write!(f, "names {name:?} after \"*\""),
            LimitProblem::Negative(resource) => write!(f, "has a negative amount of {resource}"),
        }
    }
}
