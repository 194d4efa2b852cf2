//! Inputs of the scheduler: groups, members, cluster events, time.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::QueueError;
use super::gang_group::tree_names;
use super::ids::GroupId;
use super::observe::{GroupChange, ReservationEnd};
use super::orphans::in_leaf;
use super::queued_group::{Member, MemberState, Phase, QueuedGroup, fill_empty, full_name, split};
use super::scheduler::{Scheduler, Timer};
use crate::base::{ObjectName, Time};
use crate::framework::Strategy;
use crate::model::{Pod, PodGroup};
use crate::state::{Applied, Event, NodeView, StateError};

impl Scheduler {
    /// An advance of time: every timer due by `now` fires.
    pub fn handle_time(&mut self, now: Time) {
        self.expire(now, true);
    }

    /// A root group that appeared or changed, with its whole tree.
    ///
    /// A leaf may be empty; members may follow one by one through [`Scheduler::handle_pod`]. Pods
    /// listed in the tree are added, or replace the known pod while it is pending; members that it
    /// does not list stay. A pod that names a node is already bound. A group that runs and whose
    /// minimum is raised is not below it for that: what runs stays, and the rest is waited for.
    ///
    /// # Errors
    /// The tree is invalid, a group or pod of it belongs to another tree, or the cluster refuses a
    /// bound pod.
    pub fn handle_group(&mut self, group: PodGroup, now: Time) -> Result<(), QueueError> {
        self.expire(now, false);
        let root = group.full_name();
        self.check_group(&group)?;
        let mut tree = group;
        let mut parts = Vec::new();
        split(&mut tree, &mut parts);
        let mut adopted: Vec<Pod> = Vec::new();
        for (leaf, pods) in &parts {
            for pod in pods.iter().filter(|pod| pod.node.is_some()) {
                let pod = in_leaf(pod.clone(), leaf);
                let known = self.cluster.pod(pod.namespace(), &pod.name).is_some();
                if known {
                    continue;
                }
                if let Err(error) = self.cluster.add_pod(pod.clone()) {
                    for pod in adopted {
                        self.cluster.remove_pod(pod.namespace(), &pod.name)?;
                    }
                    return Err(error.into());
                }
                adopted.push(pod);
            }
        }
        for pod in &adopted {
            self.pods_changed(pod.node.as_deref().unwrap_or(""));
        }
        let known = self.names.get(&*root).map(|(id, _)| *id);
        let id = if let Some(id) = known { id } else { self.take_number() };
        let is_same_tree = self.groups.get(&id).is_some_and(|queued| {
            let same_names = tree_names(&queued.root) == tree_names(&tree);
            same_names && queued.root.gang_group == tree.gang_group
        });
        let mut former_partners = Vec::new();
        let old_leaves = match self.groups.get_mut(&id) {
            Some(_) => {
                self.leave_queue(id);
                if !is_same_tree {
                    former_partners = self.forget_names(id);
                }
                self.groups
                    .get_mut(&id)
                    .map_or_else(Vec::new, |queued| core::mem::take(&mut queued.leaves))
            }
            None => Vec::new(),
        };
        let leaves: Vec<String> = parts.iter().map(|(leaf, _)| leaf.clone()).collect();
        let mut index = 0;
        let mut names = Vec::new();
        tree.visit(&mut |group| {
            let leaf = group.groups.is_empty().then(|| {
                index += 1;
                index - 1
            });
            names.push((group.full_name().into(), (id, leaf)));
        });
        self.names.extend(names);
        if let Some(queued) = self.groups.get_mut(&id) {
            let was_whole = queued.started && queued.below_since.is_none();
            let is_higher = minima(&tree) > minima(&queued.root);
            // Members that run lose nothing by a minimum that is raised over them.
            queued.is_raised |= was_whole && is_higher;
            queued.root = tree;
            queued.leaves = leaves;
            queued.infeasible_at = None;
            self.move_members(id, &old_leaves);
        } else {
            self.groups.insert(id, QueuedGroup::new(tree, leaves, self.now));
            self.emit(id, GroupChange::Added);
        }
        self.group_changed(id)?;
        if !is_same_tree {
            self.add_partners(id);
        }
        for (index, (leaf, pods)) in parts.into_iter().enumerate() {
            let orphans = self.orphans.take(&leaf);
            for pod in orphans.into_iter().chain(pods) {
                self.put_member(id, index, in_leaf(pod, &leaf));
            }
        }
        self.settle_linked(id);
        for partner in former_partners {
            self.settle_partners(partner);
        }
        Ok(())
    }

    /// The removal of a root group. Pending members are dropped and plans in flight are taken back;
    /// running pods stay in the cluster until they are deleted.
    ///
    /// # Errors
    /// There is no root group of that name.
    pub fn handle_group_removed(&mut self, group: &str, now: Time) -> Result<(), QueueError> {
        self.expire(now, false);
        let id = self.root(group)?;
        if let Some(queued) = self.groups.get_mut(&id) {
            // Pods that keep running no longer count as members.
            queued.started = false;
        }
        if let Some(Phase::Held(ticket) | Phase::Binding(ticket)) =
            self.groups.get(&id).map(|queued| queued.phase.clone())
        {
            self.abandon(ticket, "the group was removed");
        }
        self.end_reservation(id, ReservationEnd::Outranked);
        self.release_places(|own, _| own.root == id);
        self.leave_queue(id);
        self.emit(id, GroupChange::Removed);
        let partners = self.forget_names(id);
        self.backfill.running.note_group(id);
        if let Some(queued) = self.groups.remove(&id) {
            self.running_work.remove_group(&queued.root.namespace, &queued.root.name);
            for member in queued.members.values() {
                self.pods.remove(&full_name(&member.pod));
            }
            if let Some(since) = queued.below_since {
                self.timers.remove(&(since.after(self.settings.stale_after), Timer::Below(id)));
            }
        }
        for partner in partners {
            self.settle_partners(partner);
        }
        Ok(())
    }

    /// A pending member that appeared or changed. The pod names its group; it is kept as an orphan
    /// until that group is known.
    ///
    /// # Errors
    /// The pod is invalid, names no group, or belongs to another one.
    pub fn handle_pod(&mut self, pod: Pod, now: Time) -> Result<(), QueueError> {
        if pod.node.is_some() {
            return self.handle_event(Event::PodChanged { pod, version: 0 }, now).map(|_| ());
        }
        self.expire(now, false);
        pod.check()?;
        let name = full_name(&pod);
        let Some(group) = &pod.group else { return Err(QueueError::NoGroup(pod.full_name())) };
        let leaf = format!("{}/{group}", pod.namespace());
        match self.names.get(&leaf) {
            Some(&(id, Some(index))) => {
                self.check_member(&name, id, index)?;
                self.put_member(id, index, pod);
                self.settle_linked(id);
                self.recheck_permits(id);
            }
            Some((_, None)) => {
                let group = ObjectName::new(pod.namespace(), group);
                return Err(QueueError::PodTaken { pod: pod.full_name(), group });
            }
            None => {
                self.check_no_member(&name)?;
                self.orphans.put(leaf, pod);
            }
        }
        Ok(())
    }

    /// The deletion of a pod, pending or running.
    ///
    /// # Errors
    /// None at present; unknown pods are ignored.
    pub fn handle_pod_deleted(
        &mut self,
        namespace: &str,
        name: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let event = Event::PodDeleted { namespace, name, version: 0 };
        self.handle_event(event, now).map(|_| ())
    }

    /// A member that has finished: its capacity is free, and it counts towards the minimum for
    /// good.
    ///
    /// # Errors
    /// The pod is not a member of a known group.
    pub fn handle_pod_finished(
        &mut self,
        namespace: &str,
        name: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let full = format!("{namespace}/{name}");
        let &(id, seq) = self
            .pods
            .get(&full)
            .ok_or_else(|| QueueError::UnknownPod(ObjectName::new(namespace, name)))?;
        self.remove_pod(namespace, name);
        self.release_places(|_, place| full_name(&place.pod) == full);
        self.remove_member(id, seq, true);
        Ok(())
    }

    /// A change of the cluster; see [`Event`]. Members are recognised by name and by the group they
    /// name: a pod bound from outside counts as bound, a deleted pod leaves its group, a pod
    /// without a node is pending ([`Scheduler::handle_pod`]).
    ///
    /// # Errors
    /// As [`Cluster::apply`](crate::Cluster::apply) and [`Scheduler::handle_pod`].
    pub fn handle_event(&mut self, event: Event, now: Time) -> Result<Applied, QueueError> {
        self.expire(now, false);
        match event {
            Event::PodChanged { pod, .. } if pod.node.is_none() => {
                self.handle_pod(pod, now).map(|()| Applied::Changed)
            }
            Event::PodChanged { pod, version } => self.pod_changed(pod, version),
            Event::PodDeleted { namespace, name, version } => {
                Ok(self.pod_deleted(namespace, name, version)?)
            }
            Event::NodeChanged { node, version } => {
                let name = node.name.clone();
                let applied = self.cluster.apply(Event::NodeChanged { node, version })?;
                if applied == Applied::Changed {
                    self.node_changed(&name, None);
                    for id in self.groups_on(&name) {
                        self.settle_linked(id);
                    }
                }
                Ok(applied)
            }
            Event::NodeRemoved { name, version } => {
                let groups = self.groups_on(&name);
                let members = self.members_on(&name);
                let row = self.cluster.node(&name).map(NodeView::row);
                let event = Event::NodeRemoved { name: name.clone(), version };
                let applied = self.cluster.apply(event)?;
                if applied == Applied::Changed {
                    self.node_changed(&name, row);
                    self.node_lost(&groups, &members);
                }
                Ok(applied)
            }
            Event::NodeUsageChanged { name, usage, version } => {
                let event = Event::NodeUsageChanged { name: name.clone(), usage, version };
                let applied = self.cluster.apply(event)?;
                if applied == Applied::Changed {
                    self.node_changed(&name, None);
                }
                Ok(applied)
            }
            event => {
                let applied = self.cluster.apply(event)?;
                if applied == Applied::Changed {
                    self.cluster_changed();
                }
                Ok(applied)
            }
        }
    }

    /// A pause: the group leaves its queue. A held plan is released; a plan being bound continues.
    ///
    /// # Errors
    /// There is no root group of that name.
    pub fn handle_pause(&mut self, group: &str, now: Time) -> Result<(), QueueError> {
        self.expire(now, false);
        let id = self.root(group)?;
        let Some(queued) = self.groups.get_mut(&id) else { return Ok(()) };
        if core::mem::replace(&mut queued.paused, true) {
            return Ok(());
        }
        let held = match queued.phase {
            Phase::Held(ticket) => Some(ticket),
            _ => None,
        };
        self.emit(id, GroupChange::Paused);
        if let Some(ticket) = held {
            self.release(ticket, "the group was paused");
        }
        self.settle_linked(id);
        Ok(())
    }

    /// The end of a pause: the group may enter its queue again. A failed group is tried again.
    ///
    /// # Errors
    /// There is no root group of that name.
    pub fn handle_resume(&mut self, group: &str, now: Time) -> Result<(), QueueError> {
        self.expire(now, false);
        let id = self.root(group)?;
        let Some(queued) = self.groups.get_mut(&id) else { return Ok(()) };
        if core::mem::replace(&mut queued.paused, false) {
            self.emit(id, GroupChange::Resumed);
        }
        self.settle_linked(id);
        Ok(())
    }

    /// A strategy for one group; `None` selects the scheduler's own.
    ///
    /// # Errors
    /// There is no root group of that name.
    pub fn handle_strategy(
        &mut self,
        group: &str,
        strategy: Option<Strategy>,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let id = self.root(group)?;
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.strategy = strategy;
        }
        self.settle_linked(id);
        Ok(())
    }

    /// A change of what the embedder's [`QueueOrder`](super::QueueOrder) reads: all ranks are
    /// computed again. O(waiting groups).
    pub fn handle_reorder(&mut self, now: Time) {
        self.expire(now, false);
        self.rekey_all();
        self.reservations_due = true;
    }

    /// Forgets deletions of versions up to and including `version`, as
    /// [`Cluster::forget_deleted`](crate::Cluster::forget_deleted) does: call it now and then with
    /// a version below which no event can still arrive.
    pub fn forget_deleted(&mut self, version: u64) {
        self.cluster.forget_deleted(version);
    }

    pub(super) fn root(&self, group: &str) -> Result<GroupId, QueueError> {
        let found = self.names.get(group).map(|(id, _)| *id);
        found
            .filter(|id| self.groups.get(id).is_some_and(|queued| queued.name == group))
            .ok_or_else(|| QueueError::UnknownGroup(group.to_owned()))
    }

    pub(super) fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    pub(super) fn check_group(&self, group: &PodGroup) -> Result<(), QueueError> {
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
                    || self.groups.get(id).is_some_and(|queued| queued.name != root))
            {
                let root = self.groups.get(id).map_or_else(|| root.clone(), |own| own.name.clone());
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

    pub(super) fn check_member(
        &self,
        name: &str,
        id: GroupId,
        leaf: usize,
    ) -> Result<(), QueueError> {
        let Some(&(other, seq)) = self.pods.get(name) else { return Ok(()) };
        let queued = self.groups.get(&other);
        let member = queued.and_then(|queued| queued.members.get(&seq));
        if other == id && member.is_none_or(|member| member.leaf == leaf) {
            return Ok(());
        }
        let group = queued.and_then(|queued| queued.leaves.get(member?.leaf));
        let group = ObjectName::of_text(group.map_or("", String::as_str));
        Err(QueueError::PodTaken { pod: ObjectName::of_text(name), group })
    }

    /// A pod that names a group to come must not be a member of a known one.
    fn check_no_member(&self, name: &str) -> Result<(), QueueError> {
        self.check_member(name, GroupId::MAX, 0)
    }

    /// Adds a member, or updates it while it is pending.
    pub(super) fn put_member(&mut self, id: GroupId, leaf: usize, pod: Pod) {
        let name = full_name(&pod);
        if self.pods.get(&name).is_some_and(|(other, _)| *other != id) {
            return;
        }
        self.orphans.remove(&name);
        let bound = self.cluster.pod(pod.namespace(), &pod.name).is_some();
        if let Some(node) = self.node_of(pod.namespace(), &pod.name) {
            // The pod may have been in the cluster without its group.
            self.pods_changed(&node);
            let pod = pod.clone().on(node);
            let _ = self.cluster.apply(Event::PodChanged { pod, version: 0 });
        }
        let known = self.pods.get(&name).map(|(_, seq)| *seq);
        let next = if known.is_none() { self.take_number() } else { 0 };
        let Some(queued) = self.groups.get_mut(&id) else { return };
        match known.and_then(|seq| queued.members.get_mut(&seq)) {
            Some(member) if member.state == MemberState::Pending => {
                member.leaf = leaf;
                member.pod = pod;
            }
            Some(_) => return,
            None => {
                let state = MemberState::Pending;
                queued.members.insert(next, Member { leaf, pod, state, ticket: None });
                self.pods.insert(name, (id, next));
            }
        }
        if bound {
            self.found_bound(id, known.unwrap_or(next));
        }
    }

    /// Reassigns members to leaves after a change of the tree; members without a leaf are removed.
    pub(super) fn move_members(&mut self, id: GroupId, old: &[String]) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let mut homeless = Vec::new();
        for (seq, member) in &mut queued.members {
            let leaf = old.get(member.leaf);
            match leaf.and_then(|leaf| queued.leaves.iter().position(|other| other == leaf)) {
                Some(leaf) => member.leaf = leaf,
                None => homeless.push(*seq),
            }
        }
        for seq in homeless {
            self.remove_member(id, seq, false);
        }
    }

    /// Removes the names of a tree. Returns a group of each gang group that is left without it.
    pub(super) fn forget_names(&mut self, id: GroupId) -> Vec<GroupId> {
        let partners = self.remove_partners(id);
        let Some(queued) = self.groups.get(&id) else { return partners };
        queued.root.visit(&mut |group| {
            self.names.remove(&*group.full_name());
        });
        partners
    }

    /// Takes a group out of its queue, unless it has a plan in flight.
    pub(super) fn leave_queue(&mut self, id: GroupId) {
        if self.groups.get(&id).is_some_and(|queued| !queued.phase.busy()) {
            self.set_phase(id, Phase::Idle);
        }
    }

    pub(super) fn pod_changed(
        &mut self,
        mut pod: Pod,
        version: u64,
    ) -> Result<Applied, QueueError> {
        let name = full_name(&pod);
        if pod.group.is_none()
            && let Some((id, seq)) = self.pods.get(&name)
            && let Some(queued) = self.groups.get(id)
            && let Some(member) = queued.members.get(seq)
        {
            pod.group.clone_from(&member.pod.group);
        }
        let leaf = pod.group.as_ref().map(|group| format!("{}/{group}", pod.namespace()));
        let place = leaf.as_ref().and_then(|leaf| self.names.get(leaf)).copied();
        match (place, &leaf) {
            (Some((id, Some(index))), _) => self.check_member(&name, id, index)?,
            (None, Some(_)) => self.check_no_member(&name)?,
            _ => {}
        }
        self.complete(&mut pod);
        let old = self.node_of(pod.namespace(), &pod.name);
        let node = pod.node.clone().unwrap_or_default();
        let event = Event::PodChanged { pod: pod.clone(), version };
        let applied = self.cluster.apply(event)?;
        if applied == Applied::Stale {
            return Ok(applied);
        }
        if applied == Applied::Changed {
            self.backfill.note_loss();
        }
        self.pods_changed(&node);
        if let Some(old) = old.filter(|old| *old != node) {
            self.pods_changed(&old);
        }
        match (self.pods.get(&name).copied(), place, leaf) {
            (Some((id, seq)), ..) => self.seen_bound(id, seq, &name),
            (None, Some((id, Some(index))), _) => {
                self.put_member(id, index, pod);
                self.settle_linked(id);
            }
            (None, None, Some(leaf)) => self.orphans.put(leaf, pod),
            _ => {}
        }
        Ok(applied)
    }

    pub(super) fn pod_deleted(
        &mut self,
        namespace: String,
        name: String,
        version: u64,
    ) -> Result<Applied, StateError> {
        let full = format!("{namespace}/{name}");
        let node = self.node_of(&namespace, &name);
        let event = Event::PodDeleted { namespace, name, version };
        let applied = self.cluster.apply(event)?;
        if applied == Applied::Stale {
            return Ok(applied);
        }
        if let Some(node) = node {
            self.backfill.freed = true;
            self.pods_changed(&node);
        }
        self.discharge(&full);
        if let Some(&(id, seq)) = self.pods.get(&full) {
            self.remove_member(id, seq, false);
            return Ok(Applied::Changed);
        }
        self.orphans.remove(&full);
        Ok(applied)
    }
}

/// The minima of a tree taken together: of pods in leaves, and of pods in all.
fn minima(group: &PodGroup) -> u64 {
    let mut sum = 0_u64;
    group.visit(&mut |inner| {
        let own = if inner.groups.is_empty() { inner.policy.minimum() } else { 0 };
        sum = sum.saturating_add(own.max(inner.min_pods.unwrap_or(0)).into());
    });
    sum
}
