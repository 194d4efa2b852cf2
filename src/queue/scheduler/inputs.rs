//! Inputs of the scheduler: groups, members, cluster events, time.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Scheduler, Timer, losses};
use crate::base::{ObjectName, Time};
use crate::framework::Strategy;
use crate::model::{Pod, PodGroup};
use crate::queue::groups::{MemberState, Phase, QueuedGroup, full_name, in_leaf, split};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::gone::Gone;
use crate::queue::terms::observe::{GroupChange, ReservationEnd};
use crate::state::{Applied, Event, NodeView};

impl Scheduler {
    /// An advance of time: every timer due by `now` fires, but for those that evict: they are judged
    /// when decisions are polled.
    pub fn handle_time(&mut self, now: Time) {
        self.expire(now);
        self.follow();
    }

    /// The start of lists: all groups, pods and nodes are passed in again, in as many calls as it takes.
    /// Until [`Scheduler::end_sync`] time stands still: no timer fires, nothing is decided, and
    /// [`Scheduler::next_wake`] is `None`.
    ///
    /// Without it, a gang counts as below its minimum if the lists have shown only a part of it for
    /// longer than [`Settings::stale_after`](crate::queue::Settings::stale_after).
    ///
    /// ```
    /// use phalanx::queue::{GroupState, Settings};
    /// use phalanx::{Cluster, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n1").capacity("cpu", 8))?;
    /// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
    /// scheduler.begin_sync(Time::ZERO);
    /// scheduler.handle_group(PodGroup::gang("trainer", 2), Time::ZERO)?;
    /// for (name, seconds) in [("trainer-0", 1), ("trainer-1", 600)] {
    ///     let pod = Pod::new().name(name).in_group("trainer").request("cpu", 4).on("n1");
    ///     let event = Event::PodChanged { pod, version: 0 };
    ///     scheduler.handle_event(event, Time::from_secs(seconds))?;
    /// }
    /// scheduler.end_sync(Time::from_secs(601));
    /// assert_eq!(scheduler.poll_decision(Time::from_secs(601)), None);
    /// assert_eq!(scheduler.state("default/trainer"), Some(GroupState::Running));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_sync(&mut self, now: Time) {
        self.world.advance(now);
        self.world.stop_time();
    }

    /// The end of lists. Gangs that are below their minimum since the lists began have their whole time
    /// from now on. Without [`Scheduler::begin_sync`] before it is an advance of time. O(groups).
    pub fn end_sync(&mut self, now: Time) {
        let began = self.world.now();
        if !self.world.resume_time() {
            self.world.advance(now);
            return;
        }
        self.world.advance(now);
        let stale_after = self.world.settings().stale_after;
        for (id, queued) in self.groups.iter_mut() {
            if queued.below_since() == Some(began) {
                self.timers.remove(&(began.after(stale_after), Timer::Below(*id)));
                self.timers.insert((now.after(stale_after), Timer::Below(*id)));
                queued.health_mut().fell_at(now);
            }
        }
        self.holds.set_due(None);
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
        self.world.advance(now);
        let root = group.full_name();
        self.groups.check_group(&group)?;
        let mut tree = group;
        let mut parts = Vec::new();
        split(&mut tree, &mut parts);
        let mut adopted: Vec<Pod> = Vec::new();
        for (leaf, pods) in &parts {
            for pod in pods.iter().filter(|pod| pod.node.is_some()) {
                let pod = in_leaf(pod.clone(), leaf);
                let known = self.world.cluster().pod(pod.namespace(), &pod.name).is_some();
                if known {
                    continue;
                }
                if let Err(error) = self.world.add_pod(pod.clone()) {
                    for pod in adopted {
                        self.world.remove_pod(pod.namespace(), &pod.name)?;
                    }
                    return Err(error.into());
                }
                adopted.push(pod);
            }
        }
        for pod in &adopted {
            self.pods_changed(pod.node.as_deref().unwrap_or(""));
        }
        let known = self.groups.named(&root).map(|(id, _)| id);
        let id = if let Some(id) = known { id } else { self.take_number() };
        let is_same_tree = self.groups.get(&id).is_some_and(|own| own.is_same_tree(&tree));
        let former_queue = self.groups.get(&id).map(|own| own.root().queue.clone());
        let former_limit = self.groups.get(&id).and_then(QueuedGroup::run_limit);
        let mut former_partners = Vec::new();
        if self.groups.contains_key(&id) {
            self.leave_queue(id);
            if !is_same_tree {
                former_partners = self.groups.forget_names(id);
            }
        }
        let leaves: Vec<String> = parts.iter().map(|(leaf, _)| leaf.clone()).collect();
        self.groups.enter_names(id, &tree);
        if let Some(queued) = self.groups.get_mut(&id) {
            self.holds.past_mut(id).set_infeasible(None);
            for homeless in queued.set_tree(tree, leaves) {
                self.remove_member(id, homeless, false);
            }
        } else {
            self.groups.insert(id, QueuedGroup::new(tree, leaves, self.world.now()));
            self.emit(id, GroupChange::Added);
        }
        let elastic = self.world.settings().elastic;
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.set_turns(elastic.by_turns, elastic.repair.is_some());
        }
        self.watch_run_time(id, former_limit);
        self.group_changed(id)?;
        if !is_same_tree {
            self.groups.add_partners(id);
        }
        for (index, (leaf, pods)) in parts.into_iter().enumerate() {
            let orphans = self.groups.orphans_mut().take(&leaf);
            for pod in orphans.into_iter().chain(pods) {
                self.put_member(id, index, in_leaf(pod, &leaf));
            }
        }
        self.recheck_held(id, former_queue.as_deref());
        self.settle_linked(id);
        for partner in former_partners {
            self.settle_partners(partner);
            self.groups.drop_if_alone(partner);
        }
        self.follow();
        Ok(())
    }

    /// The removal of a root group. Pending members are dropped and plans in flight are taken back;
    /// running pods stay in the cluster until they are deleted. Pods that are being unbound count as
    /// terminating from then on.
    ///
    /// # Errors
    /// There is no root group of that name.
    pub fn handle_group_removed(&mut self, group: &str, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        let id = self.groups.root(group)?;
        if let Some(queued) = self.groups.get_mut(&id) {
            // Pods that keep running no longer count as members.
            queued.health_mut().forget_start();
        }
        if let Some(ticket) = self.groups.get(&id).and_then(QueuedGroup::ticket) {
            self.abandon(ticket, "the group was removed");
        }
        self.end_reservation(id, ReservationEnd::Outranked);
        self.release_places(|own, _, _| own.root() == id);
        self.leave_queue(id);
        self.emit(id, GroupChange::Removed);
        let partners = self.groups.forget_names(id);
        self.backfill.note_group(id);
        if let Some(queued) = self.groups.remove(id) {
            // Nobody is asked to evict what is being unbound.
            let members = queued.members().values();
            for own in members.filter(|own| own.state() == MemberState::Unbinding) {
                self.set_terminating(own.pod().namespace(), &own.pod().name, Some(true));
            }
            if self.holds.promise(id).is_some() {
                self.backfill.note_changed(id);
            }
            self.holds.forget(id);
            self.removals.remove_own_group(queued.root());
            if let Some(limit) = queued.run_limit() {
                self.timers.remove(&(limit, Timer::RunTime(id)));
            }
            if let Some(since) = queued.below_since() {
                let stale_after = self.world.settings().stale_after;
                self.timers.remove(&(since.after(stale_after), Timer::Below(id)));
            }
        }
        for partner in partners {
            self.settle_partners(partner);
            self.groups.drop_if_alone(partner);
        }
        self.follow();
        Ok(())
    }

    /// A pending member that appeared or changed. The pod names its group; it is kept as an orphan
    /// until that group is known.
    ///
    /// # Errors
    /// The pod is invalid, names no group, or belongs to another one.
    pub fn handle_pod(&mut self, pod: Pod, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        match &pod.node {
            Some(_) => self.pod_changed(pod, 0).map(drop)?,
            None => self.pod_waits(pod)?,
        }
        self.follow();
        Ok(())
    }

    /// A pod that uses no capacity any more: it was unbound, deleted or evicted, or has finished; see
    /// [`Gone`]. A deletion that a watch shows may come by [`Scheduler::handle_event`] instead.
    ///
    /// # Errors
    /// [`Gone::Unbound`]: the pod is unknown. [`Gone::Finished`]: the pod is not a member of a known
    /// group. [`Gone::Evicted`]: the ticket has no unit of that name that is still to go. That is so
    /// if the eviction was cancelled and happened all the same; report its pods one by one then.
    /// [`Gone::Deleted`]: none.
    pub fn handle_gone(&mut self, gone: Gone, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        match gone {
            Gone::Unbound { pod } => self.pod_unbound(&pod)?,
            Gone::Deleted { pod } => {
                self.pod_deleted(pod.namespace().to_owned(), pod.name().to_owned(), 0)?;
            }
            Gone::Finished { pod } => self.pod_finished(&pod)?,
            Gone::Evicted { ticket, unit } => self.unit_evicted(ticket, &unit)?,
        }
        self.follow();
        Ok(())
    }

    /// A member that has run to its end: [`Gone::Finished`].
    fn pod_finished(&mut self, pod: &ObjectName) -> Result<(), QueueError> {
        let found = self.groups.member(pod);
        let (id, seq) = found.ok_or_else(|| QueueError::UnknownPod(pod.clone()))?;
        self.end_in_place(pod);
        self.remove_pod(pod.namespace(), pod.name());
        self.release_places(|_, place, _| full_name(place.pod()) == **pod);
        self.remove_member(id, seq, true);
        Ok(())
    }

    /// A change of the cluster; see [`Event`]. Members are recognised by name and by the group they
    /// name. A pod bound from outside counts as bound, a deleted pod leaves its group, and a pod
    /// without a node is pending ([`Scheduler::handle_pod`]).
    ///
    /// # Errors
    /// As [`Cluster::apply`](crate::Cluster::apply) and [`Scheduler::handle_pod`].
    pub fn handle_event(&mut self, event: Event, now: Time) -> Result<Applied, QueueError> {
        self.world.advance(now);
        let applied = self.apply_event(event)?;
        self.follow();
        Ok(applied)
    }

    fn apply_event(&mut self, event: Event) -> Result<Applied, QueueError> {
        match event {
            Event::PodChanged { pod, .. } if pod.node.is_none() => {
                self.pod_waits(pod).map(|()| Applied::Changed)
            }
            Event::PodChanged { pod, version } => self.pod_changed(pod, version),
            Event::PodDeleted { namespace, name, version } => {
                Ok(self.pod_deleted(namespace, name, version)?)
            }
            Event::NodeChanged { node, version } => {
                let name = node.name.clone();
                let applied = self.world.apply(Event::NodeChanged { node, version })?;
                if applied == Applied::Changed {
                    self.refusals.forget_node(&name);
                    self.node_changed(&name, None);
                    let groups = self.groups.groups_on(self.world.cluster(), &name);
                    let before = losses::running_of(&self.groups, &groups);
                    for (id, seq) in self.groups.members_on(self.world.cluster(), &name) {
                        self.groups.read_node(self.world.cluster(), id, seq);
                    }
                    for (id, after) in losses::running_of(&self.groups, &groups) {
                        let before = before.get(&id).copied().unwrap_or(after);
                        losses::note_back(&mut self.groups, id, after.saturating_sub(before));
                    }
                    for id in groups {
                        self.settle_linked(id);
                    }
                }
                Ok(applied)
            }
            Event::NodeRemoved { name, version } => {
                let groups = self.groups.groups_on(self.world.cluster(), &name);
                let members = self.groups.members_on(self.world.cluster(), &name);
                let row = self.world.cluster().node(&name).map(NodeView::row);
                let event = Event::NodeRemoved { name: name.clone(), version };
                let applied = self.world.apply(event)?;
                if applied == Applied::Changed {
                    self.refusals.forget_node(&name);
                    self.node_changed(&name, row);
                    for &(id, seq) in &members {
                        self.groups.read_node(self.world.cluster(), id, seq);
                    }
                    self.lose_places(&name);
                    self.node_lost(&groups, &members);
                }
                Ok(applied)
            }
            Event::NodeUsageChanged { name, usage, version } => {
                let event = Event::NodeUsageChanged { name: name.clone(), usage, version };
                let applied = self.world.apply(event)?;
                if applied == Applied::Changed {
                    self.node_changed(&name, None);
                }
                Ok(applied)
            }
            event => {
                let applied = self.world.apply(event)?;
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
        self.world.advance(now);
        let id = self.groups.root(group)?;
        let Some(queued) = self.groups.get_mut(&id) else { return Ok(()) };
        if queued.set_paused(true) {
            return Ok(());
        }
        let held = match queued.phase() {
            Phase::Held(ticket) => Some(*ticket),
            _ => None,
        };
        self.emit(id, GroupChange::Paused);
        if let Some(ticket) = held {
            self.release(ticket, "the group was paused");
        }
        self.settle_linked(id);
        self.follow();
        Ok(())
    }

    /// The end of a pause: the group may enter its queue again. A failed group is tried again.
    ///
    /// # Errors
    /// There is no root group of that name.
    pub fn handle_resume(&mut self, group: &str, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        let id = self.groups.root(group)?;
        let Some(queued) = self.groups.get_mut(&id) else { return Ok(()) };
        if queued.set_paused(false) {
            self.emit(id, GroupChange::Resumed);
        }
        self.settle_linked(id);
        self.follow();
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
        self.world.advance(now);
        let id = self.groups.root(group)?;
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.set_strategy(strategy);
        }
        self.settle_linked(id);
        self.follow();
        Ok(())
    }

    /// A change of what the embedder's [`QueueOrder`](crate::queue::QueueOrder) reads: all ranks are
    /// computed again. O(waiting groups).
    pub fn handle_reorder(&mut self, now: Time) {
        self.world.advance(now);
        self.rekey_all();
        self.holds.set_due(None);
    }

    /// Forgets deletions of versions up to and including `version`, as
    /// [`Cluster::forget_deleted`](crate::Cluster::forget_deleted) does: call it now and then with
    /// a version below which no event can still arrive.
    pub fn forget_deleted(&mut self, version: u64) {
        self.world.forget_deleted(version);
    }
}
