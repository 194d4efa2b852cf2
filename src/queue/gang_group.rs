//! Gang groups (root groups that start together), and the phase of a group after a change.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::ids::GroupId;
use super::observe::{Gate, GroupChange, ReservationEnd};
use super::queued_group::{MemberState, Phase};
use super::scheduler::Scheduler;
use super::wake::hints::WakeCondition;
use crate::state::NodeView;

impl Scheduler {
    pub(super) fn node_of(&self, namespace: &str, name: &str) -> Option<String> {
        let pod = self.cluster.pod(namespace, name)?;
        Some(pod.node()?.name().to_owned())
    }

    /// Removes a pod from the cluster, if present.
    pub(super) fn remove_pod(&mut self, namespace: &str, name: &str) {
        let node = self.node_of(namespace, name);
        if self.cluster.remove_pod(namespace, name).is_ok()
            && let Some(node) = node
        {
            self.pods_changed(&node);
        }
    }

    pub(super) fn members_on(&self, node: &str) -> Vec<(GroupId, u64)> {
        let pods = self.cluster.node(node).into_iter().flat_map(NodeView::pods);
        let mut members: Vec<_> = pods
            .filter_map(|pod| self.pods.get(&format!("{}/{}", pod.namespace(), pod.name())))
            .copied()
            .collect();
        members.sort_unstable();
        members
    }

    pub(super) fn groups_on(&self, node: &str) -> BTreeSet<GroupId> {
        self.members_on(node).into_iter().map(|(id, _)| id).collect()
    }

    /// The group and all groups linked to it by `gang_group`, whatever their state.
    pub(super) fn linked(&self, id: GroupId) -> BTreeSet<GroupId> {
        let mut found = BTreeSet::from([id]);
        let mut open = alloc::vec![id];
        while let Some(queued) = open.pop().and_then(|id| self.groups.get(&id)) {
            let named = queued.root.gang_group.iter();
            let named = named.filter_map(|name| self.names.get(name)).map(|(id, _)| *id);
            let naming = self.links.get(&queued.name).into_iter().flatten().copied();
            for other in named.chain(naming) {
                if found.insert(other) {
                    open.push(other);
                }
            }
        }
        found
    }

    /// The groups to place together with `id`, itself included; or the gate that keeps them from
    /// being tried. Groups that have started are no longer partners.
    pub(super) fn gang_group(&self, id: GroupId) -> Result<Vec<GroupId>, Gate> {
        let Some(own) = self.groups.get(&id) else { return Ok(Vec::new()) };
        if own.started || own.root.gang_group.is_empty() && !self.links.contains_key(&own.name) {
            return Ok(alloc::vec![id]);
        }
        let mut gang = Vec::new();
        for other in self.linked(id) {
            let Some(queued) = self.groups.get(&other) else { continue };
            if queued.started && !queued.evicting {
                continue;
            }
            for name in &queued.root.gang_group {
                if !self.names.contains_key(name) {
                    return Err(Gate::Partner { group: name.clone() });
                }
            }
            let ready = !queued.paused
                && !queued.evicting
                && !queued.phase.busy()
                && !matches!(queued.phase, Phase::Failed(_))
                && queued.gate(&queued.counts(&self.cluster)).is_none();
            if !ready && other != id {
                return Err(Gate::Partner { group: queued.name.clone() });
            }
            gang.push(other);
        }
        Ok(gang)
    }

    pub(super) fn settle_linked(&mut self, id: GroupId) {
        for other in self.linked(id) {
            self.settle(other, true);
        }
    }

    /// Recomputes the phase of a group that has no plan in flight. `changed` says that a waiting
    /// group must be tried again.
    pub(super) fn settle(&mut self, id: GroupId, changed: bool) {
        self.update_health(id);
        let Some(queued) = self.groups.get(&id) else { return };
        if queued.phase.busy() {
            return;
        }
        let counts = queued.counts(&self.cluster);
        let pending = counts.iter().any(|count| count.pending > 0);
        let finished = !queued.members.is_empty()
            && queued.members.values().all(|member| member.state == MemberState::Done);
        let phase = if queued.evicting {
            Phase::Gated(Gate::Evicting)
        } else if queued.paused {
            Phase::Paused
        } else if !pending && (queued.started || finished) {
            Phase::Idle
        } else if let Some(gate) = queued.gate(&counts) {
            Phase::Gated(gate)
        } else if !pending {
            // Enough members exist, but some of them are still being unbound.
            Phase::Idle
        } else if let Err(gate) = self.gang_group(id) {
            Phase::Gated(gate)
        } else if !changed && (queued.phase.waits() || matches!(queued.phase, Phase::Failed(_))) {
            return;
        } else if queued.not_before > self.now {
            Phase::BackingOff(queued.not_before)
        } else {
            Phase::Queued
        };
        if changed {
            // Placeholders of deleted members are given back at once.
            self.reservations_due |= queued.reservation.is_some();
            self.wait_for(id, WakeCondition::Never);
        }
        let Some(queued) = self.groups.get(&id) else { return };
        if queued.phase == phase {
            return;
        }
        if !queued.phase.waits() && phase.waits() && queued.ready_since.is_none() {
            let now = self.now;
            if let Some(queued) = self.groups.get_mut(&id) {
                queued.since = now;
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
