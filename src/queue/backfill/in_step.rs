//! What is known of the cluster, brought in step with it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::demand::Demand;
use super::line::ClassId;
use super::room::Room;
use super::running::Runner;
use crate::base::Time;
use crate::queue::capacity::has_capacity_bound;
use crate::queue::ids::GroupId;
use crate::queue::scheduler::Scheduler;
use crate::state::{Cluster, NodeView};

/// The most classes that are counted node by node at a time.
const MOST: usize = 64;

impl Scheduler {
    /// What is free in all. O(what has changed).
    pub(super) fn free_now(&mut self) -> Demand {
        self.read_changes();
        self.backfill.free.sum()
    }

    /// Reads what has changed of the cluster since this was done last.
    fn read_changes(&mut self) {
        let Scheduler { cluster, backfill, .. } = self;
        let (running, free) = (&mut backfill.running, &mut backfill.free);
        let rows = cluster.journal.rows_since(backfill.seen);
        backfill.seen = cluster.journal.now();
        match &rows {
            Some(rows) => rows.iter().for_each(|row| running.note_row(*row)),
            None => running.note_all(),
        }
        let resources = backfill.numbers.resources(cluster);
        free.read(cluster, resources, rows.map(BTreeSet::into_iter));
    }

    /// Brings what is known of running groups in step with the cluster. One that has run for longer
    /// than estimated is given as long again, until that is not over; those without a pod in the
    /// cluster run no more. O(what has changed).
    pub(super) fn read_running(&mut self) {
        self.read_changes();
        let (mut stale, rows) = self.backfill.running.take_stale(self.now);
        for row in rows {
            for pod in self.cluster.view(row).into_iter().flat_map(NodeView::pods) {
                let name = format!("{}/{}", pod.namespace(), pod.name());
                let id = self.pods.get(&name).map(|(id, _)| *id);
                stale.extend(id.filter(|id| self.backfill.running.since.contains_key(id)));
            }
        }
        for id in stale {
            let runner = self.runner(id);
            self.backfill.running.set(id, runner);
        }
        debug_assert!(self.is_running_in_step(), "a change of running groups was not noted");
    }

    fn is_running_in_step(&mut self) -> bool {
        let ids: Vec<GroupId> = self.backfill.running.since.keys().copied().collect();
        ids.into_iter().all(|id| {
            let runner = self.runner(id);
            runner.is_some() && runner.as_ref() == self.backfill.running.known(id)
        })
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

    /// The pods of a class that have room, where fewer have than must have.
    pub(super) fn too_little_room(&mut self, class: ClassId) -> Option<u64> {
        if !self.has_capacity_bound(class) {
            return None;
        }
        let Scheduler { backfill, cluster, framework, .. } = self;
        let alike = backfill.line.alike(class)?;
        if backfill.rooms.len() >= MOST && !backfill.rooms.contains_key(&class) {
            backfill.rooms.clear();
        }
        let room = backfill.rooms.entry(class).or_default();
        Some(room.read(cluster, framework, alike)).filter(|room| *room < alike.needed())
    }

    /// Whether pods of a class are alike, and counted node by node.
    pub(super) fn has_capacity_bound(&self, class: ClassId) -> bool {
        let alike = self.backfill.line.alike(class);
        alike.is_some_and(|alike| has_capacity_bound(&self.framework, &alike.shape))
    }

    /// The bound of a class, to be followed in a working copy.
    pub(super) fn room_of(&self, class: ClassId) -> Option<Room> {
        self.backfill.rooms.get(&class).cloned()
    }

    /// Whether as many pods of a class have room in a working copy as must have.
    pub(super) fn has_room_later(&self, class: ClassId, room: &mut Room, later: &Cluster) -> bool {
        let alike = self.backfill.line.alike(class);
        alike.is_none_or(|alike| room.read(later, &self.framework, alike) >= alike.needed())
    }

    /// What of a class has room by the sums.
    pub(super) fn room_in_sums(&mut self, class: ClassId) -> Option<u64> {
        let free = self.free_now();
        let alike = self.backfill.line.alike(class)?;
        let one = self.backfill.numbers.of_shape(&alike.shape);
        Some(free.holds(&one))
    }
}
