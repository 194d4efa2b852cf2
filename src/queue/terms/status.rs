//! The readable state of groups, reservations and the scheduler.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::{ObjectName, Time};
use crate::model::Amounts;
use crate::queue::terms::observe::{Gate, Waits};
use crate::queue::terms::shortage::Shortage;

/// The state of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum GroupState {
    /// Gated: the group cannot be tried yet.
    Gated(Gate),
    /// In the active queue, ready to be tried.
    Queued,
    /// Backing off after a failure.
    BackingOff {
        /// End of the back-off.
        until: Time,
    },
    /// Tried without finding a placement; waits for a change that could help, as in
    /// kube-scheduler's pool of unschedulable pods.
    Unschedulable {
        /// The shortage of the last attempt.
        shortage: Option<Shortage>,
        /// Time of the next periodic attempt, if there is one.
        retry: Option<Time>,
    },
    /// Held by a permit; the planned pods use capacity.
    Permitting {
        /// Name of the permit.
        by: String,
        /// Deadline of the hold.
        until: Time,
    },
    /// The planned pods are being prepared or bound.
    Binding {
        /// Time at which the plan went out.
        since: Time,
    },
    /// The pods of the plan are being unbound.
    Undoing,
    /// At its minimum or above, without pending members.
    Running,
    /// Started, now below its minimum, and no pending member could restore it.
    BelowMinimum {
        /// Time at which the gang fell below its minimum.
        since: Time,
    },
    /// Paused by the embedder.
    Paused,
    /// All members have finished.
    Finished,
    /// Invalid: the group cannot be tried until it changes.
    Failed {
        /// The reason, for people.
        reason: String,
    },
}

/// The full status of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct GroupStatus {
    /// The state of the group.
    pub state: GroupState,
    /// Whether the gang has reached its minimum.
    pub started: bool,
    /// Time at which the gang fell below its minimum, if it is below.
    pub below_minimum_since: Option<Time>,
    /// Members without a placement.
    pub pending: usize,
    /// Members held or being bound.
    pub planned: usize,
    /// Members bound.
    pub bound: usize,
    /// Members finished.
    pub finished: usize,
    /// Consecutive failures.
    pub attempts: u32,
    /// Shortage of the last attempt, if it failed.
    pub shortage: Option<Shortage>,
    /// Why no victims are searched for the group; `None` if they are when it does not fit.
    #[cfg_attr(feature = "serde", serde(default))]
    pub no_preemption: Option<NoPreemption>,
    /// Total time spent in each state.
    pub waits: Waits,
}

/// The size that a group should have; see
/// [`Scheduler::desired_size`](crate::queue::Scheduler::desired_size).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct DesiredSize {
    /// Its minimum.
    pub minimum: u32,
    /// Members that run or are being bound, and do not leave.
    pub placed: u32,
    /// Members that it should have: those placed, and as many more as there is room and quota for now.
    pub desired: u32,
}

/// Why no victims are searched for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum NoPreemption {
    /// [`Settings::preemption`](crate::queue::Settings::preemption) is not set.
    Off,
    /// A member has [`PreemptionPolicy::Never`](crate::model::PreemptionPolicy::Never).
    Never,
    /// With tenants: the group starts together with others by
    /// [`PodGroup::gang_group`](crate::PodGroup::gang_group), and some of them are of another queue.
    /// Victims are of the preemptor's own queue, and these groups have no queue in common.
    StartsWith {
        /// Full names of the others that have not started.
        groups: Vec<ObjectName>,
    },
}

/// Capacity reserved for a group, held by placeholder pods in namespace
/// [`Scheduler::RESERVED_NAMESPACE`](crate::queue::Scheduler::RESERVED_NAMESPACE).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReservationView {
    /// Full name of the root group.
    pub group: ObjectName,
    /// Start of the reservation.
    pub since: Time,
    /// Deadline of the reservation.
    pub until: Time,
    /// Number of pods that the reserved capacity holds so far, by node.
    pub pods: BTreeMap<String, usize>,
    /// Reserved amounts so far, by node: requests of those pods, and parts of others. Devices are
    /// under their kind, in thousandths.
    #[cfg_attr(feature = "serde", serde(default))]
    pub amounts: BTreeMap<String, Amounts>,
    /// Number of pods to reserve for.
    pub wanted: usize,
}

/// Sizes of the scheduler's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Root groups.
    pub groups: usize,
    /// Members of groups.
    pub members: usize,
    /// Capacity counts in the wait index.
    pub capacity_counts: usize,
    /// The sum of nodes in those counts.
    pub counted_nodes: usize,
    /// Timers.
    pub timers: usize,
}

/// Work of the queue. It is not saved: it starts at zero in a restored scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WakeStats {
    /// Capacity counts evaluated: of a bucket, or of one shape on one node or on all nodes with
    /// capacity.
    pub capacity_checks: u64,
    /// Evaluations, at a group's turn, that found its capacity still short.
    pub still_short: u64,
    /// Groups looked at for another's sake or their own: phases computed after an event, partners
    /// followed, and heads of queues compared.
    pub groups_checked: u64,
    /// Nodes looked at to choose what is reserved.
    pub reserved_nodes: u64,
    /// Groups looked at, of those that wait for quota, because quota had moved.
    pub quota_checks: u64,
}
