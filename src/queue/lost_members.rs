//! Lost members, while being bound or running, and the consequences for their gang.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::decision::{BoundPod, Decision};
use super::ids::{GroupId, Ticket};
use super::observe::GroupChange;
use super::queued_group::{MemberState, Phase, full_name};
use super::scheduler::{Scheduler, Timer};
use super::settings::OnBindFailure;

impl Scheduler {
    /// Removal of a member, or its end if `finished`.
    pub(super) fn remove_member(&mut self, id: GroupId, seq: u64, finished: bool) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let Some(member) = queued.members.get_mut(&seq) else { return };
        let name = full_name(&member.pod);
        let place = member.state;
        if finished {
            member.state = MemberState::Done;
        } else {
            queued.members.remove(&seq);
            self.pods.remove(&name);
        }
        match place {
            MemberState::Planned => self.planned_member_lost(id, &name),
            MemberState::Unbinding => self.undoing_ended(id),
            MemberState::Bound => self.running_member_lost(id),
            MemberState::Pending | MemberState::Done => {}
        }
        self.settle_linked(id);
    }

    /// Loss of a planned member before it was bound.
    pub(super) fn planned_member_lost(&mut self, id: GroupId, name: &str) {
        let phase = self.groups.get(&id).map(|queued| queued.phase.clone());
        let Some(Phase::Held(ticket) | Phase::Binding(ticket)) = phase else { return };
        let Some(in_flight) = self.in_flight.get_mut(&ticket) else { return };
        let held = in_flight.held_by.is_some();
        in_flight.outstanding.remove(name);
        in_flight.plan.retain(|pod| full_name(pod) != name);
        let empty = in_flight.outstanding.is_empty();
        let reason = format!("pod {name} is gone");
        if held && (empty || !self.keeps_minimum(id)) {
            self.release(ticket, &reason);
        } else if !held && !self.outlasts_loss(id) {
            self.undo(ticket, &reason);
        } else if !held {
            self.result_in(ticket, name);
        }
    }

    /// Whether a plan that is being bound goes on after the loss of a member.
    fn outlasts_loss(&self, id: GroupId) -> bool {
        self.settings.on_bind_failure == OnBindFailure::Retry || self.keeps_minimum(id)
    }

    /// Loss of the members on a removed node.
    pub(super) fn node_lost(&mut self, groups: &BTreeSet<GroupId>, members: &[(GroupId, u64)]) {
        for &(id, seq) in members {
            let Some(queued) = self.groups.get(&id) else { continue };
            let Some(member) = queued.members.get(&seq) else { continue };
            let name = full_name(&member.pod);
            match (&queued.phase, member.state) {
                (Phase::Binding(_), MemberState::Planned) => {
                    self.bind_failed(id, seq, &name, "the node is gone");
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

    /// Loss of running members of a group that has a plan in flight.
    pub(super) fn running_member_lost(&mut self, id: GroupId) {
        let phase = self.groups.get(&id).map(|queued| queued.phase.clone());
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

    /// Undo of a plan that is being bound.
    pub(super) fn undo(&mut self, ticket: Ticket, reason: &str) {
        let Some(in_flight) = self.in_flight.remove(&ticket) else { return };
        self.timers.remove(&(in_flight.until, Timer::Plan(ticket)));
        self.metrics.add_one(|metrics| &mut metrics.undone);
        let mut pods = Vec::new();
        for assignment in in_flight.plan.assignments() {
            let name = full_name(assignment.pod());
            if let Some((id, seq)) = self.pods.get(&name).copied()
                && let Some(queued) = self.groups.get_mut(&id)
                && in_flight.groups.contains(&id)
                && let Some(member) = queued.members.get_mut(&seq)
                && matches!(member.state, MemberState::Planned | MemberState::Bound)
            {
                member.state = MemberState::Unbinding;
                let pod = assignment.pod().full_name();
                let node = self.node_of(pod.namespace(), pod.name()).unwrap_or_default();
                pods.push(BoundPod { pod, node });
            }
        }
        for &id in &in_flight.groups {
            if in_flight.failures == 0 {
                self.count_failure(id);
            }
            self.set_phase(id, Phase::Undoing);
            self.emit(id, GroupChange::Undone { reason: reason.to_owned() });
        }
        if !pods.is_empty() {
            let groups = self.group_names(&in_flight.groups);
            self.outbox.push_back(Decision::Unbind { groups, pods, reason: reason.to_owned() });
        }
        for &id in &in_flight.groups {
            self.undoing_ended(id);
        }
    }

    /// End of a plan whose group is removed or evicted: a held plan is released, one being bound is
    /// undone.
    pub(super) fn abandon(&mut self, ticket: Ticket, reason: &str) {
        match self.in_flight.get(&ticket) {
            Some(in_flight) if in_flight.held_by.is_some() => self.release(ticket, reason),
            Some(_) => self.undo(ticket, reason),
            None => {}
        }
    }

    /// End of unbinding: a group without members to unbind continues.
    pub(super) fn undoing_ended(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get(&id) else { return };
        let busy = queued.members.values().any(|member| member.state == MemberState::Unbinding);
        if queued.phase == Phase::Undoing && !busy {
            self.plan_ended(&[id]);
        }
    }

    /// Counts a failure: the back-off grows, and the group may be demoted.
    pub(super) fn count_failure(&mut self, id: GroupId) {
        let now = self.now;
        let Some(queued) = self.groups.get_mut(&id) else { return };
        queued.attempts = queued.attempts.saturating_add(1);
        queued.not_before = now.after(self.settings.backoff.after(queued.attempts));
        let attempts = queued.attempts;
        if let Some(after) = self.settings.demote_after
            && after > 0
            && attempts % after == 0
        {
            queued.since = now;
            self.rekey(id);
            self.emit(id, GroupChange::Demoted { attempts });
        }
    }

    /// Updates whether a group has started and whether it is below its minimum.
    pub(super) fn update_health(&mut self, id: GroupId) {
        let now = self.now;
        let Some(queued) = self.groups.get(&id) else { return };
        let counts = queued.counts(&self.cluster);
        let satisfied = queued.has_minimum(&counts);
        let gone = !queued.members.values().any(|member| {
            matches!(member.state, MemberState::Bound | MemberState::Done | MemberState::Planned)
        });
        let evicted =
            !queued.members.values().any(|member| matches!(member.state, MemberState::Bound));
        let runs = counts.iter().any(|count| count.running > 0);
        let stale_after = self.settings.stale_after;
        let evicts_half_bound = self.settings.evict_half_bound;
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let (was_below, waited) =
            (queued.below_since, queued.ready_since.map(|time| now.since(time)));
        let (was_started, was_evicting) = (queued.started, queued.evicting);
        let (mut started, mut recovered, mut fell) = (false, false, false);
        let is_half_bound = evicts_half_bound && runs && !queued.phase.busy();
        let begun = queued.started || queued.evicting || queued.below_since.is_some();
        if begun && (gone || queued.evicting && evicted) {
            // The group starts from the beginning.
            queued.started = false;
            queued.evicting = false;
            queued.preempted = false;
            queued.below_since = None;
            queued.is_raised = false;
        } else if satisfied && !queued.evicting {
            recovered = queued.below_since.take().is_some();
            queued.is_raised = false;
            if !queued.started && runs && !queued.phase.busy() {
                queued.started = true;
                queued.ready_since = None;
                started = true;
            }
        } else if (queued.started || is_half_bound)
            && queued.below_since.is_none()
            && !queued.evicting
            && !queued.is_raised
        {
            queued.below_since = Some(now);
            fell = true;
        }
        let changes = (queued.started, queued.evicting) != (was_started, was_evicting);
        let is_settled = was_evicting && !queued.evicting;
        if let Some(since) = was_below.filter(|_| queued.below_since.is_none()) {
            self.timers.remove(&(since.after(stale_after), Timer::Below(id)));
        }
        if is_settled {
            self.set_leaving(id, false);
        }
        if changes {
            // The phase may stay: a paused group that begins anew is a partner again.
            self.update_readiness(id);
        }
        if fell {
            self.timers.insert((now.after(stale_after), Timer::Below(id)));
            self.emit(id, GroupChange::BelowMinimum);
        }
        if recovered {
            self.emit(id, GroupChange::Recovered);
        }
        if started {
            let waited = waited.unwrap_or_default();
            self.metrics.add_one(|metrics| &mut metrics.started);
            self.metrics.waiting.add_duration(waited);
            self.emit(id, GroupChange::Started { waited });
        }
    }

    /// Eviction of a gang below its minimum, as a decision for the embedder.
    pub(super) fn evict(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let Some(since) = queued.below_since else { return };
        if core::mem::replace(&mut queued.evicting, true) {
            return;
        }
        queued.below_since = None;
        self.set_leaving(id, true);
        self.timers.remove(&(since.after(self.settings.stale_after), Timer::Below(id)));
        let phase = self.groups.get(&id).map(|queued| queued.phase.clone());
        if let Some(Phase::Held(ticket) | Phase::Binding(ticket)) = phase {
            self.abandon(ticket, "the gang is evicted");
        }
        let Some(queued) = self.groups.get(&id) else { return };
        let group = queued.name.clone();
        let bound = queued.members.values().filter(|member| member.state == MemberState::Bound);
        let pods: Vec<BoundPod> = bound
            .map(|member| {
                let pod = member.pod.full_name();
                let node = self.node_of(pod.namespace(), pod.name()).unwrap_or_default();
                BoundPod { pod, node }
            })
            .collect();
        self.metrics.add_one(|metrics| &mut metrics.evictions);
        self.emit(id, GroupChange::EvictionAsked { pods: pods.len() });
        self.outbox.push_back(Decision::Evict { group, pods, since });
        self.settle_linked(id);
    }
}
