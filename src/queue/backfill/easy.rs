//! EASY: the first of the line is promised the earliest start, the others may not delay it.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::BackfillLine;
use super::demand::Demand;
use super::line::{ClassId, Turn};
use super::promise::{Guard, Standing};
use super::reads::Reads;
use super::walk::{Ahead, Candidate, Walk};
use super::working_copy::{Beside, WorkingCopy};
use crate::base::Time;
use crate::queue::groups::QueuedGroup;
use crate::queue::line::shortage::KnownRoom;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::shortage::Shortage;
use crate::state::Plan;

/// The earliest start of the first of the line.
pub(in crate::queue) enum HeadStart {
    At(Time, Plan),
    /// No start is known.
    Unknown,
    /// There is no place even in an empty cluster.
    Infeasible,
}

/// The verdict on a group behind the first of the line.
pub(in crate::queue) enum Verdict {
    /// It is not tried, and nothing is said of it.
    Skip,
    /// It waits: the free sums are too small.
    NoRoom,
    /// It waits for a reason that is known.
    Waits(Shortage),
    /// It may be tried.
    Try(Attempt),
}

/// An attempt to start a group behind the first of the line.
pub(in crate::queue) struct Attempt {
    class: ClassId,
    demand: Demand,
    /// Whether the group runs beyond the promised start.
    outlasts: bool,
    room: KnownRoom,
}

impl Attempt {
    /// Known room of nodes for the group.
    pub(in crate::queue) fn room(&self) -> KnownRoom {
        self.room
    }
}

impl BackfillLine {
    /// Sorts the line. Returns whether groups that arrived are behind the first of the line, so
    /// that its promise stands.
    pub(in crate::queue) fn are_behind_head(
        &mut self,
        reads: Reads<'_>,
        arrived: &BTreeSet<GroupId>,
    ) -> bool {
        self.sort_line(reads);
        let head = self.standing.as_ref().map(|standing| standing.head);
        let key = |id: GroupId| reads.groups().get(&id).and_then(QueuedGroup::key);
        let head_key = head.and_then(key);
        let is_behind =
            |id: GroupId| key(id).is_none_or(|own| head_key.is_some_and(|head| own > head));
        arrived.iter().all(|id| is_behind(*id))
    }

    /// The promised start of the first of the line.
    pub(in crate::queue) fn standing_at(&self) -> Option<Time> {
        self.standing.as_ref().map(|standing| standing.at)
    }

    // The first of the line.

    /// The line is tried from its first group on: nothing stands until another start is promised.
    pub(in crate::queue) fn begin_heads(&mut self, reads: Reads<'_>) -> Demand {
        self.standing = None;
        self.free_now(reads)
    }

    /// Finds the earliest start of a group from a time on, and notes the room that it leaves to the
    /// others.
    pub(in crate::queue) fn head_start(
        &mut self,
        reads: Reads<'_>,
        id: GroupId,
        free: &Demand,
        from: Time,
        epoch: u64,
    ) -> HeadStart {
        if reads.holds().past(id).is_some_and(|past| past.is_infeasible(epoch)) {
            return HeadStart::Unknown;
        }
        let demand = self.demand(reads, id);
        self.tally.read_ends_for_copy(reads);
        let old = reads.holds().promise(id);
        let old = old.filter(|(.., losses)| *losses == self.losses).map(|(at, ..)| at);
        let mut tree = None;
        let mut free = free.clone();
        let class = self.class_of(reads, id);
        let is_short = class.is_some_and(|class| self.too_little_room(reads, class).is_some());
        let class = class.filter(|_| is_short);
        let mut ended: Vec<GroupId> = Vec::new();
        let (mut last, mut was_tried) = (None, false);
        while let Some((at, groups)) = self.tally.add_releases(last, from, &demand, &mut free) {
            last = Some(at);
            let known_ended = ended.len();
            ended.extend(groups);
            let known = reads.promised_plan(id).filter(|_| old == Some(at));
            let is_known = known.is_some();
            let plan = known.or_else(|| {
                let BackfillLine { copy, line, later, .. } = self;
                let own = copy.take();
                let copy = copy.insert(match own {
                    Some(mut own) if was_tried => {
                        own.end_more(reads, &ended, known_ended);
                        own
                    }
                    kept => WorkingCopy::at_end_of(kept, reads, &ended),
                });
                was_tried = true;
                if let Some(class) = class
                    && let Some(counted) = line.counted(class)
                    && !copy.has_room_for(reads.framework(), counted)
                {
                    return None;
                }
                // The place that was promised for another time, where it will do.
                let own = reads.promised_plan(id).filter(|_| old.is_some());
                let own = own.filter(|plan| copy.take(reads.framework(), plan));
                own.or_else(|| {
                    tree = tree.take().or_else(|| reads.tree_of(id));
                    let plan = later.place(reads, id, tree.as_ref()?, copy.cluster(), at)?;
                    copy.take(reads.framework(), &plan).then_some(plan)
                })
            });
            let Some(plan) = plan else { continue };
            free.subtract(&self.tally.demand_of(&plan));
            self.standing = Some(Standing { head: id, at, free, is_copied: !is_known });
            return HeadStart::At(at, plan);
        }
        let is_empty = was_tried && reads.is_empty_without(&ended);
        if is_empty { HeadStart::Infeasible } else { HeadStart::Unknown }
    }

    // The groups behind it.

    /// A walk over groups that arrived, in turn.
    pub(in crate::queue) fn walk_arrived(
        &mut self,
        reads: Reads<'_>,
        arrived: &BTreeSet<GroupId>,
    ) -> Walk {
        let free = self.free_now(reads);
        let turns = arrived.iter().filter_map(|id| Some((self.place_in_line(reads, *id)?, *id)));
        let mut turns: Vec<((ClassId, Turn), GroupId)> = turns.collect();
        turns.sort_unstable_by(|((_, one), _), ((_, other), _)| one.cmp(other));
        let ahead: VecDeque<_> = turns.into_iter().map(|((class, _), id)| (class, id)).collect();
        Walk::new(free, Ahead::Arrived(ahead))
    }

    /// A walk over the groups behind the first of the line that the sums and refusals allow, in
    /// turn; `None` if nothing stands. O(classes).
    pub(in crate::queue) fn walk_line(&mut self, reads: Reads<'_>) -> Option<Walk> {
        let head = self.standing.as_ref()?.head;
        let head = reads.groups().get(&head).and_then(|queued| queued.key().cloned());
        let ahead = Ahead::Line { head, next: BTreeSet::new(), last: None };
        let mut walk = Walk::new(self.free_now(reads), ahead);
        let classes: Vec<ClassId> = self.line.classes().collect();
        for class in classes {
            self.queue_next(reads, &mut walk, class, None);
        }
        Some(walk)
    }

    /// Finds the next group of a class after a turn.
    fn queue_next(
        &mut self,
        reads: Reads<'_>,
        walk: &mut Walk,
        class: ClassId,
        after: Option<&Turn>,
    ) {
        let most = self.longest_allowed(reads, class, walk);
        let turn = most.and_then(|most| self.line.first(class, after, most));
        if let Ahead::Line { next, .. } = &mut walk.ahead {
            next.extend(turn.map(|turn| (turn.clone(), class)));
        }
    }

    /// The next group of a walk whose class has room, if it is short enough.
    pub(in crate::queue) fn next_candidate(
        &mut self,
        reads: Reads<'_>,
        walk: &mut Walk,
    ) -> Option<Candidate> {
        loop {
            if let Ahead::Line { last, .. } = &mut walk.ahead
                && let Some((turn, class)) = last.take()
            {
                self.queue_next(reads, walk, class, Some(&turn));
            }
            let (class, id, turn) = match &mut walk.ahead {
                Ahead::Arrived(groups) => {
                    let (class, id) = groups.pop_front()?;
                    (class, id, None)
                }
                Ahead::Line { next, .. } => {
                    let (turn, class) = next.pop_first()?;
                    (class, turn.1.group, Some(turn))
                }
            };
            // There may be less room than when its turn was found.
            let Some(most) = self.longest_allowed(reads, class, walk) else { continue };
            let mut is_behind = true;
            if let Ahead::Line { head, last, .. } = &mut walk.ahead
                && let Some(turn) = turn
            {
                is_behind = head.as_ref().is_none_or(|head| turn.1 > *head);
                *last = Some((turn, class));
            }
            if is_behind && reads.longest_run(id).unwrap_or(Duration::MAX) <= most {
                return Some(Candidate { group: id, class });
            }
        }
    }

    /// The longest run time with which a group of a class is tried behind the first of the line;
    /// `None` if there is no room for it.
    fn longest_allowed(
        &mut self,
        reads: Reads<'_>,
        class: ClassId,
        walk: &Walk,
    ) -> Option<Duration> {
        let is_covered = walk.free.covers(self.line.demand(class)?);
        if walk.refused.has(class) || !is_covered || self.too_little_room(reads, class).is_some() {
            return None;
        }
        let standing = self.standing.as_ref()?;
        let demand = self.line.demand(class)?;
        let may_stay = !walk.refused.has_beyond(class) && standing.free.covers(demand);
        Some(if may_stay { Duration::MAX } else { standing.at.since(reads.now()) })
    }

    /// The verdict on the next group of a walk. If it may be tried and runs beyond the promised
    /// start, the promise is guarded until [`BackfillLine::end_attempt`].
    pub(in crate::queue) fn judge(
        &mut self,
        reads: Reads<'_>,
        candidate: Candidate,
        walk: &Walk,
    ) -> Verdict {
        let Candidate { group: id, class } = candidate;
        if !reads.is_ready(id) {
            return Verdict::Skip;
        }
        let demand = self.demand(reads, id);
        if !walk.free.covers(&demand) {
            return Verdict::NoRoom;
        }
        let Some(standing) = &self.standing else { return Verdict::Skip };
        let outlasts = reads.end_if_started(id) > standing.at;
        if outlasts && !standing.free.covers(&demand) {
            return Verdict::Waits(standing.shortage(reads));
        }
        if outlasts && let Some(mut standing) = self.standing.take() {
            // Groups that have run for longer than estimated end later than in the copy.
            let is_copied = standing.is_copied && !self.tally.ends_differ_from_copy(reads);
            standing.is_copied = is_copied || self.is_kept_in_copy(reads, &standing);
            self.guard = Some(Guard { standing, moved: None, taken_up: false });
        }
        let is_counted = self.alike(class).is_some();
        let room = if is_counted { KnownRoom::Enough } else { KnownRoom::Unknown };
        Verdict::Try(Attempt { class, demand, outlasts, room })
    }

    /// Makes the working copy the cluster at the promised start. Returns whether the promise holds.
    fn is_kept_in_copy(&mut self, reads: Reads<'_>, standing: &Standing) -> bool {
        let Some(plan) = reads.promised_plan(standing.head) else { return false };
        self.tally.read_ends_for_copy(reads);
        let ended: Vec<GroupId> = self.tally.ended_by(standing.at).collect();
        let (copy, holds) = WorkingCopy::with_plan(self.copy.take(), reads, &ended, &plan);
        self.copy = Some(copy);
        holds
    }

    /// The shortage of a group that runs beyond the promised start, if its plan may not be taken
    /// up. Then the first of the line would have no place by that time, neither the promised one
    /// nor another.
    pub(in crate::queue) fn delays_promise(
        &mut self,
        reads: Reads<'_>,
        plan: &Plan,
    ) -> Option<Shortage> {
        let mut guard = self.guard.take()?;
        let is_kept = self.keep_promise(reads, &mut guard, plan).is_some();
        let shortage = (!is_kept).then(|| guard.standing.shortage(reads));
        self.guard = Some(guard);
        shortage
    }

    /// Takes a plan up at the promised start, beside the first of the line.
    fn keep_promise(&mut self, reads: Reads<'_>, guard: &mut Guard, plan: &Plan) -> Option<()> {
        let Standing { head, at, is_copied, .. } = guard.standing;
        let class = self.class_of(reads, head);
        let BackfillLine { copy, line, later, .. } = self;
        let copy = copy.as_mut().filter(|_| is_copied)?;
        let head_plan = match copy.take_beside(reads.framework(), plan) {
            Beside::Neither => return None,
            Beside::Both => {
                guard.taken_up = true;
                return Some(());
            }
            Beside::Alone(head_plan) => head_plan,
        };
        let counted = class.and_then(|class| line.counted(class));
        let has_room = counted.is_none_or(|own| copy.has_room_for(reads.framework(), own));
        let tree = reads.tree_of(head).filter(|_| has_room);
        let elsewhere = tree.and_then(|tree| {
            let plan = later.place(reads, head, &tree, copy.cluster(), at)?;
            copy.take(reads.framework(), &plan).then_some(plan)
        });
        guard.taken_up = true;
        if elsewhere.is_none() {
            copy.pop();
            guard.taken_up = !copy.put_back(head_plan);
            return None;
        }
        guard.moved = elsewhere;
        Some(())
    }

    /// A place for a group that runs beyond the promised start, once the first of the line has its
    /// own. Whether it is free by now is for the attempt to say.
    pub(in crate::queue) fn place_beside(&mut self, reads: Reads<'_>, id: GroupId) -> Option<Plan> {
        let Standing { at, is_copied, .. } = self.guard.as_ref()?.standing;
        let class = self.class_of(reads, id);
        let BackfillLine { copy, line, later, .. } = self;
        let copy = copy.as_mut().filter(|_| is_copied)?;
        let counted = class.and_then(|class| line.counted(class));
        if !counted.is_none_or(|own| copy.has_room_for(reads.framework(), own)) {
            return None;
        }
        later.place(reads, id, &reads.tree_of(id)?, copy.cluster(), at)
    }

    /// A group has started at a place that was found beside the first of the line.
    pub(in crate::queue) fn take_up_beside(&mut self, reads: Reads<'_>, plan: &Plan) {
        let Some(guard) = &mut self.guard else { return };
        // Another plan may have been taken up there in part.
        let is_copied = guard.standing.is_copied && !guard.taken_up;
        guard.standing.is_copied = is_copied
            && self.copy.as_mut().is_some_and(|copy| {
                matches!(copy.take_beside(reads.framework(), plan), Beside::Both)
            });
    }

    /// The end of an attempt. Returns the first of the line with its new place, if it had to move
    /// for a group that has started.
    pub(in crate::queue) fn end_attempt(
        &mut self,
        reads: Reads<'_>,
        walk: &mut Walk,
        attempt: &Attempt,
        started: bool,
    ) -> Option<(GroupId, Plan)> {
        let moved = self.guard.take().and_then(|guard| {
            let (standing, moved) = guard.end(started);
            self.standing = Some(standing);
            moved
        });
        if !started {
            return None;
        }
        walk.free = self.free_now(reads);
        let standing = self.standing.as_mut().filter(|_| attempt.outlasts)?;
        standing.free.subtract(&attempt.demand);
        Some((standing.head, moved?))
    }

    /// A group of a walk was refused. So are all of its class if it has no place, and nodes are
    /// judged one by one.
    pub(in crate::queue) fn note_refused(
        &self,
        reads: Reads<'_>,
        walk: &mut Walk,
        attempt: &Attempt,
        shortage: &Shortage,
    ) {
        let is_place = matches!(
            shortage,
            Shortage::Capacity { .. } | Shortage::Placement { .. } | Shortage::Promised { .. }
        );
        let alike = self.alike(attempt.class);
        if is_place && alike.is_some_and(|alike| !alike.reads_beyond_node(reads.framework())) {
            walk.refused.insert(attempt.class, shortage);
        }
    }

    /// The verdict on a group that arrived and has not started: why it waits. `free` is counted
    /// once for all of them.
    pub(in crate::queue) fn why_waits(
        &mut self,
        reads: Reads<'_>,
        id: GroupId,
        free: &mut Option<Demand>,
    ) -> Verdict {
        let Some(standing) = &self.standing else { return Verdict::Skip };
        let shortage = standing.shortage(reads);
        let demand = self.demand(reads, id);
        let has_room = free.get_or_insert_with(|| self.free_now(reads)).covers(&demand)
            && self.class_has_room(reads, id);
        if has_room { Verdict::Waits(shortage) } else { Verdict::NoRoom }
    }
}
