//! Promised starts: reading, setting and ending them.

use alloc::vec::Vec;
use core::time::Duration;

use crate::base::Time;
use crate::queue::backfill::{BackfillLine, PromiseView, Reads};
use crate::queue::scheduler::{Scheduler, Timer};
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::GroupChange;
use crate::queue::terms::shortage::Shortage;
use crate::state::Plan;

impl Scheduler {
    /// Promised starts, in queue order; see [`Backfill`](crate::queue::Backfill).
    pub fn promises(&self) -> Vec<PromiseView> {
        let promised = self.backfill.groups().filter_map(|id| {
            let (at, plan, _) = self.holds.promise(id)?;
            let group = self.groups.get(&id)?.name().clone();
            Some(PromiseView::new(group, at, plan.clone()))
        });
        promised.collect()
    }

    /// The owners that backfill reads.
    pub(super) fn backfill_reads(&self) -> Reads<'_> {
        Reads::new(&self.world, &self.groups, &self.holds)
    }

    /// Backfill with the owners that it reads.
    pub(super) fn backfill_parts(&mut self) -> (&mut BackfillLine, Reads<'_>) {
        let Scheduler { backfill, world, groups, holds, .. } = self;
        (backfill, Reads::new(world, groups, holds))
    }

    /// Groups were given a place: their run times count from now, and their promises end.
    pub(in crate::queue) fn note_start(&mut self, groups: &[GroupId]) {
        if self.world.settings().discipline.backfill().is_none() {
            return;
        }
        let (backfill, reads) = self.backfill_parts();
        backfill.note_start(reads, groups);
        for id in groups {
            self.holds.end_promise(*id);
        }
    }

    /// The shortage of a group whose plan would delay the promised start of the first of the line.
    pub(in crate::queue) fn delays_promise(&mut self, plan: &Plan) -> Option<Shortage> {
        let (backfill, reads) = self.backfill_parts();
        backfill.delays_promise(reads, plan)
    }

    /// Replaces a promise, or makes the first one.
    pub(super) fn promise(&mut self, id: GroupId, at: Time, plan: Plan) {
        let before = self.holds.set_promise(id, at, plan, self.backfill.losses());
        if before == Some(at) {
            return;
        }
        let later = before.is_some_and(|before| before < at);
        match before {
            None => self.report.count(|metrics| &mut metrics.promises),
            Some(_) if later => self.report.count(|metrics| &mut metrics.promises_broken),
            Some(_) => {}
        }
        self.emit(id, GroupChange::Promised { at, later });
    }

    /// The time at which a node may be tried again that has refused a group with a promise.
    fn refused_until(&self) -> Option<Time> {
        let retry = |(id, _): (GroupId, Time)| match self.groups.get(&id)?.shortage()? {
            Shortage::Refused { retry, .. } => Some(*retry),
            _ => None,
        };
        self.holds.promised().filter_map(retry).filter(|retry| *retry > self.world.now()).min()
    }

    /// Sets the timer of promises. A promise that is due and refused waits for the end of that.
    pub(super) fn wake_for_promises(&mut self, at: Option<Time>) {
        let soon = self.world.now().after(Duration::from_nanos(1));
        let is_due = at.is_some_and(|at| at <= soon);
        let at = self.refused_until().filter(|_| is_due).or(at);
        let Some((old, new)) = self.backfill.set_timer(self.world.now(), at) else { return };
        if let Some(old) = old {
            self.timers.remove(&(old, Timer::Promises));
        }
        self.timers.extend(new.map(|at| (at, Timer::Promises)));
    }
}
