//! Backfill: groups that pass the first of the line, where run times are estimated.
//!
//! The line is all groups that wait, over all queues, in queue order. A *promise* is a place and a
//! time, and has the plan that a group starts with. The plan is found in a working copy of the
//! cluster from which running groups were released in the order of their ends. Every filter, the
//! topology and devices are judged there as they are anywhere else.
//!
//! [`BackfillLine`] owns all of it. It reads the world, the groups and the holds, and decides; the
//! scheduler carries its answers out. Files import downwards only, in this order:
//! - `conservative`: a promise to each group of the line, by `by_place` or `run_through`.
//! - `by_place`: times and places found together, node by node.
//! - `run_through`: places for starts whose times are known by sums.
//! - `easy`: one promise, to the first of the line; `walk`: the groups behind it, in turn.
//! - `owner`: news since the last pass, the classes of groups, and their shortages.
//! - `working_copy`: the working copy that follows the cluster, at a later time.
//! - `promise`: starts that are searched, promised or kept.
//! - `tally`: sums, ends and bounds that follow the cluster; `later`: the planner of later times.
//! - `reads`: the owners that backfill reads.
//! - `line`, `running`, `free`, `room`, `profile`, `node_profiles`, `availability` and `demand` are the
//!   parts of these, and the settings say by which rule.

mod availability;
mod by_place;
mod conservative;
mod demand;
mod easy;
mod free;
mod later;
mod line;
mod node_profiles;
mod owner;
mod profile;
mod promise;
mod reads;
mod room;
mod run_through;
mod running;
mod tally;
mod walk;
mod working_copy;

#[cfg(feature = "serde")]
use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
#[cfg(feature = "serde")]
use alloc::string::String;
#[cfg(feature = "serde")]
use alloc::vec::Vec;

use self::later::LaterPlanner;
use self::line::Line;
use self::promise::{Guard, Standing};
use self::tally::Tally;
use self::working_copy::WorkingCopy;
use crate::base::Time;
use crate::queue::terms::ids::GroupId;

pub(in crate::queue) use self::demand::Demand;
pub(in crate::queue) use self::easy::{HeadStart, Verdict};
pub use self::promise::PromiseView;
pub(in crate::queue) use self::promise::{Found, Start};
pub(in crate::queue) use self::reads::Reads;
pub(in crate::queue) use self::running::Release;
pub(in crate::queue) use self::walk::{Candidate, Walk};

/// The groups that wait in one line, the groups that run by their ends, and what was promised:
/// empty without backfill.
#[derive(Debug, Default)]
pub(in crate::queue) struct BackfillLine {
    line: Line,
    news: News,
    /// Number of changes that may have taken a promised place: of nodes, and pods bound from
    /// outside.
    losses: u64,
    tally: Tally,
    later: LaterPlanner,
    /// The working copy, once a later time was looked at.
    copy: Option<WorkingCopy>,
    /// The time of the timer, while there is one.
    timer: Option<Time>,
    standing: Option<Standing>,
    /// The promise that the plan to be committed must leave as it is.
    guard: Option<Guard>,
    /// Groups that had no place when their promised start had come: nothing is promised to them until
    /// room is released.
    stuck: BTreeSet<GroupId>,
}

/// Changes since the last pass.
#[derive(Debug, Default)]
pub(in crate::queue) struct News {
    /// Groups that became ready.
    arrived: BTreeSet<GroupId>,
    /// Whether room was released, or may have been.
    freed: bool,
    /// Groups with a promise that have changed since.
    changed: BTreeSet<GroupId>,
    /// Whether a promised start has come, or a promise may have to be replaced.
    due: bool,
}

/// A line as it is saved; all else follows from it.
#[cfg(feature = "serde")]
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::queue) struct SavedBackfill {
    arrived: BTreeSet<GroupId>,
    freed: bool,
    changed: BTreeSet<GroupId>,
    due: bool,
    losses: u64,
    running: BTreeMap<GroupId, Time>,
    timer: Option<Time>,
    /// The resources that groups have requested so far, by number.
    resources: Vec<String>,
    standing: Option<SavedStanding>,
    stuck: BTreeSet<GroupId>,
}

/// The promise to the first of the line, with the room that it leaves to others.
#[cfg(feature = "serde")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedStanding {
    head: GroupId,
    at: Time,
    /// By number of resource.
    free: Vec<i64>,
}
