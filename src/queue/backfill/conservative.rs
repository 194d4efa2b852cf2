//! Conservative backfill: each group of the line is promised a start.
//!
//! Times are found in a profile of sums, and proved by a run through the time to come: working
//! copies of the cluster in which running groups end as estimated, and promised groups start, one
//! after the other. A group whose time has no place is tried at the next one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::demand::Demand;
use super::pass::Tried;
use super::profile::Profile;
use super::releases::Release;
use crate::base::Time;
use crate::queue::ids::GroupId;
use crate::queue::scheduler::Scheduler;
use crate::queue::shortage::Shortage;
use crate::state::Plan;

/// A group of the line with its start.
#[derive(Debug, Clone)]
struct Start {
    group: GroupId,
    demand: Demand,
    at: Time,
    end: Time,
    /// The start promised before.
    before: Option<Time>,
}

/// How often a run through the time to come is repeated with other starts before promises are left
/// as they are.
const ROUNDS: usize = 32;

impl Scheduler {
    /// A pass by the conservative rule: each group is moved to its earliest start if room was given
    /// back, and those that arrived are promised one.
    pub(super) fn conservative(&mut self, freed: bool, arrived: &BTreeSet<GroupId>) {
        let line = self.line();
        let groups = &self.groups;
        let is_in_line = |id: &GroupId| groups.get(id).is_some_and(|queued| queued.key.is_some());
        self.backfill.promises.retain(|id, _| is_in_line(id));
        let releases = self.releases();
        let mut profile = Profile::new(self.now, self.free_now());
        for release in &releases {
            profile.give(release.end, Time::MAX, &release.demand);
        }
        let starts = self.old_starts(&line, &mut profile);
        let has_due = starts.iter().any(|start| start.at <= self.now);
        if !freed && arrived.is_empty() && !has_due {
            self.wake_for_promises(starts.iter().map(|start| start.at).min());
            return;
        }
        let old: Vec<Start> = starts.clone();
        let mut starts = self.new_starts(&line, starts, &mut profile, freed);
        let mut places = self.prove(&mut starts, &releases);
        if places.is_none() {
            // The old promises have their places; those that arrived get theirs one by one.
            starts = self.one_by_one(&line, old, &releases);
            places = self.prove(&mut starts, &releases);
        }
        for start in starts {
            let plan = places.as_mut().and_then(|places| places.remove(&start.group));
            let Some(plan) = plan else {
                self.backfill.promises.remove(&start.group);
                continue;
            };
            self.promise(start.group, start.at, plan);
        }
        self.start_promised(&line);
        let next = self.backfill.promises.values().map(|promise| promise.at).min();
        self.wake_for_promises(next);
    }

    /// The promised starts, in queue order; what they take is out of the profile.
    fn old_starts(&mut self, line: &[GroupId], profile: &mut Profile) -> Vec<Start> {
        let mut starts = Vec::with_capacity(line.len());
        for &group in line {
            let Some(from) = self.ready_from(group) else {
                self.backfill.promises.remove(&group);
                continue;
            };
            let Some(promise) = self.backfill.promises.get(&group) else { continue };
            let before = promise.at;
            let at = before.max(self.now).max(from);
            let (demand, end) = (self.demand(group), self.end_of(group, at));
            profile.take(at, end, &demand);
            starts.push(Start { group, demand, at, end, before: Some(before) });
        }
        starts
    }

    /// Starts by the sums: each at its earliest.
    fn new_starts(
        &mut self,
        line: &[GroupId],
        old: Vec<Start>,
        profile: &mut Profile,
        freed: bool,
    ) -> Vec<Start> {
        let mut old: BTreeMap<GroupId, Start> =
            old.into_iter().map(|start| (start.group, start)).collect();
        let mut starts = Vec::with_capacity(line.len());
        for &group in line {
            let known = match old.remove(&group) {
                Some(start) if !freed && start.before == Some(start.at) => {
                    starts.push(start);
                    continue;
                }
                known => known,
            };
            let Some(from) = self.ready_from(group) else { continue };
            if let Some(start) = &known {
                profile.give(start.at, start.end, &start.demand);
            }
            let demand = self.demand(group);
            let Some(at) = profile.earliest(from, &demand, self.longest_run(group)) else {
                self.wait_for_room(group);
                continue;
            };
            let end = self.end_of(group, at);
            profile.take(at, end, &demand);
            let before = known.and_then(|start| start.before);
            starts.push(Start { group, demand, at, end, before });
        }
        starts
    }

    /// A place for each start, or none where one would come later than promised. Starts without a
    /// place move to a later time at which another group ends.
    fn prove(
        &mut self,
        starts: &mut Vec<Start>,
        releases: &[Release],
    ) -> Option<BTreeMap<GroupId, Plan>> {
        for _ in 0..ROUNDS {
            let stuck = match self.run_through(starts, releases) {
                Ok(places) => return Some(places),
                Err(stuck) => stuck,
            };
            let at = starts.iter().position(|start| start.group == stuck)?;
            let now = starts.get(at)?.at;
            let ends = releases.iter().map(|release| release.end);
            let ends = ends.chain(starts.iter().map(|start| start.end));
            let next = ends.filter(|end| *end > now && *end < Time::MAX).min();
            let start = starts.get_mut(at)?;
            let is_late = next.is_none_or(|next| start.before.is_some_and(|before| before < next));
            if is_late && start.before.is_some_and(|before| before >= self.now) {
                return None;
            }
            let Some(next) = next else {
                let start = starts.remove(at);
                self.wait_for_room(start.group);
                continue;
            };
            start.at = next;
            start.end = self.end_of(stuck, next);
        }
        None
    }

    /// The old starts, and for each group without one the first time that leaves them as they are.
    fn one_by_one(
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
        for &group in line {
            if starts.iter().any(|start| start.group == group) {
                continue;
            }
            let Some(from) = self.ready_from(group) else { continue };
            let ends = releases.iter().map(|release| release.end);
            let ends = ends.chain(starts.iter().map(|start| start.end));
            let times: BTreeSet<Time> = ends.chain([from]).filter(|time| *time >= from).collect();
            let demand = self.demand(group);
            for at in times.into_iter().filter(|at| *at < Time::MAX) {
                let end = self.end_of(group, at);
                starts.push(Start { group, demand: demand.clone(), at, end, before: None });
                if self.run_through(&starts, releases).is_ok() {
                    break;
                }
                starts.pop();
            }
        }
        starts
    }

    /// A place for each start, or the first group without one.
    fn run_through(
        &mut self,
        starts: &[Start],
        releases: &[Release],
    ) -> Result<BTreeMap<GroupId, Plan>, GroupId> {
        let mut times: BTreeMap<Time, (Vec<GroupId>, Vec<&Start>)> = BTreeMap::new();
        for release in releases {
            times.entry(release.end).or_default().0.push(release.group);
        }
        for start in starts {
            times.entry(start.end).or_default().0.push(start.group);
            times.entry(start.at).or_default().1.push(start);
        }
        let mut later = self.cluster.clone();
        let mut places = BTreeMap::new();
        for (at, (ends, begins)) in times {
            if begins.is_empty() && places.len() == starts.len() {
                break;
            }
            for group in ends {
                self.release_from(group, &mut later);
            }
            for start in begins {
                let group = start.group;
                let old = self.backfill.promises.get(&group).map(|promise| promise.plan.clone());
                let old = old.filter(|old| later.commit(&self.framework, old).is_ok());
                let plan = if let Some(old) = old {
                    old
                } else {
                    let tree = self.tree_of(group).ok_or(group)?;
                    let plan = self.place_later(group, &tree, &later, at).ok_or(group)?;
                    later.commit(&self.framework, &plan).map_err(|_| group)?;
                    plan
                };
                places.insert(group, plan);
            }
        }
        Ok(places)
    }

    /// Starts the groups whose promised start has come, in queue order.
    fn start_promised(&mut self, line: &[GroupId]) {
        for (position, &id) in line.iter().enumerate() {
            let Some(promise) = self.backfill.promises.get(&id) else { continue };
            let (at, plan) = (promise.at, promise.plan.clone());
            if at > self.now {
                if let Some(to) = self.groups.get(&id).map(|queued| queued.name.clone()) {
                    self.wait_in_line(id, Shortage::Promised { to, at });
                }
                continue;
            }
            if self.ready_from(id).is_none_or(|from| from > self.now) {
                continue;
            }
            match self.try_promised(id, plan) {
                Tried::Started => {
                    let passed = line.iter().take(position);
                    let is_waiting = |id: &GroupId| self.ready_from(*id).is_some();
                    if passed.copied().any(|id| is_waiting(&id)) {
                        self.metrics.add_one(|metrics| &mut metrics.backfilled);
                    }
                }
                Tried::Waits(shortage) => self.wait_in_line(id, shortage),
                Tried::Left => {}
            }
        }
    }
}
