//! Errors of scheduler inputs.

use alloc::string::String;

use crate::base::ObjectName;
use crate::base::clip::clip;
use crate::model::ModelError;
use crate::place::PlaceError;
use crate::queue::terms::observe::Gate;
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
    #[error("group {}: is not known", clip(.0))]
    UnknownGroup(String),
    /// A group of the tree belongs to another tree.
    #[error("group {}: belongs to {}", clip(.group), clip(.root))]
    GroupTaken {
        /// Full name of the group.
        group: ObjectName,
        /// Full name of the root it belongs to.
        root: ObjectName,
    },
    /// A pod that is not a member of a known group.
    #[error("pod {}: is no member of a known group", clip(.0))]
    UnknownPod(ObjectName),
    /// A pod belongs to another group, or to a group of another namespace.
    #[error("pod {}: belongs to {}", clip(.pod), clip(.group))]
    PodTaken {
        /// Full name of the pod.
        pod: ObjectName,
        /// Full name of the group.
        group: ObjectName,
    },
    /// A pod without a group, where a member is expected.
    #[error("pod {}: names no group", clip(.0))]
    NoGroup(ObjectName),
    /// A nomination that places no pod.
    #[error("group {}: its nomination places no pod", clip(.0))]
    EmptyNomination(ObjectName),
    /// A nomination with too few members of a group for its minimum, even with those that run: it
    /// would bind part of a gang.
    #[error("group {}: its nomination is below its minimum", clip(.0.group().map_or("", |group| group)))]
    NominationBelowMinimum(Gate),
    /// A ticket of a plan that is not in flight, or not any more.
    ///
    /// A plan that was undone or expired is no longer in flight: a late result of its bindings is this
    /// error, and changes nothing. Pods that were bound all the same are told by their own events.
    #[error("the ticket is not valid, or not any more")]
    StaleTicket,
    /// Two parts of the scheduler's state disagree; see [`Scheduler::check`](crate::Scheduler::check).
    #[error("the state contradicts itself: {}", clip(.0))]
    Inconsistent(String),
    /// A booking that makes no sense: it ends before it begins, has no pods, or its name is another's;
    /// or one that is not known.
    #[error("booking {}: {reason}", clip(.name))]
    Booking {
        /// Its name.
        name: String,
        /// The fault, for people.
        reason: &'static str,
    },
    /// No permit holds a plan of the group.
    #[error("group {}: is not held", clip(.0))]
    NotHeld(ObjectName),
}
