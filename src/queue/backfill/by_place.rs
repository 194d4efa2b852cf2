//! Conservative backfill, a group at a time: each start with its place.
//!
//! Where pods share nodes, sums say too much: what is free in all may be free in pieces. Here a
//! promise keeps its place, what is free is known node by node over all time to come, and a group
//! moves to an earlier start where there is a place for its whole run.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::availability::{Availability, free_by_row};
use super::line::ClassId;
use super::node_profiles::{Need, NodeProfiles, Place, ShapeNeed};
use super::promise::Start;
use super::releases::Release;
use crate::base::{Row, Time};
use crate::model::PodShape;
use crate::queue::ids::GroupId;
use crate::queue::queued_group::MemberState;
use crate::queue::scheduler::Scheduler;
use crate::state::{Cluster, Plan};

/// How many earlier starts are tried for a group that has a promise, where nodes have room for it by
/// count and no place is found.
const TRIES: usize = 8;

/// The needs of all groups of the line that may start.
pub(super) type Needs = BTreeMap<GroupId, Arc<Need>>;

impl Scheduler {
    /// The needs of the groups of the line; `None` unless room alone decides about places for all.
    pub(super) fn line_needs(&mut self, line: &[GroupId]) -> Option<Needs> {
        let kept = self.backfill.availability.take();
        let mut own = Availability::of(kept, &self.cluster, &self.backfill.numbers);
        let mut by_class: BTreeMap<ClassId, Arc<Need>> = BTreeMap::new();
        let (mut needs, mut is_by_room) = (Needs::new(), true);
        for &id in line {
            if self.ready_from(id).is_none() {
                continue;
            }
            let class = self.class_of(id);
            let class = class.filter(|class| self.backfill.line.alike(*class).is_some());
            let known = class.and_then(|class| by_class.get(&class).map(Arc::clone));
            let Some(need) = known.or_else(|| self.need(id, &mut own).map(Arc::new)) else {
                is_by_room = false;
                break;
            };
            if let Some(class) = class {
                by_class.insert(class, Arc::clone(&need));
            }
            needs.insert(id, need);
        }
        self.backfill.availability = Some(own);
        is_by_room.then_some(needs)
    }

    /// Whether pods share nodes, or may: then what is free in all may be free in pieces.
    pub(super) fn shares_nodes(&self, needs: &Needs) -> bool {
        let mut shapes = needs.values().flat_map(|need| &need.shapes);
        let is_shared = |row| self.cluster.view(row).is_some_and(|node| node.pod_count() > 1);
        shapes.any(|shape| shape.shares) || Row::all(self.cluster.rows()).any(is_shared)
    }

    /// What a group needs; `None` unless it is a group of pods that all wait, of which each or as many
    /// alike must have a place where room alone decides.
    fn need(&mut self, id: GroupId, own: &mut Availability) -> Option<Need> {
        let queued = self.groups.get(&id)?;
        let root = &queued.root;
        if !root.groups.is_empty() || !root.gang_group.is_empty() || queued.nominated.is_some() {
            return None;
        }
        let mut shapes: Vec<(&Arc<PodShape>, u64)> = Vec::new();
        for member in queued.members.values() {
            let pod = &member.pod;
            if member.state != MemberState::Pending || !pod.scheduling_gates.is_empty() {
                return None;
            }
            let shape = pod.shape();
            let known = shapes.iter_mut().find(|(own, _)| Arc::ptr_eq(own, shape) || *own == shape);
            match known {
                Some((_, count)) => *count += 1,
                None => shapes.push((shape, 1)),
            }
        }
        let least = u64::from(root.policy.minimum()).max(1);
        match &mut shapes[..] {
            [] => return None,
            [(_, count)] => *count = least.min(*count),
            all if all.iter().map(|(_, count)| *count).sum::<u64>() > least => return None,
            _ => {}
        }
        let (cluster, framework) = (&self.cluster, &self.framework);
        let numbers = &mut self.backfill.numbers;
        let needs = shapes.into_iter().map(|(shape, count)| {
            Some(ShapeNeed { count, ..own.need(shape, cluster, framework, numbers)? })
        });
        let shapes = needs.collect::<Option<Vec<ShapeNeed>>>()?;
        let level = root.topology.require.as_deref().filter(|_| root.topology.prefer.is_none());
        let domains = level.map(|level| domains(cluster, level));
        Some(Need { shapes, domains })
    }

    /// The starts of the line, each with its place; those that change, with their plans. If room was
    /// given back, each in queue order is moved to an earlier one if there is one; a promise whose
    /// place is gone is made anew. O(groups · steps), and a placement for each that moves.
    pub(super) fn by_place(
        &mut self,
        line: &[GroupId],
        needs: &Needs,
        old: Vec<Start>,
        releases: &[Release],
        freed: bool,
    ) -> (Vec<Start>, BTreeMap<GroupId, Plan>) {
        let mut nodes = self.node_profiles(releases);
        let mut kept: BTreeMap<GroupId, (Start, Place)> = BTreeMap::new();
        for start in old {
            let is_kept = start.before == Some(start.at);
            let place = self.place_of_promise(start.group, needs).filter(|_| is_kept);
            let Some(place) = place else { continue };
            if nodes.has_room(&place, start.at, start.end) {
                nodes.take(&place, start.at, start.end);
                if let Some(promise) = self.backfill.promises.get_mut(&start.group) {
                    promise.losses = self.backfill.losses;
                }
                kept.insert(start.group, (start, place));
            }
        }
        let (mut starts, mut plans) = (Vec::with_capacity(line.len()), BTreeMap::new());
        for &group in line {
            let known = kept.remove(&group);
            let Some((from, need)) = self.ready_from(group).zip(needs.get(&group)) else {
                continue;
            };
            let known = match known {
                Some((start, _)) if !freed => {
                    starts.push(start);
                    continue;
                }
                known => known,
            };
            if let Some((start, place)) = &known {
                nodes.give(place, start.at, start.end);
            }
            let until = known.as_ref().map_or(Time::MAX, |(start, _)| start.at);
            let found = self.place_before(group, need, &nodes, from, until);
            let found = found.map(|(start, plan, place)| {
                plans.insert(group, plan);
                (start, place)
            });
            let Some((start, place)) = found.or(known) else {
                self.wait_for_room(group);
                continue;
            };
            nodes.take(&place, start.at, start.end);
            starts.push(start);
        }
        (starts, plans)
    }

    /// The earliest start of a group from a time on and before another, with its place.
    fn place_before(
        &mut self,
        group: GroupId,
        need: &Need,
        nodes: &NodeProfiles,
        mut from: Time,
        until: Time,
    ) -> Option<(Start, Plan, Place)> {
        let run = self.longest_run(group);
        let tries = if until < Time::MAX { TRIES } else { usize::MAX };
        for _ in 0..tries {
            if from >= until {
                break;
            }
            let at = nodes.earliest(need, from, until, run)?;
            let end = self.end_of(group, at);
            if let Some(plan) = self.place_over(group, at, end, nodes) {
                let place = self.place_of(&plan);
                if let Some(place) = place.filter(|place| nodes.has_room(place, at, end)) {
                    let demand = self.demand(group);
                    let before = self.backfill.promises.get(&group).map(|promise| promise.at);
                    return Some((Start { group, demand, at, end, before }, plan, place));
                }
            }
            from = nodes.next_change(at)?;
        }
        None
    }

    /// A plan for a group that has its place from a time to another.
    fn place_over(
        &mut self,
        group: GroupId,
        at: Time,
        end: Time,
        nodes: &NodeProfiles,
    ) -> Option<Plan> {
        let tree = self.tree_of(group)?;
        let mut own = self.backfill.availability.take()?;
        let copy = own.over(nodes, (at, end), &self.backfill.numbers);
        let plan = self.place_later(group, &tree, copy, at);
        self.backfill.availability = Some(own);
        plan
    }

    /// What is free of each node over time, promises not counted.
    fn node_profiles(&mut self, releases: &[Release]) -> NodeProfiles {
        let resources = self.backfill.numbers.resources(&self.cluster);
        let mut nodes = NodeProfiles::new(self.now, free_by_row(&self.cluster, &resources));
        let (cluster, numbers) = (&self.cluster, &mut self.backfill.numbers);
        for release in releases {
            let Some(queued) = self.groups.get(&release.group) else { continue };
            let mut place = Place::default();
            queued.root.visit(&mut |part| {
                for pod in cluster.pods_of(part) {
                    let Some(node) = pod.node() else { continue };
                    place.add(node.row(), &numbers.of_shape(pod.shape()).with_pod(1));
                }
            });
            nodes.give(&place, release.end, Time::MAX);
        }
        nodes
    }

    /// What a plan takes of each node; `None` if one of the nodes is not there any longer.
    fn place_of(&mut self, plan: &Plan) -> Option<Place> {
        let mut place = Place::default();
        for assignment in plan.assignments() {
            let one = self.backfill.numbers.of_shape(assignment.pod().shape());
            place.add(self.cluster.row_of(assignment.node())?, &one.with_pod(1));
        }
        Some(place)
    }

    /// What a promised plan takes of each node; `None` if one of the nodes is not there any longer, or
    /// does not admit the pods any longer.
    fn place_of_promise(&mut self, group: GroupId, needs: &Needs) -> Option<Place> {
        let promise = self.backfill.promises.get(&group)?;
        let (plan, may_be_lost) = (promise.plan.clone(), promise.losses != self.backfill.losses);
        let place = self.place_of(&plan)?;
        let need = needs.get(&group)?;
        let is_admitted = |row| need.shapes.iter().all(|shape| shape.rows.contains(row));
        (!may_be_lost || place.rows().all(is_admitted)).then_some(place)
    }
}

/// Numbers of the domains of one level, by row.
fn domains(cluster: &Cluster, level: &str) -> Arc<[u32]> {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let number = |row: Row| {
        let value = cluster.view(row).and_then(|node| node.label(level)).unwrap_or("");
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(value).or_insert(next)
    };
    Row::all(cluster.rows()).map(number).collect()
}
