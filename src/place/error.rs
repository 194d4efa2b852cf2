//! Errors of placement requests.

use alloc::string::String;

use crate::base::ObjectName;
use crate::base::clip::clip;
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
    #[error("pod {}: is bound already", clip(.0))]
    AlreadyBound(ObjectName),
    /// Running members of a group that must be in one domain are in several, or in none.
    #[error("group {}: running members are not within one domain of {}", clip(.group), clip(.key))]
    Scattered {
        /// The group.
        group: ObjectName,
        /// The node label key.
        key: String,
    },
    /// The strategy does not know something that the group asks.
    #[error("group {}: the strategy does not support {what}", clip(.group))]
    Unsupported {
        /// The group.
        group: ObjectName,
        /// The request that is not supported.
        what: &'static str,
    },
    /// The group is too large for the reference of [`Strategy::Search`](crate::Strategy::Search),
    /// which is brute force.
    #[error("group {}: {members} members are more than the {most} of the search reference", clip(.group))]
    TooManyMembers {
        /// The group.
        group: ObjectName,
        /// How many pending members it has.
        members: usize,
        /// The most that the reference takes.
        most: usize,
    },
}
