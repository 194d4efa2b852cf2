//! Conservative backfill: each group of the line is promised a start.
//!
//! Times are found in a profile of sums, and proved by a run through the time to come. That is a
//! working copy of the cluster in which running groups end as estimated, and promised groups start,
//! one after the other. A group whose time has no place is tried at the next one. If a promise
//! would come later by that, or nodes are shared, groups are moved one at a time instead.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::BackfillLine;
use super::by_place::Needs;
use super::promise::{Found, Start};
use super::reads::Reads;
use super::run_through::Run;
use super::running::Release;
use crate::base::Time;
use crate::queue::terms::ids::GroupId;

impl BackfillLine {
    /// The promised starts, in queue order, and the groups whose promise ends: they wait for
    /// something other than their turn and room.
    pub(in crate::queue) fn old_starts(
        &mut self,
        reads: Reads<'_>,
        line: &[GroupId],
    ) -> (Vec<Start>, Vec<GroupId>) {
        let (mut starts, mut ended) = (Vec::with_capacity(line.len()), Vec::new());
        for &group in line {
            let Some((before, ..)) = reads.holds().promise(group) else { continue };
            let Some(from) = reads.ready_from(group) else {
                ended.push(group);
                continue;
            };
            let at = before.max(reads.now()).max(from);
            let (demand, end) = (self.demand(reads, group), reads.end_of(group, at));
            starts.push(Start { group, demand, at, end, before: Some(before) });
        }
        (starts, ended)
    }

    /// The needs of the groups of the line; `None` unless room alone decides about places for all.
    pub(in crate::queue) fn needs(&mut self, reads: Reads<'_>, line: &[GroupId]) -> Option<Needs> {
        Needs::of(self, reads, line)
    }

    /// Starts by the sums, each with its place; `None` if a promised one would come later. A group that
    /// has room by the sums and no place at any time takes no room from those behind it.
    pub(in crate::queue) fn by_sums(
        &mut self,
        reads: Reads<'_>,
        line: &[GroupId],
        old: &[Start],
        (releases, freed): (&[Release], bool),
    ) -> Option<Found> {
        let mut without: BTreeSet<GroupId> = BTreeSet::new();
        loop {
            let stays = |id: &GroupId| !without.contains(id);
            let line: Vec<GroupId> = line.iter().copied().filter(stays).collect();
            let old = old.iter().filter(|start| stays(&start.group)).cloned().collect();
            let starts = self.earliest(reads, &line, old, releases, freed);
            let tried: BTreeSet<GroupId> = starts.iter().map(|start| start.group).collect();
            let found = Run::prove(self, reads, starts, releases)?;
            let placed: BTreeSet<GroupId> = found.starts.iter().map(|start| start.group).collect();
            let before = without.len();
            without.extend(tried.difference(&placed));
            let waits = |id: &GroupId| !tried.contains(id) && reads.ready_from(*id).is_some();
            let is_later = found.starts.iter().any(|start| start.at > reads.now());
            if without.len() == before || !is_later && !line.iter().any(waits) {
                return Some(found);
            }
        }
    }

    /// Starts by the sums: each at its earliest.
    fn earliest(
        &mut self,
        reads: Reads<'_>,
        line: &[GroupId],
        old: Vec<Start>,
        releases: &[Release],
        freed: bool,
    ) -> Vec<Start> {
        let mut profile = self.tally.profile(reads, releases);
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
            let Some(from) = reads.ready_from(group) else { continue };
            if let Some(start) = &known {
                profile.give(start.at, start.end, &start.demand);
            }
            let demand = self.demand(reads, group);
            let Some(at) = profile.earliest(from, Time::MAX, &demand, reads.longest_run(group))
            else {
                continue;
            };
            let end = reads.end_of(group, at);
            profile.take(at, end, &demand);
            let before = known.and_then(|start| start.before);
            starts.push(Start { group, demand, at, end, before });
        }
        starts
    }

    /// The starts of the line, each with its place, found node by node.
    pub(in crate::queue) fn by_place(
        &mut self,
        reads: Reads<'_>,
        line: &[GroupId],
        needs: &Needs,
        old: Vec<Start>,
        (releases, freed): (&[Release], bool),
    ) -> Found {
        needs.starts(self, reads, line, old, (releases, freed))
    }

    /// The old starts, and for each group without one the first time that leaves them as they are,
    /// each with its place. Second, how many promises are broken: their groups count as new.
    pub(in crate::queue) fn one_by_one(
        &mut self,
        reads: Reads<'_>,
        line: &[GroupId],
        mut starts: Vec<Start>,
        releases: &[Release],
    ) -> (Found, usize) {
        let mut broken = 0;
        // A loss of room may break several promises at once.
        while let Err(group) = Run::through(self, reads, &starts, releases) {
            starts.retain(|start| start.group != group);
            broken += 1;
        }
        let mut profile = self.tally.profile(reads, releases);
        for start in &starts {
            profile.take(start.at, start.end, &start.demand);
        }
        for &group in line {
            if starts.iter().any(|start| start.group == group) {
                continue;
            }
            let Some(from) = reads.ready_from(group) else { continue };
            let (demand, run) = (self.demand(reads, group), reads.longest_run(group));
            let mut next = Some(from);
            while let Some(at) =
                next.and_then(|from| profile.earliest(from, Time::MAX, &demand, run))
            {
                let end = reads.end_of(group, at);
                starts.push(Start { group, demand: demand.clone(), at, end, before: None });
                if Run::through(self, reads, &starts, releases).is_ok() {
                    profile.take(at, end, &demand);
                    break;
                }
                starts.pop();
                next = profile.next_change(at);
            }
        }
        (Run::prove(self, reads, starts, releases).unwrap_or_default(), broken)
    }
}
