//! Runs through the time to come: places for starts whose times are known.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::line::ClassId;
use super::promise::Start;
use super::releases::Release;
use super::room::Room;
use crate::base::Time;
use crate::queue::ids::GroupId;
use crate::queue::scheduler::Scheduler;
use crate::state::{Cluster, Plan};

/// The time to come: what ends and what begins, and the working copy of the cluster.
struct Run {
    later: Cluster,
    /// What ends of what is in the copy.
    ends: BTreeMap<Time, Vec<GroupId>>,
    /// What has no place yet, by its number in queue order.
    begins: BTreeMap<Time, BTreeSet<usize>>,
    /// The bounds of classes, in step with the copy.
    rooms: BTreeMap<ClassId, Room>,
    places: BTreeMap<GroupId, Plan>,
}

impl Scheduler {
    /// A place for each start: in one working copy of the cluster, groups end and start in the order
    /// of time. A start without a place moves to the next end; the result is `None` if it would come
    /// later than promised then. One that nothing ends for is left out.
    pub(super) fn prove(
        &mut self,
        starts: &mut Vec<Start>,
        releases: &[Release],
    ) -> Option<BTreeMap<GroupId, Plan>> {
        let mut left_out = BTreeSet::new();
        let mut run = self.run_of(starts, releases);
        while let Some((at, number)) = self.next_start(&mut run) {
            let Some(start) = starts.get_mut(number) else { continue };
            if self.begin(&mut run, start) {
                continue;
            }
            let next = run.ends.keys().next().copied();
            let is_late = next.is_none_or(|next| start.before.is_some_and(|before| before < next));
            if is_late && start.before.is_some_and(|before| before >= self.now) {
                return None;
            }
            let Some(next) = next else {
                left_out.insert(start.group);
                continue;
            };
            debug_assert!(next > at, "what has ended is gone");
            (start.at, start.end) = (next, self.end_of(start.group, next));
            run.begins.entry(next).or_default().insert(number);
        }
        starts.retain(|start| !left_out.contains(&start.group));
        for group in left_out {
            self.wait_for_room(group);
        }
        Some(run.places)
    }

    /// A place for each start at its time, or the first group without one.
    pub(super) fn run_through(
        &mut self,
        starts: &[Start],
        releases: &[Release],
    ) -> Result<BTreeMap<GroupId, Plan>, GroupId> {
        let mut run = self.run_of(starts, releases);
        while let Some((_, number)) = self.next_start(&mut run) {
            let Some(start) = starts.get(number) else { continue };
            if !self.begin(&mut run, start) {
                return Err(start.group);
            }
        }
        Ok(run.places)
    }

    fn run_of(&self, starts: &[Start], releases: &[Release]) -> Run {
        let later = self.cluster.clone();
        let (mut ends, mut begins) =
            (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, BTreeSet<_>>::new());
        for release in releases {
            ends.entry(release.end).or_default().push(release.group);
        }
        for (number, start) in starts.iter().enumerate() {
            begins.entry(start.at).or_default().insert(number);
        }
        Run { later, ends, begins, rooms: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// The next start, by time and then in queue order, with all that ends until then gone.
    fn next_start(&self, run: &mut Run) -> Option<(Time, usize)> {
        let mut first = run.begins.first_entry()?;
        let at = *first.key();
        let number = first.get_mut().pop_first();
        if first.get().is_empty() {
            first.remove();
        }
        while let Some(ended) = run.ends.first_entry().filter(|ended| *ended.key() <= at) {
            for group in ended.remove() {
                self.release_from(group, &mut run.later);
            }
        }
        Some((at, number?))
    }

    /// Starts a group in the working copy, at its promised place if that is free. Returns whether it
    /// has a place.
    fn begin(&mut self, run: &mut Run, start: &Start) -> bool {
        let Start { group, at, end, .. } = *start;
        if let Some(class) = self.class_of(group)
            && self.has_capacity_bound(class)
            && !self.has_room_later(class, run.rooms.entry(class).or_default(), &run.later)
        {
            return false;
        }
        let old = self.backfill.promises.get(&group).map(|promise| promise.plan.clone());
        let old = old.filter(|old| run.later.commit(&self.framework, old).is_ok());
        let plan = old.or_else(|| {
            let tree = self.tree_of(group)?;
            let plan = self.place_later(group, &tree, &run.later, at)?;
            run.later.commit(&self.framework, &plan).is_ok().then_some(plan)
        });
        let Some(plan) = plan else { return false };
        if end < Time::MAX {
            run.ends.entry(end).or_default().push(group);
        }
        run.places.insert(group, plan);
        true
    }

    /// The old starts, and for each group without one the first time that leaves them as they are.
    pub(super) fn one_by_one(
        &mut self,
        line: &[GroupId],
        mut starts: Vec<Start>,
        releases: &[Release],
    ) -> Vec<Start> {
        if let Err(stuck) = self.run_through(&starts, releases) {
            // A promise is broken: that group is treated as one that arrives.
            self.metrics.add_one(|metrics| &mut metrics.promises_broken);
            starts.retain(|start| start.group != stuck);
        }
        let mut profile = self.profile(releases);
        for start in &starts {
            profile.take(start.at, start.end, &start.demand);
        }
        for &group in line {
            if starts.iter().any(|start| start.group == group) {
                continue;
            }
            let Some(from) = self.ready_from(group) else { continue };
            let (demand, run) = (self.demand(group), self.longest_run(group));
            let mut next = Some(from);
            while let Some(at) =
                next.and_then(|from| profile.earliest(from, Time::MAX, &demand, run))
            {
                let end = self.end_of(group, at);
                starts.push(Start { group, demand: demand.clone(), at, end, before: None });
                if self.run_through(&starts, releases).is_ok() {
                    profile.take(at, end, &demand);
                    break;
                }
                starts.pop();
                next = profile.next_change(at);
            }
        }
        starts
    }
}
