//! Errors of scheduler inputs.

use alloc::string::String;

use super::observe::Gate;
use crate::model::ModelError;
use crate::place::PlaceError;
use crate::quota::QuotaError;
use crate::state::StateError;

/// Errors of scheduler inputs. All leave the state unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// An invalid group or pod.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An update that the cluster refuses.
    #[error(transparent)]
    State(#[from] StateError),
    /// A trial that the planner refuses.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A queue that makes no sense, or is not known.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// Queues and flavors go to a scheduler with tenants.
    #[error("the scheduler has no tenants")]
    NoTenants,
    /// An unknown group.
    #[error("group {0}: is not known")]
    UnknownGroup(String),
    /// A group of the tree belongs to another tree.
    #[error("group {group}: belongs to {root}")]
    GroupTaken {
        /// Full name of the group.
        group: String,
        /// Full name of the root it belongs to.
        root: String,
    },
    /// A pod that is not a member of a known group.
    #[error("pod {0}: is no member of a known group")]
    UnknownPod(String),
    /// A pod belongs to another group, or to a group of another namespace.
    #[error("pod {pod}: belongs to {group}")]
    PodTaken {
        /// Full name of the pod.
        pod: String,
        /// Full name of the group.
        group: String,
    },
    /// A pod without a group, where a member is expected.
    #[error("pod {0}: names no group")]
    NoGroup(String),
    /// A nomination that places no pod.
    #[error("group {0}: its nomination places no pod")]
    EmptyNomination(String),
    /// A nomination with too few members of a group for its minimum, even with those that run: it
    /// would bind part of a gang.
    #[error("group {}: its nomination is below its minimum", .0.group().unwrap_or_default())]
    NominationBelowMinimum(Gate),
    /// A ticket of a plan that is not in flight, or not any more.
    #[error("the ticket is not valid, or not any more")]
    StaleTicket,
    /// No permit holds a plan of the group.
    #[error("group {0}: is not held")]
    NotHeld(String),
}
