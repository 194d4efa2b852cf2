//! Runs through the time to come: places for starts whose times are known.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::BackfillLine;
use super::line::ClassId;
use super::promise::{Found, Start};
use super::reads::Reads;
use super::room::Room;
use super::running::Release;
use crate::base::Time;
use crate::queue::terms::ids::GroupId;
use crate::state::{Cluster, Plan};

/// The time to come: ends and starts of groups, and the working copy of the cluster.
pub(super) struct Run {
    later: Cluster,
    /// Ends of the groups that are in the copy.
    ends: BTreeMap<Time, Vec<GroupId>>,
    /// Starts that have no place yet, by number in queue order.
    begins: BTreeMap<Time, BTreeSet<usize>>,
    /// The bounds of classes of which one had no place, in step with the copy.
    rooms: BTreeMap<ClassId, Room>,
    places: BTreeMap<GroupId, Plan>,
}

impl Run {
    /// A place for each start: in one working copy of the cluster, groups end and start in the
    /// order of time. A start without a place moves to the next end; the result is `None` if it
    /// would come later than promised then. A group that nothing ends for is short of room.
    pub(super) fn prove(
        own: &mut BackfillLine,
        reads: Reads<'_>,
        mut starts: Vec<Start>,
        releases: &[Release],
    ) -> Option<Found> {
        let mut left_out = BTreeSet::new();
        let mut run = Run::new(reads, &starts, releases);
        while let Some((at, number)) = run.next_start(reads) {
            let Some(start) = starts.get_mut(number) else { continue };
            if run.begin(own, reads, start) {
                continue;
            }
            let next = run.ends.keys().next().copied();
            let is_late = next.is_none_or(|next| start.before.is_some_and(|before| before < next));
            if is_late && start.before.is_some_and(|before| before >= reads.now()) {
                return None;
            }
            let Some(next) = next else {
                left_out.insert(start.group);
                continue;
            };
            debug_assert!(next > at, "what has ended is gone");
            (start.at, start.end) = (next, reads.end_of(start.group, next));
            run.begins.entry(next).or_default().insert(number);
        }
        starts.retain(|start| !left_out.contains(&start.group));
        Some(Found { starts, plans: run.places, ..Found::default() })
    }

    /// Looks for a place for each start at its time. The error is the first group without one.
    pub(super) fn through(
        own: &mut BackfillLine,
        reads: Reads<'_>,
        starts: &[Start],
        releases: &[Release],
    ) -> Result<(), GroupId> {
        let mut run = Run::new(reads, starts, releases);
        while let Some((_, number)) = run.next_start(reads) {
            let Some(start) = starts.get(number) else { continue };
            if !run.begin(own, reads, start) {
                return Err(start.group);
            }
        }
        Ok(())
    }

    fn new(reads: Reads<'_>, starts: &[Start], releases: &[Release]) -> Run {
        let later = reads.cluster().clone();
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
    fn next_start(&mut self, reads: Reads<'_>) -> Option<(Time, usize)> {
        let mut first = self.begins.first_entry()?;
        let at = *first.key();
        let number = first.get_mut().pop_first();
        if first.get().is_empty() {
            first.remove();
        }
        while let Some(ended) = self.ends.first_entry().filter(|ended| *ended.key() <= at) {
            for group in ended.remove() {
                reads.release_from(group, &mut self.later);
            }
        }
        Some((at, number?))
    }

    /// Starts a group in the working copy, at its promised place if that is free. Returns whether
    /// it has a place.
    fn begin(&mut self, own: &mut BackfillLine, reads: Reads<'_>, start: &Start) -> bool {
        let Start { group, at, end, .. } = *start;
        let framework = reads.framework();
        let old = reads.promised_plan(group);
        let old = old.filter(|old| self.later.commit_in_place(framework, old).is_ok());
        let plan = old.or_else(|| {
            let class = own.class_of(reads, group);
            // Where one of its class has no place, others are counted first.
            if let Some(room) = class.and_then(|class| self.rooms.get_mut(&class))
                && let Some(alike) = class.and_then(|class| own.alike(class))
                && !room.suffices(&self.later, framework, alike)
            {
                return None;
            }
            let tree = reads.tree_of(group)?;
            let plan = own.later.place(reads, group, &tree, &self.later, at);
            let plan = plan.filter(|plan| self.later.commit_in_place(framework, plan).is_ok());
            if plan.is_none()
                && let Some(class) = class
                && own.alike(class).is_some_and(|own| own.has_bound(framework))
            {
                self.rooms.entry(class).or_default();
            }
            plan
        });
        let Some(plan) = plan else { return false };
        if end < Time::MAX {
            self.ends.entry(end).or_default().push(group);
        }
        self.places.insert(group, plan);
        true
    }
}
