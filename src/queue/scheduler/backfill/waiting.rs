//! Groups that wait on in the line, and why.

use alloc::string::String;

use crate::base::Time;
use crate::queue::backfill::Reads;
use crate::queue::groups::Phase;
use crate::queue::scheduler::{Scheduler, Timer};
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::GroupChange;
use crate::queue::terms::shortage::Shortage;

impl Scheduler {
    /// A group that waits on in the line, and why.
    pub(super) fn wait_in_line(&mut self, id: GroupId, shortage: Shortage) {
        self.wait_until(id, shortage, None);
    }

    /// A group that waits on in the line, and why: an event may help it that nobody tells, so it is
    /// tried again after [`Settings::max_in_unschedulable`](crate::queue::Settings::max_in_unschedulable).
    pub(super) fn wait_at_most(&mut self, id: GroupId, shortage: Shortage) {
        let retry = self.world.now().after(self.world.settings().max_in_unschedulable);
        self.wait_until(id, shortage, Some(retry));
    }

    /// A group that waits on in the line, until a time at most, and why.
    fn wait_until(&mut self, id: GroupId, shortage: Shortage, retry: Option<Time>) {
        // Then there is another pass. An answer of a class may be older than the end of its refusals.
        if let Shortage::Refused { retry, .. } = shortage
            && retry > self.world.now()
        {
            self.timers.insert((retry, Timer::Promises));
        }
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let is_new = *queued.phase() == Phase::Queued;
        let is_unlimited = *queued.phase() == Phase::Unschedulable(None);
        queued.set_shortage(Some(shortage.clone()));
        if is_new {
            queued.count_attempt();
            self.set_phase(id, Phase::Unschedulable(retry));
            self.emit(id, GroupChange::Unschedulable(shortage));
        } else if is_unlimited && retry.is_some() {
            self.set_phase(id, Phase::Unschedulable(retry));
        }
    }

    /// A group that waits on in the line because the free sums are too small.
    pub(super) fn wait_for_room(&mut self, id: GroupId) {
        if self.groups.get(&id).is_some_and(|queued| *queued.phase() == Phase::Queued) {
            self.wait_without_start(id);
        }
    }

    /// A group of the line for which there is no start, and why, unless it waits until some time.
    pub(super) fn wait_without_start(&mut self, id: GroupId) {
        let waits = |phase: &Phase| matches!(phase, Phase::Queued | Phase::Unschedulable(None));
        if self.groups.get(&id).is_none_or(|queued| !waits(queued.phase())) {
            return;
        }
        let Scheduler { backfill, world, groups, holds, line, .. } = self;
        let reads = Reads::new(world, groups, holds);
        if let Some(shortage) = backfill.shortage_of(reads, line, id) {
            self.report.count(|metrics| &mut metrics.short_of_capacity);
            self.wait_in_line(id, shortage);
        } else {
            self.wait_for_others(id);
        }
    }

    /// A group that waits on in the line though its pods have room by count. The room is promised to
    /// others, or the planner has no place; and no time is known, nor whether a permit denies it.
    fn wait_for_others(&mut self, id: GroupId) {
        let first = self.holds.promised().find_map(|(other, at)| {
            let to = self.groups.get(&other)?.name().clone();
            (other != id).then_some(Shortage::Promised { to, at })
        });
        let infeasible = || Shortage::Placement { outcome: String::from("infeasible") };
        self.wait_at_most(id, first.unwrap_or_else(infeasible));
    }
}
