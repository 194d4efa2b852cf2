//! Groups that run, by the ends that their estimates give.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use super::demand::Demand;
use crate::base::{Row, Time};
use crate::queue::ids::GroupId;
use crate::queue::backfill::state::BackfillState;
use crate::queue::scheduler::Scheduler;
use crate::state::journal::Change;

/// Groups that run or are being bound, kept in step with the cluster: what has changed since they
/// were last read is noted by node and by group.
#[derive(Debug)]
pub(in crate::queue) struct Running {
    /// When they were given their place.
    pub(in crate::queue) since: BTreeMap<GroupId, Time>,
    /// What is known of those that have pods in the cluster.
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
}

/// A group with pods in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Runner {
    /// `Time::MAX` if there is no estimate.
    end: Time,
    /// What it gives back.
    demand: Demand,
    rows: Vec<Row>,
}

impl Default for Running {
    fn default() -> Running {
        Running::of(BTreeMap::new())
    }
}

impl Running {
    /// Groups that were given their places then; all else is to be read.
    pub(in crate::queue) fn of(since: BTreeMap<GroupId, Time>) -> Running {
        Running {
            since,
            known: BTreeMap::new(),
            ends: BTreeSet::new(),
            on_row: BTreeMap::new(),
            rows: BTreeSet::new(),
            stale: BTreeSet::new(),
            all: true,
        }
    }

    /// A node has changed, or the pods on it.
    fn note_row(&mut self, row: Row) {
        if !self.all {
            self.rows.insert(row);
        }
    }

    /// A group has changed.
    pub(in crate::queue) fn note_group(&mut self, id: GroupId) {
        if !self.all && self.since.contains_key(&id) {
            self.stale.insert(id);
        }
    }

    /// All may have changed.
    fn note_all(&mut self) {
        let since = core::mem::take(&mut self.since);
        *self = Running::of(since);
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

    fn set(&mut self, id: GroupId, runner: Option<Runner>) {
        if let Some(old) = self.known.remove(&id) {
            self.ends.remove(&(old.end, id));
            for row in old.rows {
                if let Some(groups) = self.on_row.get_mut(&row) {
                    groups.remove(&id);
                    if groups.is_empty() {
                        self.on_row.remove(&row);
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
        for row in &runner.rows {
            self.on_row.entry(*row).or_default().insert(id);
        }
        self.known.insert(id, runner);
    }
}

impl Scheduler {
    /// What is free in all. O(what has changed).
    pub(super) fn free_now(&mut self) -> Demand {
        self.read_changes();
        self.backfill.free.sum()
    }

    /// Reads what has changed of the cluster since this was done last.
    fn read_changes(&mut self) {
        let Scheduler { cluster, backfill, .. } = self;
        let BackfillState { running, free, numbers, seen, .. } = backfill;
        let resources = numbers.resources(cluster);
        let rows: Option<BTreeSet<Row>> = cluster.journal.since(*seen).map(|changes| {
            let row = |change| match change {
                Change::Pods { row, .. } | Change::Node { row, .. } => Some(Row::new(row as usize)),
                Change::Namespaces => None,
            };
            changes.filter_map(row).collect()
        });
        *seen = cluster.journal.now();
        match &rows {
            Some(rows) => rows.iter().for_each(|row| running.note_row(*row)),
            None => running.note_all(),
        }
        free.read(cluster, resources, rows.map(BTreeSet::into_iter));
    }

    /// Brings what is known of running groups in step with the cluster. One that has run for longer
    /// than estimated is given as long again, until that is not over; those without a pod in the
    /// cluster run no more. O(what has changed).
    pub(super) fn read_running(&mut self) {
        self.read_changes();
        let running = &mut self.backfill.running;
        let mut stale = core::mem::take(&mut running.stale);
        let rows = core::mem::take(&mut running.rows);
        if core::mem::take(&mut running.all) {
            stale = running.since.keys().copied().collect();
        }
        for row in rows {
            stale.extend(running.on_row.get(&row).into_iter().flatten());
            for pod in self.cluster.view(row).into_iter().flat_map(|node| node.pods()) {
                let name = format!("{}/{}", pod.namespace(), pod.name());
                let id = self.pods.get(&name).map(|(id, _)| *id);
                stale.extend(id.filter(|id| running.since.contains_key(id)));
            }
        }
        let late = running.ends.iter().take_while(|(end, _)| *end < self.now);
        stale.extend(late.map(|(_, id)| *id));
        for id in stale {
            let runner = self.runner(id);
            self.backfill.running.set(id, runner);
        }
        debug_assert!(self.is_running_in_step(), "a change of running groups was not noted");
    }

    fn is_running_in_step(&mut self) -> bool {
        let known = self.backfill.running.known.clone();
        let ids: Vec<GroupId> = self.backfill.running.since.keys().copied().collect();
        ids.len() == known.len() && ids.iter().all(|id| self.runner(*id).as_ref() == known.get(id))
    }

    /// What runs of a group; `None` if no pod of it is in the cluster.
    fn runner(&mut self, id: GroupId) -> Option<Runner> {
        let since = *self.backfill.running.since.get(&id)?;
        let end = self.longest_run(id).map_or(Time::MAX, |mut run| {
            while since.after(run) < self.now {
                run = run.saturating_mul(2);
            }
            since.after(run)
        });
        let queued = self.groups.get(&id)?;
        let (mut demand, mut rows, mut is_there) = (Demand::default(), Vec::new(), false);
        let (numbers, cluster) = (&mut self.backfill.numbers, &self.cluster);
        queued.root.visit(&mut |part| {
            let mut last = None;
            for pod in cluster.pods_of(part) {
                is_there = true;
                let Some(node) = pod.node() else { continue };
                let (shape, one) = match last.take() {
                    Some((shape, one)) if shape == pod.shape_id() => (shape, one),
                    _ => (pod.shape_id(), numbers.of_shape(pod.shape())),
                };
                demand.add(&one);
                rows.push(node.row());
                last = Some((shape, one));
            }
        });
        rows.sort_unstable();
        rows.dedup();
        is_there.then_some(Runner { end, demand, rows })
    }
}
