//! Decisions of a scheduler, for the embedder to carry out.

use alloc::string::String;
use alloc::vec::Vec;

use crate::base::{ObjectName, Time};
use crate::preempt::{Move, Victim};
use crate::queue::terms::booking::BookingChange;
use crate::queue::terms::ids::Ticket;
use crate::state::Plan;

/// An instruction to the embedder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
#[must_use]
pub enum Decision {
    /// Bind these pods and report the plan by
    /// [`Scheduler::handle_bound`](crate::queue::Scheduler::handle_bound), or each pod by
    /// [`Scheduler::handle_binding`](crate::queue::Scheduler::handle_binding). They use capacity from now
    /// on.
    Bind {
        /// Identifies the plan; every result carries it.
        ticket: Ticket,
        /// Full names of the root groups that start with the plan, or gain members by it.
        groups: Vec<ObjectName>,
        /// The pods and their nodes.
        plan: Plan,
    },
    /// Do the work that comes before binding, and report it by
    /// [`Scheduler::handle_prepared`](crate::queue::Scheduler::handle_prepared): write the allocations
    /// of claims, have volumes provisioned. The pods use capacity from now on. If it succeeds, a
    /// [`Decision::Bind`] of the same ticket follows; if it fails, or takes longer than
    /// [`Settings::prepare_within`](crate::queue::Settings::prepare_within), a [`Decision::Unbind`] of
    /// all pods of the plan.
    Prepare {
        /// Identifies the plan; the result carries it.
        ticket: Ticket,
        /// Full names of the root groups that start with the plan, or gain members by it.
        groups: Vec<ObjectName>,
        /// The pods, their nodes, the devices of their claims and their volumes.
        plan: Plan,
    },
    /// Unbind these pods: undo what was prepared for them, stop bindings under way, and delete or reset pods already bound. Report
    /// each by [`Scheduler::handle_gone`](crate::queue::Scheduler::handle_gone): as
    /// [`Gone::Unbound`](crate::queue::Gone::Unbound) if the pod still exists and may be placed again,
    /// else as [`Gone::Deleted`](crate::queue::Gone::Deleted). They use capacity until then.
    Unbind {
        /// Full names of the root groups.
        groups: Vec<ObjectName>,
        /// The pods to unbind.
        pods: Vec<BoundPod>,
        /// The reason, for people.
        reason: String,
    },
    /// Evict the whole gang: it was below its minimum for longer than
    /// [`Settings::stale_after`](crate::queue::Settings::stale_after). Report each pod as
    /// [`Gone::Deleted`](crate::queue::Gone::Deleted).
    EvictStale {
        /// Full name of the root group.
        group: ObjectName,
        /// The pods that still run, or whose node was removed.
        pods: Vec<BoundPod>,
        /// The time at which the gang fell below its minimum.
        since: Time,
    },
    /// Evict the whole group: a time is over that it could use. Report each pod as
    /// [`Gone::Deleted`](crate::queue::Gone::Deleted) or
    /// [`Gone::Unbound`](crate::queue::Gone::Unbound).
    EvictDue {
        /// Full name of the root group.
        group: ObjectName,
        /// The pods that still run, or whose node was removed.
        pods: Vec<BoundPod>,
        /// The time at which that time was over.
        since: Time,
        /// The time that is over.
        cause: EvictionCause,
    },
    /// A booking has changed; nothing is to be done. See [`Booking`](crate::queue::Booking).
    Booking {
        /// Name of the booking.
        name: String,
        /// The change.
        change: BookingChange,
    },
    /// A gang lost members with failing nodes, and its domain has no room for others: the way that is
    /// taken. Nothing is to be done for it. Evictions follow as a decision of their own: for
    /// [`RepairWay::Yield`] as [`Decision::Evict`], for [`RepairWay::Move`] as [`Decision::EvictDue`] of
    /// the gang. It is said again if the way or the number of missing members changes.
    Repair {
        /// Full name of the root group.
        group: ObjectName,
        /// Number of lost members that wait for room.
        missing: u32,
        /// The way that is taken.
        way: RepairWay,
        /// The costs of all three ways.
        costs: RepairCosts,
    },
    /// Evict these victims, so that a group can start.
    ///
    /// Report each victim that has gone as [`Gone::Evicted`](crate::queue::Gone::Evicted), or pod by
    /// pod as any other pod that leaves its node. Report each that cannot go by
    /// [`Scheduler::handle_eviction_failed`](crate::queue::Scheduler::handle_eviction_failed).
    ///
    /// A decision with the ticket of an earlier one asks again for victims that could not go then.
    Evict {
        /// Identifies the victims in later reports.
        ticket: Ticket,
        /// The units to evict, most important first.
        victims: Vec<Victim>,
        /// The plan that holds once all victims are gone; the scheduler binds it then.
        plan: Plan,
    },
    /// Move these pods, so that a group can start.
    ///
    /// A move is an eviction whose pods have a place. Evict the pods of each
    /// [`Move::unit`](crate::preempt::Move::unit), and report the unit as a victim of that name. The
    /// scheduler then binds the members at their new places by a decision of its own: the same pods,
    /// pending again, or others of the same group and requests.
    ///
    /// An embedder that moves pods itself reports each by
    /// [`Scheduler::handle_event`](crate::queue::Scheduler::handle_event) on its new node instead, in the
    /// order of the list. Every unit that is asked for has room at its new place, so no node exceeds its
    /// capacity at any time. A unit that [stops](crate::preempt::Move::stops) has none yet: evict it.
    /// The scheduler binds it when the others have moved.
    ///
    /// A decision with the ticket of an earlier one asks for its next moves, or again for units that
    /// could not move then.
    Move {
        /// Identifies the units in later reports.
        ticket: Ticket,
        /// The pods to move now, in order. Pods that depend on others follow when these have left,
        /// under the same ticket.
        moves: Vec<Move>,
        /// The plan that holds once all units have moved; the scheduler binds it then.
        plan: Plan,
    },
    /// Do not evict, or move, these units of an earlier decision: the room is not needed any more. If
    /// an eviction has begun all the same, report its pods as any others that leave their nodes.
    CancelEvictions {
        /// The ticket of the earlier decision.
        ticket: Ticket,
        /// The units to leave in place, those that were to move among them.
        victims: Vec<Victim>,
    },
}

/// Why a time is over that a group could use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum EvictionCause {
    /// It has run for as long as it may
    /// ([`PodGroup::max_run_time`](crate::PodGroup::max_run_time)). It is paused;
    /// [`Scheduler::handle_resume`](crate::Scheduler::handle_resume) gives it its time anew.
    RunTime,
    /// Members were lost with failing nodes, and the rest moves: room for all of it is kept elsewhere.
    Repair,
    /// The window of a booking has begun, whose room it was lent. It waits for another place.
    Booking {
        /// Name of the booking.
        name: String,
    },
}

/// A way to repair a gang whose domain has no room; see [`Repair`](crate::queue::Repair).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum RepairWay {
    /// The gang stays below its size until there is room in its domain.
    Stay,
    /// Less important units of its domain are evicted.
    Yield,
    /// The gang is evicted whole, and starts where room is kept for all of it.
    Move,
}

/// The costs of the ways to repair a gang, in pod-milliseconds; `None`: there is no such way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct RepairCosts {
    /// Time for which members are expected to be missing.
    pub stays: Option<u64>,
    /// Work that victims lose.
    pub yields: Option<u64>,
    /// Work that the gang itself loses.
    pub moves: Option<u64>,
}

impl RepairCosts {
    /// The cheapest way, and at equal cost the first of [`RepairWay`]; `None` if there is none.
    pub fn cheapest(&self) -> Option<RepairWay> {
        let ways = [
            (self.stays, RepairWay::Stay),
            (self.yields, RepairWay::Yield),
            (self.moves, RepairWay::Move),
        ];
        ways.into_iter().filter_map(|(cost, way)| Some((cost?, way))).min().map(|(_, way)| way)
    }
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
