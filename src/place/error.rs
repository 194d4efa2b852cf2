//! Errors of placement requests.

use alloc::string::String;

use crate::model::ModelError;
use crate::state::StateError;

/// A request that makes no sense. That a group does not fit is not among these: it is an
/// [`Outcome`](super::Outcome).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The group is unsound.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The cluster could not take a placement, because a sum overflows.
    #[error(transparent)]
    State(#[from] StateError),
    /// A member is bound already.
    #[error("pod {0}: is bound already")]
    AlreadyBound(String),
    /// Running members of a group that must be in one domain are in several, or in none.
    #[error("group {group}: running members are not within one domain of {key}")]
    Scattered {
        /// The group.
        group: String,
        /// The node label key.
        key: String,
    },
    /// The strategy does not know something that the group asks.
    #[error("group {group}: the strategy does not support {what}")]
    Unsupported {
        /// The group.
        group: String,
        /// The request that is not supported.
        what: &'static str,
    },
    /// The group is too large for the reference of [`Strategy::Search`](crate::Strategy::Search),
    /// which is brute force.
    #[error("group {group}: {members} members are more than the {most} of the search reference")]
    TooManyMembers {
        /// The group.
        group: String,
        /// How many pending members it has.
        members: usize,
        /// The most that the reference takes.
        most: usize,
    },
}
