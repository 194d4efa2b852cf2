//! The owners that backfill reads, and its questions to them about a group.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::base::Time;
use crate::framework::Framework;
use crate::model::PodGroup;
use crate::queue::groups::{Groups, MemberState, Phase, QueuedGroup};
use crate::queue::holds::Holds;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::shortage::Shortage;
use crate::queue::terms::wake::WakeCondition;
use crate::queue::world::World;
use crate::state::{Cluster, Plan};

/// The world, the groups and the holds: backfill reads them and changes none.
#[derive(Clone, Copy)]
pub(in crate::queue) struct Reads<'a> {
    world: &'a World,
    groups: &'a Groups,
    holds: &'a Holds,
}

impl<'a> Reads<'a> {
    pub(in crate::queue) fn new(
        world: &'a World,
        groups: &'a Groups,
        holds: &'a Holds,
    ) -> Reads<'a> {
        Reads { world, groups, holds }
    }

    pub(super) fn world(self) -> &'a World {
        self.world
    }

    pub(super) fn groups(self) -> &'a Groups {
        self.groups
    }

    pub(super) fn holds(self) -> &'a Holds {
        self.holds
    }

    pub(super) fn cluster(self) -> &'a Cluster {
        self.world.cluster()
    }

    pub(super) fn framework(self) -> &'a Framework {
        self.world.framework()
    }

    pub(super) fn now(self) -> Time {
        self.world.now()
    }

    /// The place that a group was promised.
    pub(in crate::queue) fn promised_plan(self, id: GroupId) -> Option<Plan> {
        self.holds.promise(id).map(|(_, plan, _)| plan.clone())
    }

    /// Whether a node that had refused a group may be tried again.
    pub(in crate::queue) fn refusal_is_over(self, id: GroupId) -> bool {
        let shortage = self.groups.get(&id).and_then(QueuedGroup::shortage);
        matches!(shortage, Some(Shortage::Refused { retry, .. }) if *retry <= self.now())
    }

    /// The time from which on a group may start: now, or the end of its back-off. `None` if it
    /// waits for something other than its turn and room.
    pub(in crate::queue) fn ready_from(self, id: GroupId) -> Option<Time> {
        let queued = self.groups.get(&id).filter(|_| self.holds.room(id).is_none())?;
        match queued.phase() {
            Phase::Queued => Some(self.now()),
            Phase::Unschedulable(_) => {
                let wake_on = queued.wake_on();
                let sleeps =
                    matches!(wake_on, WakeCondition::Quota { .. } | WakeCondition::AnyChange);
                (!sleeps).then_some(self.now())
            }
            Phase::BackingOff(until) => Some(*until),
            _ => None,
        }
    }

    /// Whether a group may start now.
    pub(in crate::queue) fn is_ready(self, id: GroupId) -> bool {
        self.ready_from(id).is_some_and(|from| from <= self.now())
    }

    /// The longest time that a group runs, binding included; `None` if there is no estimate and no bound.
    pub(super) fn longest_run(self, id: GroupId) -> Option<Duration> {
        let queued = self.groups.get(&id)?;
        let (estimate, left) = (queued.root().run_time_estimate, queued.run_time_left());
        let estimate = estimate.into_iter().chain(left).min()?;
        let binding = self
            .world
            .settings()
            .discipline
            .backfill()
            .map_or(Duration::ZERO, |own| own.binding_time);
        Some(estimate.saturating_add(binding).max(Duration::from_nanos(1)))
    }

    /// The end of a group that starts at a time; the end of time if there is no estimate.
    pub(super) fn end_of(self, id: GroupId, start: Time) -> Time {
        self.longest_run(id).map_or(Time::MAX, |run| start.after(run))
    }

    /// The estimated end of a group that starts now, with its partners.
    pub(super) fn end_if_started(self, id: GroupId) -> Time {
        if !self.groups.partners().contains(id) {
            return self.end_of(id, self.now());
        }
        let gang = self.groups.gang_group(id).unwrap_or_else(|_| alloc::vec![id]);
        gang.into_iter().map(|id| self.end_of(id, self.now())).max().unwrap_or(Time::MAX)
    }

    /// The pending members of a group, with those of its partners.
    pub(in crate::queue) fn tree_of(self, id: GroupId) -> Option<PodGroup> {
        let gang = self.groups.gang_group(id).ok()?;
        self.groups.joint_tree(&gang)
    }

    /// Whether a member that was given its place earlier is in the cluster.
    pub(super) fn runs(self, id: GroupId) -> bool {
        let queued = self.groups.get(&id);
        queued.is_some_and(|queued| {
            let there = |state| matches!(state, MemberState::Bound | MemberState::Unbinding);
            queued.members().values().any(|member| there(member.state()))
        })
    }

    /// Takes the pods of a group out of a working copy of the cluster.
    pub(super) fn release_from(self, id: GroupId, from: &mut Cluster) {
        let mut names: Vec<(String, String)> = Vec::new();
        self.visit(id, &mut |group| {
            let pods = from.pods_of(group);
            names.extend(pods.map(|pod| (pod.namespace().into(), pod.name().into())));
        });
        for (namespace, name) in names {
            let _ = from.remove_pod(&namespace, &name);
        }
    }

    /// Whether no pod is left in the cluster when these groups have ended.
    pub(super) fn is_empty_without(self, ended: &[GroupId]) -> bool {
        let mut pods: BTreeSet<(&str, &str)> = BTreeSet::new();
        for id in ended {
            self.visit(*id, &mut |group| {
                pods.extend(self.cluster().pods_of(group).map(|pod| (pod.namespace(), pod.name())));
            });
        }
        pods.len() == self.cluster().pod_count()
    }

    /// Calls a function with each group of the tree of a root group.
    pub(super) fn visit(self, id: GroupId, visit: &mut impl FnMut(&PodGroup)) {
        if let Some(queued) = self.groups.get(&id) {
            queued.root().visit(visit);
        }
    }
}
