//! A pass by the conservative rule.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::attempt::Tried;
use crate::queue::backfill::{Found, Release, Start};
use crate::queue::scheduler::Scheduler;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::shortage::Shortage;

impl Scheduler {
    /// A pass by the conservative rule: each group is moved to its earliest start if room was
    /// released, and groups that arrived are promised one.
    pub(super) fn conservative(&mut self, freed: bool, arrived: &BTreeSet<GroupId>) {
        let (backfill, reads) = self.backfill_parts();
        let mut line = backfill.sorted(reads);
        let is_back = |id: GroupId| arrived.contains(&id) || reads.refusal_is_over(id);
        let are_back = backfill.pass_over_stuck(&mut line, freed, is_back);
        let is_new = |id: &GroupId| arrived.contains(id);
        let mut is_due = freed || are_back || line.iter().any(is_new);
        let mut freed = freed;
        // A promise that cannot be kept releases room to others.
        while self.promise_starts(&mut line, is_due, freed) {
            (is_due, freed) = (true, true);
        }
        let reads = self.backfill_reads();
        let from = |(id, at): (GroupId, _)| reads.ready_from(id).map_or(at, |from| from.max(at));
        let next = self.holds.promised().map(from).min();
        self.wake_for_promises(next);
    }

    /// Promises starts to the line, and starts the groups whose time has come. Returns whether a
    /// promise has ended without a start.
    fn promise_starts(&mut self, line: &mut Vec<GroupId>, is_due: bool, freed: bool) -> bool {
        let now = self.world.now();
        let (backfill, reads) = self.backfill_parts();
        let releases = backfill.releases(reads);
        let (old, ended) = backfill.old_starts(reads, line);
        if !ended.is_empty() {
            for id in ended {
                self.holds.end_promise(id);
            }
            return true;
        }
        if !is_due && old.iter().all(|start| start.at() > now) {
            return false;
        }
        let overdue: BTreeSet<GroupId> =
            old.iter().filter_map(|start| start.overdue(now)).collect();
        let found = self.find_starts(line, old, &releases, freed);
        let promised = found.groups();
        let before = self.holds.promised().map(|(id, _)| id);
        let lost: BTreeSet<_> = before.filter(|id| !promised.contains(id)).collect();
        self.holds.retain_promises(|id| promised.contains(&id));
        for (id, at, plan) in found.into_promises() {
            self.promise(id, at, plan);
        }
        let broken = self.start_promised(line, &overdue);
        for id in &broken {
            self.holds.end_promise(*id);
        }
        line.retain(|id| !broken.contains(id));
        if broken.is_empty() {
            let ready = line.iter().filter(|id| self.backfill_reads().is_ready(**id));
            let short = ready.filter(|id| self.holds.promise(**id).is_none()).copied();
            for id in short.collect::<Vec<_>>() {
                self.wait_without_start(id);
            }
            line.retain(|id| !lost.contains(id));
        }
        !broken.is_empty() || !lost.is_empty()
    }

    /// Starts for the line: by the sums, or one at a time where these do not hold.
    fn find_starts(
        &mut self,
        line: &[GroupId],
        old: Vec<Start>,
        releases: &[Release],
        freed: bool,
    ) -> Found {
        let (backfill, reads) = self.backfill_parts();
        let needs = backfill.needs(reads, line);
        if needs.as_ref().is_none_or(|needs| !needs.share_nodes(reads))
            && let Some(found) = backfill.by_sums(reads, line, &old, (releases, freed))
        {
            return found;
        }
        let (backfill, reads) = self.backfill_parts();
        let Some(needs) = needs else {
            let (found, broken) = backfill.one_by_one(reads, line, old, releases);
            for _ in 0..broken {
                self.report.count(|metrics| &mut metrics.promises_broken);
            }
            return found;
        };
        let found = backfill.by_place(reads, line, &needs, old, (releases, freed));
        for id in found.confirmed() {
            self.holds.confirm_promise(*id, self.backfill.losses());
        }
        found
    }

    /// Starts the groups whose promised start has come, in queue order. Returns those that cannot
    /// start: they wait for something else, or had no place twice. Once may be too early: others
    /// may run on.
    fn start_promised(
        &mut self,
        line: &[GroupId],
        overdue: &BTreeSet<GroupId>,
    ) -> BTreeSet<GroupId> {
        let mut broken = BTreeSet::new();
        for (position, &id) in line.iter().enumerate() {
            let Some((at, plan)) = self.holds.promise(id).map(|(at, plan, _)| (at, plan.clone()))
            else {
                continue;
            };
            if at > self.world.now() {
                if let Some(to) = self.groups.get(&id).map(|queued| queued.name().clone()) {
                    self.wait_in_line(id, Shortage::Promised { to, at });
                }
                continue;
            }
            if !self.backfill_reads().is_ready(id) {
                continue;
            }
            match self.try_promised(id, &plan) {
                Tried::Started => {
                    let mut passed = line.iter().take(position);
                    let reads = self.backfill_reads();
                    if passed.any(|id| reads.ready_from(*id).is_some()) {
                        self.report.count(|metrics| &mut metrics.backfilled);
                    }
                }
                Tried::Waits(shortage) if overdue.contains(&id) => {
                    self.wait_at_most(id, shortage);
                    self.backfill.note_stuck(id);
                    broken.insert(id);
                }
                Tried::Waits(shortage) => self.wait_in_line(id, shortage),
                Tried::Left if self.holds.promise(id).is_some() => {
                    broken.insert(id);
                }
                Tried::Left => {}
            }
        }
        broken
    }
}
