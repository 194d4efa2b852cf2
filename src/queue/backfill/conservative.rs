//! Conservative backfill: each group of the line is promised a start.
//!
//! Times are found in a profile of sums, and proved by a run through the time to come: a working
//! copy of the cluster in which running groups end as estimated, and promised groups start, one
//! after the other. A group whose time has no place is tried at the next one. Where a promise would
//! come later by that, or nodes are shared, groups are moved one at a time instead.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::pass::Tried;
use super::profile::Profile;
use super::promise::Start;
use super::releases::Release;
use crate::base::Time;
use crate::queue::ids::GroupId;
use crate::queue::scheduler::Scheduler;
use crate::queue::shortage::Shortage;

impl Scheduler {
    /// A pass by the conservative rule: each group is moved to its earliest start if room was given
    /// back, and those that arrived are promised one.
    pub(super) fn conservative(&mut self, freed: bool, arrived: &BTreeSet<GroupId>) {
        let line = self.line();
        let groups = &self.groups;
        let is_in_line = |id: &GroupId| groups.get(id).is_some_and(|queued| queued.key.is_some());
        self.backfill.promises.retain(|id, _| is_in_line(id));
        let releases = self.releases();
        let old = self.old_starts(&line);
        let has_due = old.iter().any(|start| start.at <= self.now);
        if !freed && arrived.is_empty() && !has_due {
            self.wake_for_promises(old.iter().map(|start| start.at).min());
            return;
        }
        let needs = self.line_needs(&line);
        let (mut starts, mut plans) = (Vec::new(), None);
        if needs.as_ref().is_none_or(|needs| !self.shares_nodes(needs)) {
            starts = self.by_sums(&line, old.clone(), &releases, freed);
            plans = self.prove(&mut starts, &releases);
        }
        if plans.is_none() {
            if let Some(needs) = needs {
                let found = self.by_place(&line, &needs, old, &releases, freed);
                (starts, plans) = (found.0, Some(found.1));
            } else {
                starts = self.one_by_one(&line, old, &releases);
                plans = self.prove(&mut starts, &releases);
            }
        }
        let mut plans = plans.unwrap_or_else(|| {
            starts.clear();
            BTreeMap::new()
        });
        let promised: BTreeSet<GroupId> = starts.iter().map(|start| start.group).collect();
        self.backfill.promises.retain(|id, _| promised.contains(id));
        for start in starts {
            // Where there is no plan, the promise stays as it is.
            if let Some(plan) = plans.remove(&start.group) {
                self.promise(start.group, start.at, plan);
            }
        }
        self.start_promised(&line);
        let next = self.backfill.promises.values().map(|promise| promise.at).min();
        self.wake_for_promises(next);
    }

    /// What is free in all over time, promises not counted.
    pub(super) fn profile(&mut self, releases: &[Release]) -> Profile {
        let mut profile = Profile::new(self.now, self.free_now());
        for release in releases {
            profile.give(release.end, Time::MAX, &release.demand);
        }
        profile
    }

    /// The promised starts, in queue order.
    fn old_starts(&mut self, line: &[GroupId]) -> Vec<Start> {
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
            starts.push(Start { group, demand, at, end, before: Some(before) });
        }
        starts
    }

    /// Starts by the sums: each at its earliest.
    fn by_sums(
        &mut self,
        line: &[GroupId],
        old: Vec<Start>,
        releases: &[Release],
        freed: bool,
    ) -> Vec<Start> {
        let mut profile = self.profile(releases);
        for start in &old {
            profile.take(start.at, start.end, &start.demand);
        }
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
            let Some(at) = profile.earliest(from, Time::MAX, &demand, self.longest_run(group))
            else {
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
