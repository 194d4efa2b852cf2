//! The carrying out of decisions: bindings, unbindings, evictions and moves, well or badly.

use std::collections::BTreeSet;
use std::time::Duration;

use super::drive::Waits;
use super::world::{Ask, Flight, Leave, World};

impl World {
    /// Something happens to a plan in flight.
    pub(super) fn carry_flight(&mut self, at: usize, well: bool) {
        if self.rules.whole {
            self.commit(at, well);
        } else {
            self.bind_one(at, well);
        }
    }

    /// The store takes a plan whole, or refuses it.
    fn commit(&mut self, at: usize, well: bool) {
        let Flight { owner, ticket, open, .. } = self.flights[at].clone();
        let now = self.now;
        if !self.has_room_for(&self.flights[at]) || !well && self.random.one_in(12) {
            self.tell(|| format!("the store refuses {open:?} of {owner}"));
            self.counts.conflicts += 1;
            self.flights.remove(at);
            if let Some(quiet) = &mut self.quiet {
                quiet.refused.insert(owner);
            }
            return self.processes[owner].conflict(ticket, now);
        }
        self.tell(|| format!("the store takes {open:?} of {owner}"));
        self.flights.remove(at);
        if let Some(quiet) = &mut self.quiet {
            quiet.commits.push((owner, open.values().cloned().collect()));
        }
        if self.random.one_in(2) {
            for (pod, node) in &open {
                self.put_on(pod, node, true);
            }
            self.processes[owner].bound(ticket, now);
        } else {
            for (pod, node) in &open {
                self.put_on(pod, node, true);
                self.processes[owner].binding(ticket, pod, true, now);
            }
        }
    }

    fn has_room_for(&self, flight: &Flight) -> bool {
        let nodes: BTreeSet<&String> = flight.open.values().collect();
        nodes.into_iter().all(|node| {
            let state = &self.nodes[node];
            let fits = |resource: &str, capacity: i64| {
                let coming = flight.open.iter().filter(|(_, to)| *to == node);
                let coming: i64 =
                    coming.map(|(pod, _)| self.pods[pod].spec.shape().requests.of(resource)).sum();
                coming == 0 || self.used(node, resource, &BTreeSet::new()) + coming <= capacity
            };
            let fits = fits("gpu", state.gpus) && fits("cpu", super::setup::CPUS);
            state.there && !state.cordoned && fits
        })
    }

    /// One pod of a plan is bound or refused, or never heard of again.
    fn bind_one(&mut self, at: usize, well: bool) {
        let now = self.now;
        let flight = self.flights[at].clone();
        let open: Vec<String> = flight.open.keys().cloned().collect();
        let Some(pod) = self.random.pick(&open) else { return };
        let (owner, ticket, node) = (flight.owner, flight.ticket, flight.open[&pod].clone());
        let is_first = !flight.begun && flight.lost.is_empty();
        if !well && is_first && self.random.one_in(20) {
            self.tell(|| format!("conflict: {open:?} of {owner}"));
            self.counts.conflicts += 1;
            self.flights.remove(at);
            return self.processes[owner].conflict(ticket, now);
        }
        if !well && self.random.one_in(14) {
            self.tell(|| format!("nothing is heard of {pod}"));
            let own = &mut self.flights[at];
            own.open.remove(&pod);
            own.lost.insert(pod, node);
            return;
        }
        let has_room = self.has_room(&node, &self.pods[&pod]);
        self.flights[at].begun = true;
        if !has_room || !well && self.random.one_in(10) {
            self.tell(|| format!("{pod} is refused by {node}"));
            if let Some(quiet) = &mut self.quiet {
                quiet.refused.insert(owner);
                quiet.disturbed.extend(self.pods[&pod].root.clone());
            }
            self.refused.push((owner, node, self.pods[&pod].spec.clone(), now));
            self.fall_out(&pod);
            return self.processes[owner].binding(ticket, &pod, false, now);
        }
        self.tell(|| format!("{pod} is bound to {node}"));
        self.forget(&pod);
        if let Some(quiet) = &mut self.quiet {
            quiet.commits.push((owner, [node.clone()].into()));
        }
        let told = !self.random.one_in(3);
        self.put_on(&pod, &node, told);
        if told {
            self.processes[owner].binding(ticket, &pod, true, now);
        }
    }

    /// A pod that its scheduler wants off its node leaves it.
    pub(super) fn carry_leaving(&mut self, at: usize) {
        let leaving = self.leaving[at].clone();
        let how = self.any_leave();
        self.leave(&leaving.pod, how);
    }

    pub(super) fn any_leave(&mut self) -> Leave {
        [Leave::Pending, Leave::Pending, Leave::Anew, Leave::Gone][self.random.below(4)]
    }

    /// How a pod leaves that is to come back.
    pub(super) fn kept_leave(&mut self) -> Leave {
        if self.random.one_in(3) { Leave::Anew } else { Leave::Pending }
    }

    /// Something happens to a unit that is to go.
    pub(super) fn carry_ask(&mut self, ask: &Ask) {
        let pods: Vec<String> = ask.pods.iter().cloned().collect();
        let Some(pod) = self.random.pick(&pods) else { return };
        match self.random.below(9) {
            0..=2 => self.unit_goes(ask),
            3 => {
                let how = self.any_leave();
                self.mark_going(&pod);
                self.leave(&pod, how);
            }
            4..=6 => {
                if self.store_lets(ask) && !self.pods[&pod].deleting {
                    self.terminate(&pod);
                    self.charge(&pod);
                }
            }
            _ => {
                let secs = Duration::from_secs(1 + self.random.below(50) as u64);
                let retry = self.random.one_in(2).then(|| self.now.after(secs));
                self.refuse_ask(ask, retry);
            }
        }
    }

    pub(super) fn refuse_ask(&mut self, ask: &Ask, retry: Option<phalanx::Time>) {
        self.tell(|| format!("{} does not go for {}, until {retry:?}", ask.name, ask.by));
        self.failed.extend(ask.pods.iter().cloned());
        // A pod that terminates moves all the same.
        let goes = |pod: &&String| !ask.to.is_empty() && self.pods[*pod].deleting;
        let roots = ask.pods.iter().filter(goes).filter_map(|pod| self.pods[pod].root.clone());
        self.moved.extend(roots);
        let is =
            |own: &Ask| (own.owner, own.ticket, &own.name) == (ask.owner, ask.ticket, &ask.name);
        self.asks.retain(|own| !is(own));
        let now = self.now;
        // It may be late, and be counted as failed already.
        let _ = self.processes[ask.owner].eviction_failed(ask.ticket, &ask.name, retry, now);
    }

    /// The store refuses an eviction that leaves a gang in part by what its scheduler may not know.
    pub(super) fn store_lets(&mut self, ask: &Ask) -> bool {
        if self.is_alone() || ask.begun {
            return true;
        }
        let roots: BTreeSet<String> =
            ask.pods.iter().filter_map(|pod| self.pods[pod].root.clone()).collect();
        let of_decision: BTreeSet<String> = self
            .asks
            .iter()
            .filter(|own| own.owner == ask.owner)
            .flat_map(|own| own.pods.iter().cloned())
            .collect();
        for root in roots {
            let gang = &self.gangs[&root];
            let tree = &gang.tree;
            let was = |pod: &str| self.stays(&self.pods[pod]);
            let left = |pod: &str| was(pod) && !of_decision.contains(pod);
            let runs_on = self.members(&root).filter(|(name, pod)| left(name) && !pod.finished);
            let runs_on: Vec<&String> = runs_on.map(|(name, _)| name).collect();
            // The rest was refused before, and is asked for again at another time.
            let goes_later = gang.owner == ask.owner
                && self.processes[ask.owner].waits(&root) == Waits::Evicting;
            let goes_later = goes_later && runs_on.iter().all(|name| self.failed.contains(*name));
            let runs_on = !runs_on.is_empty() && !goes_later;
            let is_whole = self.counts(&root, tree, was);
            if is_whole && runs_on && !self.counts(&root, tree, left) {
                let retry = self.now.after(Duration::from_secs(5));
                if let Some(quiet) = &mut self.quiet {
                    quiet.refused.insert(ask.owner);
                }
                self.refuse_ask(ask, Some(retry));
                return false;
            }
        }
        true
    }

    /// The room of a pod comes free for those that asked for it.
    fn mark_going(&mut self, pod: &str) {
        let Some(quiet) = &mut self.quiet else { return };
        quiet.hit.extend(self.pods[pod].root.clone());
        for ask in self.asks.iter().filter(|ask| ask.pods.contains(pod)) {
            let key = (ask.owner, ask.by.clone());
            if let Some(nodes) = self.claims.get(&key) {
                quiet.pressed.insert(key, nodes.clone());
            }
        }
    }

    /// The store counts an eviction against the budgets, and says so.
    fn charge(&mut self, pod: &str) {
        let Some(colour) = self.pods[pod].colour().cloned() else { return };
        if self.is_alone() && self.random.one_in(2) {
            return;
        }
        let Some(budget) = self.budgets.get_mut(&colour) else { return };
        if budget.disrupted.insert(pod.to_owned()) {
            budget.allowed -= 1;
            self.tell_budget(&colour);
        }
    }

    pub(super) fn tell_budget(&mut self, colour: &str) {
        let budget = super::setup::budget(colour, &self.budgets[colour]);
        for process in &mut self.processes {
            process.budget(&budget, self.now);
        }
    }

    /// A unit goes, or moves.
    pub(super) fn unit_goes(&mut self, ask: &Ask) {
        if !self.store_lets(ask) {
            return;
        }
        let pods: Vec<String> = ask.pods.iter().cloned().collect();
        for pod in &pods {
            self.mark_going(pod);
        }
        if !ask.to.is_empty() {
            return self.unit_moves(ask, &pods);
        }
        self.counts.evicted += 1;
        if self.random.one_in(2)
            && self.is_alone()
            && pods.iter().all(|pod| self.owner(pod).is_some())
        {
            return self.unit_goes_at_once(ask, &pods);
        }
        let how = self.any_leave();
        for pod in pods {
            self.leave(&pod, how);
        }
    }

    /// A unit has gone whole, reported by its name; its pods are pending.
    fn unit_goes_at_once(&mut self, ask: &Ask, pods: &[String]) {
        self.tell(|| format!("{} goes for {}", ask.name, ask.by));
        let now = self.now;
        for pod in pods {
            let state = self.pods.get_mut(pod).unwrap();
            (state.node, state.deleting) = (None, false);
            self.forget(pod);
        }
        self.asks.retain(|own| own.ticket != ask.ticket || own.name != ask.name);
        if self.processes[ask.owner].unit_gone(ask.ticket, &ask.name, now).is_err() {
            for pod in pods {
                self.processes[ask.owner].unbound(pod, now);
            }
        }
        for other in &mut self.asks {
            other.pods.retain(|pod| !pods.contains(pod));
        }
        self.asks.retain(|own| !own.pods.is_empty());
    }

    fn unit_moves(&mut self, ask: &Ask, pods: &[String]) {
        self.counts.moved += 1;
        for pod in pods {
            self.note_move(pod);
        }
        let can = pods.len() == ask.whole
            && pods.iter().all(|pod| {
                let to = &ask.to[pod];
                let all: BTreeSet<String> = pods.iter().cloned().collect();
                let coming = pods.iter().filter(|other| ask.to[*other] == *to);
                let sum = |resource: &str| -> i64 {
                    coming
                        .clone()
                        .map(|pod| self.pods[pod].spec.shape().requests.of(resource))
                        .sum()
                };
                let state = &self.nodes[to];
                let fits = |resource: &str, room: i64| {
                    self.used(to, resource, &all) + sum(resource) <= room
                };
                state.there
                    && !state.cordoned
                    && fits("gpu", state.gpus)
                    && fits("cpu", super::setup::CPUS)
            });
        if can && self.random.one_in(3) && !ask.stops {
            // The world outside moves it itself.
            let mut left = BTreeSet::new();
            for pod in pods {
                let to = ask.to[pod].clone();
                self.tell(|| format!("{pod} is moved to {to}"));
                let state = self.pods.get_mut(pod).unwrap();
                if state.node.take().as_ref() != Some(&to) {
                    left.insert(pod);
                }
                self.put_on(pod, &to, false);
            }
            // Who wants them off their nodes has that; one whose place is on its own node is still to go.
            for own in &mut self.asks {
                own.begun |= own.pods.iter().any(|pod| left.contains(pod));
                own.pods.retain(|pod| !left.contains(pod));
            }
            self.asks.retain(|own| !own.pods.is_empty());
            return;
        }
        let how = self.kept_leave();
        for pod in pods {
            self.leave(pod, how);
        }
    }

    /// A pod that terminates has gone.
    pub(super) fn terminated(&mut self, pod: &str) {
        self.mark_going(pod);
        let is_move = self.asks.iter().any(|ask| ask.pods.contains(pod) && !ask.to.is_empty());
        if is_move {
            self.note_move(pod);
        }
        let how = if is_move { self.kept_leave() } else { self.any_leave() };
        self.leave(pod, how);
    }

    /// A pod leaves its node to move.
    fn note_move(&mut self, pod: &str) {
        let (Some(quiet), Some(root)) = (&mut self.quiet, &self.pods[pod].root) else { return };
        quiet.moved.insert(root.clone());
    }
}
