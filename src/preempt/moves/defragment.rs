//! Defragmentation: moves that free a domain, and the room that they win.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::preempt::answer::Preemption;
use crate::preempt::need::Need;
use crate::state::{Assignment, Cluster, Plan, Row};

/// The answer to a request for room.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Defragmentation {
    /// The moves and the plan that a gang of this shape would have then; or that it fits as it is, or
    /// that no moves help.
    pub answer: Preemption,
    /// The nodes of the domain that is freed: all nodes where the gang is not confined to one. Empty
    /// where no room is won. In order of names.
    pub nodes: Vec<String>,
    /// How many pods of each shape of the gang fit on these nodes, before and after.
    pub room: Vec<Room>,
}

/// The room for pods of one shape, counted node by node, as if no pods of other shapes came.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Room {
    /// How many pods of it the gang needs.
    pub need: u64,
    /// How many fit before.
    pub before: u64,
    /// How many fit once the moves are made, without the gang.
    pub after: u64,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "room for {} pods, before {}; {} needed", self.after, self.before, self.need)
    }
}

/// The rows of the domain that a plan is in.
pub(crate) fn domain_rows(need: &Need<'_>, cluster: &Cluster, plan: &Plan) -> Vec<Row> {
    let taken: Vec<Row> = plan.assignments().map(Assignment::row).collect();
    let holds = |rows: &Vec<Row>| taken.iter().all(|row| rows.contains(row));
    need.domains(cluster).into_iter().find(holds).unwrap_or_default()
}

/// How many pods of each kind fit on some rows, each by itself.
pub(crate) fn room(need: &Need<'_>, cluster: &Cluster, rows: &[Row]) -> Vec<u64> {
    let mut room = alloc::vec![0_u64; need.kinds.len()];
    let mut free = Vec::new();
    for &row in rows {
        free.clear();
        need.free(cluster, row, &mut free);
        for (kind, room) in room.iter_mut().enumerate() {
            if need.may_use(cluster, kind, row) {
                *room = room.saturating_add(need.times(kind, &free).max(0) as u64);
            }
        }
    }
    room
}
