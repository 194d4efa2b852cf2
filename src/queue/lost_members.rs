//! Members that are lost on the way or while they run, and what becomes of the rest.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::observe::GroupChange;
use super::queued_group::{Phase, Place, Ticket, UnitId, full_name};
use super::scheduler::{BoundPod, Decision, Scheduler, Timer};

impl Scheduler {
    /// A member is gone from the cluster.
    pub(crate) fn vanish(&mut self, id: UnitId, seq: u64, finished: bool) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let Some(member) = unit.members.get_mut(&seq) else { return };
        let name = full_name(&member.pod);
        let place = member.place;
        if finished {
            member.place = Place::Done;
        } else {
            unit.members.remove(&seq);
            self.pods.remove(&name);
        }
        match place {
            Place::Planned => self.lost_on_the_way(id, &name),
            Place::Unbinding => self.undoing_ended(id),
            Place::Bound => self.lost_running(id),
            Place::Pending | Place::Done => {}
        }
        self.settle_linked(id);
    }

    /// A planned member is gone before it was bound.
    pub(crate) fn lost_on_the_way(&mut self, id: UnitId, name: &str) {
        let phase = self.units.get(&id).map(|unit| unit.phase.clone());
        let Some(Phase::Held(ticket) | Phase::Binding(ticket)) = phase else { return };
        let Some(flight) = self.flights.get_mut(&ticket) else { return };
        let held = flight.held_by.is_some();
        flight.outstanding.remove(name);
        flight.plan.retain(|pod| full_name(pod) != name);
        let empty = flight.outstanding.is_empty();
        let reason = format!("pod {name} is gone");
        if held && (empty || !self.holds(id)) {
            self.release(ticket, &reason);
        } else if !held && !self.holds(id) {
            self.undo(ticket, &reason);
        } else if !held {
            self.result_in(ticket, name);
        }
    }

    /// Members were on a node that is gone.
    pub(crate) fn node_lost(&mut self, units: &BTreeSet<UnitId>, members: &[(UnitId, u64)]) {
        for &(id, seq) in members {
            let Some(unit) = self.units.get(&id) else { continue };
            let Some(member) = unit.members.get(&seq) else { continue };
            let name = full_name(&member.pod);
            match (&unit.phase, member.place) {
                (Phase::Binding(_), Place::Planned) => {
                    self.bind_failed(id, seq, &name, "the node is gone");
                }
                (Phase::Held(ticket), Place::Planned) => {
                    let ticket = *ticket;
                    self.release(ticket, "a node is gone");
                }
                _ => {}
            }
        }
        for &id in units {
            self.lost_running(id);
            self.settle_linked(id);
        }
    }

    /// A unit that is on its way may have lost the members that ran already.
    pub(crate) fn lost_running(&mut self, id: UnitId) {
        let phase = self.units.get(&id).map(|unit| unit.phase.clone());
        match phase {
            Some(Phase::Held(ticket)) if !self.holds(id) => {
                self.release(ticket, "members that ran are gone");
            }
            Some(Phase::Binding(ticket)) if !self.holds(id) => {
                self.undo(ticket, "members that ran are gone");
            }
            _ => {}
        }
    }

    /// Takes a plan back while it is being bound.
    pub(crate) fn undo(&mut self, ticket: Ticket, reason: &str) {
        let Some(flight) = self.flights.remove(&ticket) else { return };
        self.timers.remove(&(flight.until, Timer::Flight(ticket)));
        self.counters.undone += 1;
        let mut pods = Vec::new();
        for assignment in flight.plan.assignments() {
            let name = full_name(assignment.pod());
            if let Some((id, seq)) = self.pods.get(&name).copied()
                && let Some(unit) = self.units.get_mut(&id)
                && flight.units.contains(&id)
                && let Some(member) = unit.members.get_mut(&seq)
                && matches!(member.place, Place::Planned | Place::Bound)
            {
                member.place = Place::Unbinding;
                let namespace = assignment.pod().namespace().to_owned();
                let pod = assignment.pod().name.clone();
                let node = self.node_of(&namespace, &pod).unwrap_or_default();
                pods.push(BoundPod { namespace, name: pod, node });
            }
        }
        for &id in &flight.units {
            if flight.failures == 0 {
                self.count_failure(id);
            }
            self.set_phase(id, Phase::Undoing);
            self.emit(id, GroupChange::Undone { reason: reason.to_owned() });
        }
        if !pods.is_empty() {
            let groups = self.group_names(&flight.units);
            self.outbox.push_back(Decision::Unbind { groups, pods, reason: reason.to_owned() });
        }
        for &id in &flight.units {
            self.undoing_ended(id);
        }
    }

    /// A group goes for good: its plan is taken back, and pods of it that may be bound are named.
    pub(crate) fn abandon(&mut self, ticket: Ticket, reason: &str) {
        match self.flights.get(&ticket) {
            Some(flight) if flight.held_by.is_some() => self.release(ticket, reason),
            Some(_) => self.undo(ticket, reason),
            None => {}
        }
    }

    /// If nothing of a unit is to be taken off any more, it goes on.
    pub(crate) fn undoing_ended(&mut self, id: UnitId) {
        let Some(unit) = self.units.get(&id) else { return };
        let busy = unit.members.values().any(|member| member.place == Place::Unbinding);
        if unit.phase == Phase::Undoing && !busy {
            self.land(&[id]);
        }
    }

    /// Counts a failure: back-off grows, and the group may go behind its equals.
    pub(crate) fn count_failure(&mut self, id: UnitId) {
        let now = self.now;
        let Some(unit) = self.units.get_mut(&id) else { return };
        unit.attempts = unit.attempts.saturating_add(1);
        unit.not_before = now.after(self.settings.backoff.after(unit.attempts));
        let attempts = unit.attempts;
        if let Some(after) = self.settings.demote_after
            && after > 0
            && attempts % after == 0
        {
            unit.since = now;
            self.rekey(id);
            self.emit(id, GroupChange::Demoted { attempts });
        }
    }

    /// Whether a unit has started, and has its minimum still.
    pub(crate) fn check_health(&mut self, id: UnitId) {
        let now = self.now;
        let Some(unit) = self.units.get(&id) else { return };
        let tallies = unit.tallies(&self.cluster);
        let satisfied = unit.satisfied(&tallies);
        let gone = !unit
            .members
            .values()
            .any(|member| matches!(member.place, Place::Bound | Place::Done | Place::Planned));
        let evicted = !unit.members.values().any(|member| matches!(member.place, Place::Bound));
        let runs = tallies.iter().any(|tally| tally.running > 0);
        let stale_after = self.settings.stale_after;
        let Some(unit) = self.units.get_mut(&id) else { return };
        let (was_below, waited) = (unit.below_since, unit.ready_since.map(|time| now.since(time)));
        let (mut started, mut recovered, mut fell) = (false, false, false);
        if unit.started && (gone || unit.evicting && evicted) {
            // It is as if it had never run.
            unit.started = false;
            unit.evicting = false;
            unit.below_since = None;
        } else if satisfied && !unit.evicting {
            recovered = unit.below_since.take().is_some();
            if !unit.started && runs && !unit.phase.busy() {
                unit.started = true;
                unit.ready_since = None;
                started = true;
            }
        } else if unit.started && unit.below_since.is_none() && !unit.evicting {
            unit.below_since = Some(now);
            fell = true;
        }
        if let Some(since) = was_below.filter(|_| unit.below_since.is_none()) {
            self.timers.remove(&(since.after(stale_after), Timer::Below(id)));
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
            self.counters.started += 1;
            self.counters.waiting.add_duration(waited);
            self.emit(id, GroupChange::Started { waited });
        }
    }

    /// Reports a gang that is below its minimum for eviction.
    pub(crate) fn evict(&mut self, id: UnitId) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let Some(since) = unit.below_since else { return };
        if core::mem::replace(&mut unit.evicting, true) {
            return;
        }
        unit.below_since = None;
        self.timers.remove(&(since.after(self.settings.stale_after), Timer::Below(id)));
        let phase = self.units.get(&id).map(|unit| unit.phase.clone());
        if let Some(Phase::Held(ticket) | Phase::Binding(ticket)) = phase {
            self.abandon(ticket, "the gang is evicted");
        }
        let Some(unit) = self.units.get(&id) else { return };
        let group = unit.name.clone();
        let bound = unit.members.values().filter(|member| member.place == Place::Bound);
        let pods: Vec<BoundPod> = bound
            .map(|member| {
                let (namespace, name) = (member.pod.namespace(), &member.pod.name);
                let node = self.node_of(namespace, name).unwrap_or_default();
                BoundPod { namespace: namespace.to_owned(), name: name.clone(), node }
            })
            .collect();
        self.counters.evictions += 1;
        self.emit(id, GroupChange::EvictionAsked { pods: pods.len() });
        self.outbox.push_back(Decision::Evict { group, pods, since });
        self.settle_linked(id);
    }
}
