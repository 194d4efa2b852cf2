//! When running groups end, and the cluster at a later time.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::demand::Demand;
use super::promise::Promise;
use crate::base::Time;
use crate::model::PodGroup;
use crate::place::Outcome;
use crate::queue::ids::GroupId;
use crate::queue::observe::GroupChange;
use crate::queue::queued_group::MemberState;
use crate::queue::scheduler::{Scheduler, Timer};
use crate::state::{Cluster, Plan};

/// The estimated end of a running group.
#[derive(Debug, Clone)]
pub(super) struct Release {
    pub(super) end: Time,
    pub(super) group: GroupId,
    /// What it gives back.
    pub(super) demand: Demand,
}

impl Scheduler {
    /// Groups were given a place: their run times count from now.
    pub(in crate::queue) fn note_start(&mut self, groups: &[GroupId]) {
        if self.settings.backfill.is_none() {
            return;
        }
        let now = self.now;
        for id in groups {
            if !self.runs(*id) {
                self.backfill.running.since.remove(id);
            }
            self.backfill.running.since.entry(*id).or_insert(now);
            self.backfill.running.note_group(*id);
            self.backfill.promises.remove(id);
        }
    }

    /// Whether a member that was given its place earlier is in the cluster.
    fn runs(&self, id: GroupId) -> bool {
        let queued = self.groups.get(&id);
        queued.is_some_and(|queued| {
            let there = |state| matches!(state, MemberState::Bound | MemberState::Unbinding);
            queued.members.values().any(|member| there(member.state))
        })
    }

    /// The longest time that a group runs, binding included; `None` if there is no estimate.
    pub(super) fn longest_run(&self, id: GroupId) -> Option<Duration> {
        let estimate = self.groups.get(&id)?.root.run_time_estimate?;
        let binding = self.settings.backfill.map_or(Duration::ZERO, |own| own.binding_time);
        Some(estimate.saturating_add(binding).max(Duration::from_nanos(1)))
    }

    /// The end of a group that starts at a time; the end of time if there is no estimate.
    pub(super) fn end_of(&self, id: GroupId, start: Time) -> Time {
        self.longest_run(id).map_or(Time::MAX, |run| start.after(run))
    }

    /// Estimated ends of running groups, in order, and what each gives back. Groups without an end
    /// are left out.
    pub(super) fn releases(&mut self) -> Vec<Release> {
        self.read_running();
        let ends = self.backfill.running.ends();
        let releases =
            ends.map(|(end, group, demand)| Release { end, group, demand: demand.clone() });
        releases.collect()
    }

    /// Takes the pods of a group out of a working copy of the cluster.
    pub(super) fn release_from(&self, id: GroupId, from: &mut Cluster) {
        let Some(queued) = self.groups.get(&id) else { return };
        let mut names: Vec<(String, String)> = Vec::new();
        queued.root.visit(&mut |group| {
            let pods = from.pods_of(group);
            names.extend(pods.map(|pod| (pod.namespace().into(), pod.name().into())));
        });
        for (namespace, name) in names {
            let _ = from.remove_pod(&namespace, &name);
        }
    }

    /// A plan for a tree in a working copy of the cluster, as at a later time.
    pub(super) fn place_later(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        later: &Cluster,
        at: Time,
    ) -> Option<Plan> {
        let strategy = self.groups.get(&id).and_then(|queued| queued.strategy);
        let request = self.request(tree, strategy, at);
        match self.backfill.planner.place(later, &self.framework, request) {
            Ok(Outcome::Placed(plan) | Outcome::Held { plan, .. }) if !plan.is_empty() => {
                Some(plan)
            }
            _ => None,
        }
    }

    /// Replaces a promise, or makes the first one.
    pub(super) fn promise(&mut self, id: GroupId, at: Time, plan: Plan) {
        let losses = self.backfill.losses;
        let old = self.backfill.promises.insert(id, Promise { at, plan, losses });
        let before = old.map(|old| old.at);
        if before == Some(at) {
            return;
        }
        let later = before.is_some_and(|before| before < at);
        match before {
            None => self.metrics.add_one(|metrics| &mut metrics.promises),
            Some(_) if later => self.metrics.add_one(|metrics| &mut metrics.promises_broken),
            Some(_) => {}
        }
        self.emit(id, GroupChange::Promised { at, later });
    }

    /// Sets the timer of promises.
    pub(super) fn wake_for_promises(&mut self, at: Option<Time>) {
        let at = at.map(|at| at.max(self.now.after(Duration::from_nanos(1))));
        let at = at.filter(|at| *at < Time::MAX);
        if at == self.backfill.timer {
            return;
        }
        if let Some(old) = core::mem::replace(&mut self.backfill.timer, at) {
            self.timers.remove(&(old, Timer::Promises));
        }
        self.timers.extend(at.map(|at| (at, Timer::Promises)));
    }
}
