//! Promises: a place and a time.

#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::demand::Demand;
use super::reads::Reads;
use crate::base::{ObjectName, Time};
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::shortage::Shortage;
use crate::state::Plan;

/// A promised start, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PromiseView {
    /// Full name of the root group.
    pub group: ObjectName,
    /// The start, no later than which the group has its place while estimates are upper bounds and
    /// no room is lost.
    pub at: Time,
    /// The place.
    pub plan: Plan,
}

impl PromiseView {
    pub(in crate::queue) fn new(group: ObjectName, at: Time, plan: Plan) -> PromiseView {
        PromiseView { group, at, plan }
    }
}

/// A group of the line with its start.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Start {
    pub(super) group: GroupId,
    pub(super) demand: Demand,
    pub(super) at: Time,
    pub(super) end: Time,
    /// The start promised before.
    pub(super) before: Option<Time>,
}

impl Start {
    pub(in crate::queue) fn at(&self) -> Time {
        self.at
    }

    /// The group, if its promised start had come before a time.
    pub(in crate::queue) fn overdue(&self, now: Time) -> Option<GroupId> {
        self.before.is_some_and(|before| before < now).then_some(self.group)
    }
}

/// The starts that a search has found for the line.
#[derive(Debug, Default)]
pub(in crate::queue) struct Found {
    pub(super) starts: Vec<Start>,
    /// Places of the starts that are new or have moved.
    pub(super) plans: BTreeMap<GroupId, Plan>,
    /// Groups whose promised place is still there, after all losses.
    pub(super) confirmed: Vec<GroupId>,
}

impl Found {
    /// The groups that have a start.
    pub(in crate::queue) fn groups(&self) -> BTreeSet<GroupId> {
        self.starts.iter().map(|start| start.group).collect()
    }

    pub(in crate::queue) fn confirmed(&self) -> &[GroupId] {
        &self.confirmed
    }

    /// The starts with a new place, in queue order. Where there is no plan, the promise stays as it
    /// is.
    pub(in crate::queue) fn into_promises(self) -> impl Iterator<Item = (GroupId, Time, Plan)> {
        let Found { starts, mut plans, .. } = self;
        starts
            .into_iter()
            .filter_map(move |own| plans.remove(&own.group).map(|plan| (own.group, own.at, plan)))
    }
}

/// Room that the promise to the first of the line leaves to the others. It is computed again
/// whenever room is released.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// The first of the line.
    pub(super) head: GroupId,
    pub(super) at: Time,
    /// Free resources at that time beside the first of the line.
    pub(super) free: Demand,
    /// Whether the working copy is the cluster at that time, with the first of the line in its place:
    /// it is, once a group was judged by it.
    pub(super) is_copied: bool,
}

impl Standing {
    /// The shortage of a group that would delay the first of the line.
    pub(super) fn shortage(&self, reads: Reads<'_>) -> Shortage {
        let to = reads.groups().get(&self.head).map(|queued| queued.name().clone());
        Shortage::Promised { to: to.unwrap_or_else(|| ObjectName::new("", "")), at: self.at }
    }
}

/// The promise that a plan must leave as it is, while an attempt is made.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) standing: Standing,
    /// The plan of the first of the line, where it had to move.
    pub(super) moved: Option<Plan>,
    /// Whether a plan was taken up at the promised start.
    pub(super) taken_up: bool,
}

impl Guard {
    /// The end of the attempt: the promise, and the plan of the first of the line if it had to
    /// move.
    pub(super) fn end(mut self, started: bool) -> (Standing, Option<Plan>) {
        if self.taken_up && !started {
            // The plan that was taken up at the promised start has not started.
            self.standing.is_copied = false;
        }
        (self.standing, self.moved)
    }
}
