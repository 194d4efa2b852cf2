//! A pass over the line, by its rule.

use alloc::collections::BTreeSet;

use crate::queue::scheduler::Scheduler;
use crate::queue::settings::BackfillRule;
use crate::queue::terms::ids::GroupId;

impl Scheduler {
    /// A pass over the line, if anything has changed since the last one. Returns whether there was
    /// one.
    pub(in crate::queue) fn backfill(&mut self) -> bool {
        let Some(policy) = self.world.settings().discipline.backfill() else { return false };
        if self.tenancy.is_some() {
            self.wake_sleepers();
        }
        let renominated = self.holds.take_renominated();
        let news = self.backfill.take_news(&self.groups, &renominated);
        let Some(mut news) = news else { return false };
        // Changed groups may start earlier.
        let is_earlier = policy.rule == BackfillRule::Conservative && !news.changed().is_empty();
        if self.end_unsuitable_promises(news.changed()) || is_earlier {
            news.set_freed();
        }
        match policy.rule {
            BackfillRule::Easy | BackfillRule::EasyShortestFirst => {
                self.easy(news.has_freed() || news.is_due(), news.arrived());
            }
            BackfillRule::Conservative => self.conservative(news.has_freed(), news.arrived()),
        }
        true
    }

    /// Ends the promises, of groups that have changed, that do not suit them any longer. Returns
    /// whether one has ended.
    fn end_unsuitable_promises(&mut self, changed: &BTreeSet<GroupId>) -> bool {
        let mut has_ended = false;
        for &id in changed {
            let waits = self.backfill_reads().ready_from(id).is_some();
            let promise = self.holds.promise(id);
            if !waits || promise.is_none_or(|(_, plan, _)| !self.suits(id, plan)) {
                self.holds.end_promise(id);
                has_ended = true;
            }
        }
        has_ended
    }
}
