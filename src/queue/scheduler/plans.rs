//! Plans in flight: begun, held by a permit, taken back, undone.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Scheduler, Timer};
use crate::base::{ObjectName, Time};
use crate::framework::{PermitContext, PermitVerdict};
use crate::queue::groups::{Member, MemberState, Phase, QueuedGroup, full_name};
use crate::queue::holds::{Hold, InFlight};
use crate::queue::terms::decision::{BoundPod, Decision, EvictionCause};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::terms::observe::{GroupChange, ReservationEnd};
use crate::queue::terms::shortage::Shortage;
use crate::state::Plan;

impl Scheduler {
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
            if let Some((id, seq)) = self.groups.member(&name)
                && let Some(queued) = self.groups.get_mut(&id)
            {
                queued.members_mut().plan(seq, ticket);
                outstanding.insert(name);
            }
            self.pods_changed(assignment.node());
        }
        for &id in &groups {
            self.end_reservation(id, ReservationEnd::Used);
        }
        let now = self.world.now();
        for id in &groups {
            if let Some(queued) = self.groups.get_mut(id) {
                queued.end_turn(now);
            }
        }
        let (held_by, until) = match held {
            Some((until, by)) => {
                let own = groups
                    .iter()
                    .filter_map(|id| self.groups.get(id)?.root().schedule_timeout)
                    .min()
                    .unwrap_or(self.world.settings().permit_timeout);
                (Some(by), until.min(now.after(own)))
            }
            None => (None, now.after(self.world.settings().bind_timeout)),
        };
        let prepares = held_by.is_none() && self.is_prepared(&plan);
        let until = if prepares { self.prepared_by() } else { until };
        for &id in &groups {
            let phase =
                if held_by.is_some() { Phase::Held(ticket) } else { Phase::Binding(ticket) };
            self.set_phase(id, phase);
            let pods = outstanding.len();
            let change = match &held_by {
                Some(by) => GroupChange::Held { pods, by: by.clone(), until },
                None if prepares => GroupChange::Preparing { pods, until },
                None => GroupChange::Binding { pods },
            };
            self.emit(id, change);
        }
        self.timers.insert((until, Timer::Plan(ticket)));
        let is_held = held_by.is_some();
        let flight = InFlight::new(held_by, outstanding).preparing(prepares);
        self.holds.begin_plan(ticket, groups, plan, (now, until), flight);
        if !is_held {
            self.send(ticket);
        }
    }

    fn send(&mut self, ticket: Ticket) {
        let Some(hold) = self.holds.plan(ticket) else { return };
        let groups = self.groups.full_names(hold.owners());
        let prepares = hold.prepares();
        let Some(plan) = self.holds.plan_in_flight(ticket).cloned() else { return };
        self.report.decide(if prepares {
            Decision::Prepare { ticket, groups, plan }
        } else {
            Decision::Bind { ticket, groups, plan }
        });
    }

    /// Whether there is work to do for a plan before it is bound.
    fn is_prepared(&self, plan: &Plan) -> bool {
        self.world.settings().prepare_within.is_some()
            && plan.assignments().any(|own| {
                !own.allocations().is_empty() || own.volumes().is_some_and(|own| !own.is_empty())
            })
    }

    /// The deadline of a preparation that begins now.
    fn prepared_by(&self) -> Time {
        let span = self.world.settings().prepare_within.unwrap_or_default();
        self.world.now().after(span)
    }

    /// Sends a plan out to be prepared, or to be bound.
    fn send_on(&mut self, ticket: Ticket, prepares: bool) {
        let Some(hold) = self.holds.plan(ticket) else { return };
        let (owners, before) = (hold.owners().to_vec(), hold.until());
        let pods = hold.outstanding().count();
        let now = self.world.now();
        let bound_by = now.after(self.world.settings().bind_timeout);
        let until = if prepares { self.prepared_by() } else { bound_by };
        self.timers.remove(&(before, Timer::Plan(ticket)));
        self.timers.insert((until, Timer::Plan(ticket)));
        self.holds.admit_plan(ticket, (now, until), prepares);
        for &id in &owners {
            self.set_phase(id, Phase::Binding(ticket));
            self.emit(
                id,
                if prepares {
                    GroupChange::Preparing { pods, until }
                } else {
                    GroupChange::Binding { pods }
                },
            );
        }
        self.send(ticket);
    }

    /// The result of preparing a plan. If it is prepared, its binding follows; if that failed, the
    /// whole plan is undone.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use phalanx::claims::NoSelectors;
    /// use phalanx::model::{ClaimSpec, DeviceClass, DeviceDemand, ResourceSlice, SliceDevice};
    /// use phalanx::plugins::DynamicResources;
    /// use phalanx::queue::Settings;
    /// use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.set_device_class(DeviceClass::new("gpu"));
    /// cluster.add_node(Node::new("n1").capacity("cpu", 8))?;
    /// cluster.set_resource_slice(ResourceSlice::on("n1", "d").device(SliceDevice::new("gpu-0")));
    /// let builder = Framework::default().to_builder();
    /// let framework = DynamicResources::add_to(builder, NoSelectors).build()?;
    /// let settings = Settings::new().prepare_within(Duration::from_secs(60));
    /// let mut scheduler = Scheduler::new(cluster, framework, settings);
    ///
    /// let claim = ClaimSpec::new().request("gpu", DeviceDemand::of("gpu", 1));
    /// let pod = Pod::new().name("p").own_claim("gpu", claim);
    /// let now = Time::ZERO;
    /// scheduler.handle_group(PodGroup::gang("g", 1).pod(pod), now)?;
    /// let Some(Decision::Prepare { ticket, .. }) = scheduler.poll_decision(now) else { panic!() };
    /// scheduler.handle_prepared(ticket, Ok(()), now)?;
    /// assert!(matches!(scheduler.poll_decision(now), Some(Decision::Bind { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The plan is not being prepared, or not any more. The state is then unchanged.
    pub fn handle_prepared(
        &mut self,
        ticket: Ticket,
        result: Result<(), String>,
        now: Time,
    ) -> Result<(), QueueError> {
        self.world.advance(now);
        if !self.holds.plan(ticket).is_some_and(Hold::prepares) {
            return Err(QueueError::StaleTicket);
        }
        match result {
            Ok(()) => self.send_on(ticket, false),
            Err(reason) => self.undo(ticket, &reason),
        }
        self.follow();
        Ok(())
    }

    /// Takes a plan in flight off the ledger, with its timer.
    pub(super) fn end_plan(&mut self, ticket: Ticket) -> Option<Hold> {
        let plan = self.holds.end_plan(ticket)?;
        self.timers.remove(&(plan.until(), Timer::Plan(ticket)));
        Some(plan)
    }

    /// Removes the pods of a plan from the cluster; none of them is bound.
    fn take_back(&mut self, hold: &Hold) {
        for assignment in hold.ended_plan().into_iter().flat_map(Plan::assignments) {
            let pod = assignment.pod();
            if let Some((id, seq)) = self.groups.member(&full_name(pod))
                && self.groups.find(id, seq).map(Member::state) == Some(MemberState::Planned)
            {
                self.groups.set_state(id, seq, MemberState::Pending);
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
            let is_below = queued.started() && queued.below_since().is_some();
            if is_below && !queued.root().keep_running {
                // Judged when decisions are polled, as any other gang below its minimum.
                self.timers.insert((self.world.now(), Timer::Below(id)));
            }
        }
    }

    /// Release of a held plan. No pod of it is bound.
    pub(super) fn release(&mut self, ticket: Ticket, reason: &str) {
        let Some(plan) = self.end_plan(ticket) else { return };
        for &id in plan.owners() {
            self.emit(id, GroupChange::HoldReleased { reason: reason.to_owned() });
        }
        self.take_back(&plan);
        self.plan_ended(plan.owners());
    }

    /// Counts a failure against all groups of a plan.
    pub(super) fn record_failure(&mut self, ticket: Ticket, shortage: &Shortage) {
        let groups = self.holds.plan(ticket).map_or_else(Vec::new, |own| own.owners().to_vec());
        for id in groups {
            self.count_failure(id);
            if let Some(queued) = self.groups.get_mut(&id) {
                queued.set_shortage(Some(shortage.clone()));
            }
        }
    }

    /// Undo of a plan that is being bound.
    pub(super) fn undo(&mut self, ticket: Ticket, reason: &str) {
        let Some(hold) = self.end_plan(ticket) else { return };
        self.report.count(|metrics| &mut metrics.undone);
        let mut pods = Vec::new();
        for assignment in hold.ended_plan().into_iter().flat_map(Plan::assignments) {
            let name = full_name(assignment.pod());
            if let Some((id, seq)) = self.groups.member(&name)
                && hold.owners().contains(&id)
                && let Some(MemberState::Planned | MemberState::Bound) =
                    self.groups.find(id, seq).map(Member::state)
            {
                self.groups.set_state(id, seq, MemberState::Unbinding);
                let pod = assignment.pod().full_name();
                let node = self.node_of(pod.namespace(), pod.name()).unwrap_or_default();
                pods.push(BoundPod { pod, node });
            }
        }
        for &id in hold.owners() {
            if hold.failures() == 0 {
                self.count_failure(id);
            }
            self.set_phase(id, Phase::Undoing);
            self.emit(id, GroupChange::Undone { reason: reason.to_owned() });
        }
        if !pods.is_empty() {
            let groups = self.groups.full_names(hold.owners());
            self.report.decide(Decision::Unbind { groups, pods, reason: reason.to_owned() });
        }
        for &id in hold.owners() {
            self.undoing_ended(id);
        }
    }

    /// End of unbinding: a group without members to unbind continues.
    pub(super) fn undoing_ended(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get(&id) else { return };
        let busy = queued.members().of(MemberState::Unbinding) > 0;
        if *queued.phase() == Phase::Undoing && !busy {
            self.plan_ended(&[id]);
        }
    }

    /// End of a plan whose group is removed or evicted: a held plan is released, one being bound is
    /// undone.
    pub(super) fn abandon(&mut self, ticket: Ticket, reason: &str) {
        match self.holds.plan(ticket).map(|hold| hold.held_by().is_some()) {
            Some(true) => self.release(ticket, reason),
            Some(false) => self.undo(ticket, reason),
            None => {}
        }
    }

    /// Eviction of a gang below its minimum, as a decision for the embedder.
    pub(super) fn evict(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let Some(since) = queued.health_mut().evict() else { return };
        self.set_leaving(id, true);
        self.timers.remove(&(since.after(self.world.settings().stale_after), Timer::Below(id)));
        if let Some(ticket) = self.groups.get(&id).and_then(QueuedGroup::ticket) {
            self.abandon(ticket, "the gang is evicted");
        }
        let Some((group, pods)) = self.all_bound(id) else { return };
        self.report.count(|metrics| &mut metrics.evictions);
        self.emit(id, GroupChange::EvictionAsked { pods: pods.len() });
        self.report.decide(Decision::EvictStale { group, pods, since });
        self.settle_linked(id);
    }

    /// The pods of a group that run, for a decision. O(members).
    fn all_bound(&self, id: GroupId) -> Option<(ObjectName, Vec<BoundPod>)> {
        let queued = self.groups.get(&id)?;
        let members = queued.members().values();
        let bound = members.filter(|member| member.state() == MemberState::Bound);
        let place = |member: &Member| {
            let pod = member.pod().full_name();
            let node = self.node_of(pod.namespace(), pod.name()).unwrap_or_default();
            BoundPod { pod, node }
        };
        Some((queued.name().clone(), bound.map(place).collect()))
    }

    /// Eviction of a group that has used up a time, as a decision for the embedder. If that is its run
    /// time, it is paused.
    pub(super) fn evict_overdue(&mut self, id: GroupId, since: Time, cause: EvictionCause) {
        let is_lent = cause != EvictionCause::RunTime;
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let is_new = queued.health_mut().overdue(is_lent);
        if is_lent && !is_new {
            return;
        }
        let was_paused = is_lent || queued.set_paused(true);
        self.set_leaving(id, true);
        if let Some(ticket) = self.groups.get(&id).and_then(QueuedGroup::ticket) {
            self.abandon(ticket, "the time of the group is over");
        }
        let Some((group, pods)) = self.all_bound(id) else { return };
        self.report.count(|metrics| &mut metrics.overdue);
        self.emit(id, GroupChange::Overdue { pods: pods.len() });
        if !was_paused {
            self.emit(id, GroupChange::Paused);
        }
        if is_new {
            self.report.decide(Decision::EvictDue { group, pods, since, cause });
        }
        self.settle_linked(id);
    }

    /// Evicts gangs that have been below their minimum for too long, and groups whose run time is
    /// over. Returns whether there are any.
    pub(super) fn evict_due(&mut self) -> bool {
        let now = self.world.now();
        let due = self.timers.iter().take_while(|(time, _)| *time <= now);
        let evicts =
            |(_, timer): &&(Time, Timer)| matches!(timer, Timer::Below(_) | Timer::RunTime(_));
        let due: Vec<(Time, Timer)> = due.filter(evicts).copied().collect();
        let is_due = !due.is_empty();
        for (time, timer) in due {
            self.timers.remove(&(time, timer));
            let Timer::Below(id) = timer else {
                if let Timer::RunTime(id) = timer {
                    self.evict_overdue(id, time, EvictionCause::RunTime);
                }
                continue;
            };
            let since = self.groups.get(&id).and_then(QueuedGroup::below_since);
            // A gang that recovered, and fell again since, has its time anew.
            if since.is_some_and(|since| since <= time) {
                self.evict(id);
            }
        }
        is_due
    }

    pub(super) fn plan_expired(&mut self, ticket: Ticket) {
        let Some(hold) = self.holds.plan(ticket) else { return };
        let Some(by) = hold.held_by().map(String::from) else {
            let prepares = hold.prepares();
            self.undo(
                ticket,
                if prepares { "preparation took too long" } else { "binding took too long" },
            );
            return;
        };
        let owners = hold.owners().to_vec();
        self.report.count(|metrics| &mut metrics.holds_expired);
        for id in owners {
            self.emit(id, GroupChange::HoldExpired);
        }
        let reason = "the permit took too long";
        self.record_failure(ticket, &Shortage::Permit { by, reason: reason.to_owned() });
        self.release(ticket, reason);
    }

    fn apply_verdict(&mut self, ticket: Ticket, verdict: PermitVerdict, by: String) {
        let Some(hold) = self.holds.plan(ticket) else { return };
        let before = hold.until();
        match verdict {
            PermitVerdict::Admit => {
                // It may have lost members.
                let keeps = |id| self.groups.get(id).is_some_and(QueuedGroup::keeps_minimum);
                if !hold.owners().iter().all(keeps) {
                    return self.release(ticket, "members are gone");
                }
                let plan = self.holds.plan_in_flight(ticket).cloned();
                let prepares = plan.is_some_and(|plan| self.is_prepared(&plan));
                self.send_on(ticket, prepares);
            }
            PermitVerdict::Hold { until } => {
                // A permit may shorten the hold, never extend it.
                if until < before {
                    self.timers.remove(&(before, Timer::Plan(ticket)));
                    self.timers.insert((until, Timer::Plan(ticket)));
                }
                self.holds.keep_plan(ticket, by, until);
            }
            PermitVerdict::Deny { reason } => {
                self.report.count(|metrics| &mut metrics.denied);
                let shortage = Shortage::Permit { by, reason: reason.clone() };
                self.record_failure(ticket, &shortage);
                self.release(ticket, &reason);
            }
        }
    }

    /// A held plan ends if its group has changed so that it does not suit: its minimum was raised,
    /// or another queue is to have quota for it.
    pub(super) fn recheck_held(&mut self, id: GroupId, former_queue: Option<&str>) {
        let Some(queued) = self.groups.get(&id) else { return };
        let Phase::Held(ticket) = *queued.phase() else { return };
        let has_moved = former_queue.is_some_and(|former| former != queued.root().queue);
        if !queued.keeps_minimum() {
            self.release(ticket, "the minimum was raised");
        } else if has_moved && self.tenancy.is_some() {
            self.release(ticket, "the queue of the group changed");
        }
    }

    /// Members of a group have arrived: the permits of its held plan are asked again, once for all
    /// that come before decisions are polled or a timer fires.
    pub(super) fn permits_due(&mut self, id: GroupId) {
        if let Some(Phase::Held(ticket)) = self.groups.get(&id).map(QueuedGroup::phase) {
            self.holds.set_permits_due(*ticket);
        }
    }

    /// Asks the permits of held plans again that are due.
    pub(super) fn recheck_due_permits(&mut self) {
        while let Some(ticket) = self.holds.take_permits_due() {
            self.recheck_permits(ticket);
            self.follow();
        }
    }

    /// Repeated evaluation of the permits for a held plan.
    fn recheck_permits(&mut self, ticket: Ticket) {
        let Some(plan) = self.holds.plan_in_flight(ticket).cloned() else { return };
        let held = self.holds.plan(ticket).filter(|hold| hold.held_by().is_some());
        let Some(hold) = held else { return };
        // The planned members count as pending, as they did when the plan was made, beside those
        // that arrived since.
        let first = hold.owners().iter().find_map(|id| self.groups.get(id));
        let Some(group) = first.map(|queued| queued.tree_of(&queued.members().before_plan()))
        else {
            return;
        };
        let mut txn = self.world.cluster().txn();
        for assignment in plan.assignments() {
            let _ = txn.evict(assignment.pod().namespace(), &assignment.pod().name);
        }
        let now = self.world.now();
        let cx = PermitContext { cluster: &txn, group: &group, plan: &plan, now };
        let mut verdict = (PermitVerdict::Admit, String::new());
        for permit in self.world.framework().permits() {
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
        drop(txn);
        self.apply_verdict(ticket, verdict.0, verdict.1);
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
        self.world.advance(now);
        let Some(plan) = self.end_plan(ticket) else { return Err(QueueError::StaleTicket) };
        self.report.count(|metrics| &mut metrics.conflicts);
        for &id in plan.owners() {
            self.emit(id, GroupChange::Conflict { reason: reason.to_owned() });
            let (now, backoff) = (self.world.now(), self.world.settings().backoff);
            if let Some(queued) = self.groups.get_mut(&id) {
                queued.count_conflict(now, backoff);
            }
        }
        self.take_back(&plan);
        self.plan_ended(plan.owners());
        self.follow();
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
        self.world.advance(now);
        let id = self.groups.root(group)?;
        let Some(Phase::Held(ticket)) = self.groups.get(&id).map(|queued| queued.phase().clone())
        else {
            return Err(QueueError::NotHeld(ObjectName::of_text(group)));
        };
        let by = self.holds.plan(ticket).and_then(|plan| plan.held_by().map(String::from));
        self.apply_verdict(ticket, verdict, by.unwrap_or_default());
        self.follow();
        Ok(())
    }

    /// A repeated evaluation of the framework's permits for a held plan, after something they read
    /// has changed. After members of the group have arrived it runs when decisions are polled.
    ///
    /// # Errors
    /// No plan of the group is held.
    pub fn handle_permit_changed(&mut self, group: &str, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        let id = self.groups.root(group)?;
        let Some(&Phase::Held(ticket)) = self.groups.get(&id).map(QueuedGroup::phase) else {
            return Err(QueueError::NotHeld(ObjectName::of_text(group)));
        };
        self.recheck_permits(ticket);
        self.follow();
        Ok(())
    }
}
