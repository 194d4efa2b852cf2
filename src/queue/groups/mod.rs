//! Groups: root groups with their members and phases, and which of them start together.

mod components;
mod counts;
mod gangs;
mod group;
mod losses;
mod members;
mod orphans;
mod partners;
mod phase;
mod run_time;
mod tree;

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::orphans::Orphans;
use self::partners::Partners;
use self::tree::fill_empty;
use crate::base::ObjectName;
use crate::base::hash::FixedMap;
use crate::model::{GroupPolicy, Pod, PodGroup, PodShape};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::GroupId;
use crate::state::{Cluster, NodeView};

#[cfg(feature = "serde")]
pub(in crate::queue) use self::group::SavedGroup;
pub(in crate::queue) use self::group::{QueuedGroup, full_name};
#[cfg(feature = "serde")]
pub(in crate::queue) use self::members::Members;
pub(in crate::queue) use self::members::{Member, MemberState};
pub(in crate::queue) use self::orphans::in_leaf;
#[cfg(feature = "serde")]
pub(in crate::queue) use self::phase::Health;
pub(in crate::queue) use self::phase::Phase;
pub(in crate::queue) use self::tree::split;

/// All root groups, by number and by name, with their members.
#[derive(Debug, Default)]
pub(in crate::queue) struct Groups {
    all: BTreeMap<GroupId, QueuedGroup>,
    /// Groups of all trees by full name: the root, and the index of the leaf.
    names: BTreeMap<String, (GroupId, Option<usize>)>,
    /// Members by full name.
    pods: FixedMap<String, (GroupId, u64)>,
    /// Pods whose group is not known yet. None of them is a member.
    orphans: Orphans,
    partners: Partners,
}

/// Whether two pods of one name are known to be two.
fn is_another(old: &Pod, new: &Pod) -> bool {
    !old.uid.is_empty() && !new.uid.is_empty() && old.uid != new.uid
}

impl Groups {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as a map")]
    pub(in crate::queue) fn get(&self, id: &GroupId) -> Option<&QueuedGroup> {
        self.all.get(id)
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as a map")]
    pub(in crate::queue) fn get_mut(&mut self, id: &GroupId) -> Option<&mut QueuedGroup> {
        self.all.get_mut(id)
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as a map")]
    pub(in crate::queue) fn contains_key(&self, id: &GroupId) -> bool {
        self.all.contains_key(id)
    }

    pub(in crate::queue) fn iter(&self) -> impl Iterator<Item = (&GroupId, &QueuedGroup)> {
        self.all.iter()
    }

    pub(in crate::queue) fn iter_mut(
        &mut self,
    ) -> impl Iterator<Item = (&GroupId, &mut QueuedGroup)> {
        self.all.iter_mut()
    }

    pub(in crate::queue) fn values(&self) -> impl Iterator<Item = &QueuedGroup> {
        self.all.values()
    }

    pub(in crate::queue) fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of members of all groups.
    pub(in crate::queue) fn member_count(&self) -> usize {
        self.pods.len()
    }

    /// The root, and the index of the leaf, of a group by its full name.
    pub(in crate::queue) fn named(&self, name: &str) -> Option<(GroupId, Option<usize>)> {
        self.names.get(name).copied()
    }

    /// The group and number of a member, by its full name.
    pub(in crate::queue) fn member(&self, name: &str) -> Option<(GroupId, u64)> {
        self.pods.get(name).copied()
    }

    /// The groups and numbers of all members, in order of their full names.
    pub(in crate::queue) fn all_members(&self) -> impl Iterator<Item = (GroupId, u64)> {
        let members = self.all.iter().flat_map(|(id, queued)| {
            let number = move |(seq, own): (&u64, &Member)| (full_name(own.pod()), (*id, *seq));
            queued.members().iter().map(number)
        });
        members.collect::<BTreeMap<_, _>>().into_values()
    }

    /// Full names of the root groups, sorted.
    pub(in crate::queue) fn roots(&self) -> impl Iterator<Item = &str> {
        let is_root = |(name, (id, _)): &(&String, &(GroupId, Option<usize>))| {
            self.all.get(id).is_some_and(|queued| *queued.name() == ***name)
        };
        self.names.iter().filter(is_root).map(|(name, _)| name.as_str())
    }

    /// The number of a root group.
    pub(in crate::queue) fn root(&self, group: &str) -> Result<GroupId, QueueError> {
        let found = self.names.get(group).map(|(id, _)| *id);
        found
            .filter(|id| self.all.get(id).is_some_and(|queued| *queued.name() == group))
            .ok_or_else(|| QueueError::UnknownGroup(group.to_owned()))
    }

    /// Full names of some groups.
    pub(in crate::queue) fn full_names(&self, groups: &[GroupId]) -> Vec<ObjectName> {
        groups.iter().filter_map(|id| Some(self.all.get(id)?.name().clone())).collect()
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    pub(in crate::queue) fn orphans_mut(&mut self) -> &mut Orphans {
        &mut self.orphans
    }

    pub(in crate::queue) fn partners(&self) -> &Partners {
        &self.partners
    }

    pub(in crate::queue) fn partners_mut(&mut self) -> &mut Partners {
        &mut self.partners
    }

    /// Adds a group under a new number. Its names are entered by [`Groups::enter_names`].
    pub(in crate::queue) fn insert(&mut self, id: GroupId, queued: QueuedGroup) {
        self.all.insert(id, queued);
    }

    /// Removes a group with its members; its names are to be removed before.
    pub(in crate::queue) fn remove(&mut self, id: GroupId) -> Option<QueuedGroup> {
        let queued = self.all.remove(&id)?;
        for member in queued.members().values() {
            self.pods.remove(&full_name(member.pod()));
        }
        Some(queued)
    }

    /// Enters the names of a tree.
    pub(in crate::queue) fn enter_names(&mut self, id: GroupId, tree: &PodGroup) {
        let mut index = 0;
        tree.visit(&mut |group| {
            let leaf = group.groups.is_empty().then(|| {
                index += 1;
                index - 1
            });
            self.names.insert(group.full_name().into(), (id, leaf));
        });
    }

    /// Removes the names of a tree. Returns a group of each gang group that is left without it.
    pub(in crate::queue) fn forget_names(&mut self, id: GroupId) -> Vec<GroupId> {
        let partners = self.remove_partners(id);
        let Groups { all, names, .. } = self;
        let Some(queued) = all.get(&id) else { return partners };
        queued.root().visit(&mut |group| {
            names.remove(&*group.full_name());
        });
        partners
    }

    /// Enters a member that a group has already.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn enter_member(&mut self, name: String, id: GroupId, seq: u64) {
        self.pods.insert(name, (id, seq));
    }

    /// Adds a pending member.
    pub(in crate::queue) fn add_member(&mut self, id: GroupId, seq: u64, leaf: usize, pod: Pod) {
        let Some(queued) = self.all.get_mut(&id) else { return };
        self.pods.insert(full_name(&pod), (id, seq));
        queued.members_mut().insert(seq, Member::new(leaf, pod));
    }

    /// Gives a pod that names no group the one of the member of its name. Whether that is this pod and has
    /// finished: news of it are late then.
    pub(in crate::queue) fn recognise(&self, pod: &mut Pod) -> bool {
        let member = self.member(&full_name(pod)).and_then(|(id, seq)| self.find(id, seq));
        member.is_some_and(|member| {
            if pod.group.is_none() {
                pod.group.clone_from(&member.pod().group);
            }
            member.state() == MemberState::Done && !is_another(member.pod(), pod)
        })
    }

    /// The member of a pod's name. One that has finished and has another uid is removed: this pod follows it.
    pub(in crate::queue) fn current(&mut self, pod: &Pod) -> Option<(GroupId, u64)> {
        let (id, seq) = self.member(&full_name(pod))?;
        let member = self.find(id, seq)?;
        if member.state() == MemberState::Done && is_another(member.pod(), pod) {
            self.end_member(id, seq, false);
            return None;
        }
        Some((id, seq))
    }

    /// Removes a member, or marks it as finished. Returns its full name, and the state before.
    pub(in crate::queue) fn end_member(
        &mut self,
        id: GroupId,
        seq: u64,
        finished: bool,
    ) -> Option<(String, MemberState)> {
        let members = self.all.get_mut(&id)?.members_mut();
        let member = members.get(&seq)?;
        let (name, state) = (full_name(member.pod()), member.state());
        if finished {
            members.set_state(seq, MemberState::Done);
        } else {
            members.remove(seq);
            self.pods.remove(&name);
        }
        Some((name, state))
    }

    /// The shape of a member, by its pod in a plan or a tree.
    pub(in crate::queue) fn shape_of(&self, pod: &Pod) -> Option<&Arc<PodShape>> {
        let (id, seq) = self.member(&full_name(pod))?;
        Some(self.find(id, seq)?.pod().shape())
    }

    /// A member that is known.
    pub(in crate::queue) fn find(&self, id: GroupId, seq: u64) -> Option<&Member> {
        self.all.get(&id)?.members().get(&seq)
    }

    /// Sets the state of a member.
    pub(in crate::queue) fn set_state(&mut self, id: GroupId, seq: u64, state: MemberState) {
        if let Some(queued) = self.all.get_mut(&id) {
            queued.members_mut().set_state(seq, state);
        }
    }

    /// Reads from the cluster whether a member is on a node that exists. The phase of its group may
    /// differ then.
    pub(in crate::queue) fn read_node(&mut self, cluster: &Cluster, id: GroupId, seq: u64) {
        let Some(queued) = self.all.get_mut(&id) else { return };
        let Some(member) = queued.members().get(&seq) else { return };
        let pod = cluster.pod(member.pod().namespace(), &member.pod().name);
        let on_node = pod.is_some_and(|pod| pod.node().is_some());
        queued.members_mut().set_on_node(seq, on_node);
        self.partners.set_stale(id, true);
    }

    /// Members on a node, by number.
    pub(in crate::queue) fn members_on(
        &self,
        cluster: &Cluster,
        node: &str,
    ) -> Vec<(GroupId, u64)> {
        let pods = cluster.node(node).into_iter().flat_map(NodeView::pods);
        let mut members: Vec<_> = pods
            .filter_map(|pod| self.member(&format!("{}/{}", pod.namespace(), pod.name())))
            .collect();
        members.sort_unstable();
        members
    }

    /// Groups with members on a node.
    pub(in crate::queue) fn groups_on(&self, cluster: &Cluster, node: &str) -> BTreeSet<GroupId> {
        self.members_on(cluster, node).into_iter().map(|(id, _)| id).collect()
    }

    /// The pending members of one or several groups that the next attempt is for, as one tree; `None` if
    /// there are none.
    pub(in crate::queue) fn joint_tree(&self, groups: &[GroupId]) -> Option<PodGroup> {
        self.joined(groups, QueuedGroup::turn_tree)
    }

    /// All pending members of one or several groups as one tree; `None` if there are none.
    pub(in crate::queue) fn whole_tree(&self, groups: &[GroupId]) -> Option<PodGroup> {
        self.joined(groups, QueuedGroup::pending_tree)
    }

    fn joined(
        &self,
        groups: &[GroupId],
        tree_of: impl Fn(&QueuedGroup) -> PodGroup,
    ) -> Option<PodGroup> {
        let tree_of = |id| self.all.get(id).filter(|queued| queued.pending() > 0).map(&tree_of);
        if let [id] = groups {
            return tree_of(id);
        }
        let mut trees: Vec<PodGroup> = groups.iter().filter_map(tree_of).collect();
        if trees.len() <= 1 {
            return trees.pop();
        }
        let first = trees.first()?;
        let all = u32::try_from(trees.len()).unwrap_or(u32::MAX);
        let name = format!("{}+{}", first.name, trees.len() - 1);
        let mut joint = PodGroup::gang(name, all).in_namespace(first.namespace.clone());
        joint.policy = GroupPolicy::Gang { min_count: all };
        // They are as important as the least important of them.
        joint.priority = trees.iter().map(|tree| tree.priority).min().unwrap_or(0);
        if trees.iter().all(|tree| tree.queue == first.queue) {
            joint.queue.clone_from(&first.queue);
        }
        joint.groups = trees;
        Some(joint)
    }

    /// Checks that a tree is valid, and that no group or pod of it belongs to another tree.
    pub(in crate::queue) fn check_group(&self, group: &PodGroup) -> Result<(), QueueError> {
        let mut whole = group.clone();
        fill_empty(&mut whole);
        whole.check()?;
        let root = group.full_name();
        let own = self.names.get(&*root).map(|(id, _)| *id);
        let mut taken = None;
        group.visit(&mut |part| {
            let name = part.full_name();
            if let Some((id, _)) = self.names.get(&*name)
                && (Some(*id) != own
                    || self.all.get(id).is_some_and(|queued| *queued.name() != root))
            {
                let root = self.all.get(id).map_or_else(|| root.clone(), |own| own.name().clone());
                taken = taken.take().or(Some(QueueError::GroupTaken { group: name, root }));
            }
            for pod in &part.pods {
                let name = pod.full_name();
                let elsewhere = self.pods.get(&*name).is_some_and(|(id, _)| Some(*id) != own);
                if elsewhere {
                    let group = part.full_name();
                    taken = taken.take().or(Some(QueueError::PodTaken { pod: name, group }));
                }
            }
        });
        taken.map_or(Ok(()), Err)
    }

    /// Checks that a pod is not a member of another leaf.
    pub(in crate::queue) fn check_member(
        &self,
        name: &str,
        id: GroupId,
        leaf: usize,
    ) -> Result<(), QueueError> {
        let Some((other, seq)) = self.member(name) else { return Ok(()) };
        let queued = self.all.get(&other);
        let member = queued.and_then(|queued| queued.members().get(&seq));
        if other == id && member.is_none_or(|member| member.leaf() == leaf) {
            return Ok(());
        }
        let group = queued.and_then(|queued| queued.leaves().get(member?.leaf()));
        let group = ObjectName::of_text(group.map_or("", String::as_str));
        Err(QueueError::PodTaken { pod: ObjectName::of_text(name), group })
    }

    /// Checks that a pod that names a group to come is not a member of a known one.
    pub(in crate::queue) fn check_no_member(&self, name: &str) -> Result<(), QueueError> {
        self.check_member(name, GroupId::MAX, 0)
    }
}
