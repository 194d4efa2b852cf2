//! Decisions of a scheduler, for the embedder to carry out.

use alloc::string::String;
use alloc::vec::Vec;

use super::ids::Ticket;
use crate::base::{ObjectName, Time};
use crate::preempt::{Move, Victim};
use crate::state::Plan;

/// An instruction to the embedder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
#[must_use]
pub enum Decision {
    /// Bind these pods and report the plan by
    /// [`Scheduler::handle_bound`](super::Scheduler::handle_bound), or each pod by
    /// [`Scheduler::handle_binding`](super::Scheduler::handle_binding). They use capacity from now
    /// on.
    Bind {
        /// Identifies the plan; every result carries it.
        ticket: Ticket,
        /// Full names of the root groups that start with the plan, or gain members by it.
        groups: Vec<ObjectName>,
        /// The pods and their nodes.
        plan: Plan,
    },
    /// Unbind these pods: stop bindings under way, and delete or reset pods already bound. Report
    /// each by [`Scheduler::handle_unbound`](super::Scheduler::handle_unbound) if the pod still
    /// exists and may be placed again, else by
    /// [`Scheduler::handle_pod_deleted`](super::Scheduler::handle_pod_deleted). They use capacity
    /// until then.
    Unbind {
        /// Full names of the root groups.
        groups: Vec<ObjectName>,
        /// The pods to unbind.
        pods: Vec<BoundPod>,
        /// The reason, for people.
        reason: String,
    },
    /// Evict the whole gang: it was below its minimum for longer than
    /// [`Settings::stale_after`](super::Settings::stale_after). Report each pod by
    /// [`Scheduler::handle_pod_deleted`](super::Scheduler::handle_pod_deleted).
    Evict {
        /// Full name of the root group.
        group: ObjectName,
        /// The pods that still run, or whose node was removed.
        pods: Vec<BoundPod>,
        /// The time at which the gang fell below its minimum.
        since: Time,
    },
    /// Evict these victims, or move these pods, so that a group can start. A decision has victims
    /// or moves, not both.
    ///
    /// Report each victim that has gone by
    /// [`Scheduler::handle_evicted`](super::Scheduler::handle_evicted), or pod by pod as any other
    /// pod that leaves its node, and each that cannot go by
    /// [`Scheduler::handle_eviction_failed`](super::Scheduler::handle_eviction_failed). A decision
    /// with the ticket of an earlier one asks again for victims that could not go then, or for the
    /// next moves.
    ///
    /// A move is an eviction whose pods have a place: evict the pods of each
    /// [`Move::unit`](crate::preempt::Move::unit) and report that as of a victim of that name. The
    /// scheduler binds the members at their new places, by a decision of its own: those that are
    /// pending again, or others of the same group and requests in their stead. An embedder that
    /// moves pods itself reports each by
    /// [`Scheduler::handle_event`](super::Scheduler::handle_event) on its new node instead, in the
    /// order of the list. Every unit that is asked for has room where it goes, so no node is over
    /// its capacity at any time.
    Preempt {
        /// Identifies the victims and the units that move in later reports.
        ticket: Ticket,
        /// The units to evict, most important first.
        victims: Vec<Victim>,
        /// The pods to move now, in order. Those that depend on others follow when these have left,
        /// under the same ticket.
        moves: Vec<Move>,
        /// The plan that holds once all of them are gone; the scheduler binds it then.
        plan: Plan,
    },
    /// Do not evict, or move, these units of an earlier decision: the room is not needed any more. One
    /// whose eviction has begun all the same is reported as any other pod that leaves its node.
    CancelEvictions {
        /// The ticket of the earlier decision.
        ticket: Ticket,
        /// The units to leave in place, those that were to move among them.
        victims: Vec<Victim>,
    },
}

/// A pod and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BoundPod {
    /// Full name of the pod.
    pub pod: ObjectName,
    /// Name of the node; empty if the node was removed.
    pub node: String,
}
