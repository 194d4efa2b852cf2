//! The readable state of groups, reservations and the scheduler itself.

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::observe::{Gate, Waits};
use super::shortage::Shortage;
use crate::base::Time;

/// Where a group stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum GroupState {
    /// It may not be tried yet.
    Gated(Gate),
    /// It is in the queue.
    Queued,
    /// It is out of the queue for a while.
    BackingOff {
        /// Until when.
        until: Time,
    },
    /// It waits for something to change.
    Unschedulable {
        /// What it lacks.
        shortage: Option<Shortage>,
        /// When it is tried again whatever happens.
        retry: Option<Time>,
    },
    /// A permit holds its plan; its pods take room.
    Permitting {
        /// The permit.
        by: String,
        /// When it is given up.
        until: Time,
    },
    /// Its pods are being bound.
    Binding {
        /// Since when.
        since: Time,
    },
    /// Its pods are being taken off again.
    Undoing,
    /// It has its minimum, and nobody waits.
    Running,
    /// It ran, and is below its minimum, and nobody waits who could help.
    BelowMinimum {
        /// Since when.
        since: Time,
    },
    /// The embedder paused it.
    Paused,
    /// All members have finished.
    Finished,
    /// It cannot be tried until it changes.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Everything there is to read of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct GroupStatus {
    /// Where it stands.
    pub state: GroupState,
    /// Whether it has had its minimum.
    pub started: bool,
    /// Since when it is below its minimum, if it is.
    pub below_minimum_since: Option<Time>,
    /// Members that wait for a place.
    pub pending: usize,
    /// Members that are held or being bound.
    pub planned: usize,
    /// Members that are bound.
    pub bound: usize,
    /// Members that have finished.
    pub finished: usize,
    /// Failures in a row.
    pub attempts: u32,
    /// What it lacked when it was tried last, if that was in vain.
    pub shortage: Option<Shortage>,
    /// How long it spent where.
    pub waits: Waits,
}

/// Capacity put aside for a group. Its stand-ins are pods of namespace
/// [`Scheduler::RESERVED`] in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReservationView {
    /// The root group.
    pub group: String,
    /// Since when.
    pub since: Time,
    /// Until when at most.
    pub until: Time,
    /// Pods there is room for so far, by node.
    pub pods: BTreeMap<String, usize>,
    /// For how many pods the group would like room.
    pub wanted: usize,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Root groups.
    pub groups: usize,
    /// Members of groups.
    pub members: usize,
    /// Counts of room that groups sleep on.
    pub capacity_counts: usize,
    /// Nodes remembered by those counts, in all.
    pub counted_nodes: usize,
    /// Timers.
    pub timers: usize,
}

/// How much was looked at to find out whom events help. It is not saved: a scheduler that was
/// restored begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WakeStats {
    /// Counts of room looked at: of a class, or of one shape on one node or on all with room.
    pub capacity_checks: u64,
    /// How often a group's turn had come, and a count by all filters let it sleep on.
    pub still_short: u64,
}
