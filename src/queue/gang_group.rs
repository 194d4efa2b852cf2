//! Gang groups (root groups that start together), and the phase of a group after a change.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::components::{Components, Neighbours};
use super::ids::GroupId;
use super::observe::{Gate, GroupChange, ReservationEnd};
use super::partners::Readiness;
use super::queued_group::{MemberState, Phase, QueuedGroup};
use super::scheduler::Scheduler;
use super::wake::hints::WakeCondition;
use crate::model::PodGroup;
use crate::state::NodeView;

impl Scheduler {
    pub(super) fn node_of(&self, namespace: &str, name: &str) -> Option<String> {
        let pod = self.cluster.pod(namespace, name)?;
        Some(pod.node()?.name().to_owned())
    }

    /// Removes a pod from the cluster, if present.
    pub(super) fn remove_pod(&mut self, namespace: &str, name: &str) {
        let node = self.node_of(namespace, name);
        if self.cluster.remove_pod(namespace, name).is_err() {
            return;
        }
        if let Some(node) = node {
            self.backfill.freed = true;
            self.pods_changed(&node);
        }
        if self.tenancy.is_some() {
            self.discharge(&format!("{namespace}/{name}"));
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

    /// Adds a group to the index of gang groups; its names are known.
    pub(super) fn add_partners(&mut self, id: GroupId) {
        let Some(queued) = self.groups.get(&id) else { return };
        let tree = tree_names(&queued.root);
        let find = |name: &str| self.names.get(name).map(|(id, _)| *id);
        let names = tree.iter().map(String::as_str);
        for other in self.partners.add(id, names, &queued.root.gang_group, find) {
            self.update_readiness(other);
        }
    }

    /// Removes a group from the index of gang groups; its names are still known. Returns a group of
    /// each gang group that remains.
    pub(super) fn remove_partners(&mut self, id: GroupId) -> Vec<GroupId> {
        let Some(queued) = self.groups.get(&id) else { return Vec::new() };
        let others = |group| -> Neighbours<'_> {
            Box::new(self.neighbours(group).filter(move |other| *other != id))
        };
        let has_partners = self.partners.contains(id);
        let open: BTreeSet<GroupId> =
            if has_partners { others(id).collect() } else { BTreeSet::new() };
        let Components { mut parts, checked } = Components::new(&open, others);
        let tree = tree_names(&queued.root);
        let tree = tree.iter().map(String::as_str);
        self.partners.remove(id, tree, &queued.root.gang_group);
        self.partners.groups_checked += checked;
        // What is not known to be whole stays where it is.
        for (_, groups) in parts.split_last().map_or(&[][..], |(_, others)| others) {
            self.partners.split(groups);
        }
        parts.sort_unstable_by_key(|(first, _)| *first);
        parts.into_iter().map(|(first, _)| first).collect()
    }

    /// The groups that a group names or is named by.
    fn neighbours(&self, id: GroupId) -> Neighbours<'_> {
        let queued = self.groups.get(&id).into_iter();
        let named = queued.clone().flat_map(|queued| &queued.root.gang_group);
        let named = named.filter_map(|name| self.names.get(&**name)).map(|(id, _)| *id);
        let names = queued.flat_map(|queued| tree_names(&queued.root));
        Box::new(named.chain(names.flat_map(|name| self.partners.naming(&name))))
    }

    /// Records whether a group is ready, for its partners.
    pub(super) fn update_readiness(&mut self, id: GroupId) {
        if !self.partners.contains(id) {
            return;
        }
        let Some(queued) = self.groups.get(&id) else { return };
        let is_ready = || {
            !queued.paused
                && !queued.evicting
                && !queued.phase.busy()
                && !matches!(queued.phase, Phase::Failed(_))
                && queued.gate(&queued.counts(&self.cluster)).is_none()
        };
        let readiness = if queued.started && !queued.evicting {
            Readiness::Started
        } else if is_ready() {
            Readiness::Ready
        } else {
            Readiness::Unready
        };
        self.partners.set_readiness(id, readiness);
    }

    /// The gate by which the partners of a group keep it from being tried. Groups that have started
    /// are no longer partners. O(log groups + names of partners).
    pub(super) fn partner_gate(&self, id: GroupId) -> Option<Gate> {
        if self.groups.get(&id)?.started {
            return None;
        }
        let blocker = self.partners.blocker(id)?;
        let queued = self.groups.get(&blocker.group)?;
        let mut named = queued.root.gang_group.iter();
        let group = if blocker.is_unready {
            queued.name.clone()
        } else {
            named.find(|name| !self.names.contains_key(&***name))?.clone()
        };
        Some(Gate::Partner { group })
    }

    /// The groups to place together with `id`, itself included; or the gate that keeps them from
    /// being tried.
    pub(super) fn gang_group(&self, id: GroupId) -> Result<Vec<GroupId>, Gate> {
        if let Some(gate) = self.partner_gate(id) {
            return Err(gate);
        }
        match self.partners.open(id) {
            Some(open) if open.contains(&id) => Ok(open.iter().copied().collect()),
            _ => Ok(alloc::vec![id]),
        }
    }

    /// Recomputes the phase of a group, and of those partners that it concerns.
    pub(super) fn settle_linked(&mut self, id: GroupId) {
        self.settle(id, true);
        self.settle_partners(id);
    }

    /// Recomputes the phases of a gang group where they may have changed.
    pub(super) fn settle_partners(&mut self, id: GroupId) {
        loop {
            for other in self.partners.take_unsettled(id) {
                self.settle(other, false);
            }
            if !self.partners.is_unsettled(id) {
                return;
            }
        }
    }

    /// Recomputes the phase of a group that has no plan in flight: if it waits, it is tried again.
    /// `own` says that the group itself changed, not a partner.
    pub(super) fn settle(&mut self, id: GroupId, own: bool) {
        self.partners.groups_checked += 1;
        self.settle_phase(id, own);
        self.backfill.running.note_group(id);
        let key = self.groups.get(&id).and_then(|queued| queued.key.as_ref());
        self.backfill.forget_demand(key);
        // The end of a back-off changes its phase without an event.
        let backs_off = |queued: &QueuedGroup| matches!(queued.phase, Phase::BackingOff(_));
        let is_stale = self.groups.get(&id).is_some_and(backs_off);
        self.partners.set_stale(id, is_stale);
    }

    fn settle_phase(&mut self, id: GroupId, own: bool) {
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
        } else if let Some(gate) = self.partner_gate(id) {
            Phase::Gated(gate)
        } else if queued.not_before > self.now {
            Phase::BackingOff(queued.not_before)
        } else {
            Phase::Queued
        };
        let is_same = match (&queued.phase, &phase) {
            // Which of the partners it is that is not ready is found when the state is read.
            (Phase::Gated(Gate::Partner { .. }), Phase::Gated(Gate::Partner { .. })) => true,
            (old, new) => old == new,
        };
        // Placeholders of deleted members are given back at once.
        self.reservations_due |= queued.reservation.is_some() && (own || !is_same);
        self.reservations_due |= self.preemption.is_moving(id);
        self.wait_for(id, WakeCondition::Never);
        let Some(queued) = self.groups.get(&id).filter(|_| !is_same) else { return };
        let is_reserving = queued.reservation.is_some();
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
        if !phase.waits() && is_reserving {
            // With it may end the evictions that the phase was computed with: of a partner, say.
            self.end_reservation(id, ReservationEnd::Outranked);
            return self.settle_phase(id, own);
        }
        self.set_phase(id, phase);
        if let Some(change) = change {
            self.emit(id, change);
        }
    }
}

/// Full names of the groups of a tree.
pub(super) fn tree_names(root: &PodGroup) -> Vec<String> {
    let mut names = Vec::new();
    root.visit(&mut |group| names.push(group.full_name().into()));
    names
}
