//! Conservative backfill, a group at a time: each start with its place.
//!
//! If pods share nodes, sums promise too much: free capacity may be in pieces. Here a promise keeps
//! its place, and free resources are known node by node over all time to come. A group moves to an
//! earlier start where there is a place for its whole run.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::BackfillLine;
use super::line::ClassId;
use super::node_profiles::{Need, NodeProfiles, Place, ShapeNeed};
use super::promise::{Found, Start};
use super::reads::Reads;
use super::running::Release;
use crate::base::{Row, Time};
use crate::queue::groups::Member;
use crate::queue::line::shortage::shapes;
use crate::queue::terms::ids::GroupId;
use crate::state::{Cluster, Plan};

/// How many earlier starts are tried for a group that has a promise, where nodes have room for it
/// by count and no place is found.
const TRIES: usize = 8;

/// The needs of all groups of the line that may start.
pub(in crate::queue) struct Needs(BTreeMap<GroupId, Arc<Need>>);

impl Needs {
    /// The needs of the groups of the line; `None` unless room alone decides about places for all.
    pub(super) fn of(own: &mut BackfillLine, reads: Reads<'_>, line: &[GroupId]) -> Option<Needs> {
        own.later.read(reads.cluster(), own.tally.numbers());
        let mut by_class: BTreeMap<ClassId, Arc<Need>> = BTreeMap::new();
        let mut needs = BTreeMap::new();
        for &id in line {
            if reads.ready_from(id).is_none() {
                continue;
            }
            let class = own.class_of(reads, id).filter(|class| own.alike(*class).is_some());
            let known = class.and_then(|class| by_class.get(&class).map(Arc::clone));
            let need = known.or_else(|| need(own, reads, id).map(Arc::new))?;
            if let Some(class) = class {
                by_class.insert(class, Arc::clone(&need));
            }
            needs.insert(id, need);
        }
        Some(Needs(needs))
    }

    /// Whether pods share nodes, or may: then the free sum may be in pieces.
    pub(in crate::queue) fn share_nodes(&self, reads: Reads<'_>) -> bool {
        let mut shapes = self.0.values().flat_map(|need| &need.shapes);
        let is_shared = |row| reads.cluster().view(row).is_some_and(|node| node.pod_count() > 1);
        shapes.any(|shape| shape.shares) || Row::all(reads.cluster().rows()).any(is_shared)
    }

    /// The starts of the line, each with its place; those that change, with their plans. If room
    /// was released, each in queue order is moved to an earlier one if there is one; a promise
    /// whose place is gone is made again. O(groups · steps), and a placement for each that moves.
    pub(super) fn starts(
        &self,
        own: &mut BackfillLine,
        reads: Reads<'_>,
        line: &[GroupId],
        old: Vec<Start>,
        (releases, freed): (&[Release], bool),
    ) -> Found {
        let mut found = Found::default();
        let mut nodes = own.tally.node_profiles(reads, releases);
        let mut kept: BTreeMap<GroupId, (Start, Place)> = BTreeMap::new();
        for start in old {
            let is_kept = start.before == Some(start.at);
            let place = self.place_of_promise(own, reads, start.group).filter(|_| is_kept);
            let Some(place) = place else { continue };
            if nodes.has_room(&place, start.at, start.end) {
                nodes.take(&place, start.at, start.end);
                found.confirmed.push(start.group);
                kept.insert(start.group, (start, place));
            }
        }
        for &group in line {
            let known = kept.remove(&group);
            let Some((from, need)) = reads.ready_from(group).zip(self.0.get(&group)) else {
                continue;
            };
            let known = match known {
                Some((start, _)) if !freed => {
                    found.starts.push(start);
                    continue;
                }
                known => known,
            };
            if let Some((start, place)) = &known {
                nodes.give(place, start.at, start.end);
            }
            let until = known.as_ref().map_or(Time::MAX, |(start, _)| start.at);
            let earlier = place_before(own, reads, (group, need), &mut nodes, (from, until));
            let earlier = earlier.map(|(start, plan, place)| {
                found.plans.insert(group, plan);
                (start, place)
            });
            let Some((start, place)) = earlier.or(known) else {
                continue;
            };
            nodes.take(&place, start.at, start.end);
            found.starts.push(start);
        }
        found
    }

    /// The resources that a promised plan takes of each node; `None` if one of the nodes is not
    /// there any longer, or does not admit the pods any longer.
    fn place_of_promise(
        &self,
        own: &mut BackfillLine,
        reads: Reads<'_>,
        group: GroupId,
    ) -> Option<Place> {
        let (_, plan, losses) = reads.holds().promise(group)?;
        let may_be_lost = losses != own.losses;
        let place = own.tally.place_of(reads.cluster(), plan)?;
        let need = self.0.get(&group)?;
        let is_admitted = |row| need.shapes.iter().all(|shape| shape.rows.contains(row));
        (!may_be_lost || place.rows().all(is_admitted)).then_some(place)
    }
}

/// The need of a group. `None` unless it is a group of pods that all wait, and each or as many
/// alike must have a place where room alone decides.
fn need(own: &mut BackfillLine, reads: Reads<'_>, id: GroupId) -> Option<Need> {
    let queued = reads.groups().get(&id)?;
    let root = queued.root();
    let is_nominated = reads.holds().nominated(id).is_some();
    if !root.groups.is_empty() || !root.gang_group.is_empty() || is_nominated {
        return None;
    }
    let mut members = queued.members().values();
    if !members.all(Member::is_ready) {
        return None;
    }
    let mut shapes = shapes(queued.members().values().map(Member::pod));
    let least = u64::from(root.policy.minimum()).max(1);
    match &mut shapes[..] {
        [] => return None,
        [(_, count)] => *count = least.min(*count),
        all if all.iter().map(|(_, count)| *count).sum::<u64>() > least => return None,
        _ => {}
    }
    let BackfillLine { later, tally, .. } = own;
    let needs = shapes.into_iter().map(|(shape, count)| {
        Some(ShapeNeed { count, ..later.need(reads, &shape, tally.numbers_mut())? })
    });
    let shapes = needs.collect::<Option<Vec<ShapeNeed>>>()?;
    let domains = root.topology.firm_level().map(|level| domains(reads.cluster(), level));
    Some(Need { shapes, domains })
}

/// The earliest start of a group from a time on and before another, with its place.
fn place_before(
    own: &mut BackfillLine,
    reads: Reads<'_>,
    (group, need): (GroupId, &Need),
    nodes: &mut NodeProfiles,
    (mut from, until): (Time, Time),
) -> Option<(Start, Plan, Place)> {
    let run = reads.longest_run(group);
    let tries = if until < Time::MAX { TRIES } else { usize::MAX };
    for _ in 0..tries {
        if from >= until {
            break;
        }
        let at = nodes.earliest(need, from, until, run)?;
        let end = reads.end_of(group, at);
        let numbers = own.tally.numbers();
        if let Some(plan) = own.later.place_over(reads, group, (at, end), nodes, numbers) {
            let place = own.tally.place_of(reads.cluster(), &plan);
            if let Some(place) = place.filter(|place| nodes.has_room(place, at, end)) {
                let demand = own.demand(reads, group);
                let before = reads.holds().promise(group).map(|(at, ..)| at);
                return Some((Start { group, demand, at, end, before }, plan, place));
            }
        }
        from = nodes.next_change(at)?;
    }
    None
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
