//! Victims and moves, at the moment at which they are named.

use std::collections::BTreeSet;

use phalanx::Pod;
use phalanx::queue::Ticket;

use super::drive::Unit;
use super::setup::{LONGEST_BACKOFF, RETRY_AFTER};
use super::world::{Place, PodState, World};

impl World {
    pub(super) fn check_victims(&self, owner: usize, ticket: Ticket, by: &str, units: &[Unit]) {
        let mut gone = BTreeSet::new();
        for unit in units {
            for pod in &unit.pods {
                let state = self.pods.get(pod).unwrap_or_else(|| panic!("{pod} does not exist"));
                assert!(state.node.is_some(), "{pod} is to be evicted, and is on no node");
                gone.insert(pod.clone());
            }
        }
        // The group may be gone, and the rest of a victim that has begun to go be asked for.
        let Some(own) = self.gangs.get(by) else { return };
        let together = self.together(by);
        // One that may have started may be tried alone, and leaves its partners alone.
        let partners = together.iter().map(|name| &self.gangs[name]);
        let partners = partners.filter(|other| !own.may_have_started && !other.may_have_started);
        let priority = partners.map(|other| other.tree.priority).min();
        let priority = priority.unwrap_or(own.tree.priority);
        let is_known = |unit: &&Unit| !self.is_again(owner, ticket, unit);
        let new: Vec<&Unit> = units.iter().filter(is_known).collect();
        for unit in &new {
            for pod in &unit.pods {
                let state = &self.pods[pod];
                let Some(root) = &state.root else {
                    assert!(priority > 0, "{pod} goes for {by}");
                    continue;
                };
                let theirs = &self.gangs[root];
                let is_partner = together.contains(root) && !theirs.may_have_started;
                assert!(!is_partner, "{by} goes for itself");
                assert!(!theirs.tree.non_preemptible, "{root} is protected, and goes for {by}");
                let is_of_quota = self.rules.tenants
                    && theirs.owner == owner
                    && theirs.tree.queue != own.tree.queue;
                assert!(
                    is_of_quota || theirs.tree.priority < priority,
                    "{root} is not less important, and goes for {by}"
                );
                if is_of_quota {
                    self.check_borrows(owner, root, by);
                }
                if let Some(least) = theirs.tree.min_run_time {
                    let ends = state.since.after(least);
                    assert!(ends <= self.now, "{pod} runs until {ends:?} at least, goes for {by}");
                }
                assert!(
                    theirs.owner != owner
                        || !self.members(root).any(|(name, _)| self.is_in_flight(name)),
                    "{root} is being bound, and goes for {by}"
                );
            }
        }
        self.check_left_in_part(owner, &gone, &new);
        if new.len() == units.len() {
            self.check_budgets(owner, by, &gone);
        }
    }

    /// A group, with those that are named as its partners, or name it.
    fn partners(&self, name: &str) -> BTreeSet<String> {
        let (mut all, mut open) = (BTreeSet::new(), vec![name.to_owned()]);
        while let Some(name) = open.pop() {
            let Some(own) = self.gangs.get(&name) else { continue };
            if !all.insert(name.clone()) {
                continue;
            }
            open.extend(own.tree.gang_group.iter().map(|other| other.name().to_owned()));
            let naming = self
                .gangs
                .iter()
                .filter(|(_, other)| other.tree.gang_group.iter().any(|own| own.name() == name));
            open.extend(naming.map(|(other, _)| other.clone()));
        }
        all
    }

    /// A group, with those that have not started and start together with it.
    pub(super) fn together(&self, name: &str) -> BTreeSet<String> {
        let mut all = self.partners(name);
        // One that has started, or is being bound, is tried alone; one that has finished has nothing to
        // start. One whose binding was just refused may have started with what is bound.
        let has_started = |name: &str| {
            self.gangs.get(name).is_some_and(|own| own.started)
                || self.unsettled.contains(name)
                || self.members(name).any(|(pod, _)| self.is_in_flight(pod))
        };
        let has_finished = |name: &str| self.members(name).all(|(_, pod)| pod.finished);
        let is_alone = has_started(name);
        all.retain(|other| {
            other == name || !is_alone && !has_started(other) && !has_finished(other)
        });
        all
    }

    /// A unit that was asked for before, or of which something goes already.
    fn is_again(&self, owner: usize, ticket: Ticket, unit: &Unit) -> bool {
        let roots = unit.pods.iter().filter_map(|pod| self.pods[pod].root.as_ref());
        let mut gangs = roots.map(|root| (root, &self.gangs[root]));
        self.asked.contains_key(&(owner, ticket, unit.name.clone()))
            || gangs.any(|(root, gang)| {
                let mut members = self.members(root);
                gang.evicting || members.any(|(_, pod)| pod.deleting)
            })
    }

    /// No gang that had its minimum is left below it, and not without pods.
    fn check_left_in_part(&self, owner: usize, gone: &BTreeSet<String>, new: &[&Unit]) {
        let pods = new.iter().flat_map(|unit| &unit.pods);
        let roots: BTreeSet<&String> =
            pods.filter_map(|pod| self.pods[pod].root.as_ref()).collect();
        for root in roots {
            let tree = &self.gangs[root].tree;
            let is_asked = |pod: &str| {
                self.asks.iter().any(|ask| ask.owner == owner && ask.pods.contains(pod))
            };
            let left = |pod: &str| {
                let state = &self.pods[pod];
                let stays = self.runs(state) && !state.deleting && !gone.contains(pod);
                state.finished || stays && !is_asked(pod)
            };
            let was = |pod: &str| left(pod) || gone.contains(pod);
            let mut members = self.members(root);
            let runs_on = members.any(|(name, pod)| left(name) && !pod.finished);
            if runs_on && self.counts(root, tree, was) {
                assert!(self.counts(root, tree, left), "{root} is left in part by {gone:?}");
            }
        }
    }

    fn is_covered(&self, name: &str, pod: &PodState) -> bool {
        let covers = |colour: &String| {
            self.budgets.get(colour).is_some_and(|budget| !budget.disrupted.contains(name))
        };
        pod.colour().is_some_and(covers)
    }

    /// A budget is broken only where units in none do not suffice. Held to it are claims that are
    /// alone in their scheduler, of groups whose pods are all pending. Nodes that have refused such
    /// pods are left out for a time (docs/lifecycle.md, *Binding*).
    fn check_budgets(&self, owner: usize, by: &str, gone: &BTreeSet<String>) {
        if !self.breaks_budget(gone) {
            return;
        }
        let own = &self.gangs[by];
        let process = &self.processes[owner];
        let is_pending =
            |(name, pod): (&String, &PodState)| pod.node.is_none() && !self.is_in_flight(name);
        // The claim of another that ended with this decision had room when it was made.
        let is_simple = process.reservations().len() <= 1
            && self.ended.iter().all(|other| other == by)
            && self.held.is_empty()
            && self.asks.is_empty()
            && self.together(by).len() == 1
            && self.members(by).all(is_pending)
            && self.leaving.is_empty();
        // With tenants victims may be taken for quota.
        if !is_simple || self.rules.tenants {
            return;
        }
        // Partners are no victims of each other, though one has started already.
        let partners = self.partners(by);
        let is_free = |name: &String, pod: &PodState| {
            let Some(root) = &pod.root else {
                return own.tree.priority > 0
                    && !self.is_covered(name, pod)
                    && !self.failed.contains(name);
            };
            let theirs = &self.gangs[root];
            theirs.tree.priority < own.tree.priority
                && !theirs.tree.non_preemptible
                && !partners.contains(root)
                && theirs.tree.min_run_time.is_none()
                && theirs.tree.gang_group.is_empty()
                && theirs.started
                && theirs.below.is_none()
                && self.members(root).all(|(name, pod)| {
                    !self.is_covered(name, pod)
                        && !self.failed.contains(name)
                        && pod.node.is_some()
                        && !pod.deleting
                })
        };
        let free: Vec<String> = self
            .pods
            .iter()
            .filter(|(name, pod)| pod.node.is_some() && is_free(name, pod))
            .map(|(name, _)| name.clone())
            .collect();
        let tree = self.whole_tree(by);
        let refusing = self.refusing(owner, by);
        assert!(
            !process.fits_without(&tree, &free, &refusing, self.begun_places(owner)),
            "{by} breaks a budget by {gone:?}, and {free:?} would do"
        );
    }

    /// Places of units that have begun to move: nobody else gets them until those run there, or their
    /// time is over (docs/preemption.md, *Moves in the scheduler*).
    fn begun_places(&self, owner: usize) -> Vec<Place> {
        let is_begun =
            |unit: &(usize, Ticket, String)| unit.0 == owner && self.begun.contains(unit);
        let begun = self.asked.iter().filter(|(unit, _)| is_begun(unit));
        begun.flat_map(|(_, pods)| pods.values().flatten().cloned()).collect()
    }

    /// Nodes that may be left out for a group: they have refused a pod like one of its own.
    fn refusing(&self, owner: usize, root: &str) -> BTreeSet<String> {
        let longest = RETRY_AFTER + LONGEST_BACKOFF;
        let is_like =
            |pod: &Pod| self.members(root).any(|(_, own)| own.spec.shape() == pod.shape());
        let refused = self.refused.iter().filter(|(other, _, pod, at)| {
            *other == owner && self.now.since(*at) <= longest && is_like(pod)
        });
        refused.map(|(_, node, ..)| node.clone()).collect()
    }

    fn breaks_budget(&self, gone: &BTreeSet<String>) -> bool {
        self.budgets.iter().any(|(colour, budget)| {
            let charged = gone.iter().filter(|name| {
                self.pods[*name].colour() == Some(colour) && !budget.disrupted.contains(*name)
            });
            charged.count() as i64 > budget.allowed.max(0)
        })
    }

    /// A unit that moves runs whole, is not protected, has room where it goes, and breaks no
    /// budget.
    pub(super) fn check_moves(&self, owner: usize, ticket: Ticket, by: &str, units: &[Unit]) {
        let mut gone = BTreeSet::new();
        for unit in units {
            // A unit that has begun is asked for until it has gone.
            let is_begun = unit.pods.iter().any(|pod| self.pods[pod].deleting)
                || self.begun.contains(&(owner, ticket, unit.name.clone()));
            for (pod, to) in unit.pods.iter().zip(&unit.to) {
                let state = &self.pods[pod];
                let root = state.root.as_ref().expect("pods of others do not move");
                let gang = &self.gangs[root];
                assert!(root != by && gang.owner == owner, "{root} moves for {by}");
                assert!(state.node.is_some(), "{pod} is to move, and is on no node");
                assert!(self.nodes[to].there, "{to} is not there");
                if !is_begun {
                    gone.insert(pod.clone());
                }
                let is_new = !state.deleting && !gang.evicting;
                assert!(!is_new || !gang.tree.non_preemptible, "{root} is protected, and moves");
                if let Some(least) = gang.tree.min_run_time.filter(|_| is_new) {
                    assert!(state.since.after(least) <= self.now, "{pod} moves too soon");
                }
            }
            let own: BTreeSet<String> = unit.pods.iter().cloned().collect();
            for to in unit.to.iter().collect::<BTreeSet<_>>() {
                let coming = unit.pods.iter().zip(&unit.to).filter(|(_, other)| *other == to);
                let coming: i64 = coming.map(|(pod, _)| self.pods[pod].gpus()).sum();
                let used = self.used(to, "gpu", &own) + self.planned(owner, to, "gpu");
                let room = self.nodes[to].gpus;
                assert!(
                    is_begun || unit.stops || used + coming <= room,
                    "{} moves to {to}, which has {room} and holds {used}",
                    unit.name
                );
            }
        }
        assert!(!self.breaks_budget(&gone), "a budget is broken by the moves of {gone:?}");
    }
}
