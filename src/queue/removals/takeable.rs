//! Units that a group may take, as the queue sees them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::removal::{named, pod_name};
use super::{Removal, Removals};
use crate::model::PodGroup;
use crate::preempt::{Candidate, EvictedPod, Policy, Preemptor};
use crate::queue::groups::{Groups, Member, QueuedGroup};
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::ids::GroupId;
use crate::state::{Cluster, PodView};

/// The policy of the embedder, without pods that the queue keeps. Those are placeholders, pods of
/// plans in flight, pods of partners, victims of groups that are not less important, and pods whose
/// eviction has failed.
#[derive(Debug)]
pub(in crate::queue) struct Takeable<'a> {
    pub(in crate::queue) policy: &'a dyn Policy,
    pub(in crate::queue) cluster: &'a Cluster,
    pub(in crate::queue) groups: &'a Groups,
    pub(in crate::queue) removals: &'a Removals,
    /// Victims of decisions before, and whether they may be taken for this group instead.
    pub(in crate::queue) victims: BTreeMap<String, bool>,
    /// With tenants, the only queue whose units are taken; the others' quota is not short.
    pub(in crate::queue) queue: Option<&'a str>,
    /// The groups that are not taken: partners, and those of which too little would be left.
    pub(in crate::queue) spared: &'a BTreeSet<GroupId>,
    /// Where units are to move, the groups whose units may.
    pub(in crate::queue) movable: Option<BTreeSet<GroupId>>,
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
                let members = queued.members().values();
                let find = |member: &Member| {
                    self.cluster.pod(member.pod().namespace(), &member.pod().name)
                };
                members.filter_map(find).filter(|pod| pod.node().is_some()).collect()
            }
            (None, Some(group)) => self.cluster.pods_of(group).collect(),
            (None, None) => alloc::vec![pod],
        }
    }
}

impl Takeable<'_> {
    /// Whether another pod of the pod's group has begun to go, and does not end. It may go yet, and
    /// the group be below its minimum then.
    fn loses_one_late(&self, unit: &Candidate<'_>, name: &str) -> bool {
        let is_late = |own: &&Removal| own.retry_at().is_some();
        let mut late = self.removals.begun().filter(is_late).peekable();
        if late.peek().is_none() {
            return false;
        }
        let root = self.groups.member(name).map(|(root, _)| root);
        let group = unit.group.map(PodGroup::full_name);
        late.any(|late| match root {
            Some(_) => late.root() == root,
            None => late.root().is_none() && group.is_some() && late.group() == group.as_ref(),
        })
    }
}

impl Policy for Takeable<'_> {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        let Some(pod) = unit.pod() else { return false };
        if pod.namespace() == RESERVED_NAMESPACE {
            return false;
        }
        let name = named(pod.namespace(), pod.name());
        let root = self.groups.member(&name).map(|(id, _)| id);
        if root.is_some_and(|root| self.spared.contains(&root)) {
            return false;
        }
        let may_move =
            |movable: &BTreeSet<GroupId>| root.is_some_and(|root| movable.contains(&root));
        if !self.movable.as_ref().is_none_or(may_move) {
            return false;
        }
        let queued = root.and_then(|root| self.groups.get(&root));
        let queue = queued.map_or_else(|| unit.queue(), |queued| queued.root().queue.as_str());
        if self.queue.is_some_and(|own| own != queue) {
            return false;
        }
        let all = self.pods_of(unit, pod, queued);
        let is_open = |pod: &PodView<'_>| {
            let name = named(pod.namespace(), pod.name());
            self.removals.refused_until(&name).is_none() && self.victims.get(&name) != Some(&false)
        };
        // Pods that terminate are no part of the unit any more.
        if !all.iter().filter(|pod| !pod.deleting()).all(is_open) {
            return false;
        }
        let names = all.iter().map(|pod| named(pod.namespace(), pod.name()));
        let parts = |root| parts((self.removals, self.groups), root, &self.victims, names);
        if self.loses_one_late(unit, &name) || root.is_some_and(parts) {
            return false;
        }
        let is_free = queued.is_none_or(|queued| {
            !queued.phase().busy() && (!queued.leaves_whole() || self.victims.contains_key(&name))
        });
        let Some(root) = queued.map(QueuedGroup::root) else {
            let least = unit.group.map_or(unit.priority, |group| group.priority);
            let unit = Candidate { priority: unit.priority.max(least), ..*unit };
            return self.policy.allows(preemptor, &unit);
        };
        // Settings of the root hold for all of its members.
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

/// The groups that would be left with too little without some pods, while a member moves for a claim that
/// keeps its places: the member runs again. `before` has pods that are to go, and whether they may be
/// taken instead.
pub(in crate::queue) fn parted<'a>(
    known: (&Removals, &Groups),
    before: &BTreeMap<String, bool>,
    pods: impl Iterator<Item = &'a EvictedPod>,
) -> BTreeSet<GroupId> {
    let mut roots: BTreeMap<GroupId, Vec<String>> = BTreeMap::new();
    for name in pods.map(pod_name) {
        if let Some((root, _)) = known.1.member(&name) {
            roots.entry(root).or_default().push(name);
        }
    }
    roots.retain(|root, pods| parts(known, *root, before, pods.iter().cloned()));
    roots.into_keys().collect()
}

/// Whether one group would, without pods of it.
fn parts(
    (removals, groups): (&Removals, &Groups),
    root: GroupId,
    before: &BTreeMap<String, bool>,
    pods: impl Iterator<Item = String>,
) -> bool {
    let Some(queued) = groups.get(&root) else { return false };
    let is_kept = |name: &String| before.get(name) == Some(&false);
    let of_root = || removals.entries.of_root(queued.name());
    if !of_root().any(|own| !own.is_victim() && own.names().any(|name| is_kept(&name))) {
        return false;
    }
    let names = of_root().flat_map(Removal::names).filter(is_kept).chain(pods);
    let gone = names.filter_map(|name| Some(groups.member(&name)?.1)).collect();
    !queued.keeps_minima(&gone)
}
