//! A pass over the line: what its rules have in common.

use alloc::string::String;
use alloc::vec::Vec;

use super::demand::Demand;
use super::promise::PromiseView;
use super::settings::BackfillRule;
use crate::base::Time;
use crate::model::PodGroup;
use crate::queue::decide::AttemptResult;
use crate::queue::ids::GroupId;
use crate::queue::observe::GroupChange;
use crate::queue::queued_group::Phase;
use crate::queue::scheduler::Scheduler;
use crate::queue::shortage::{Shortage, find_shortage};
use crate::queue::wake::hints::WakeCondition;
use crate::state::Plan;

/// What became of an attempt to start a group.
pub(super) enum Tried {
    Started,
    /// It waits on in the line.
    Waits(Shortage),
    /// It waits for something other than room, or does not wait any more.
    Left,
}

impl Scheduler {
    /// Promised starts, in queue order; see [`Backfill`](super::settings::Backfill).
    pub fn promises(&self) -> Vec<PromiseView> {
        let line = self.backfill.line.keys();
        let promised = line.filter_map(|key| {
            let promise = self.backfill.promises.get(&key.group)?;
            let group = self.groups.get(&key.group)?.name.clone();
            Some(PromiseView { group, at: promise.at, plan: promise.plan.clone() })
        });
        promised.collect()
    }

    /// A pass over the line, if anything has changed since the last one. Returns whether there was
    /// one.
    pub(in crate::queue) fn backfill(&mut self) -> bool {
        let Some(policy) = self.settings.backfill else { return false };
        if self.tenancy.is_some() {
            self.wake_sleepers();
        }
        let state = &mut self.backfill;
        if !state.freed && !state.due && state.arrived.is_empty() {
            return false;
        }
        let arrived = core::mem::take(&mut state.arrived);
        let freed = core::mem::take(&mut state.freed);
        let due = core::mem::take(&mut state.due);
        match policy.rule {
            BackfillRule::Easy => self.easy(freed || due, &arrived, false),
            BackfillRule::EasyShortestFirst => self.easy(freed || due, &arrived, true),
            BackfillRule::Conservative => self.conservative(freed, &arrived),
        }
        true
    }

    /// Whether a group may start now, and if not from when on; `None` if it waits for something
    /// other than its turn and room.
    pub(super) fn ready_from(&self, id: GroupId) -> Option<Time> {
        let queued = self.groups.get(&id).filter(|queued| queued.reservation.is_none())?;
        match &queued.phase {
            Phase::Queued => Some(self.now),
            Phase::Unschedulable(_) => {
                let for_quota = matches!(queued.wake_on, WakeCondition::Quota { .. });
                (!for_quota).then_some(self.now)
            }
            Phase::BackingOff(until) => Some(*until),
            _ => None,
        }
    }

    /// The line, in queue order. The sums have every resource that its groups request from now on.
    pub(super) fn line(&mut self) -> Vec<GroupId> {
        let line: Vec<GroupId> = self.backfill.line.keys().map(|key| key.group).collect();
        for id in &line {
            let _ = self.demand(*id);
        }
        line
    }

    /// What a group in the line needs at least.
    pub(super) fn demand(&mut self, id: GroupId) -> Demand {
        let Some(queued) = self.groups.get(&id) else { return Demand::default() };
        let candidate = queued.key.as_ref().and_then(|key| self.backfill.line.get_mut(key));
        let Some(candidate) = candidate else { return Demand::default() };
        let numbers = &mut self.backfill.numbers;
        candidate.demand.get_or_insert_with(|| numbers.of_group(queued)).clone()
    }

    pub(super) fn demand_of_plan(&mut self, plan: &Plan) -> Demand {
        let mut sum = Demand::default();
        for assignment in plan.assignments() {
            sum.add(&self.backfill.numbers.of_shape(assignment.pod().shape()));
        }
        sum
    }

    /// The estimated end of a group that starts now, with its partners.
    pub(super) fn end_if_started(&self, id: GroupId) -> Time {
        if !self.partners.contains(id) {
            return self.end_of(id, self.now);
        }
        let gang = self.gang_group(id).unwrap_or_else(|_| alloc::vec![id]);
        gang.into_iter().map(|id| self.end_of(id, self.now)).max().unwrap_or(Time::MAX)
    }

    /// The pending members of a group, with those of its partners.
    pub(super) fn tree_of(&self, id: GroupId) -> Option<PodGroup> {
        let gang = self.gang_group(id).ok()?;
        self.joint_tree(&gang)
    }

    /// An attempt to start a group.
    pub(super) fn try_start(&mut self, id: GroupId) -> Tried {
        let Some((gang, tree)) = self.gang_and_tree(id) else { return Tried::Left };
        match self.find_plan(id, &gang, &tree, false) {
            AttemptResult::Plan(plan, held) => {
                self.start_plan(gang, plan, held);
                Tried::Started
            }
            AttemptResult::Unschedulable(shortage, wake_on) => {
                if matches!(wake_on, WakeCondition::Quota { .. }) {
                    self.mark_unschedulable(&gang, &shortage, &wake_on);
                    return Tried::Left;
                }
                Tried::Waits(shortage)
            }
            AttemptResult::Error(error) => {
                self.fail(&gang, &error);
                Tried::Left
            }
        }
    }

    /// An attempt to start a group at the place that it was promised.
    pub(super) fn try_promised(&mut self, id: GroupId, plan: Plan) -> Tried {
        let Some(queued) = self.groups.get_mut(&id) else { return Tried::Left };
        queued.nominated = Some(plan);
        let tried = self.try_start(id);
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.nominated = None;
        }
        tried
    }

    /// A group that waits on in the line, and why.
    pub(super) fn wait_in_line(&mut self, id: GroupId, shortage: Shortage) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let is_new = queued.phase == Phase::Queued;
        queued.shortage = Some(shortage.clone());
        if is_new {
            queued.attempts = queued.attempts.saturating_add(1);
            self.set_phase(id, Phase::Unschedulable(None));
            self.emit(id, GroupChange::Unschedulable(shortage));
        }
    }

    /// A group that waits on in the line because there is too little room in all.
    pub(super) fn wait_for_room(&mut self, id: GroupId) {
        if self.groups.get(&id).is_none_or(|queued| queued.phase != Phase::Queued) {
            // It is known why it waits.
            return;
        }
        let Some(tree) = self.tree_of(id) else { return };
        let Scheduler { cluster, framework, wait_index, .. } = self;
        let found = find_shortage(cluster, framework, wait_index, &tree, false);
        let shortage = found.map_or_else(
            || Shortage::Placement { outcome: String::from("infeasible") },
            |(shortage, _)| shortage,
        );
        self.metrics.add_one(|metrics| &mut metrics.short_of_capacity);
        self.wait_in_line(id, shortage);
    }
}
