//! The phase of a group after a change, and of its partners; facts are passed on here.

use alloc::collections::BTreeSet;

use super::Scheduler;
use crate::queue::fact::Fact;
use crate::queue::groups::{MemberState, Phase, QueuedGroup};
use crate::queue::removals::Removal;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::{Gate, GroupChange, ReservationEnd};
use crate::queue::terms::wake::WakeCondition;

impl Scheduler {
    fn settle_phase(&mut self, id: GroupId, own: bool) {
        self.update_health(id);
        let Some(queued) = self.groups.get(&id) else { return };
        if queued.phase().busy() {
            return;
        }
        let counts = queued.counts();
        // The planner counts members that are being unbound, so nothing is tried beside them.
        let pending = queued.pending() > 0 && queued.members().of(MemberState::Unbinding) == 0;
        let finished = queued.members().have_finished();
        let phase = if queued.leaves_whole() {
            Phase::Gated(Gate::Evicting)
        } else if queued.is_paused() {
            Phase::Paused
        } else if !pending && (queued.started() || finished) {
            Phase::Idle
        } else if let Some(gate) = queued.gate(&counts) {
            Phase::Gated(gate)
        } else if !pending {
            // Enough members exist, but some of them are still being unbound.
            Phase::Idle
        } else if let Some(gate) = self.groups.partner_gate(id) {
            Phase::Gated(gate)
        } else if queued.not_before() > self.world.now() {
            Phase::BackingOff(queued.not_before())
        } else {
            Phase::Queued
        };
        let is_same = match (queued.phase(), &phase) {
            // The partner that is not ready is found when the state is read.
            (Phase::Gated(Gate::Partner { .. }), Phase::Gated(Gate::Partner { .. })) => true,
            (old, new) => old == new,
        };
        // Placeholders of deleted members are given back at once.
        let keeps_room = self.holds.room(id).is_some();
        if keeps_room && (own || !is_same) || self.holds.is_moving(id) {
            self.holds.set_due(None);
        }
        self.wait_for(id, WakeCondition::Never);
        let Some(queued) = self.groups.get(&id).filter(|_| !is_same) else { return };
        if !queued.phase().waits() && phase.waits() && queued.ready_since().is_none() {
            let now = self.world.now();
            if let Some(queued) = self.groups.get_mut(&id) {
                queued.join_behind(now);
            }
        }
        let change = match &phase {
            Phase::Gated(gate) => Some(GroupChange::Gated(gate.clone())),
            Phase::Queued => Some(GroupChange::Queued),
            Phase::BackingOff(until) => Some(GroupChange::BackedOff { until: *until }),
            Phase::Idle if finished => Some(GroupChange::Finished),
            _ => None,
        };
        if !phase.waits() && keeps_room {
            // With it may end the evictions that the phase was computed with: of a partner, say.
            self.end_reservation(id, ReservationEnd::Outranked);
            return self.settle_phase(id, own);
        }
        self.set_phase(id, phase);
        if let Some(change) = change {
            self.emit(id, change);
        }
    }

    /// Recomputes the phase of a group that has no plan in flight: if it waits, it is tried again.
    /// `own` says that the group itself changed, not a partner.
    pub(super) fn settle(&mut self, id: GroupId, own: bool) {
        self.groups.partners_mut().count_checked(1);
        self.settle_phase(id, own);
        self.backfill.note_group(id);
        let key = self.groups.get(&id).and_then(|queued| queued.key());
        self.backfill.forget_demand(key);
        if self.holds.promise(id).is_some() {
            self.backfill.note_changed(id);
        }
        // The end of a back-off changes its phase without an event.
        let backs_off = |queued: &QueuedGroup| matches!(queued.phase(), Phase::BackingOff(_));
        let is_stale = self.groups.get(&id).is_some_and(backs_off);
        self.groups.partners_mut().set_stale(id, is_stale);
    }

    /// Recomputes the phase of a group, and of those partners that it concerns.
    pub(super) fn settle_linked(&mut self, id: GroupId) {
        self.settle(id, true);
        self.settle_partners(id);
    }

    /// Recomputes the phases of a gang group where they may have changed.
    pub(super) fn settle_partners(&mut self, id: GroupId) {
        loop {
            for other in self.groups.partners_mut().take_unsettled(id) {
                self.settle(other, false);
            }
            if !self.groups.partners().is_unsettled(id) {
                return;
            }
        }
    }

    /// Sets which groups are being evicted whole: all of their pods are to go.
    pub(super) fn settle_victims(&mut self) {
        let going = self.removals.iter().filter(|own| !own.is_later()).flat_map(Removal::names);
        let roots = going.filter_map(|name| Some(self.groups.member(&name)?.0));
        let roots: BTreeSet<GroupId> = roots.collect();
        for root in roots {
            // A group that is evicted takes back what it has asked for itself.
            let members = self.removals.going(&self.groups, root);
            let Some(queued) = self.groups.get_mut(&root).filter(|_| !members.is_empty()) else {
                continue;
            };
            if !queued.leaves_whole() && queued.is_left_without(&members) {
                queued.health_mut().preempt();
                // A group that moves gives no quota back.
                if !self.holds.is_moving(root) {
                    self.set_leaving(root, true);
                }
                self.settle_linked(root);
            }
        }
    }

    /// Passes facts on, in the order in which they were noted, until none is left.
    pub(super) fn follow(&mut self) {
        while let Some(fact) = self.facts.next() {
            match fact {
                Fact::GroupChanged(id) => self.settle_linked(id),
            }
        }
    }
}
