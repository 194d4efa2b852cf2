//! Which groups start together, and where a group stands once something about it has changed.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::observe::{Gate, GroupChange, ReservationEnd};
use super::queued_group::{Phase, Place, UnitId};
use super::scheduler::Scheduler;
use super::wake::hints::Watched;
use crate::state::NodeView;

impl Scheduler {
    pub(crate) fn node_of(&self, namespace: &str, name: &str) -> Option<String> {
        let pod = self.cluster.pod(namespace, name)?;
        Some(pod.node()?.name().to_owned())
    }

    /// Takes a pod out of the cluster, if it is there.
    pub(crate) fn take_off(&mut self, namespace: &str, name: &str) {
        let node = self.node_of(namespace, name);
        if self.cluster.remove_pod(namespace, name).is_ok()
            && let Some(node) = node
        {
            self.note(&node);
        }
    }

    pub(super) fn members_on(&self, node: &str) -> Vec<(UnitId, u64)> {
        let pods = self.cluster.node(node).into_iter().flat_map(NodeView::pods);
        let mut members: Vec<_> = pods
            .filter_map(|pod| self.pods.get(&format!("{}/{}", pod.namespace(), pod.name())))
            .copied()
            .collect();
        members.sort_unstable();
        members
    }

    pub(super) fn units_on(&self, node: &str) -> BTreeSet<UnitId> {
        self.members_on(node).into_iter().map(|(id, _)| id).collect()
    }

    /// The unit and all that start together with it, whatever their state.
    pub(crate) fn linked(&self, id: UnitId) -> BTreeSet<UnitId> {
        let mut found = BTreeSet::from([id]);
        let mut open = alloc::vec![id];
        while let Some(unit) = open.pop().and_then(|id| self.units.get(&id)) {
            let named = unit.root.gang_group.iter();
            let named = named.filter_map(|name| self.names.get(name)).map(|(id, _)| *id);
            let naming = self.links.get(&unit.name).into_iter().flatten().copied();
            for other in named.chain(naming) {
                if found.insert(other) {
                    open.push(other);
                }
            }
        }
        found
    }

    /// The units to place together with one that is to start, itself among them; or what they
    /// wait for. Units that have started are no partners any more.
    pub(crate) fn cohort(&self, id: UnitId) -> Result<Vec<UnitId>, Gate> {
        let Some(own) = self.units.get(&id) else { return Ok(Vec::new()) };
        if own.started || own.root.gang_group.is_empty() && !self.links.contains_key(&own.name) {
            return Ok(alloc::vec![id]);
        }
        let mut cohort = Vec::new();
        for other in self.linked(id) {
            let Some(unit) = self.units.get(&other) else { continue };
            if unit.started && !unit.evicting {
                continue;
            }
            for name in &unit.root.gang_group {
                if !self.names.contains_key(name) {
                    return Err(Gate::Partner { group: name.clone() });
                }
            }
            let ready = !unit.paused
                && !unit.evicting
                && !unit.phase.busy()
                && !matches!(unit.phase, Phase::Failed(_))
                && unit.short(&unit.tallies(&self.cluster)).is_none();
            if !ready && other != id {
                return Err(Gate::Partner { group: unit.name.clone() });
            }
            cohort.push(other);
        }
        Ok(cohort)
    }

    pub(crate) fn settle_linked(&mut self, id: UnitId) {
        for other in self.linked(id) {
            self.settle(other, true);
        }
    }

    /// Puts a unit where it belongs, unless it is on its way. `changed` says that it must be tried
    /// anew if it waits.
    pub(crate) fn settle(&mut self, id: UnitId, changed: bool) {
        self.check_health(id);
        let Some(unit) = self.units.get(&id) else { return };
        if unit.phase.busy() {
            return;
        }
        let tallies = unit.tallies(&self.cluster);
        let pending = tallies.iter().any(|tally| tally.pending > 0);
        let finished = !unit.members.is_empty()
            && unit.members.values().all(|member| member.place == Place::Done);
        let phase = if unit.evicting {
            Phase::Gated(Gate::Evicting)
        } else if unit.paused {
            Phase::Paused
        } else if !pending && (unit.started || finished) {
            Phase::Idle
        } else if let Some(gate) = unit.short(&tallies) {
            Phase::Gated(gate)
        } else if !pending {
            // Enough exist, and some of them are still to be taken off.
            Phase::Idle
        } else if let Err(gate) = self.cohort(id) {
            Phase::Gated(gate)
        } else if !changed && (unit.phase.waits() || matches!(unit.phase, Phase::Failed(_))) {
            return;
        } else if unit.not_before > self.now {
            Phase::BackingOff(unit.not_before)
        } else {
            Phase::Queued
        };
        if changed {
            // What is put aside for members that are gone is given back at once.
            self.stirred |= unit.reservation.is_some();
            self.sleep_on(id, Watched::Nothing);
        }
        let Some(unit) = self.units.get(&id) else { return };
        if unit.phase == phase {
            return;
        }
        if !unit.phase.waits() && phase.waits() && unit.ready_since.is_none() {
            let now = self.now;
            if let Some(unit) = self.units.get_mut(&id) {
                unit.since = now;
            }
        }
        let change = match &phase {
            Phase::Gated(gate) => Some(GroupChange::Gated(gate.clone())),
            Phase::Queued => Some(GroupChange::Queued),
            Phase::BackingOff(until) => Some(GroupChange::BackedOff { until: *until }),
            Phase::Idle if finished => Some(GroupChange::Finished),
            _ => None,
        };
        if !phase.waits() {
            self.end_reservation(id, ReservationEnd::Outranked);
        }
        self.set_phase(id, phase);
        if let Some(change) = change {
            self.emit(id, change);
        }
    }
}
