//! Evictions and moves that are taken back, and groups of which all or some stay.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::decision::Decision;
use super::evictions::{Leave, UnitInFlight, pod_name};
use super::ids::{GroupId, Ticket};
use super::observe::GroupChange;
use super::scheduler::{Scheduler, Timer};
use super::victims::unasked;

impl Scheduler {
    /// Sets which groups are being evicted whole: all of their pods are to go.
    pub(super) fn settle_victims(&mut self) {
        let roots = self.preemption.members(false, |name| self.pods.get(name).copied());
        for root in roots.into_keys() {
            // A group that is evicted takes back what it has asked for itself.
            let now = self.preemption.members(false, |name| self.pods.get(name).copied());
            let Some(members) = now.get(&root) else { continue };
            let Some(queued) = self.groups.get_mut(&root) else { continue };
            if !queued.evicting && queued.is_left_without(&self.cluster, members) {
                queued.evicting = true;
                queued.preempted = true;
                self.set_leaving(root, true);
                self.settle_linked(root);
            }
        }
    }

    /// The evictions for a group that are not needed any more, but for those of `kept`, are taken
    /// back, as far as they have not begun.
    pub(super) fn cancel_evictions(&mut self, id: GroupId, kept: &BTreeSet<String>) {
        self.update_evictions();
        let mut back: Vec<(Ticket, Vec<UnitInFlight>)> = Vec::new();
        for (ticket, evictions) in &mut self.preemption.evictions {
            if evictions.group != id {
                continue;
            }
            let is_kept = |unit: &UnitInFlight| {
                unit.leave == Leave::Evicted && unit.names().any(|name| kept.contains(&name))
            };
            let stays = |unit: &UnitInFlight| unit.begun || is_kept(unit);
            let (stay, go): (Vec<_>, Vec<_>) = evictions.units.drain(..).partition(stays);
            evictions.units = stay;
            back.push((*ticket, go));
        }
        for (ticket, units) in back {
            self.cancel_units(ticket, units);
        }
        self.preemption.drop_done();
    }

    /// Takes back evictions that have not begun, and that are in flight no more.
    pub(super) fn cancel_units(&mut self, ticket: Ticket, units: Vec<UnitInFlight>) {
        let mut victims = Vec::new();
        let mut roots: BTreeMap<GroupId, usize> = BTreeMap::new();
        let unasked = unasked(&self.outbox, ticket);
        let parents = units.iter().filter_map(|unit| unit.root_name.clone()).collect();
        for UnitInFlight { victim, retry_at, leave, .. } in units {
            self.preemption.give_back(&victim.pods);
            self.release_places(|own, _| own.ticket == ticket && own.unit == victim.name);
            if leave == Leave::Later {
                continue;
            }
            for (root, _) in victim.pods.iter().filter_map(|pod| self.pods.get(&pod_name(pod))) {
                *roots.entry(*root).or_insert(0) += 1;
            }
            let is_asked = !victim.pods.iter().any(|pod| unasked.contains(&pod_name(pod)));
            if retry_at.is_none() && is_asked {
                victims.push(victim);
            }
        }
        for (root, pods) in roots {
            self.emit(root, GroupChange::EvictionCancelled { pods });
            self.stay_in_place(root);
        }
        if !victims.is_empty() {
            let count = victims.len() as u64;
            self.metrics.evictions_cancelled =
                self.metrics.evictions_cancelled.saturating_add(count);
            self.outbox.push_back(Decision::CancelEvictions { ticket, victims });
        }
        // Other groups may take what stays.
        self.budgets_changed();
        self.take_back_parts(&parents);
    }

    /// The end of the eviction of a whole group of which some pods stay.
    pub(super) fn stay_in_place(&mut self, root: GroupId) {
        let members = self.preemption.members(false, |name| self.pods.get(name).copied());
        let going = members.get(&root).cloned().unwrap_or_default();
        let Some(queued) = self.groups.get_mut(&root) else { return };
        if queued.preempted && !queued.is_left_without(&self.cluster, &going) {
            queued.preempted = false;
            queued.evicting = false;
            if let Some(since) = queued.below_since {
                // The deadline may have passed while it was to go anyway.
                let deadline = since.after(self.settings.stale_after);
                self.timers.insert((deadline, Timer::Below(root)));
            }
            self.set_leaving(root, false);
            self.settle_linked(root);
        }
    }
}
