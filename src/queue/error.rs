//! Errors of scheduler inputs.

use alloc::string::String;

use crate::model::ModelError;
use crate::place::PlaceError;
use crate::state::StateError;

/// What a scheduler refuses. Its state is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// A group or pod is unsound.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The cluster refuses something.
    #[error(transparent)]
    State(#[from] StateError),
    /// A trial makes no sense.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// There is no group of that name.
    #[error("group {0}: is not known")]
    UnknownGroup(String),
    /// A group of the tree belongs to another tree.
    #[error("group {group}: belongs to {root}")]
    GroupTaken {
        /// The group.
        group: String,
        /// The root it belongs to.
        root: String,
    },
    /// There is no member of that name.
    #[error("pod {0}: is no member of a known group")]
    UnknownPod(String),
    /// A pod belongs to another group, or to a group of another namespace.
    #[error("pod {pod}: belongs to {group}")]
    PodTaken {
        /// The pod.
        pod: String,
        /// The group.
        group: String,
    },
    /// A pod that is to be a member names no group.
    #[error("pod {0}: names no group")]
    NoGroup(String),
    /// The plan is no longer on its way, or was never.
    #[error("the ticket is not valid, or not any more")]
    StaleTicket,
    /// The group's plan is not held by a permit.
    #[error("group {0}: is not held")]
    NotHeld(String),
}
