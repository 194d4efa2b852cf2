//! Plans in flight: held by a permit, being bound, taken back.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::decision::{BoundPod, Decision};
use super::error::QueueError;
use super::ids::{GroupId, Ticket};
use super::observe::{GroupChange, ReservationEnd};
use super::queued_group::{MemberCounts, MemberState, Phase, full_name};
use super::scheduler::{PlanInFlight, Scheduler, Timer};
use super::settings::OnBindFailure;
use super::shortage::Shortage;
use crate::base::{ObjectName, Time};
use crate::framework::{PermitContext, PermitVerdict};
use crate::state::Plan;

impl Scheduler {
    /// The result of binding one pod of a plan.
    ///
    /// A pod whose binding failed is pending again.
    /// [`Settings::on_bind_failure`](super::Settings::on_bind_failure) decides what happens to the
    /// rest of its gang. A result of a plan that was undone since is ignored while its pods are
    /// being unbound, but for a failure: such a pod has left its node.
    ///
    /// # Errors
    /// The pod is not a member of a known group, or `ticket` is not that of the last plan that
    /// placed it: the result is late, and says nothing of the plan in flight. The state is then
    /// unchanged.
    pub fn handle_binding(
        &mut self,
        ticket: Ticket,
        namespace: &str,
        name: &str,
        result: Result<(), String>,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let full = format!("{namespace}/{name}");
        let Some(&(id, seq)) = self.pods.get(&full) else {
            return self.unknown_pod_result(namespace, name, result.is_err());
        };
        let member = self.groups.get(&id).and_then(|queued| queued.members.get(&seq));
        if member.and_then(|member| member.ticket) != Some(ticket) {
            return Err(QueueError::StaleTicket);
        }
        match result {
            Ok(()) => self.bound(id, seq, &full),
            Err(reason) => self.bind_failed(id, seq, &full, &reason),
        }
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
        self.expire(now, false);
        let sent = self.in_flight.get(&ticket).filter(|in_flight| in_flight.held_by.is_none());
        let outstanding = sent.ok_or(QueueError::StaleTicket)?.outstanding.clone();
        for name in outstanding {
            if let Some(&(id, seq)) = self.pods.get(&name) {
                self.bound(id, seq, &name);
            }
        }
        Ok(())
    }

    /// The end of unbinding a pod: the pod has left its node and is pending again.
    ///
    /// # Errors
    /// The pod is not a member of a known group.
    pub fn handle_unbound(
        &mut self,
        namespace: &str,
        name: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let full = format!("{namespace}/{name}");
        let Some(&(id, seq)) = self.pods.get(&full) else {
            return self.unknown_pod_result(namespace, name, true);
        };
        self.unbound(id, seq, &full);
        Ok(())
    }

    /// A member that has left its node, and is pending again.
    pub(super) fn unbound(&mut self, id: GroupId, seq: u64, name: &str) {
        let member = self.groups.get_mut(&id).and_then(|queued| queued.members.get_mut(&seq));
        let Some(member) = member.filter(|member| member.state != MemberState::Done) else {
            return;
        };
        let place = core::mem::replace(&mut member.state, MemberState::Pending);
        let (namespace, pod) = (member.pod.namespace().to_owned(), member.pod.name.clone());
        self.remove_pod(&namespace, &pod);
        match place {
            MemberState::Planned => self.planned_member_lost(id, name),
            MemberState::Unbinding => self.undoing_ended(id),
            MemberState::Bound => self.running_member_lost(id),
            MemberState::Pending | MemberState::Done => {}
        }
        self.settle_linked(id);
    }

    /// A lost race: another scheduler's commit came first, and no pod of the plan was bound. The
    /// whole gang is tried again, at once after the first conflict, after a back-off if conflicts
    /// repeat.
    ///
    /// # Errors
    /// The plan is no longer in flight.
    pub fn handle_conflict(
        &mut self,
        ticket: Ticket,
        reason: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let Some(in_flight) = self.in_flight.remove(&ticket) else {
            return Err(QueueError::StaleTicket);
        };
        self.timers.remove(&(in_flight.until, Timer::Plan(ticket)));
        self.metrics.add_one(|metrics| &mut metrics.conflicts);
        for &id in &in_flight.groups {
            self.emit(id, GroupChange::Conflict { reason: reason.to_owned() });
            if let Some(queued) = self.groups.get_mut(&id) {
                queued.conflicts = queued.conflicts.saturating_add(1);
                if queued.conflicts > 1 {
                    let wait = self.settings.backoff.after(queued.conflicts - 1);
                    queued.not_before = self.now.after(wait);
                }
            }
        }
        self.take_back(&in_flight);
        self.plan_ended(&in_flight.groups);
        Ok(())
    }

    /// A later verdict of the permit that holds a plan.
    ///
    /// # Errors
    /// No plan of the group is held.
    pub fn handle_permit(
        &mut self,
        group: &str,
        verdict: PermitVerdict,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let id = self.root(group)?;
        let Some(Phase::Held(ticket)) = self.groups.get(&id).map(|queued| queued.phase.clone())
        else {
            return Err(QueueError::NotHeld(ObjectName::of_text(group)));
        };
        let by = self.in_flight.get(&ticket).and_then(|in_flight| in_flight.held_by.clone());
        self.apply_verdict(ticket, verdict, by.unwrap_or_default());
        Ok(())
    }

    /// A repeated evaluation of the framework's permits for a held plan, after something they read
    /// has changed. When members of the group arrive it runs without this call.
    ///
    /// # Errors
    /// No plan of the group is held.
    pub fn handle_permit_changed(&mut self, group: &str, now: Time) -> Result<(), QueueError> {
        self.expire(now, false);
        let id = self.root(group)?;
        if !matches!(self.groups.get(&id).map(|queued| &queued.phase), Some(Phase::Held(_))) {
            return Err(QueueError::NotHeld(ObjectName::of_text(group)));
        }
        self.recheck_permits(id);
        Ok(())
    }

    /// Start of a committed plan: holds it for a permit or sends it out to be bound.
    pub(super) fn start_plan(
        &mut self,
        groups: Vec<GroupId>,
        plan: Plan,
        held: Option<(Time, String)>,
    ) {
        self.note_start(&groups);
        let ticket = Ticket(self.take_number());
        let mut outstanding = BTreeSet::new();
        for assignment in plan.assignments() {
            let name = full_name(assignment.pod());
            if let Some((id, seq)) = self.pods.get(&name)
                && let Some(queued) = self.groups.get_mut(id)
                && let Some(member) = queued.members.get_mut(seq)
            {
                member.state = MemberState::Planned;
                member.ticket = Some(ticket);
                outstanding.insert(name);
            }
            self.pods_changed(assignment.node());
        }
        for &id in &groups {
            self.end_reservation(id, ReservationEnd::Used);
        }
        let (held_by, until) = match held {
            Some((until, by)) => {
                let own = groups
                    .iter()
                    .filter_map(|id| self.groups.get(id)?.root.schedule_timeout)
                    .min()
                    .unwrap_or(self.settings.permit_timeout);
                (Some(by), until.min(self.now.after(own)))
            }
            None => (None, self.now.after(self.settings.bind_timeout)),
        };
        for &id in &groups {
            let phase =
                if held_by.is_some() { Phase::Held(ticket) } else { Phase::Binding(ticket) };
            self.set_phase(id, phase);
            let pods = outstanding.len();
            let change = match &held_by {
                Some(by) => GroupChange::Held { pods, by: by.clone(), until },
                None => GroupChange::Binding { pods },
            };
            self.emit(id, change);
        }
        self.timers.insert((until, Timer::Plan(ticket)));
        let is_held = held_by.is_some();
        let since = self.now;
        let in_flight =
            PlanInFlight { groups, plan, since, until, held_by, outstanding, failures: 0 };
        if !is_held {
            self.send(ticket, &in_flight);
        }
        self.in_flight.insert(ticket, in_flight);
    }

    pub(super) fn send(&mut self, ticket: Ticket, in_flight: &PlanInFlight) {
        let groups = self.group_names(&in_flight.groups);
        self.outbox.push_back(Decision::Bind { ticket, groups, plan: in_flight.plan.clone() });
    }

    pub(super) fn group_names(&self, groups: &[GroupId]) -> Vec<ObjectName> {
        groups.iter().filter_map(|id| Some(self.groups.get(id)?.name.clone())).collect()
    }

    /// Repeated evaluation of the permits for the held plan of a group.
    pub(super) fn recheck_permits(&mut self, id: GroupId) {
        let Some(Phase::Held(ticket)) = self.groups.get(&id).map(|queued| queued.phase.clone())
        else {
            return;
        };
        let Some(in_flight) = self.in_flight.get(&ticket) else { return };
        // The planned members count as pending, as they did when the plan was made, beside those
        // that arrived since.
        let mut trees =
            in_flight.groups.iter().filter_map(|id| self.groups.get(id)).map(|queued| {
                let mut queued = queued.clone();
                for member in queued.members.values_mut() {
                    if member.state == MemberState::Planned {
                        member.state = MemberState::Pending;
                    }
                }
                let counts = queued.counts(&self.cluster);
                queued.pending_tree(&counts)
            });
        let Some(group) = trees.next() else { return };
        let mut txn = self.cluster.txn();
        for assignment in in_flight.plan.assignments() {
            let _ = txn.evict(assignment.pod().namespace(), &assignment.pod().name);
        }
        let cx =
            PermitContext { cluster: &txn, group: &group, plan: &in_flight.plan, now: self.now };
        let mut verdict = (PermitVerdict::Admit, String::new());
        for permit in self.framework.permits() {
            match (permit.permit(&cx), &verdict.0) {
                (PermitVerdict::Admit, _) => {}
                (deny @ PermitVerdict::Deny { .. }, _) => {
                    verdict = (deny, permit.name().to_owned());
                    break;
                }
                (PermitVerdict::Hold { until }, PermitVerdict::Hold { until: latest })
                    if until <= *latest => {}
                (hold, _) => verdict = (hold, permit.name().to_owned()),
            }
        }
        self.apply_verdict(ticket, verdict.0, verdict.1);
    }

    pub(super) fn apply_verdict(&mut self, ticket: Ticket, verdict: PermitVerdict, by: String) {
        match verdict {
            PermitVerdict::Admit => {
                let Some(mut in_flight) = self.in_flight.remove(&ticket) else { return };
                self.timers.remove(&(in_flight.until, Timer::Plan(ticket)));
                in_flight.held_by = None;
                in_flight.since = self.now;
                in_flight.until = self.now.after(self.settings.bind_timeout);
                self.timers.insert((in_flight.until, Timer::Plan(ticket)));
                for &id in &in_flight.groups {
                    self.set_phase(id, Phase::Binding(ticket));
                    self.emit(id, GroupChange::Binding { pods: in_flight.outstanding.len() });
                }
                self.send(ticket, &in_flight);
                self.in_flight.insert(ticket, in_flight);
            }
            PermitVerdict::Hold { until } => {
                let Some(in_flight) = self.in_flight.get_mut(&ticket) else { return };
                // A permit may shorten the hold, never extend it.
                if until < in_flight.until {
                    self.timers.remove(&(in_flight.until, Timer::Plan(ticket)));
                    in_flight.until = until;
                    self.timers.insert((until, Timer::Plan(ticket)));
                }
                in_flight.held_by = Some(by);
            }
            PermitVerdict::Deny { reason } => {
                self.metrics.add_one(|metrics| &mut metrics.denied);
                let shortage = Shortage::Permit { by, reason: reason.clone() };
                self.record_failure(ticket, &shortage);
                self.release(ticket, &reason);
            }
        }
    }

    /// Counts a failure against all groups of a plan.
    pub(super) fn record_failure(&mut self, ticket: Ticket, shortage: &Shortage) {
        let groups =
            self.in_flight.get(&ticket).map_or_else(Vec::new, |in_flight| in_flight.groups.clone());
        for id in groups {
            self.count_failure(id);
            if let Some(queued) = self.groups.get_mut(&id) {
                queued.shortage = Some(shortage.clone());
            }
        }
    }

    /// Release of a held plan. No pod of it is bound.
    pub(super) fn release(&mut self, ticket: Ticket, reason: &str) {
        let Some(in_flight) = self.in_flight.remove(&ticket) else { return };
        self.timers.remove(&(in_flight.until, Timer::Plan(ticket)));
        for &id in &in_flight.groups {
            self.emit(id, GroupChange::HoldReleased { reason: reason.to_owned() });
        }
        self.take_back(&in_flight);
        self.plan_ended(&in_flight.groups);
    }

    /// Removes the pods of a plan from the cluster; none of them is bound.
    pub(super) fn take_back(&mut self, in_flight: &PlanInFlight) {
        for assignment in in_flight.plan.assignments() {
            let pod = assignment.pod();
            if let Some((id, seq)) = self.pods.get(&full_name(pod)).copied()
                && let Some(queued) = self.groups.get_mut(&id)
                && let Some(member) = queued.members.get_mut(&seq)
                && member.state == MemberState::Planned
            {
                member.state = MemberState::Pending;
                self.remove_pod(pod.namespace(), &pod.name);
            }
        }
    }

    /// New phases of the groups whose plan has ended. Unless `keep_running` is set, a started gang
    /// that is still below its minimum is evicted.
    pub(super) fn plan_ended(&mut self, groups: &[GroupId]) {
        for &id in groups {
            self.set_phase(id, Phase::Idle);
        }
        for &id in groups {
            self.settle_linked(id);
        }
        for &id in groups {
            let Some(queued) = self.groups.get(&id) else { continue };
            if queued.started && queued.below_since.is_some() && !queued.root.keep_running {
                self.evict(id);
            }
        }
    }

    pub(super) fn plan_expired(&mut self, ticket: Ticket) {
        let Some(in_flight) = self.in_flight.get(&ticket) else { return };
        if in_flight.held_by.is_none() {
            self.undo(ticket, "binding took too long");
            return;
        }
        self.metrics.add_one(|metrics| &mut metrics.holds_expired);
        let by = in_flight.held_by.clone().unwrap_or_default();
        for id in in_flight.groups.clone() {
            self.emit(id, GroupChange::HoldExpired);
        }
        let reason = "the permit took too long";
        self.record_failure(ticket, &Shortage::Permit { by, reason: reason.to_owned() });
        self.release(ticket, reason);
    }

    /// Result for a pod whose group has been removed.
    pub(super) fn unknown_pod_result(
        &mut self,
        namespace: &str,
        name: &str,
        off: bool,
    ) -> Result<(), QueueError> {
        if self.cluster.pod(namespace, name).is_none() {
            return Err(QueueError::UnknownPod(ObjectName::new(namespace, name)));
        }
        if off {
            self.remove_pod(namespace, name);
        }
        Ok(())
    }

    pub(super) fn bound(&mut self, id: GroupId, seq: u64, name: &str) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let Some(member) = queued.members.get_mut(&seq) else { return };
        // A member that is being unbound stays so until its unbinding is reported.
        if let (Phase::Binding(ticket), MemberState::Planned) = (&queued.phase, member.state) {
            let ticket = *ticket;
            member.state = MemberState::Bound;
            let (namespace, pod) = (member.pod.namespace().to_owned(), member.pod.name.clone());
            self.has_started(&namespace, &pod);
            self.metrics.add_one(|metrics| &mut metrics.bound);
            self.update_health(id);
            self.result_in(ticket, name);
        }
    }

    /// Observation of a member as bound in the cluster.
    pub(super) fn seen_bound(&mut self, id: GroupId, seq: u64, name: &str) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let phase = queued.phase.clone();
        let Some(member) = queued.members.get_mut(&seq) else { return };
        match (phase, member.state) {
            (Phase::Binding(_), MemberState::Planned) => self.bound(id, seq, name),
            (Phase::Held(ticket), MemberState::Planned) => {
                // The pod was bound from outside, so the plan no longer describes the gang: release
                // the rest.
                member.state = MemberState::Bound;
                if let Some(in_flight) = self.in_flight.get_mut(&ticket) {
                    in_flight.outstanding.remove(name);
                }
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

    /// A pending member found bound, from outside or by a late result. If its gang is being
    /// evicted, the pod is unbound as well.
    pub(super) fn found_bound(&mut self, id: GroupId, seq: u64) {
        self.note_start(&[id]);
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let Some(member) = queued.members.get_mut(&seq) else { return };
        if !queued.evicting {
            member.state = MemberState::Bound;
            self.charge_bound(id, seq);
            self.place_taken(id, seq);
            return;
        }
        member.state = MemberState::Unbinding;
        let (namespace, name) = (member.pod.namespace().to_owned(), member.pod.name.clone());
        self.charge_bound(id, seq);
        let node = self.node_of(&namespace, &name).unwrap_or_default();
        let pods = alloc::vec![BoundPod { pod: ObjectName::new(&namespace, &name), node }];
        let (groups, reason) = (self.group_names(&[id]), "the gang is evicted".to_owned());
        self.outbox.push_back(Decision::Unbind { groups, pods, reason });
    }

    pub(super) fn bind_failed(&mut self, id: GroupId, seq: u64, name: &str, reason: &str) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let phase = queued.phase.clone();
        let Some(member) = queued.members.get_mut(&seq) else { return };
        let place = member.state;
        if !matches!(place, MemberState::Planned | MemberState::Unbinding) {
            return;
        }
        member.state = MemberState::Pending;
        let pod = member.pod.full_name();
        self.remove_pod(pod.namespace(), pod.name());
        self.metrics.add_one(|metrics| &mut metrics.bind_failures);
        let (name, reason) = (name.to_owned(), reason.to_owned());
        self.emit(id, GroupChange::BindFailed { pod, reason: reason.clone() });
        match (phase, place) {
            (Phase::Binding(ticket), MemberState::Planned) => {
                let why = format!("pod {name}: {reason}");
                let mut first = false;
                if let Some(in_flight) = self.in_flight.get_mut(&ticket) {
                    first = in_flight.failures == 0;
                    in_flight.failures = in_flight.failures.saturating_add(1);
                }
                if first {
                    self.record_failure(ticket, &Shortage::Binding { reason: why.clone() });
                }
                if self.may_keep(ticket) {
                    self.result_in(ticket, &name);
                } else {
                    if let Some(in_flight) = self.in_flight.get_mut(&ticket) {
                        in_flight.outstanding.remove(&name);
                    }
                    self.undo(ticket, &why);
                }
            }
            _ => self.undoing_ended(id),
        }
    }

    /// Whether policy and minimum allow a plan to continue without the pods it has lost.
    pub(super) fn may_keep(&self, ticket: Ticket) -> bool {
        if self.settings.on_bind_failure == OnBindFailure::Retry {
            return true;
        }
        let Some(in_flight) = self.in_flight.get(&ticket) else { return false };
        let keeps = |id: &GroupId| {
            let Some(queued) = self.groups.get(id) else { return false };
            let policy = queued.root.keep_running
                || self.settings.on_bind_failure == OnBindFailure::KeepMinimum;
            policy && self.keeps_minimum(*id)
        };
        in_flight.groups.iter().all(keeps)
    }

    /// Whether the members that run or are planned satisfy the minimum of a group.
    pub(super) fn keeps_minimum(&self, id: GroupId) -> bool {
        let Some(queued) = self.groups.get(&id) else { return false };
        let mut counts: Vec<MemberCounts> = queued.counts(&self.cluster);
        for count in &mut counts {
            count.running = count.existing.saturating_sub(count.pending);
        }
        queued.has_minimum(&counts)
    }

    pub(super) fn result_in(&mut self, ticket: Ticket, name: &str) {
        let Some(in_flight) = self.in_flight.get_mut(&ticket) else { return };
        in_flight.outstanding.remove(name);
        if !in_flight.outstanding.is_empty() {
            return;
        }
        let Some(in_flight) = self.in_flight.remove(&ticket) else { return };
        self.timers.remove(&(in_flight.until, Timer::Plan(ticket)));
        self.metrics.binding.add_duration(self.now.since(in_flight.since));
        for &id in &in_flight.groups {
            let Some(queued) = self.groups.get_mut(&id) else { continue };
            queued.conflicts = 0;
            if !queued.started {
                self.metrics.tries.add(u64::from(queued.attempts) + 1);
            }
            if in_flight.failures == 0 {
                queued.attempts = 0;
                queued.not_before = Time::ZERO;
                queued.shortage = None;
            }
            queued.nominated = None;
            let was_started = queued.started;
            let pods = in_flight.plan.len().saturating_sub(in_flight.failures as usize);
            self.set_phase(id, Phase::Idle);
            self.update_health(id);
            if was_started && pods > 0 {
                self.emit(id, GroupChange::Joined { pods });
            }
        }
        for &id in &in_flight.groups {
            self.settle_linked(id);
        }
    }
}
