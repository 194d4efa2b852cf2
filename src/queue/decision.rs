//! Decisions of a scheduler: what the embedder has to do.

use alloc::string::String;
use alloc::vec::Vec;

use super::ids::Ticket;
use crate::base::Time;
use crate::state::Plan;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
#[must_use]
pub enum Decision {
    /// Bind these pods, and report each by [`Scheduler::handle_binding`]. They take room from now
    /// on.
    Bind {
        /// What to call the plan by.
        ticket: Ticket,
        /// The root groups that start with it, or join.
        groups: Vec<String>,
        /// Where each pod goes.
        plan: Plan,
    },
    /// Take these pods off again: stop bindings under way and delete or reset what was bound.
    /// Report each by [`Scheduler::handle_unbound`] if it exists still and may be placed anew, or
    /// by [`Scheduler::handle_pod_deleted`]. They take room until then.
    Unbind {
        /// The root groups.
        groups: Vec<String>,
        /// The pods.
        pods: Vec<BoundPod>,
        /// Why.
        reason: String,
    },
    /// Evict the whole gang: it was below its minimum for too long. Report each pod by
    /// [`Scheduler::handle_pod_deleted`].
    Evict {
        /// The root group.
        group: String,
        /// The pods that still run, or are on a node that is gone.
        pods: Vec<BoundPod>,
        /// Since when it is below its minimum.
        since: Time,
    },
}

/// A pod and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BoundPod {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The node; empty if that is gone.
    pub node: String,
}
