//! Results of bindings, and members that are lost.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Scheduler, losses};
use crate::base::{ObjectName, Time};
use crate::queue::groups::{Member, MemberState, Phase, QueuedGroup, full_name};
use crate::queue::holds::Hold;
use crate::queue::settings::OnBindFailure;
use crate::queue::terms::decision::{BoundPod, Decision};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::terms::observe::GroupChange;
use crate::queue::terms::shortage::Shortage;
use crate::state::Plan;

impl Scheduler {
    /// Whether the members that run or are planned satisfy the minimum of a group.
    fn keeps_minimum(&self, id: GroupId) -> bool {
        self.groups.get(&id).is_some_and(QueuedGroup::keeps_minimum)
    }

    /// Whether a plan that is being bound goes on after the loss of a member.
    fn outlasts_loss(&self, id: GroupId) -> bool {
        self.world.settings().on_bind_failure == OnBindFailure::Retry || self.keeps_minimum(id)
    }

    /// Whether policy and minimum allow a plan to continue without the pods it has lost.
    fn may_keep(&self, ticket: Ticket) -> bool {
        let rule = self.world.settings().on_bind_failure;
        if rule == OnBindFailure::Retry {
            return true;
        }
        let Some(hold) = self.holds.plan(ticket) else { return false };
        let keeps = |id: &GroupId| {
            let Some(queued) = self.groups.get(id) else { return false };
            let policy = queued.root().keep_running || rule == OnBindFailure::KeepMinimum;
            policy && queued.keeps_minimum()
        };
        hold.owners().iter().all(keeps)
    }

    /// The result for a pod of a plan is known; with the last one the plan ends.
    pub(super) fn result_in(&mut self, ticket: Ticket, name: &str) {
        self.holds.settle_pod(ticket, name);
        let is_open = |own: &Hold| own.outstanding().next().is_some();
        if self.holds.plan(ticket).is_none_or(is_open) {
            return;
        }
        let Some(plan) = self.end_plan(ticket) else { return };
        let took = self.world.now().since(plan.since());
        self.report.totals().binding.add_duration(took);
        for &id in plan.owners() {
            let Some(queued) = self.groups.get_mut(&id) else { continue };
            let was_started = queued.started();
            if !was_started {
                self.report.totals().tries.add(u64::from(queued.attempts()) + 1);
            }
            queued.succeeded(plan.failures() == 0);
            self.holds.forget_nomination(id);
            let pods =
                plan.ended_plan().map_or(0, Plan::len).saturating_sub(plan.failures() as usize);
            self.set_phase(id, Phase::Idle);
            self.update_health(id);
            if was_started && pods > 0 {
                self.emit(id, GroupChange::Joined { pods });
            }
        }
        for &id in plan.owners() {
            self.settle_linked(id);
        }
    }

    /// A planned member is bound.
    fn bound(&mut self, id: GroupId, seq: u64, name: &str) {
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(member) = queued.members().get(&seq) else { return };
        // A member that is being unbound stays so until its unbinding is reported.
        if let (Phase::Binding(ticket), MemberState::Planned) = (queued.phase(), member.state()) {
            let (ticket, pod) = (*ticket, member.pod().full_name());
            let shape = Arc::clone(member.pod().shape());
            if let Some(node) = self.node_of(pod.namespace(), pod.name())
                && self.refusals.accept(&shape, &node)
            {
                // Groups that were kept from it may have a place there now.
                self.node_changed(&node, None);
            }
            self.groups.set_state(id, seq, MemberState::Bound);
            losses::note_back(&mut self.groups, id, 1);
            self.has_started(pod.namespace(), pod.name());
            self.report.count(|metrics| &mut metrics.bound);
            self.update_health(id);
            self.result_in(ticket, name);
        }
    }

    /// A pending member found bound, from outside or by a late result. If its gang is being
    /// evicted, the pod is unbound as well.
    pub(super) fn found_bound(&mut self, id: GroupId, seq: u64) {
        self.note_start(&[id]);
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(pod) = queued.members().get(&seq).map(|member| member.pod().full_name()) else {
            return;
        };
        let leaves = queued.leaves_whole();
        let state = if leaves { MemberState::Unbinding } else { MemberState::Bound };
        self.groups.set_state(id, seq, state);
        self.groups.read_node(self.world.cluster(), id, seq);
        self.charge_bound(id, seq);
        if !leaves {
            losses::note_back(&mut self.groups, id, 1);
            self.place_taken(id, seq);
            return;
        }
        let node = self.node_of(pod.namespace(), pod.name()).unwrap_or_default();
        let pods = alloc::vec![BoundPod { pod, node }];
        let (groups, reason) = (self.groups.full_names(&[id]), "the gang is evicted".to_owned());
        self.report.decide(Decision::Unbind { groups, pods, reason });
    }

    /// Observation of a member as bound in the cluster.
    pub(super) fn seen_bound(&mut self, id: GroupId, seq: u64, name: &str) {
        let Some(queued) = self.groups.get(&id) else { return };
        let phase = queued.phase().clone();
        let Some(member) = queued.members().get(&seq) else { return };
        match (phase, member.state()) {
            (Phase::Binding(_), MemberState::Planned) => self.bound(id, seq, name),
            (Phase::Held(ticket), MemberState::Planned) => {
                // The pod was bound from outside, so the plan no longer describes the gang: release
                // the rest.
                self.groups.set_state(id, seq, MemberState::Bound);
                self.holds.settle_pod(ticket, name);
                self.release(ticket, "a member was bound from outside");
            }
            (_, MemberState::Pending) => {
                self.found_bound(id, seq);
                self.settle_linked(id);
            }
            (_, MemberState::Bound) => self.settle_linked(id),
            _ => {}
        }
    }

    /// A binding is refused: the node is left out for pods of the shape, for a time that begins when
    /// the group may be tried again.
    fn note_refusal(&mut self, id: GroupId, seq: u64, node: &str, reason: &str) {
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(member) = queued.members().get(&seq) else { return };
        let (now, settings) = (self.world.now(), self.world.settings());
        let most = settings.max_in_unschedulable;
        let first = settings.backoff.after(1);
        let span = |count: u32| {
            let factor = 1_u32.checked_shl(count.saturating_sub(1));
            let grown = factor.and_then(|factor| first.checked_mul(factor));
            grown.unwrap_or(most).min(most)
        };
        let since = queued.not_before().max(now);
        self.refusals.refuse((member.pod().shape(), node), reason, (now, since), span);
    }

    /// A binding that failed; `refused`: its node refuses pods like that one.
    fn bind_failed(&mut self, id: GroupId, seq: u64, name: &str, reason: &str, refused: bool) {
        let Some(queued) = self.groups.get(&id) else { return };
        let phase = queued.phase().clone();
        let Some(member) = queued.members().get(&seq) else { return };
        let state = member.state();
        if !matches!(state, MemberState::Planned | MemberState::Unbinding) {
            return;
        }
        let pod = member.pod().full_name();
        let node = self.node_of(pod.namespace(), pod.name());
        self.groups.set_state(id, seq, MemberState::Pending);
        self.remove_pod(pod.namespace(), pod.name());
        self.report.count(|metrics| &mut metrics.bind_failures);
        let (name, reason) = (name.to_owned(), reason.to_owned());
        self.emit(id, GroupChange::BindFailed { pod, reason: reason.clone() });
        let ticket = match phase {
            Phase::Binding(ticket) if state == MemberState::Planned => Some(ticket),
            _ => None,
        };
        let why = format!("pod {name}: {reason}");
        if let Some(ticket) = ticket
            && self.holds.count_failure(ticket) == 0
        {
            self.record_failure(ticket, &Shortage::Binding { reason: why.clone() });
        }
        // A node that is gone refuses nothing.
        if let Some(node) = node.filter(|_| refused) {
            self.note_refusal(id, seq, &node, &reason);
        }
        let Some(ticket) = ticket else {
            self.undoing_ended(id);
            self.settle_linked(id);
            return;
        };
        if self.may_keep(ticket) {
            self.result_in(ticket, &name);
        } else {
            self.holds.settle_pod(ticket, &name);
            self.undo(ticket, &why);
        }
    }

    /// Loss of a planned member before it was bound.
    pub(super) fn planned_member_lost(&mut self, id: GroupId, name: &str) {
        let Some(ticket) = self.groups.get(&id).and_then(QueuedGroup::ticket) else { return };
        let Some(hold) = self.holds.plan(ticket) else { return };
        let held = hold.held_by().is_some();
        self.holds.drop_from_plan(ticket, name);
        let hold = self.holds.plan(ticket);
        let empty = hold.is_none_or(|hold| hold.outstanding().next().is_none());
        let reason = format!("pod {name} is gone");
        if held && (empty || !self.keeps_minimum(id)) {
            self.release(ticket, &reason);
        } else if !held && !self.outlasts_loss(id) {
            self.undo(ticket, &reason);
        } else if !held {
            self.result_in(ticket, name);
        }
    }

    /// Loss of running or finished members of a group that has a plan in flight.
    pub(super) fn running_member_lost(&mut self, id: GroupId) {
        let phase = self.groups.get(&id).map(|queued| queued.phase().clone());
        match phase {
            Some(Phase::Held(ticket)) if !self.keeps_minimum(id) => {
                self.release(ticket, "members that ran are gone");
            }
            Some(Phase::Binding(ticket)) if !self.outlasts_loss(id) => {
                self.undo(ticket, "members that ran are gone");
            }
            _ => {}
        }
    }

    /// Removal of a member, or its end if `finished`.
    pub(super) fn remove_member(&mut self, id: GroupId, seq: u64, finished: bool) {
        let Some((name, state)) = self.groups.end_member(id, seq, finished) else { return };
        self.member_lost(id, &name, state);
    }

    /// Loss of a member that was in this state.
    fn member_lost(&mut self, id: GroupId, name: &str, state: MemberState) {
        match state {
            MemberState::Planned => self.planned_member_lost(id, name),
            MemberState::Unbinding => self.undoing_ended(id),
            MemberState::Bound | MemberState::Done => self.running_member_lost(id),
            MemberState::Pending => {}
        }
        self.settle_linked(id);
    }

    /// Loss of the members on a removed node.
    pub(super) fn node_lost(&mut self, groups: &BTreeSet<GroupId>, members: &[(GroupId, u64)]) {
        losses::note_lost(&mut self.groups, members);
        for &(id, seq) in members {
            let Some(queued) = self.groups.get(&id) else { continue };
            let Some(member) = queued.members().get(&seq) else { continue };
            let name = full_name(member.pod());
            match (queued.phase(), member.state()) {
                (Phase::Binding(_), MemberState::Planned) => {
                    self.bind_failed(id, seq, &name, "the node is gone", false);
                }
                (Phase::Held(ticket), MemberState::Planned) => {
                    let ticket = *ticket;
                    self.release(ticket, "a node is gone");
                }
                _ => {}
            }
        }
        for &id in groups {
            self.running_member_lost(id);
            self.settle_linked(id);
        }
    }

    /// A member that has left its node, and is pending again.
    pub(super) fn unbound(&mut self, id: GroupId, seq: u64, name: &str) {
        let member = self.groups.find(id, seq);
        let Some(member) = member.filter(|member| member.state() != MemberState::Done) else {
            return;
        };
        let (pod, state) = (member.pod().full_name(), member.state());
        let known = (&self.world, &self.removals);
        losses::note_left(known, &mut self.groups, id, seq);
        self.groups.set_state(id, seq, MemberState::Pending);
        self.remove_pod(pod.namespace(), pod.name());
        self.member_lost(id, name, state);
    }

    /// Result for a pod whose group has been removed.
    pub(super) fn unknown_pod_result(
        &mut self,
        namespace: &str,
        name: &str,
        off: bool,
    ) -> Result<(), QueueError> {
        if self.world.cluster().pod(namespace, name).is_none() {
            return Err(QueueError::UnknownPod(ObjectName::new(namespace, name)));
        }
        if off {
            self.remove_pod(namespace, name);
        }
        Ok(())
    }

    /// The result of binding one pod of a plan.
    ///
    /// A pod whose binding failed is pending again.
    /// [`Settings::on_bind_failure`](crate::queue::Settings::on_bind_failure) decides what happens to the
    /// rest of its gang. A result of a plan that was undone since is ignored while its pods are
    /// being unbound, but for a failure: such a pod has left its node.
    ///
    /// # Errors
    /// The pod is not a member of a known group, or `ticket` is not that of the last plan that
    /// placed it. In that case the result is late, and says nothing of the plan in flight. The
    /// state is then unchanged.
    pub fn handle_binding(
        &mut self,
        ticket: Ticket,
        namespace: &str,
        name: &str,
        result: Result<(), String>,
        now: Time,
    ) -> Result<(), QueueError> {
        let result = result.map_err(|reason| (reason, true));
        self.binding_ended(ticket, namespace, name, result, now)
    }

    /// No answer to the binding of one pod of a plan: the API server cannot be reached, or lets nobody bind.
    ///
    /// It counts as a failure of [`Scheduler::handle_binding`], and says nothing of the node: pods of that
    /// shape may go there at once. The group waits for its back-off alone. The pod must not be bound.
    ///
    /// # Errors
    /// As [`Scheduler::handle_binding`].
    ///
    /// ```
    /// use phalanx::queue::Settings;
    /// use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n").capacity("gpu", 8))?;
    /// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
    /// let gang = PodGroup::gang("g", 1).pod(Pod::new().name("g-0").request("gpu", 8));
    /// scheduler.handle_group(gang, Time::ZERO)?;
    /// let Some(Decision::Bind { ticket, .. }) = scheduler.poll_decision(Time::ZERO) else { panic!() };
    /// let reason = "the server is away".into();
    /// scheduler.handle_unanswered(ticket, "default", "g-0", reason, Time::ZERO)?;
    /// let later = Time::from_secs(1);
    /// assert!(matches!(scheduler.poll_decision(later), Some(Decision::Bind { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handle_unanswered(
        &mut self,
        ticket: Ticket,
        namespace: &str,
        name: &str,
        reason: String,
        now: Time,
    ) -> Result<(), QueueError> {
        self.binding_ended(ticket, namespace, name, Err((reason, false)), now)
    }

    /// The result of binding a pod; of a failure also whether its node refuses pods like that one.
    fn binding_ended(
        &mut self,
        ticket: Ticket,
        namespace: &str,
        name: &str,
        result: Result<(), (String, bool)>,
        now: Time,
    ) -> Result<(), QueueError> {
        self.world.advance(now);
        let full = format!("{namespace}/{name}");
        let Some((id, seq)) = self.groups.member(&full) else {
            return self.unknown_pod_result(namespace, name, result.is_err());
        };
        if self.groups.find(id, seq).and_then(Member::ticket) != Some(ticket) {
            return Err(QueueError::StaleTicket);
        }
        match result {
            Ok(()) => self.bound(id, seq, &full),
            Err((reason, refused)) => self.bind_failed(id, seq, &full, &reason, refused),
        }
        self.follow();
        Ok(())
    }

    /// The end of binding a plan: every pod of it whose result is not known yet is bound.
    ///
    /// It is [`Scheduler::handle_binding`] with `Ok` for each of them.
    ///
    /// # Errors
    /// The plan is not being bound, or not any more: it was undone, or all results are known. The
    /// state is then unchanged.
    pub fn handle_bound(&mut self, ticket: Ticket, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        let sent = self.holds.plan(ticket).filter(|plan| plan.held_by().is_none());
        let sent = sent.ok_or(QueueError::StaleTicket)?;
        let outstanding: Vec<String> = sent.outstanding().cloned().collect();
        for name in outstanding {
            if let Some((id, seq)) = self.groups.member(&name) {
                self.bound(id, seq, &name);
            }
        }
        self.follow();
        Ok(())
    }

    /// A pod that has left its node and may be placed again:
    /// [`Gone::Unbound`](crate::queue::Gone::Unbound).
    pub(super) fn pod_unbound(&mut self, pod: &ObjectName) -> Result<(), QueueError> {
        let Some((id, seq)) = self.groups.member(pod) else {
            return self.unknown_pod_result(pod.namespace(), pod.name(), true);
        };
        self.unbound(id, seq, pod);
        Ok(())
    }
}
