//! Decisions as they come: what the model makes of them, and what must hold of each.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::queue::Ticket;

use super::drive::{Decided, Heard, Unit};
use super::setup::{CLAIM_TIMEOUT, CPUS, STALE_AFTER, START_TIMEOUT};
use super::world::{Ask, Flight, Leaving, World};

impl World {
    /// All decisions of all schedulers.
    pub(super) fn poll(&mut self) {
        self.follow_gangs();
        self.follow_queues();
        for owner in 0..self.processes.len() {
            for round in 0.. {
                assert!(round < 400, "decisions never end");
                let now = self.now;
                let Some(decisions) = self.processes[owner].poll(now) else { break };
                self.hear(owner);
                for decided in decisions {
                    self.tell(|| format!("  {owner} decides {decided:?}"));
                    self.take(owner, decided);
                }
            }
            self.hear(owner);
            // Claims end also by time, and with their group.
            let live = self.processes[owner].reservations();
            let is_live = |other: usize, group: &String| {
                other != owner || live.iter().any(|own| own.0 == *group)
            };
            self.claims.retain(|(other, group), _| is_live(*other, group));
            self.claiming.retain(|(other, group)| is_live(*other, group));
        }
        self.unsettled.clear();
    }

    fn hear(&mut self, owner: usize) {
        let Heard { held, claiming, ended } = self.processes[owner].hear();
        for group in held {
            self.counts.held += 1;
            self.held.insert((owner, group), self.now);
        }
        self.claiming.extend(claiming.into_iter().map(|group| (owner, group)));
        self.ended.clone_from(&ended);
        // A reservation may follow in its place.
        for group in ended {
            self.claiming.remove(&(owner, group.clone()));
            self.claims.remove(&(owner, group));
        }
    }

    fn take(&mut self, owner: usize, decided: Decided) {
        match decided {
            Decided::Bind { ticket, groups, places } => self.bind(owner, ticket, &groups, places),
            Decided::Unbind { pods } => {
                self.counts.undone += 1;
                if let Some(quiet) = &mut self.quiet {
                    let roots = pods.iter().filter_map(|pod| self.pods.get(pod)?.root.clone());
                    quiet.disturbed.extend(roots);
                }
                for pod in pods {
                    self.send_off(owner, &pod);
                }
            }
            Decided::Dissolve { group, pods, since } => {
                self.counts.dissolved += 1;
                let gang = self.gangs.get_mut(&group).expect("it is known");
                assert!(!gang.evicting, "{group} is evicted twice");
                let is_due = self.now.since(since) >= STALE_AFTER;
                assert!(is_due || !gang.tree.keep_running, "{group} is evicted too soon");
                // Nothing may be left to go.
                gang.evicting = !pods.is_empty();
                if pods.is_empty() {
                    (gang.started, gang.below) = (false, None);
                }
                if let Some(quiet) = &mut self.quiet {
                    quiet.disturbed.insert(group);
                }
                for pod in pods {
                    // A pod may have gone between the decision and the poll.
                    if self.pods.get(&pod).is_some_and(|pod| pod.node.is_some()) {
                        self.send_off(owner, &pod);
                    }
                }
            }
            Decided::Evict { ticket, by, units, places } => {
                self.check_victims(owner, ticket, &by, &units);
                self.ask(owner, ticket, &by, units, &places);
            }
            Decided::Move { ticket, by, units, places } => {
                self.check_moves(owner, ticket, &by, &units);
                for unit in &units {
                    let Some(root) = self.pods.get(&unit.pods[0]).and_then(|pod| pod.root.clone())
                    else {
                        continue;
                    };
                    let known = self.places.entry(root).or_default();
                    known.0 = self.now;
                    known.1.extend(unit.pods.iter().cloned().zip(unit.to.iter().cloned()));
                }
                self.ask(owner, ticket, &by, units, &places);
            }
            Decided::Cancel { ticket, units } => {
                for unit in units {
                    let is =
                        |ask: &Ask| ask.owner == owner && ask.ticket == ticket && ask.name == unit;
                    let found = self.asks.iter().find(|ask| is(ask));
                    // The rest of one that has moved may stay where it is.
                    let key = (owner, ticket, unit.clone());
                    let Some(found) = found else {
                        assert!(self.asked.contains_key(&key), "{unit} was not asked for");
                        continue;
                    };
                    if self.now.since(found.since) >= START_TIMEOUT {
                        self.failed.extend(found.pods.clone());
                    }
                    self.asks.retain(|ask| !is(ask));
                }
            }
        }
    }

    fn send_off(&mut self, owner: usize, pod: &str) {
        // A pod may have gone between the decision and the poll.
        let Some(state) = self.pods.get(pod) else { return };
        let flights = self.flights.iter().filter(|flight| flight.owner == owner);
        let planned = flights.filter_map(|flight| flight.open.get(pod).or(flight.lost.get(pod)));
        let node = state.node.clone().or_else(|| planned.cloned().next_back());
        self.forget(pod);
        // A pod without a place is unbound already; it is only reported.
        let node = node.unwrap_or_default();
        self.leaving.push(Leaving { owner, pod: pod.to_owned(), node });
    }

    fn bind(
        &mut self,
        owner: usize,
        ticket: Ticket,
        groups: &[String],
        places: Vec<(String, String)>,
    ) {
        self.counts.bound += 1;
        let mut nodes = BTreeSet::new();
        for (pod, node) in &places {
            let state = self.pods.get(pod).unwrap_or_else(|| panic!("{pod} does not exist"));
            assert_eq!(self.owner(pod), Some(owner), "{pod} is bound by another");
            assert!(state.node.is_none() && !state.finished, "{pod} is bound twice");
            assert!(!self.is_in_flight(pod), "{pod} is planned twice");
            assert!(!self.is_leaving(pod), "{pod} is planned before it has left");
            assert!(self.nodes.get(node).is_some_and(|node| node.there), "{node} is not there");
            nodes.insert(node.clone());
        }
        let held = groups.iter().filter_map(|group| self.held.remove(&(owner, group.clone())));
        let held = held.max();
        let open: BTreeMap<String, String> = places.into_iter().collect();
        let bound = open.len();
        let lost = BTreeMap::new();
        let flight = Flight { owner, ticket, groups: groups.to_vec(), open, lost, begun: false };
        self.flights.push(flight);
        for node in &nodes {
            let state = &self.nodes[node];
            if held.is_some_and(|since| state.changed >= since) {
                continue;
            }
            assert!(!state.cordoned, "{node} is cordoned, and gets pods of {groups:?}");
            for (resource, capacity) in [("gpu", state.gpus), ("cpu", CPUS)] {
                let none = BTreeSet::new();
                let used = self.used(node, resource, &none) + self.planned(owner, node, resource);
                assert!(
                    used <= capacity || used == 0 || !self.asks_for(owner, node, resource),
                    "{node} has {capacity} of {resource} and is to hold {used}"
                );
            }
        }
        for group in groups {
            let gang = &self.gangs[group];
            assert!(!gang.evicting, "{group} is bound while it is evicted");
            let is = |pod: &str| {
                let state = &self.pods[pod];
                state.finished || state.node.is_some() || self.is_in_flight(pod)
            };
            assert!(self.counts(group, &gang.tree, is), "{group} is bound in part");
            if held.is_none_or(|since| self.quota_changed < since) {
                self.check_quota(owner, group);
            }
            self.moved.remove(group);
            if let Some((_, places)) = self.places.remove(group)
                && (places.len() > bound || !places.values().all(|node| nodes.contains(node)))
            {
                self.places_left.insert(group.clone(), self.now.after(CLAIM_TIMEOUT));
            }
            self.claiming.remove(&(owner, group.clone()));
            if self.claims.remove(&(owner, group.clone())).is_some() {
                self.counts.served += 1;
            }
        }
        if let Some(quiet) = &mut self.quiet {
            for group in groups {
                quiet.bound.insert((owner, group.clone()));
                quiet.room.push((owner, group.clone(), nodes.clone()));
            }
        }
    }

    /// Whether the last plan of a scheduler asks for a resource of a node.
    fn asks_for(&self, owner: usize, node: &str, resource: &str) -> bool {
        let Some(flight) = self.flights.last().filter(|flight| flight.owner == owner) else {
            return false;
        };
        let on = flight.open.iter().filter(|(_, to)| *to == node);
        on.map(|(pod, _)| self.pods[pod].spec.shape().requests.of(resource)).sum::<i64>() > 0
    }

    fn ask(
        &mut self,
        owner: usize,
        ticket: Ticket,
        by: &str,
        units: Vec<Unit>,
        places: &[(String, String)],
    ) {
        let nodes: BTreeSet<String> = places.iter().map(|(_, node)| node.clone()).collect();
        // The rest of a unit is asked for after the claim has ended, too.
        let claim = (owner, by.to_owned());
        if self.claiming.contains(&claim) && self.claims.insert(claim, nodes.clone()).is_none() {
            self.counts.claims += 1;
        }
        if let Some(quiet) = &mut self.quiet {
            quiet.room.push((owner, by.to_owned(), nodes));
            // A claim also ends when another scheduler takes the place of a unit that was to move.
            if let Some(pressed) = quiet.pressed.get_mut(&(owner, by.to_owned())) {
                pressed.extend(units.iter().flat_map(|unit| unit.to.iter().cloned()));
            }
            let evicted = units.iter().filter(|unit| unit.to.is_empty());
            let pods = evicted.flat_map(|unit| &unit.pods);
            quiet.disturbed.extend(pods.filter_map(|pod| self.pods[pod].root.clone()));
        }
        for unit in units {
            // A unit that is late may be asked for again.
            let now = self.now;
            let is_late = |ask: &Ask| now.since(ask.since) >= START_TIMEOUT;
            self.asks.retain(|ask| {
                let is_over = ask.has_moved(&self.pods) || ask.name == unit.name && is_late(ask);
                ask.owner != owner || !is_over
            });
            for pod in &unit.pods {
                let again =
                    self.asks.iter().find(|ask| ask.owner == owner && ask.pods.contains(pod));
                assert!(again.is_none(), "{pod} is asked for twice: {again:?}");
            }
            let place = |(at, pod): (usize, &String)| {
                let to = unit.to.get(at).map(|to| (to.clone(), self.pods[pod].gpus()));
                (pod.clone(), to)
            };
            let unit_pods = unit.pods.iter().enumerate().map(place);
            // Only its rest is asked for again.
            self.asked.entry((owner, ticket, unit.name.clone())).or_default().extend(unit_pods);
            let begun = unit.pods.iter().any(|pod| self.pods[pod].deleting);
            let to = unit.pods.iter().cloned().zip(unit.to.iter().cloned()).collect();
            self.asks.push(Ask {
                owner,
                ticket,
                by: by.to_owned(),
                name: unit.name,
                whole: unit.pods.len(),
                pods: unit.pods.into_iter().collect(),
                to,
                stops: unit.stops,
                since: now,
                begun,
            });
        }
    }
}
