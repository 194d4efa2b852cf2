//! What is left of groups of which units are to go: their minimum, or nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::evictions::{UnitInFlight, pod_name};
use super::ids::Ticket;
use super::queued_group::deficit;
use super::scheduler::Scheduler;
use crate::model::PodGroup;
use crate::preempt::Victim;
use crate::state::PodView;

impl Scheduler {
    /// The full name of the root group that a victim is of, this scheduler's or another's.
    pub(super) fn root_of(&self, victim: &Victim) -> Option<String> {
        let own = victim.pods.first().and_then(|pod| self.pods.get(&pod_name(pod)));
        if let Some(queued) = own.and_then(|(id, _)| self.groups.get(id)) {
            return Some(queued.name.clone().into());
        }
        let name = victim.group.as_ref()?;
        let is = |group: &PodGroup| {
            let rest = name.strip_prefix(group.namespace.as_str());
            rest.and_then(|rest| rest.strip_prefix('/')) == Some(group.name.as_str())
        };
        let holds = |root: &&PodGroup| root.any(&is);
        self.preemption.running.values().find(holds).map(|root| root.full_name().into())
    }

    /// Full names of the pods of a root group that are to go, without those that are to be asked for
    /// again later if `now`.
    pub(super) fn going_of(&self, root: &str, now: bool) -> BTreeSet<String> {
        let units = self.preemption.units().map(|(_, unit)| unit);
        let units = units.filter(|unit| unit.root_name.as_deref() == Some(root));
        let units = units.filter(|unit| !now || unit.begun || unit.retry_at.is_none());
        units.flat_map(UnitInFlight::names).collect()
    }

    /// Whether some of a group would run without these pods, yet less than its minimum.
    pub(super) fn is_left_in_part(&self, root: &str, going: &BTreeSet<String>) -> bool {
        if let Some(queued) = self.names.get(root).and_then(|(id, _)| self.groups.get(id)) {
            let members = going.iter().filter_map(|name| self.pods.get(name));
            let members = members.map(|(_, seq)| *seq).collect();
            return !queued.is_left_without(&self.cluster, &members)
                && !queued.keeps_minima(&self.cluster, &members);
        }
        let Some(root) = self.preemption.running.get(root) else { return false };
        let runs = |pod: &PodView<'_>| pod.node().is_some() && !pod.deleting();
        let stays = |pod: &PodView<'_>| {
            runs(pod) && !going.contains(&alloc::format!("{}/{}", pod.namespace(), pod.name()))
        };
        let mut is_any_left = false;
        root.visit(&mut |group| is_any_left |= self.cluster.pods_of(group).any(|pod| stays(&pod)));
        let has_minimum = |counts: &dyn Fn(&PodView<'_>) -> bool| {
            let mut leaves: Vec<u64> = Vec::new();
            root.visit(&mut |group| {
                if group.groups.is_empty() {
                    leaves.push(self.cluster.pods_of(group).filter(counts).count() as u64);
                }
            });
            deficit(root, &mut leaves.iter(), &|count| *count).0.is_none()
        };
        is_any_left && has_minimum(&runs) && !has_minimum(&stays)
    }

    /// The groups of which too little would be left if these victims went beside all that go already.
    pub(super) fn left_in_part(&self, victims: &[Victim]) -> BTreeSet<String> {
        let mut roots: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for victim in victims {
            let Some(root) = self.root_of(victim) else { continue };
            roots.entry(root).or_default().extend(victim.pods.iter().map(pod_name));
        }
        let is_in_part = |(root, mut going): (String, BTreeSet<String>)| {
            going.extend(self.going_of(&root, false));
            self.is_left_in_part(&root, &going).then_some(root)
        };
        roots.into_iter().filter_map(is_in_part).collect()
    }

    /// Takes back evictions of groups of which too little would be left by what is to go now: others
    /// of them cannot go, or not yet.
    pub(super) fn take_back_parts(&mut self, roots: &BTreeSet<String>) {
        for root in roots {
            let going = self.going_of(root, true);
            if going.is_empty() || !self.is_left_in_part(root, &going) {
                continue;
            }
            let mut back: Vec<(Ticket, Vec<UnitInFlight>)> = Vec::new();
            for (ticket, evictions) in &mut self.preemption.evictions {
                let stays = |unit: &UnitInFlight| {
                    unit.begun || unit.retry_at.is_some() || unit.root_name.as_ref() != Some(root)
                };
                let (stay, go): (Vec<_>, Vec<_>) = evictions.units.drain(..).partition(stays);
                evictions.units = stay;
                if !go.is_empty() {
                    back.push((*ticket, go));
                }
            }
            self.preemption.drop_done();
            self.reservations_due |= !back.is_empty();
            for (ticket, units) in back {
                self.cancel_units(ticket, units);
            }
        }
    }
}
