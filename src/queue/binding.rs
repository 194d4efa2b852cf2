//! Plans on their way: held by a permit, being bound, taken back.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::observe::{GroupChange, Lacks, ReservationEnd};
use super::queued_group::{Phase, Place, Tally, Ticket, UnitId, full_name};
use super::scheduler::{BoundPod, Decision, Flight, QueueError, Scheduler, Timer};
use super::settings::OnBindFailure;
use crate::base::Time;
use crate::framework::{PermitContext, PermitVerdict};
use crate::state::Plan;

impl Scheduler {
    /// What came of binding a pod.
    ///
    /// A pod that could not be bound waits again. What that means for the rest of its gang is
    /// [`Settings::on_bind_failure`](super::Settings::on_bind_failure).
    ///
    /// # Errors
    /// The pod is no member of a known group. A result that nobody waits for is ignored.
    pub fn handle_binding(
        &mut self,
        namespace: &str,
        name: &str,
        result: Result<(), String>,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let full = format!("{namespace}/{name}");
        let Some(&(id, seq)) = self.pods.get(&full) else {
            return self.stray(namespace, name, result.is_err());
        };
        match result {
            Ok(()) => self.bound(id, seq, &full),
            Err(reason) => self.bind_failed(id, seq, &full, &reason),
        }
        Ok(())
    }

    /// A pod that was to be taken off its node is off, and may be placed anew.
    ///
    /// # Errors
    /// The pod is no member of a known group.
    pub fn handle_unbound(
        &mut self,
        namespace: &str,
        name: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let full = format!("{namespace}/{name}");
        let Some(&(id, seq)) = self.pods.get(&full) else {
            return self.stray(namespace, name, true);
        };
        let member = self.units.get_mut(&id).and_then(|unit| unit.members.get_mut(&seq));
        let Some(member) = member.filter(|member| member.place != Place::Done) else {
            return Ok(());
        };
        let place = core::mem::replace(&mut member.place, Place::Pending);
        self.take_off(namespace, name);
        match place {
            Place::Planned => self.lost_on_the_way(id, &full),
            Place::Unbinding => self.undoing_ended(id),
            Place::Bound => self.lost_running(id),
            Place::Pending | Place::Done => {}
        }
        self.settle_linked(id);
        Ok(())
    }

    /// Another scheduler's commit came first: nothing of the plan was bound. Its gang is tried
    /// again whole, at once after a first conflict, after a back-off if they go on.
    ///
    /// # Errors
    /// The plan is not on its way.
    pub fn handle_conflict(
        &mut self,
        ticket: Ticket,
        reason: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let Some(flight) = self.flights.remove(&ticket) else {
            return Err(QueueError::StaleTicket);
        };
        self.timers.remove(&(flight.until, Timer::Flight(ticket)));
        self.counters.conflicts += 1;
        for &id in &flight.units {
            self.emit(id, GroupChange::Conflict { reason: reason.to_owned() });
            if let Some(unit) = self.units.get_mut(&id) {
                unit.conflicts = unit.conflicts.saturating_add(1);
                if unit.conflicts > 1 {
                    let wait = self.settings.backoff.after(unit.conflicts - 1);
                    unit.not_before = self.now.after(wait);
                }
            }
        }
        self.take_back(&flight);
        self.land(&flight.units);
        Ok(())
    }

    /// A permit's verdict on a plan that is held, come later.
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
        let Some(Phase::Held(ticket)) = self.units.get(&id).map(|unit| unit.phase.clone()) else {
            return Err(QueueError::NotHeld(group.to_owned()));
        };
        let by = self.flights.get(&ticket).and_then(|flight| flight.held_by.clone());
        self.judge(ticket, verdict, by.unwrap_or_default());
        Ok(())
    }

    /// Asks the framework's permits about a held plan again: something they rest on has changed.
    /// This happens by itself when members of the group come.
    ///
    /// # Errors
    /// No plan of the group is held.
    pub fn handle_permit_changed(&mut self, group: &str, now: Time) -> Result<(), QueueError> {
        self.expire(now, false);
        let id = self.root(group)?;
        if !matches!(self.units.get(&id).map(|unit| &unit.phase), Some(Phase::Held(_))) {
            return Err(QueueError::NotHeld(group.to_owned()));
        }
        self.ask_again(id);
        Ok(())
    }

    /// Sends a plan that is in the cluster on its way.
    pub(crate) fn launch(&mut self, units: Vec<UnitId>, plan: Plan, held: Option<(Time, String)>) {
        let ticket = Ticket(self.take_number());
        let mut outstanding = BTreeSet::new();
        for assignment in plan.assignments() {
            let name = full_name(assignment.pod());
            if let Some((id, seq)) = self.pods.get(&name)
                && let Some(unit) = self.units.get_mut(id)
                && let Some(member) = unit.members.get_mut(seq)
            {
                member.place = Place::Planned;
                outstanding.insert(name);
            }
            self.note(assignment.node());
        }
        for &id in &units {
            self.end_reservation(id, ReservationEnd::Used);
        }
        let (held_by, until) = match held {
            Some((until, by)) => {
                let own = units
                    .iter()
                    .filter_map(|id| self.units.get(id)?.root.schedule_timeout)
                    .min()
                    .unwrap_or(self.settings.permit_timeout);
                (Some(by), until.min(self.now.after(own)))
            }
            None => (None, self.now.after(self.settings.bind_timeout)),
        };
        for &id in &units {
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
        self.timers.insert((until, Timer::Flight(ticket)));
        let is_held = held_by.is_some();
        let since = self.now;
        let flight = Flight { units, plan, since, until, held_by, outstanding, failures: 0 };
        if !is_held {
            self.send(ticket, &flight);
        }
        self.flights.insert(ticket, flight);
    }

    pub(super) fn send(&mut self, ticket: Ticket, flight: &Flight) {
        let groups = self.group_names(&flight.units);
        self.outbox.push_back(Decision::Bind { ticket, groups, plan: flight.plan.clone() });
    }

    pub(super) fn group_names(&self, units: &[UnitId]) -> Vec<String> {
        units.iter().filter_map(|id| Some(self.units.get(id)?.name.clone())).collect()
    }

    /// The permits are asked about a held plan of a unit again.
    pub(crate) fn ask_again(&mut self, id: UnitId) {
        let Some(Phase::Held(ticket)) = self.units.get(&id).map(|unit| unit.phase.clone()) else {
            return;
        };
        let Some(flight) = self.flights.get(&ticket) else { return };
        // As the plan's members were when it was made, and whoever has come since.
        let mut trees = flight.units.iter().filter_map(|id| self.units.get(id)).map(|unit| {
            let mut unit = unit.clone();
            for member in unit.members.values_mut() {
                if member.place == Place::Planned {
                    member.place = Place::Pending;
                }
            }
            let tallies = unit.tallies(&self.cluster);
            unit.tree(&tallies)
        });
        let Some(group) = trees.next() else { return };
        let mut txn = self.cluster.txn();
        for assignment in flight.plan.assignments() {
            let _ = txn.evict(assignment.pod().namespace(), &assignment.pod().name);
        }
        let cx = PermitContext { cluster: &txn, group: &group, plan: &flight.plan, now: self.now };
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
        self.judge(ticket, verdict.0, verdict.1);
    }

    pub(super) fn judge(&mut self, ticket: Ticket, verdict: PermitVerdict, by: String) {
        match verdict {
            PermitVerdict::Admit => {
                let Some(mut flight) = self.flights.remove(&ticket) else { return };
                self.timers.remove(&(flight.until, Timer::Flight(ticket)));
                flight.held_by = None;
                flight.since = self.now;
                flight.until = self.now.after(self.settings.bind_timeout);
                self.timers.insert((flight.until, Timer::Flight(ticket)));
                for &id in &flight.units {
                    self.set_phase(id, Phase::Binding(ticket));
                    self.emit(id, GroupChange::Binding { pods: flight.outstanding.len() });
                }
                self.send(ticket, &flight);
                self.flights.insert(ticket, flight);
            }
            PermitVerdict::Hold { until } => {
                let Some(flight) = self.flights.get_mut(&ticket) else { return };
                // A permit may shorten the wait, never draw it out.
                if until < flight.until {
                    self.timers.remove(&(flight.until, Timer::Flight(ticket)));
                    flight.until = until;
                    self.timers.insert((until, Timer::Flight(ticket)));
                }
                flight.held_by = Some(by);
            }
            PermitVerdict::Deny { reason } => {
                self.counters.denied += 1;
                let lacks = Lacks::Consent { by, reason: reason.clone() };
                self.blame(ticket, &lacks);
                self.release(ticket, &reason);
            }
        }
    }

    /// Counts a failure against all units of a plan.
    pub(super) fn blame(&mut self, ticket: Ticket, lacks: &Lacks) {
        let units = self.flights.get(&ticket).map_or_else(Vec::new, |flight| flight.units.clone());
        for id in units {
            self.count_failure(id);
            if let Some(unit) = self.units.get_mut(&id) {
                unit.lacks = Some(lacks.clone());
            }
        }
    }

    /// Gives up what a permit holds. Nothing was bound.
    pub(crate) fn release(&mut self, ticket: Ticket, reason: &str) {
        let Some(flight) = self.flights.remove(&ticket) else { return };
        self.timers.remove(&(flight.until, Timer::Flight(ticket)));
        for &id in &flight.units {
            self.emit(id, GroupChange::HoldReleased { reason: reason.to_owned() });
        }
        self.take_back(&flight);
        self.land(&flight.units);
    }

    /// Takes a plan's pods out of the cluster; none of them is bound.
    pub(super) fn take_back(&mut self, flight: &Flight) {
        for assignment in flight.plan.assignments() {
            let pod = assignment.pod();
            if let Some((id, seq)) = self.pods.get(&full_name(pod)).copied()
                && let Some(unit) = self.units.get_mut(&id)
                && let Some(member) = unit.members.get_mut(&seq)
                && member.place == Place::Planned
            {
                member.place = Place::Pending;
                self.take_off(pod.namespace(), &pod.name);
            }
        }
    }

    /// Units whose plan is no more find their place. Strictly, what runs of a gang that did not
    /// get back to its minimum goes too.
    pub(super) fn land(&mut self, units: &[UnitId]) {
        for &id in units {
            self.set_phase(id, Phase::Idle);
        }
        for &id in units {
            self.settle_linked(id);
        }
        for &id in units {
            let Some(unit) = self.units.get(&id) else { continue };
            if unit.started && unit.below_since.is_some() && !unit.root.keep_running {
                self.evict(id);
            }
        }
    }

    pub(crate) fn flight_expired(&mut self, ticket: Ticket) {
        let Some(flight) = self.flights.get(&ticket) else { return };
        if flight.held_by.is_none() {
            self.undo(ticket, "binding took too long");
            return;
        }
        self.counters.holds_expired += 1;
        let by = flight.held_by.clone().unwrap_or_default();
        for id in flight.units.clone() {
            self.emit(id, GroupChange::HoldExpired);
        }
        let reason = "the permit took too long";
        self.blame(ticket, &Lacks::Consent { by, reason: reason.to_owned() });
        self.release(ticket, reason);
    }

    /// Takes in a result for a pod whose group is gone.
    pub(super) fn stray(
        &mut self,
        namespace: &str,
        name: &str,
        off: bool,
    ) -> Result<(), QueueError> {
        if self.cluster.pod(namespace, name).is_none() {
            return Err(QueueError::UnknownPod(format!("{namespace}/{name}")));
        }
        if off {
            self.take_off(namespace, name);
        }
        Ok(())
    }

    pub(super) fn bound(&mut self, id: UnitId, seq: u64, name: &str) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let Some(member) = unit.members.get_mut(&seq) else { return };
        // Of what is taken back anyway, the last word is whether it is off.
        if let (Phase::Binding(ticket), Place::Planned) = (&unit.phase, member.place) {
            let ticket = *ticket;
            member.place = Place::Bound;
            self.counters.bound += 1;
            self.check_health(id);
            self.result_in(ticket, name);
        }
    }

    /// A member was seen bound in the cluster.
    pub(crate) fn seen_bound(&mut self, id: UnitId, seq: u64, name: &str) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let phase = unit.phase.clone();
        let Some(member) = unit.members.get_mut(&seq) else { return };
        match (phase, member.place) {
            (Phase::Binding(_), Place::Planned) => self.bound(id, seq, name),
            (Phase::Held(ticket), Place::Planned) => {
                // Somebody else has bound it. The rest is held no longer on its behalf.
                member.place = Place::Bound;
                if let Some(flight) = self.flights.get_mut(&ticket) {
                    flight.outstanding.remove(name);
                }
                self.release(ticket, "a member was bound by somebody else");
            }
            (_, Place::Pending) => {
                self.found_bound(id, seq);
                self.settle_linked(id);
            }
            (_, Place::Bound) => self.settle_linked(id),
            _ => {}
        }
    }

    /// A member that waited is bound, by somebody else or by what came too late. If its gang is
    /// being evicted, it has to go, too.
    pub(super) fn found_bound(&mut self, id: UnitId, seq: u64) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let Some(member) = unit.members.get_mut(&seq) else { return };
        if !unit.evicting {
            member.place = Place::Bound;
            return;
        }
        member.place = Place::Unbinding;
        let (namespace, name) = (member.pod.namespace().to_owned(), member.pod.name.clone());
        let node = self.node_of(&namespace, &name).unwrap_or_default();
        let pods = alloc::vec![BoundPod { namespace, name, node }];
        let (groups, reason) = (self.group_names(&[id]), "the gang is evicted".to_owned());
        self.outbox.push_back(Decision::Unbind { groups, pods, reason });
    }

    pub(super) fn bind_failed(&mut self, id: UnitId, seq: u64, name: &str, reason: &str) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let phase = unit.phase.clone();
        let Some(member) = unit.members.get_mut(&seq) else { return };
        let place = member.place;
        if !matches!(place, Place::Planned | Place::Unbinding) {
            return;
        }
        member.place = Place::Pending;
        let (namespace, pod) = (member.pod.namespace().to_owned(), member.pod.name.clone());
        self.take_off(&namespace, &pod);
        self.counters.bind_failures += 1;
        let (name, reason) = (name.to_owned(), reason.to_owned());
        self.emit(id, GroupChange::BindFailed { pod: name.clone(), reason: reason.clone() });
        match (phase, place) {
            (Phase::Binding(ticket), Place::Planned) => {
                let why = format!("pod {name}: {reason}");
                let mut first = false;
                if let Some(flight) = self.flights.get_mut(&ticket) {
                    first = flight.failures == 0;
                    flight.failures = flight.failures.saturating_add(1);
                }
                if first {
                    self.blame(ticket, &Lacks::Binding { reason: why.clone() });
                }
                if self.may_keep(ticket) {
                    self.result_in(ticket, &name);
                } else {
                    if let Some(flight) = self.flights.get_mut(&ticket) {
                        flight.outstanding.remove(&name);
                    }
                    self.undo(ticket, &why);
                }
            }
            _ => self.undoing_ended(id),
        }
    }

    /// Whether policy and minimum let a plan go on without the pods it has lost.
    pub(super) fn may_keep(&self, ticket: Ticket) -> bool {
        let Some(flight) = self.flights.get(&ticket) else { return false };
        let keeps = |id: &UnitId| {
            let Some(unit) = self.units.get(id) else { return false };
            let policy = unit.root.keep_running
                || self.settings.on_bind_failure == OnBindFailure::KeepMinimum;
            policy && self.holds(*id)
        };
        flight.units.iter().all(keeps)
    }

    /// Whether a unit has its minimum with what is planned.
    pub(super) fn holds(&self, id: UnitId) -> bool {
        let Some(unit) = self.units.get(&id) else { return false };
        let mut tallies: Vec<Tally> = unit.tallies(&self.cluster);
        for tally in &mut tallies {
            tally.running = tally.existing.saturating_sub(tally.pending);
        }
        unit.satisfied(&tallies)
    }

    pub(super) fn result_in(&mut self, ticket: Ticket, name: &str) {
        let Some(flight) = self.flights.get_mut(&ticket) else { return };
        flight.outstanding.remove(name);
        if !flight.outstanding.is_empty() {
            return;
        }
        let Some(flight) = self.flights.remove(&ticket) else { return };
        self.timers.remove(&(flight.until, Timer::Flight(ticket)));
        self.counters.binding.add_duration(self.now.since(flight.since));
        for &id in &flight.units {
            let Some(unit) = self.units.get_mut(&id) else { continue };
            unit.conflicts = 0;
            if !unit.started {
                self.counters.tries.add(u64::from(unit.attempts) + 1);
            }
            if flight.failures == 0 {
                unit.attempts = 0;
                unit.not_before = Time::ZERO;
                unit.lacks = None;
            }
            unit.nominated = None;
            let was_started = unit.started;
            let pods = flight.plan.len().saturating_sub(flight.failures as usize);
            self.set_phase(id, Phase::Idle);
            self.check_health(id);
            if was_started && pods > 0 {
                self.emit(id, GroupChange::Joined { pods });
            }
        }
        for &id in &flight.units {
            self.settle_linked(id);
        }
    }
}
