//! What is left of groups of which units are to go: their minimum, or nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::evictions::{UnitInFlight, pod_name};
use super::ids::Ticket;
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
        let holds = |root: &&PodGroup| root.any(&|group| group.full_name() == *name);
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
        let count = |group: &PodGroup, is: &dyn Fn(&PodView<'_>) -> bool| {
            self.cluster.pods_of(group).filter(|pod| is(pod)).count()
        };
        let mut left = 0;
        root.visit(&mut |group| left += count(group, &stays));
        left > 0
            && has_minimum(root, &|group| count(group, &runs)).0
            && !has_minimum(root, &|group| count(group, &stays)).0
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

    /// Drops the units of a decision that are due to be asked for again, and of whose groups too little
    /// would be left by then: more of them runs than when they were named.
    pub(super) fn drop_due_parts(&mut self, ticket: Ticket) {
        let now = self.now;
        // What has begun of a group of this scheduler goes on; others' owners make members anew.
        let is_due = |unit: &UnitInFlight| {
            let may_stay = !unit.begun || unit.root.is_none();
            may_stay && unit.retry_at.is_some_and(|retry| retry <= now)
        };
        let mut due: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for unit in self.preemption.units_of(ticket).filter(|unit| is_due(unit)) {
            let Some(root) = &unit.root_name else { continue };
            due.entry(root.clone()).or_default().extend(unit.names());
        }
        due.retain(|root, names| {
            names.extend(self.going_of(root, true));
            self.is_left_in_part(root, names)
        });
        if due.is_empty() {
            return;
        }
        let Some(evictions) = self.preemption.of(ticket) else { return };
        let is_parted = |unit: &UnitInFlight| {
            is_due(unit) && unit.root_name.as_ref().is_some_and(|root| due.contains_key(root))
        };
        let (back, stay) = evictions.units.drain(..).partition(is_parted);
        evictions.units = stay;
        self.preemption.drop_done();
        self.cancel_units(ticket, back);
        self.reservations_due = true;
    }

    /// Whether too little would be left of another scheduler's group if those of its pods stayed that
    /// have begun to go and could not.
    fn may_part(&self, root: &str) -> bool {
        let units = self.preemption.units().map(|(_, unit)| unit);
        let asked = units.filter(|unit| unit.root.is_none() && unit.retry_at.is_none());
        let asked = asked.filter(|unit| unit.root_name.as_deref() == Some(root));
        let going: BTreeSet<String> = asked.flat_map(UnitInFlight::names).collect();
        !going.is_empty() && self.is_left_in_part(root, &going)
    }

    /// Takes back evictions of groups of which too little would be left by what is to go now: others
    /// of them cannot go, or not yet.
    pub(super) fn take_back_parts(&mut self, roots: &BTreeSet<String>) {
        for root in roots {
            let going = self.going_of(root, true);
            if going.is_empty() || !self.is_left_in_part(root, &going) && !self.may_part(root) {
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

/// Whether a tree has its minimum, given what each leaf has; and how many pods that are.
fn has_minimum(group: &PodGroup, count: &impl Fn(&PodGroup) -> usize) -> (bool, usize) {
    let least = group.policy.minimum() as usize;
    if group.groups.is_empty() {
        let have = count(group);
        return (have >= least, have);
    }
    let inner = group.groups.iter().map(|inner| has_minimum(inner, count));
    let (have, pods) = inner.fold((0, 0), |(have, pods), (is_enough, more)| {
        (have + usize::from(is_enough), pods + more)
    });
    (have >= least && pods >= group.min_pods.unwrap_or(0) as usize, pods)
}
