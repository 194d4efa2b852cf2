//! Evictions and moves that are cancelled, and groups of which all or some stay.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use super::{Scheduler, Timer};
use crate::preempt::EvictedPod;
use crate::queue::fact::Fact;
use crate::queue::groups::QueuedGroup;
use crate::queue::removals::{Among, Removal, pod_name};
use crate::queue::terms::decision::Decision;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::terms::observe::GroupChange;

impl Scheduler {
    /// The end of the eviction of a whole group of which some pods stay.
    pub(super) fn stay_in_place(&mut self, root: GroupId) {
        let is_preempted = |own: &QueuedGroup| own.health().is_preempted();
        if !self.groups.get(&root).is_some_and(is_preempted) {
            return;
        }
        let going = self.removals.going(&self.groups, root);
        let Some(queued) = self.groups.get_mut(&root) else { return };
        queued.members_mut().take_arrived();
        if !queued.is_left_without(&going) {
            queued.health_mut().stay();
            if let Some(since) = queued.below_since() {
                // The deadline may have passed while it was to go anyway.
                let deadline = since.after(self.world.settings().stale_after);
                self.timers.insert((deadline, Timer::Below(root)));
            }
            self.set_leaving(root, false);
            self.facts.note(Fact::GroupChanged(root));
        }
    }

    /// Takes back evictions that have not begun, and that are in flight no more.
    pub(super) fn cancel_units(&mut self, ticket: Ticket, units: Vec<Removal>) {
        if units.is_empty() {
            return;
        }
        let mut victims = Vec::new();
        let mut roots: BTreeMap<GroupId, usize> = BTreeMap::new();
        let unasked = unasked(self.report.decisions(), ticket);
        let parents: BTreeSet<String> =
            units.iter().filter_map(|own| own.root_name().map(String::from)).collect();
        // Other groups may take what stays.
        self.removals.give_back(units.iter().flat_map(Removal::pods));
        for own in units {
            self.release_places(|place, _, _| place.is(ticket, own.name()));
            if own.is_later() {
                continue;
            }
            for (root, _) in own.names().filter_map(|name| self.groups.member(&name)) {
                *roots.entry(root).or_insert(0) += 1;
            }
            let was_polled = !own.pods().any(|pod| unasked.contains(&pod_name(pod)));
            // The pods of a group whose time is over are to go all the same.
            let is_over =
                |root| self.groups.get(&root).is_some_and(|own| own.health().leaves_anyway());
            if own.is_asked() && was_polled && !own.root().is_some_and(is_over) {
                victims.push(own.victim());
            }
        }
        for (root, pods) in roots {
            self.emit(root, GroupChange::EvictionCancelled { pods });
            self.stay_in_place(root);
        }
        if !victims.is_empty() {
            let count = victims.len() as u64;
            self.report.totals().add(count, |metrics| &mut metrics.evictions_cancelled);
            self.report.decide(Decision::CancelEvictions { ticket, victims });
        }
        self.take_back_parts(&parents);
    }

    /// Cancels evictions that would leave their group below its minimum because other evictions of it
    /// failed or were delayed.
    pub(super) fn take_back_parts(&mut self, roots: &BTreeSet<String>) {
        for root in roots {
            let known = (self.world.cluster(), &self.groups);
            let back = self.removals.take_parts(known, root);
            if !back.is_empty() {
                self.holds.set_due(None);
            }
            for (ticket, units) in back {
                self.cancel_units(ticket, units);
            }
        }
    }

    /// Looks which victims have begun to go, and which have gone.
    pub(super) fn update_evictions(&mut self) {
        let Some(settings) = self.world.settings().preemption else { return };
        let until = self.world.now().after(settings.grace_period);
        let mut seen = self.removals.update(self.world.cluster(), until);
        for own in core::mem::take(&mut seen.lost) {
            self.cancel_units(own.ticket(), alloc::vec![own]);
        }
        self.removals.begin_rest(&self.groups, until, &mut seen);
        for pod in &seen.gone {
            // One that has lost its node comes back with it, and nobody asks for it any more.
            if self.removals.set_assumed(pod_name(pod), Some(false)) {
                self.set_terminating(&pod.namespace, &pod.name, None);
            }
        }
        for pod in &seen.begun {
            if self.set_terminating(&pod.namespace, &pod.name, Some(true)) {
                self.removals.set_assumed(pod_name(pod), None);
            }
        }
        for ticket in seen.tickets {
            self.timers.insert((until, Timer::Evictions(ticket)));
        }
        let runs = |pod: &EvictedPod| {
            let (root, seq) = self.groups.member(&pod_name(pod))?;
            self.groups.find(root, seq)?.runs().then_some(root)
        };
        // A group that has left runs no more, unless it was replaced or has come back.
        let back: BTreeSet<GroupId> = seen.gone.iter().filter_map(runs).collect();
        for root in seen.roots {
            let may_stay =
                |own: &QueuedGroup| own.members().running() == 0 || own.members().has_arrived();
            if back.contains(&root) || self.groups.get(&root).is_some_and(may_stay) {
                self.stay_in_place(root);
            }
        }
    }

    /// The evictions for a group that are not needed any more, but for those of `kept`, are taken
    /// back, as far as they have not begun.
    pub(super) fn cancel_evictions(&mut self, id: GroupId, kept: &BTreeSet<String>) {
        self.update_evictions();
        let back = self.removals.take(Among::By(id), |own| {
            let is_kept = own.is_victim() && own.names().any(|name| kept.contains(&name));
            !own.has_begun() && !is_kept
        });
        for (ticket, units) in back {
            self.cancel_units(ticket, units);
        }
    }

    /// Cancels units of a decision that are due, and of whose groups too little would be left.
    pub(super) fn drop_due_parts(&mut self, ticket: Ticket) {
        let known = (self.world.cluster(), &self.groups);
        let back = self.removals.take_due_parts(known, ticket, self.world.now());
        if !back.is_empty() {
            self.cancel_units(ticket, back);
            self.holds.set_due(None);
        }
    }

    /// Cancels units of a decision that are due, and would break a budget.
    pub(super) fn drop_due_beyond_budgets(&mut self, ticket: Ticket) {
        let now = self.world.now();
        let back = self.removals.take_due_beyond_budgets(self.world.cluster(), ticket, now);
        self.search_in_place_of(ticket, back);
    }

    /// Cancels units of a decision, and has others searched at once.
    pub(super) fn search_in_place_of(&mut self, ticket: Ticket, back: Vec<Removal>) {
        let Some(by) = back.first().map(Removal::by) else { return };
        self.cancel_units(ticket, back);
        self.holds.set_due(None);
        if let Some(queued) = self.groups.get_mut(&by) {
            queued.set_no_search_before(self.world.now());
        }
    }
}

/// Full names of the pods of a decision that has not been polled yet.
pub(in crate::queue) fn unasked(outbox: &VecDeque<Decision>, ticket: Ticket) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for decision in outbox {
        match decision {
            Decision::Evict { ticket: other, victims, .. } if *other == ticket => {
                names.extend(victims.iter().flat_map(|victim| &victim.pods).map(pod_name));
            }
            Decision::Move { ticket: other, moves, .. } if *other == ticket => {
                names.extend(moves.iter().map(|step| pod_name(&step.pod)));
            }
            _ => {}
        }
    }
    names
}
