//! Members that arrive, change and go.

use alloc::format;
use alloc::string::String;

use super::{Scheduler, losses};
use crate::base::ObjectName;
use crate::model::Pod;
use crate::queue::groups::{Member, MemberState, full_name};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::GroupId;
use crate::state::{Applied, Event, PodView, StateError};

impl Scheduler {
    /// Adds a member, or updates it while it is pending.
    pub(super) fn put_member(&mut self, id: GroupId, leaf: usize, pod: Pod) {
        let name = full_name(&pod);
        let known = self.groups.current(&pod);
        if known.is_some_and(|(other, _)| other != id) {
            return;
        }
        self.groups.orphans_mut().remove(&name);
        let there = self.world.cluster().pod(pod.namespace(), &pod.name);
        let (bound, node) = (there.is_some(), there.and_then(PodView::node_name));
        if let Some(node) = node.map(String::from) {
            // The pod may have been in the cluster without its group, and its node may be to come.
            self.pods_changed(&node);
            let pod = pod.clone().on(node);
            let _ = self.world.apply(Event::PodChanged { pod, version: 0 });
        }
        let seq = match known {
            Some((_, seq)) => seq,
            None => self.take_number(),
        };
        let state = self.groups.find(id, seq).map(Member::state);
        match (state, self.groups.get_mut(&id)) {
            (Some(MemberState::Pending), Some(queued)) => {
                queued.members_mut().replace(seq, leaf, pod);
            }
            (None, Some(_)) => self.groups.add_member(id, seq, leaf, pod),
            _ => return,
        }
        if bound {
            self.found_bound(id, seq);
        }
    }

    /// A pod without a node: a member that is pending, or one whose group is not known yet.
    pub(super) fn pod_waits(&mut self, pod: Pod) -> Result<(), QueueError> {
        pod.check()?;
        let name = full_name(&pod);
        let Some(group) = &pod.group else { return Err(QueueError::NoGroup(pod.full_name())) };
        let leaf = format!("{}/{group}", pod.namespace());
        match self.groups.named(&leaf) {
            Some((id, Some(index))) => {
                self.groups.check_member(&name, id, index)?;
                self.put_member(id, index, pod);
                self.settle_linked(id);
                self.permits_due(id);
            }
            Some((_, None)) => {
                let group = ObjectName::new(pod.namespace(), group);
                return Err(QueueError::PodTaken { pod: pod.full_name(), group });
            }
            None => {
                self.groups.check_no_member(&name)?;
                self.groups.orphans_mut().put(leaf, pod);
            }
        }
        Ok(())
    }

    pub(super) fn pod_changed(
        &mut self,
        mut pod: Pod,
        version: u64,
    ) -> Result<Applied, QueueError> {
        let name = full_name(&pod);
        if self.groups.recognise(&mut pod) {
            return Ok(Applied::Stale);
        }
        let leaf = pod.group.as_ref().map(|group| format!("{}/{group}", pod.namespace()));
        let place = leaf.as_ref().and_then(|leaf| self.groups.named(leaf));
        match (place, &leaf) {
            (Some((id, Some(index))), _) => self.groups.check_member(&name, id, index)?,
            (None, Some(_)) => self.groups.check_no_member(&name)?,
            _ => {}
        }
        let terminates = pod.deleting;
        self.complete(&mut pod);
        let old = self.node_of(pod.namespace(), &pod.name);
        let node = pod.node.clone().unwrap_or_default();
        let event = Event::PodChanged { pod: pod.clone(), version };
        let applied = self.world.apply(event)?;
        if applied == Applied::Stale {
            return Ok(applied);
        }
        self.removals.set_assumed(name.clone(), Some(pod.deleting != terminates));
        if applied == Applied::Changed {
            self.backfill.note_loss();
        }
        self.pods_changed(&node);
        if let Some(old) = old.filter(|old| *old != node) {
            self.pods_changed(&old);
        }
        match (self.groups.current(&pod), place, leaf) {
            (Some((id, seq)), ..) => {
                self.groups.read_node(self.world.cluster(), id, seq);
                self.seen_bound(id, seq, &name);
            }
            (None, Some((id, Some(index))), _) => {
                self.put_member(id, index, pod);
                self.settle_linked(id);
            }
            (None, None, Some(leaf)) => self.groups.orphans_mut().put(leaf, pod),
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
        let member = self.groups.member(&full);
        let known = (&self.world, &self.removals);
        let is_lost = |(id, seq)| losses::is_on_failing_node(known, &self.groups, id, seq);
        let is_lost = member.is_some_and(is_lost);
        let event = Event::PodDeleted { namespace, name, version };
        let applied = self.world.apply(event)?;
        if applied == Applied::Stale {
            return Ok(applied);
        }
        self.removals.forget_refusal(&full);
        if let Some((id, _)) = member.filter(|_| is_lost)
            && let Some(queued) = self.groups.get_mut(&id)
        {
            queued.lose(1);
        }
        if let Some(node) = node {
            self.backfill.note_freed();
            self.pods_changed(&node);
        }
        self.discharge(&full);
        if let Some((id, seq)) = self.groups.member(&full) {
            self.remove_member(id, seq, false);
            return Ok(Applied::Changed);
        }
        self.groups.orphans_mut().remove(&full);
        Ok(applied)
    }
}
