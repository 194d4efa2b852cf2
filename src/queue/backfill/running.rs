//! Groups that run, by the ends that their estimates give.

use alloc::collections::{BTreeMap, BTreeSet};

use super::demand::Demand;
use super::node_profiles::Place;
use crate::base::{Row, Time};
use crate::queue::terms::ids::GroupId;

/// Groups that run or are being bound, kept in step with the cluster: changes since they were last
/// read are noted by node and by group.
#[derive(Debug)]
pub(super) struct Running {
    /// When they were given their place.
    since: BTreeMap<GroupId, Time>,
    /// Groups with pods in the cluster, as they were read last.
    known: BTreeMap<GroupId, Runner>,
    /// The ends that are known, in order.
    ends: BTreeSet<(Time, GroupId)>,
    on_row: BTreeMap<Row, BTreeSet<GroupId>>,
    /// Nodes whose pods have changed.
    rows: BTreeSet<Row>,
    /// Groups that have changed, or may have.
    stale: BTreeSet<GroupId>,
    /// Whether anything may have changed.
    all: bool,
    /// Whether an end that was known has become another.
    moved: bool,
}

/// A group with pods in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Runner {
    /// `Time::MAX` if there is no estimate.
    pub(super) end: Time,
    /// The resources that it releases.
    pub(super) demand: Demand,
    /// The same node by node, with the pods.
    pub(super) place: Place,
}

/// The estimated end of a running group.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Release {
    pub(super) end: Time,
    pub(super) group: GroupId,
    /// The resources that it releases.
    pub(super) demand: Demand,
}

impl Default for Running {
    fn default() -> Running {
        Running::of(BTreeMap::new())
    }
}

impl Running {
    /// Groups that were given their places then; all else is to be read.
    pub(super) fn of(since: BTreeMap<GroupId, Time>) -> Running {
        Running {
            since,
            known: BTreeMap::new(),
            ends: BTreeSet::new(),
            on_row: BTreeMap::new(),
            rows: BTreeSet::new(),
            stale: BTreeSet::new(),
            all: true,
            moved: false,
        }
    }

    /// The times at which groups were given their places.
    pub(super) fn starts(&self) -> &BTreeMap<GroupId, Time> {
        &self.since
    }

    /// The time at which a group was given its place.
    pub(super) fn started(&self, id: GroupId) -> Option<Time> {
        self.since.get(&id).copied()
    }

    /// A group was given a place: its run time counts from now, unless it `runs` already.
    pub(super) fn start(&mut self, id: GroupId, now: Time, runs: bool) {
        if !runs {
            self.since.remove(&id);
        }
        self.since.entry(id).or_insert(now);
        self.note_group(id);
    }

    /// A node has changed, or the pods on it.
    pub(super) fn note_row(&mut self, row: Row) {
        if !self.all {
            self.rows.insert(row);
        }
    }

    /// A group has changed.
    pub(super) fn note_group(&mut self, id: GroupId) {
        if !self.all && self.since.contains_key(&id) {
            self.stale.insert(id);
        }
    }

    /// All may have changed.
    pub(super) fn note_all(&mut self) {
        let since = core::mem::take(&mut self.since);
        *self = Running { moved: true, ..Running::of(since) };
    }

    /// The ends that are known, in order.
    pub(super) fn ends(&self) -> impl Iterator<Item = (Time, GroupId, &Demand)> {
        self.ends_after(None)
    }

    /// The ends after a time, in order.
    pub(super) fn ends_after(
        &self,
        last: Option<Time>,
    ) -> impl Iterator<Item = (Time, GroupId, &Demand)> {
        use core::ops::Bound::{Excluded, Unbounded};
        let from = last.map_or(Unbounded, |last| Excluded((last, GroupId::MAX)));
        let ends = self.ends.range((from, Unbounded));
        ends.filter_map(|(at, id)| Some((*at, *id, &self.known.get(id)?.demand)))
    }

    /// The groups that have changed or may have, those whose time has run out included.
    pub(super) fn take_stale(&mut self, now: Time) -> (BTreeSet<GroupId>, BTreeSet<Row>) {
        let rows = core::mem::take(&mut self.rows);
        let mut stale = core::mem::take(&mut self.stale);
        if core::mem::take(&mut self.all) {
            stale = self.since.keys().copied().collect();
        }
        stale.extend(rows.iter().filter_map(|row| self.on_row.get(row)).flatten());
        stale.extend(self.ends.iter().take_while(|(end, _)| *end < now).map(|(_, id)| *id));
        (stale, rows)
    }

    /// The number of pods on a row that are of known groups.
    pub(super) fn pods_on(&self, row: Row) -> i64 {
        let groups = self.on_row.get(&row).into_iter().flatten();
        groups.filter_map(|id| self.known.get(id)?.place.pods_on(row)).sum()
    }

    /// Whether an end that was known may have become another since [`Running::note_copied`].
    pub(super) fn have_moved(&self) -> bool {
        self.moved
    }

    /// The ends were told to a copy of the cluster.
    pub(super) fn note_copied(&mut self) {
        self.moved = false;
    }

    /// A group with pods in the cluster, as it was read last.
    pub(super) fn known(&self, id: GroupId) -> Option<&Runner> {
        self.known.get(&id)
    }

    /// Sets a group as it is read now; `None` if it has no pod in the cluster and runs no more.
    pub(super) fn set(&mut self, id: GroupId, runner: Option<Runner>) {
        if runner.is_some() && runner.as_ref() == self.known.get(&id) {
            return;
        }
        if let Some(old) = self.known.remove(&id) {
            self.moved |= runner.as_ref().is_some_and(|own| own.end != old.end);
            self.ends.remove(&(old.end, id));
            for row in old.place.rows() {
                if let Some(groups) = self.on_row.get_mut(row) {
                    groups.remove(&id);
                    if groups.is_empty() {
                        self.on_row.remove(row);
                    }
                }
            }
        }
        let Some(runner) = runner else {
            self.since.remove(&id);
            return;
        };
        if runner.end < Time::MAX {
            self.ends.insert((runner.end, id));
        }
        for row in runner.place.rows() {
            self.on_row.entry(*row).or_default().insert(id);
        }
        self.known.insert(id, runner);
    }
}
