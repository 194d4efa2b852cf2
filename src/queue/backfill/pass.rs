//! A pass over the line: what its rules have in common.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::demand::Demand;
use super::line::{ClassId, Turn};
use super::promise::PromiseView;
use super::settings::BackfillRule;
use super::state::BackfillState;
use crate::base::Time;
use crate::model::PodGroup;
use crate::queue::decide::AttemptResult;
use crate::queue::ids::GroupId;
use crate::queue::observe::GroupChange;
use crate::queue::queued_group::Phase;
use crate::queue::scheduler::Scheduler;
use crate::queue::shortage::{KnownRoom, Shortage, find_shortage};
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
            BackfillRule::Easy | BackfillRule::EasyShortestFirst => {
                self.easy(freed || due, &arrived);
            }
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

    /// Puts all groups of the line into their classes. The sums have every resource that these
    /// request from now on.
    pub(super) fn sort_line(&mut self) {
        let shortest_first = self
            .settings
            .backfill
            .is_some_and(|backfill| backfill.rule == BackfillRule::EasyShortestFirst);
        for id in self.backfill.line.unsorted() {
            let run = self.longest_run(id).unwrap_or(Duration::MAX);
            let BackfillState { line, numbers, .. } = &mut self.backfill;
            if let Some(queued) = self.groups.get(&id) {
                line.sort_in(queued, numbers, run, shortest_first);
            }
        }
    }

    /// The line, in queue order.
    pub(super) fn line(&mut self) -> Vec<GroupId> {
        self.sort_line();
        self.backfill.line.keys().map(|key| key.group).collect()
    }

    /// The class and the turn of a group in the line.
    pub(super) fn place_in_line(&mut self, id: GroupId) -> Option<(ClassId, Turn)> {
        self.sort_line();
        let key = self.groups.get(&id)?.key.as_ref()?;
        self.backfill.line.place(key).cloned()
    }

    /// The class of a group in the line.
    pub(super) fn class_of(&mut self, id: GroupId) -> Option<ClassId> {
        self.place_in_line(id).map(|(class, _)| class)
    }

    /// What a group in the line needs at least.
    pub(super) fn demand(&mut self, id: GroupId) -> Demand {
        let class = self.class_of(id);
        let demand = class.and_then(|class| self.backfill.line.demand(class));
        demand.cloned().unwrap_or_default()
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
    pub(super) fn try_start(&mut self, id: GroupId, room: KnownRoom) -> Tried {
        let Some((gang, tree)) = self.gang_and_tree(id) else { return Tried::Left };
        match self.find_plan(id, &gang, &tree, room) {
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
        let tried = self.try_start(id, KnownRoom::Unknown);
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

    /// What a group is short of, for which there is too little room: counted by class where its pods
    /// are alike.
    fn shortage_of(&mut self, id: GroupId) -> Option<Shortage> {
        let class = self.class_of(id);
        if let Some(class) = class
            && let Some(in_sums) = self.room_in_sums(class)
        {
            let name = self.groups.get(&id)?.name.clone();
            let alike = self.backfill.line.alike(class)?;
            let (requests, needed) = (alike.shape.requests.clone(), alike.needed());
            let level = alike.level().map(String::from);
            let available = if in_sums < needed { in_sums } else { self.too_little_room(class)? };
            return Some(Shortage::Capacity { group: name, requests, needed, available, level });
        }
        let tree = self.tree_of(id)?;
        let Scheduler { cluster, framework, wait_index, .. } = self;
        let found = find_shortage(cluster, framework, wait_index, &tree, false);
        let infeasible = || Shortage::Placement { outcome: String::from("infeasible") };
        Some(found.map_or_else(infeasible, |(shortage, _)| shortage))
    }

    /// A group that waits on in the line because there is too little room in all.
    pub(super) fn wait_for_room(&mut self, id: GroupId) {
        if self.groups.get(&id).is_none_or(|queued| queued.phase != Phase::Queued) {
            // It is known why it waits.
            return;
        }
        let Some(shortage) = self.shortage_of(id) else { return };
        self.metrics.add_one(|metrics| &mut metrics.short_of_capacity);
        self.wait_in_line(id, shortage);
    }
}
