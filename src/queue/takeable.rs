//! Units that a group may take, as the queue sees them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::evictions::PreemptionState;
use super::ids::GroupId;
use super::queued_group::{Member, QueuedGroup};
use super::scheduler::Scheduler;
use super::status::NoPreemption;
use crate::model::{PodGroup, PreemptionPolicy};
use crate::preempt::{Candidate, Policy, Preemptor};
use crate::state::{Cluster, PodView};

/// The policy of the embedder, without pods that the queue keeps: placeholders, pods of plans in
/// flight, pods of partners, victims of groups that are not less important, and those whose eviction has failed.
#[derive(Debug)]
pub(super) struct Takeable<'a> {
    pub(super) policy: &'a dyn Policy,
    pub(super) cluster: &'a Cluster,
    pub(super) groups: &'a BTreeMap<GroupId, QueuedGroup>,
    pub(super) pods: &'a BTreeMap<String, (GroupId, u64)>,
    pub(super) state: &'a PreemptionState,
    /// Victims of decisions before, and whether they may be taken for this group instead.
    pub(super) victims: BTreeMap<String, bool>,
    /// With tenants, the only queue of which units are taken; the others' quota is not short.
    pub(super) queue: Option<&'a str>,
    /// The groups that the preemptor names or is named by: it would wait for them to start again.
    pub(super) partners: Option<&'a BTreeSet<GroupId>>,
    /// Where units are to move, the groups of which any may.
    pub(super) movable: Option<BTreeSet<GroupId>>,
}

impl<'a> Takeable<'a> {
    /// The pods that go with one of a unit: of several, all that run of its tree, whichever of them
    /// is looked at.
    fn pods_of<'p>(
        &self,
        unit: &Candidate<'_>,
        pod: PodView<'p>,
        queued: Option<&QueuedGroup>,
    ) -> Vec<PodView<'p>>
    where
        'a: 'p,
    {
        if unit.pods == 1 {
            return alloc::vec![pod];
        }
        match (queued, unit.group) {
            (Some(queued), _) => {
                let members = queued.members.values();
                let find =
                    |member: &Member| self.cluster.pod(member.pod.namespace(), &member.pod.name);
                members.filter_map(find).filter(|pod| pod.node().is_some()).collect()
            }
            (None, Some(group)) => self.cluster.pods_of(group).collect(),
            (None, None) => alloc::vec![pod],
        }
    }
}

impl Scheduler {
    /// Why no victims are searched for a group.
    pub(super) fn no_preemption(&self, id: GroupId) -> Option<NoPreemption> {
        let queued = self.groups.get(&id)?;
        if self.settings.preemption.is_none() {
            return Some(NoPreemption::Off);
        }
        let open = self.partners.open(id).filter(|open| open.contains(&id));
        let others = open.into_iter().flatten().filter(|other| **other != id);
        let groups: Vec<_> =
            others.filter_map(|other| Some(self.groups.get(other)?.name.clone())).collect();
        if !groups.is_empty() {
            return Some(NoPreemption::StartsWith { groups });
        }
        let never = PreemptionPolicy::Never;
        let mut members = queued.members.values();
        members.any(|own| own.pod.preemption_policy == never).then_some(NoPreemption::Never)
    }
}

impl Takeable<'_> {
    /// Whether a pod is of a group of which another has begun to go, and does not end: it may go yet,
    /// and the group be below its minimum then.
    fn loses_one_late(&self, unit: &Candidate<'_>, name: &str) -> bool {
        let mut late = self
            .state
            .units()
            .map(|(_, late)| late)
            .filter(|late| late.begun && late.retry_at.is_some())
            .peekable();
        if late.peek().is_none() {
            return false;
        }
        let root = self.pods.get(name).map(|(root, _)| *root);
        let group = unit.group.map(PodGroup::full_name);
        late.any(|late| match root {
            Some(_) => late.root == root,
            None => late.root.is_none() && group.is_some() && late.victim.group == group,
        })
    }
}

impl Policy for Takeable<'_> {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        let Some(pod) = unit.pod() else { return false };
        if pod.namespace() == Scheduler::RESERVED_NAMESPACE {
            return false;
        }
        let name = format!("{}/{}", pod.namespace(), pod.name());
        let root = self.pods.get(&name).map(|(id, _)| id);
        let is_partner = |root| self.partners.is_some_and(|partners| partners.contains(root));
        if root.is_some_and(is_partner) {
            return false;
        }
        let may_move =
            |movable: &BTreeSet<GroupId>| root.is_some_and(|root| movable.contains(root));
        if !self.movable.as_ref().is_none_or(may_move) {
            return false;
        }
        let queued = root.and_then(|root| self.groups.get(root));
        let queue = queued.map_or_else(|| unit.queue(), |queued| queued.root.queue.as_str());
        if self.queue.is_some_and(|own| own != queue) {
            return false;
        }
        let all = self.pods_of(unit, pod, queued);
        let is_open = |pod: &PodView<'_>| {
            let name = format!("{}/{}", pod.namespace(), pod.name());
            !self.state.refused.contains_key(&name) && self.victims.get(&name) != Some(&false)
        };
        // What terminates is no part of the unit any more.
        if !all.iter().filter(|pod| !pod.deleting()).all(is_open) {
            return false;
        }
        if self.loses_one_late(unit, &name) {
            return false;
        }
        let is_free = queued.is_none_or(|queued| {
            !queued.phase.busy() && (!queued.evicting || self.victims.contains_key(&name))
        });
        let Some(root) = queued.map(|queued| &queued.root) else {
            let least = unit.group.map_or(unit.priority, |group| group.priority);
            let unit = Candidate { priority: unit.priority.max(least), ..*unit };
            return self.policy.allows(preemptor, &unit);
        };
        // What a root says of itself holds for all of its members.
        let starts = all.iter().map(|pod| pod.start().unwrap_or(preemptor.now));
        let start = starts.max().unwrap_or(preemptor.now);
        let is_kept = root.non_preemptible
            || root.min_run_time.is_some_and(|least| preemptor.now < start.after(least));
        let unit = Candidate { priority: unit.priority.max(root.priority), ..*unit };
        is_free && !is_kept && self.policy.allows(preemptor, &unit)
    }

    fn ceiling(&self, preemptor: &Preemptor<'_>) -> Option<i32> {
        self.policy.ceiling(preemptor)
    }

    fn work_lost(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>, run: u64) -> u64 {
        self.policy.work_lost(preemptor, unit, run)
    }
}
