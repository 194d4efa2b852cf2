//! A pass by the rule of EASY.

use alloc::collections::BTreeSet;
use core::time::Duration;

use super::attempt::Tried;
use crate::queue::backfill::{Candidate, Demand, HeadStart, Verdict, Walk};
use crate::queue::groups::Phase;
use crate::queue::line::shortage::KnownRoom;
use crate::queue::scheduler::Scheduler;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::shortage::Shortage;

impl Scheduler {
    /// A pass by the rule of EASY: over the whole line, or over groups that arrived behind the
    /// first of it.
    pub(super) fn easy(&mut self, whole: bool, arrived: &BTreeSet<GroupId>) {
        let (backfill, reads) = self.backfill_parts();
        let is_behind = backfill.are_behind_head(reads, arrived);
        let walk = if !whole && is_behind {
            Some(backfill.walk_arrived(reads, arrived))
        } else {
            self.start_heads();
            let (backfill, reads) = self.backfill_parts();
            backfill.walk_line(reads)
        };
        if let Some(walk) = walk {
            self.try_in_turn(walk);
        }
        self.tell_arrived(arrived);
        let at = self.backfill.standing_at();
        // If a group that the promise rests on still runs by then, the promise is made anew.
        self.wake_for_promises(at.map(|at| at.after(Duration::from_nanos(1))));
    }

    /// Tries the groups of a walk: an attempt for each class whose need is within the free sums and
    /// that has no place.
    fn try_in_turn(&mut self, mut walk: Walk) {
        loop {
            let (backfill, reads) = self.backfill_parts();
            let Some(candidate) = backfill.next_candidate(reads, &mut walk) else { return };
            self.try_behind(candidate, &mut walk);
        }
    }

    /// Notes why groups that arrived and have not started wait.
    fn tell_arrived(&mut self, arrived: &BTreeSet<GroupId>) {
        let mut free = None;
        for &id in arrived {
            if self.groups.get(&id).is_none_or(|queued| *queued.phase() != Phase::Queued) {
                continue;
            }
            let (backfill, reads) = self.backfill_parts();
            match backfill.why_waits(reads, id, &mut free) {
                Verdict::Waits(shortage) => self.wait_in_line(id, shortage),
                Verdict::NoRoom => self.wait_for_room(id),
                Verdict::Skip | Verdict::Try(_) => {}
            }
        }
    }

    /// Starts the first of the line while it fits, and promises the next one its start.
    fn start_heads(&mut self) {
        let (backfill, reads) = self.backfill_parts();
        let mut free = backfill.begin_heads(reads);
        let (mut head, mut last) = (None, None);
        while let Some(key) = self.backfill.after(last.as_ref()) {
            let id = key.group;
            last = Some(key);
            let Some(from) = self.backfill_reads().ready_from(id) else { continue };
            if from <= self.world.now() {
                match self.try_head(id, &free) {
                    Tried::Started => {
                        let (backfill, reads) = self.backfill_parts();
                        free = backfill.free_now(reads);
                        continue;
                    }
                    // It may have started by preemption.
                    Tried::Left => continue,
                    Tried::Waits(shortage) => self.wait_in_line(id, shortage),
                }
            }
            let epoch = self.epoch;
            let (backfill, reads) = self.backfill_parts();
            match backfill.head_start(reads, id, &free, from, epoch) {
                HeadStart::At(at, plan) => {
                    self.promise(id, at, plan);
                    head = Some(id);
                    break;
                }
                // It holds up no other.
                HeadStart::Infeasible => self.holds.past_mut(id).set_infeasible(Some(epoch)),
                HeadStart::Unknown => {}
            }
        }
        self.holds.retain_promises(|id| Some(id) == head);
    }

    /// An attempt to start the first of the line.
    fn try_head(&mut self, id: GroupId, free: &Demand) -> Tried {
        let (backfill, reads) = self.backfill_parts();
        let has_room = backfill.may_have_room(reads, id, free);
        if !has_room && self.world.settings().preemption.is_none() {
            self.wait_for_room(id);
            let queued = self.groups.get(&id);
            let shortage = queued.and_then(|queued| queued.shortage().cloned());
            return shortage.map_or(Tried::Left, Tried::Waits);
        }
        let (backfill, reads) = self.backfill_parts();
        let room = backfill.known_room(reads, id);
        let room = if has_room { room } else { KnownRoom::Unknown };
        let tried = self.try_start(id, room, None);
        let Tried::Waits(shortage) = tried else { return tried };
        if let Some(plan) = self.backfill_reads().promised_plan(id) {
            let tried = self.try_promised(id, &plan);
            if !matches!(tried, Tried::Waits(_)) {
                return tried;
            }
        }
        if self.world.settings().preemption.is_some()
            && let Some(tree) = self.backfill_reads().tree_of(id)
            && self.preempt(id, &tree, &shortage)
        {
            return Tried::Left;
        }
        Tried::Waits(shortage)
    }

    /// An attempt to start a group behind the first of the line.
    fn try_behind(&mut self, candidate: Candidate, walk: &mut Walk) {
        let id = candidate.group();
        let (backfill, reads) = self.backfill_parts();
        let attempt = match backfill.judge(reads, candidate, walk) {
            Verdict::Try(attempt) => attempt,
            Verdict::Waits(shortage) => return self.wait_in_line(id, shortage),
            Verdict::NoRoom => return self.wait_for_room(id),
            Verdict::Skip => return,
        };
        let mut tried = self.try_start(id, attempt.room(), None);
        if matches!(tried, Tried::Waits(Shortage::Promised { .. })) {
            let (backfill, reads) = self.backfill_parts();
            if let Some(plan) = backfill.place_beside(reads, id) {
                tried = self.try_promised(id, &plan);
                if matches!(tried, Tried::Started) {
                    let (backfill, reads) = self.backfill_parts();
                    backfill.take_up_beside(reads, &plan);
                }
            }
        }
        let is_started = matches!(tried, Tried::Started);
        let (backfill, reads) = self.backfill_parts();
        let moved = backfill.end_attempt(reads, walk, &attempt, is_started);
        match tried {
            Tried::Started => {
                self.report.count(|metrics| &mut metrics.backfilled);
                if let Some((head, plan)) = moved {
                    self.holds.move_promise(head, plan);
                }
            }
            Tried::Waits(shortage) => {
                if self.tenancy.is_none() {
                    let (backfill, reads) = self.backfill_parts();
                    backfill.note_refused(reads, walk, &attempt, &shortage);
                }
                self.wait_in_line(id, shortage);
            }
            Tried::Left => {}
        }
    }
}
