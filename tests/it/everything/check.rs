//! Checks after every event.

use std::collections::BTreeSet;

use phalanx::PodGroup;

use super::drive::Waits;
use super::setup::STALE_AFTER;
use super::world::World;
use crate::lifecycle::world::leaves;

impl World {
    pub(super) fn check(&mut self) {
        self.follow_nodes();
        self.follow_gangs();
        self.check_deadlines();
        for (owner, process) in self.processes.iter().enumerate() {
            let own = self.gangs.iter().filter(|(_, gang)| gang.owner == owner);
            let own: Vec<String> = own.map(|(name, _)| name.clone()).collect();
            let mut known = process.groups();
            known.sort();
            assert_eq!(known, own, "groups are lost");
            for (group, until) in process.reservations() {
                assert!(until > self.now, "{group} holds room beyond {until:?}");
            }
        }
    }

    /// Bound amounts on a node never grow beyond its capacity.
    fn follow_nodes(&mut self) {
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            let used = self.used(&name, "gpu", &BTreeSet::new());
            let state = self.nodes.get_mut(&name).unwrap();
            if state.there {
                assert!(used <= state.level, "{name} holds {used} of {}", state.level);
            }
            state.level = state.gpus.max(state.level.min(used));
        }
    }

    /// Whether each gang that has started has its minimum, and since when it has not.
    pub(super) fn follow_gangs(&mut self) {
        let names: Vec<String> = self.gangs.keys().cloned().collect();
        for name in names {
            let gang = &self.gangs[&name];
            let is = |pod: &str| {
                let state = &self.pods[pod];
                state.finished || self.runs(state) && !self.is_leaving(pod)
            };
            let has_minimum = self.counts(&name, &gang.tree, is);
            // While a plan that makes it whole is carried out, it is not below.
            let may_be_whole =
                self.counts(&name, &gang.tree, |pod| is(pod) || self.is_in_flight(pod));
            let members: Vec<(&String, &super::world::PodState)> = self.members(&name).collect();
            let is_bound = members.iter().any(|(_, pod)| pod.node.is_some());
            let is_done = members.iter().any(|(_, pod)| pod.finished);
            let in_flight = self.unsettled.contains(&name)
                || self.flights.iter().any(|flight| flight.groups.contains(&name));
            let bound = || members.iter().filter(|(_, pod)| pod.node.is_some());
            let all_asked = bound().all(|(pod, _)| self.is_asked(pod) || self.is_leaving(pod));
            // Its scheduler does not know of the decisions of others.
            let own_asks = || self.asks.iter().filter(|ask| ask.owner == gang.owner);
            // A plan that is undone takes its pods back, not the group.
            let is_own = |pod: &String| own_asks().any(|ask| ask.pods.contains(pod));
            let all_own = (gang.goes || bound().any(|(pod, _)| is_own(pod)))
                && bound().all(|(pod, own)| is_own(pod) || self.is_leaving(pod) || !self.runs(own));
            let waits = self.processes[gang.owner].waits(&name);
            let now = self.now;
            let gang = self.gangs.get_mut(&name).unwrap();
            let goes = gang.evicting || gang.goes;
            if is_bound {
                gang.goes = all_own || waits == Waits::Evicting;
            }
            if !is_bound && !in_flight && (!is_done || goes) {
                (gang.started, gang.evicting, gang.raised, gang.below) =
                    (false, false, false, None);
                gang.may_have_started = is_done;
            } else if has_minimum && is_bound && !in_flight {
                (gang.started, gang.raised, gang.below) = (true, false, None);
                gang.may_have_started = false;
            } else if gang.evicting
                || gang.goes
                || is_bound && all_asked
                || has_minimum
                || gang.started && may_be_whole
            {
                gang.below = None;
            } else if gang.started && !gang.raised {
                gang.below.get_or_insert(now);
            }
        }
    }

    /// A gang below its minimum is whole again in time, or something of it is to go.
    fn check_deadlines(&self) {
        for (name, gang) in &self.gangs {
            let Some(since) = gang.below else { continue };
            let mut members = self.members(name);
            let goes = members.any(|(pod, _)| self.is_leaving(pod) || self.is_asked(pod));
            let goes = goes || self.processes[gang.owner].waits(name) == Waits::Evicting;
            assert!(
                gang.evicting || goes || self.now.since(since) < STALE_AFTER,
                "{name} is below its minimum since {since:?}: {}",
                self.processes[gang.owner].story(name)
            );
        }
    }

    /// The tree of a group with its pods that are not finished, as if none of them ran.
    pub(super) fn whole_tree(&self, name: &str) -> PodGroup {
        let mut tree = self.gangs[name].tree.clone();
        for leaf in leaves(&mut tree) {
            let members = self
                .members(name)
                .filter(|(_, pod)| !pod.finished && pod.spec.group.as_ref() == Some(&leaf.name));
            leaf.pods = members.map(|(_, pod)| pod.spec.clone()).collect();
        }
        tree
    }
}
