//! The tally: sums, bounds and ends that follow the cluster.

#[cfg(feature = "serde")]
use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::demand::{Demand, ResourceNumbers};
use super::free::{Free, free_by_row};
use super::line::{Alike, RoomId};
use super::node_profiles::{NodeProfiles, Place};
use super::profile::Profile;
use super::reads::Reads;
use super::room::Rooms;
use super::running::{Release, Runner, Running};
use crate::base::Time;
use crate::queue::terms::ids::GroupId;
use crate::state::journal::Moment;
use crate::state::{Cluster, NodeView, Plan, PodView};

/// The most classes that are counted node by node at a time.
const MOST: usize = 64;

/// Sums of free resources, the running groups by their ends, and the room of classes. Each is
/// brought in step with the cluster when it is asked for.
#[derive(Debug, Default)]
pub(super) struct Tally {
    numbers: ResourceNumbers,
    running: Running,
    free: Free,
    rooms: Rooms,
    /// The change up to which the tally is in step with the cluster.
    seen: Moment,
}

impl Tally {
    /// A tally of groups that were given their places then, and of resources by number; all else is
    /// to be read.
    #[cfg(feature = "serde")]
    pub(super) fn of(numbers: ResourceNumbers, starts: BTreeMap<GroupId, Time>) -> Tally {
        Tally { numbers, running: Running::of(starts), ..Tally::default() }
    }

    /// The times at which running groups were given their places.
    #[cfg(feature = "serde")]
    pub(super) fn starts(&self) -> &BTreeMap<GroupId, Time> {
        self.running.starts()
    }

    pub(super) fn numbers(&self) -> &ResourceNumbers {
        &self.numbers
    }

    pub(super) fn numbers_mut(&mut self) -> &mut ResourceNumbers {
        &mut self.numbers
    }

    /// A group was given a place: its run time counts from now, if nothing of it runs yet.
    pub(super) fn note_start(&mut self, reads: Reads<'_>, id: GroupId) {
        self.running.start(id, reads.now(), reads.runs(id));
    }

    /// A group has changed.
    pub(super) fn note_group(&mut self, id: GroupId) {
        self.running.note_group(id);
    }

    /// The sum of free resources. O(changes).
    pub(super) fn free_now(&mut self, cluster: &Cluster) -> Demand {
        self.read_changes(cluster);
        self.free.sum()
    }

    /// Reads the changes of the cluster since this was done last.
    fn read_changes(&mut self, cluster: &Cluster) {
        let Tally { numbers, running, free, seen, .. } = self;
        let rows = cluster.journal.rows_since(*seen);
        *seen = cluster.journal.now();
        match &rows {
            Some(rows) => rows.iter().for_each(|row| running.note_row(*row)),
            None => running.note_all(),
        }
        let resources = numbers.resources(cluster);
        free.read(cluster, resources, rows.map(Vec::into_iter));
    }

    /// Brings the running groups in step with the cluster. A group that has run for longer than
    /// estimated is given as long again, until that is not over. A group without a pod in the
    /// cluster runs no more. O(what has changed).
    pub(super) fn read_running(&mut self, reads: Reads<'_>) {
        self.read_changes(reads.cluster());
        let (stale, rows) = self.running.take_stale(reads.now());
        self.read_groups(reads, stale);
        // Names are looked up only where a pod is of no group that is known there.
        let running = &self.running;
        let nodes = rows.into_iter().filter_map(|row| {
            let node = reads.cluster().view(row)?;
            (running.pods_on(row) != node.pod_count()).then_some(node)
        });
        // Pods of a removed group count for one that was stated again under its name.
        let id = |pod: PodView<'_>| Some(reads.groups().named(pod.group()?)?.0);
        let ids = nodes.flat_map(NodeView::pods).filter_map(id);
        let others = ids.filter(|id| running.started(*id).is_some()).collect();
        self.read_groups(reads, others);
        debug_assert!(self.is_running_in_step(reads), "a change of running groups was not noted");
    }

    fn read_groups(&mut self, reads: Reads<'_>, ids: BTreeSet<GroupId>) {
        for id in ids {
            let runner = self.runner(reads, id);
            self.running.set(id, runner);
        }
    }

    /// [`Tally::read_running`], for a copy of the cluster in which groups are to end.
    pub(super) fn read_ends_for_copy(&mut self, reads: Reads<'_>) {
        self.read_running(reads);
        self.running.note_copied();
    }

    /// Whether a group may end at another time by now than in the copy.
    pub(super) fn ends_differ_from_copy(&mut self, reads: Reads<'_>) -> bool {
        self.read_running(reads);
        self.running.have_moved()
    }

    fn is_running_in_step(&mut self, reads: Reads<'_>) -> bool {
        let ids: Vec<GroupId> = self.running.starts().keys().copied().collect();
        ids.into_iter().all(|id| {
            let runner = self.runner(reads, id);
            runner.is_some() && runner.as_ref() == self.running.known(id)
        })
    }

    /// The running pods of a group in numbers; `None` if no pod of it is in the cluster.
    fn runner(&mut self, reads: Reads<'_>, id: GroupId) -> Option<Runner> {
        let since = self.running.started(id)?;
        let end = reads.longest_run(id).map_or(Time::MAX, |mut run| {
            while since.after(run) < reads.now() {
                run = run.saturating_mul(2);
            }
            since.after(run)
        });
        let queued = reads.groups().get(&id)?;
        let (mut demand, mut parts, mut is_there) = (Demand::default(), Vec::new(), false);
        let (numbers, cluster) = (&mut self.numbers, reads.cluster());
        queued.root().visit(&mut |part| {
            let mut last = None;
            for pod in cluster.pods_of(part) {
                is_there = true;
                let Some(node) = pod.node() else { continue };
                let (shape, one) = match last.take() {
                    Some((shape, one)) if shape == pod.shape_id() => (shape, one),
                    _ => (pod.shape_id(), numbers.of_shape(pod.shape())),
                };
                demand.add(&one);
                parts.push((node.row(), one.clone().with_pod(1)));
                last = Some((shape, one));
            }
        });
        is_there.then(|| Runner { end, demand, place: Place::of(parts) })
    }

    /// Estimated ends of running groups, in order, with the resources that each releases. Groups
    /// without an end are left out.
    pub(super) fn releases(&mut self, reads: Reads<'_>) -> Vec<Release> {
        self.read_running(reads);
        let ends = self.running.ends();
        let releases =
            ends.map(|(end, group, demand)| Release { end, group, demand: demand.clone() });
        releases.collect()
    }

    /// The running groups that end by a time, in order.
    pub(super) fn ended_by(&self, at: Time) -> impl Iterator<Item = GroupId> {
        self.running.ends().take_while(move |(end, ..)| *end <= at).map(|(_, group, _)| group)
    }

    /// Adds the resources that running groups release to the sums, in the order of their ends: up
    /// to the first end after `last` at which the sums cover a demand. Returns it, with the groups.
    pub(super) fn add_releases(
        &self,
        last: Option<Time>,
        from: Time,
        demand: &Demand,
        free: &mut Demand,
    ) -> Option<(Time, Vec<GroupId>)> {
        let mut groups = Vec::new();
        let mut ends = self.running.ends_after(last).peekable();
        while let Some((at, group, given)) = ends.next() {
            free.add(given);
            groups.push(group);
            let more = ends.peek().is_some_and(|(next, ..)| *next == at);
            if !more && at >= from && free.covers(demand) {
                return Some((at, groups));
            }
        }
        None
    }

    /// The sum of free resources over time, promises not counted.
    pub(super) fn profile(&mut self, reads: Reads<'_>, releases: &[Release]) -> Profile {
        let mut profile = Profile::new(reads.now(), &self.free_now(reads.cluster()));
        for release in releases {
            profile.give(release.end, Time::MAX, &release.demand);
        }
        profile
    }

    /// Free resources of each node over time, promises not counted.
    pub(super) fn node_profiles(&self, reads: Reads<'_>, releases: &[Release]) -> NodeProfiles {
        let resources = self.numbers.resources(reads.cluster());
        let mut nodes = NodeProfiles::new(reads.now(), free_by_row(reads.cluster(), &resources));
        for release in releases {
            if let Some(runner) = self.running.known(release.group) {
                nodes.give(&runner.place, release.end, Time::MAX);
            }
        }
        nodes
    }

    /// The sum of resources that a plan takes.
    pub(super) fn demand_of(&mut self, plan: &Plan) -> Demand {
        let mut sum = Demand::default();
        for assignment in plan.assignments() {
            sum.add(&self.numbers.of_shape(assignment.pod().shape()));
        }
        sum
    }

    /// The resources that a plan takes of each node; `None` if one of the nodes is not there any
    /// longer.
    pub(super) fn place_of(&mut self, cluster: &Cluster, plan: &Plan) -> Option<Place> {
        let parts = plan.assignments().map(|own| {
            let one = self.numbers.of_shape(own.pod().shape());
            Some((cluster.row_of(own.node())?, one.with_pod(1)))
        });
        parts.collect::<Option<Vec<_>>>().map(Place::of)
    }

    /// The number of pods of a class that have room node by node, if fewer have than must have.
    pub(super) fn too_little_room(
        &mut self,
        reads: Reads<'_>,
        (number, alike): (RoomId, &Alike),
    ) -> Option<u64> {
        if !alike.has_bound(reads.framework()) {
            return None;
        }
        if self.rooms.len() >= MOST && !self.rooms.contains_key(&number) {
            self.rooms.clear();
        }
        let room = self.rooms.entry(number).or_default();
        let room = room.read(reads.cluster(), reads.framework(), alike);
        Some(room).filter(|room| *room < alike.needed())
    }

    /// The number of pods of a class that have room by the sums.
    pub(super) fn room_in_sums(&mut self, cluster: &Cluster, alike: &Alike) -> u64 {
        let free = self.free_now(cluster);
        free.holds(&self.numbers.of_shape(alike.shape()))
    }
}
