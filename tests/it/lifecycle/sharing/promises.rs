//! Checks on the store, and on every scheduler that has seen all of it.

use std::collections::BTreeSet;

use phalanx::queue::{Gate, GroupState};

use super::*;
use crate::lifecycle::world::{counts, placeable};

impl World {
    pub(super) fn check_store(&self) {
        let cluster = &self.store.cluster;
        let gpus = cluster.resource("gpu").unwrap();
        for node in cluster.nodes() {
            assert!(node.free(gpus) >= 0, "{} holds too much", node.name());
        }
        for pod in cluster.pods() {
            let name = pod.name().to_string();
            assert!(self.store.members.contains(&name) || self.foreign.contains(&name), "{name}");
        }
    }

    /// Lets everybody hear of everything and everything be decided, without time passing.
    pub(super) fn settle(&mut self) {
        self.begin_quiet();
        for round in 0.. {
            assert!(round < if self.preempts { 2_000 } else { 400 }, "they never agree");
            for process in 0..self.processes.len() {
                self.hear(process, usize::MAX);
                self.decide(process);
            }
            if self.proposals.is_empty() {
                let read = |process: &Process| process.read == self.store.log.len();
                if self.processes.iter().all(read) && !self.evict_quietly() {
                    break;
                }
                continue;
            }
            self.commit(0);
        }
        self.end_quiet();
    }

    pub(super) fn check_all(&self) {
        for (index, process) in self.processes.iter().enumerate() {
            let scheduler = &process.scheduler;
            let known: Vec<&str> = scheduler.groups().collect();
            let own = self.groups.iter().filter(|(_, (owner, _))| *owner == index);
            assert!(known.iter().copied().eq(own.map(|(name, _)| name.as_str())));
            let mut others = BTreeSet::new();
            for pod in scheduler.cluster().pods() {
                if pod.namespace() == "default" {
                    others.insert(pod.name().to_string());
                }
            }
            for pod in self.store.cluster.pods() {
                let seen = scheduler.cluster().pod("default", pod.name()).unwrap();
                let on = |pod: phalanx::state::PodView<'_>| {
                    pod.node().map(|node| node.name().to_string())
                };
                assert_eq!(on(seen), on(pod));
                assert_eq!(seen.device_indexes(), pod.device_indexes());
                others.remove(pod.name());
            }
            for (name, (_, group)) in self.groups.iter().filter(|(_, (owner, _))| *owner == index) {
                let status = scheduler.status(name).unwrap();
                match &status.state {
                    GroupState::Permitting { .. } => {
                        for pod in group.all_pods() {
                            others.remove(&pod.name);
                        }
                    }
                    GroupState::Running => {
                        let bound = counts(group, &|pod| self.store.runs(pod));
                        assert!(bound, "{name} runs below its minimum");
                    }
                    GroupState::Unschedulable { .. } => {
                        let trial = scheduler.trial(name, self.now);
                        assert!(
                            !placeable(&trial),
                            "{name} sleeps, and could be placed: {trial:?}"
                        );
                    }
                    state @ (GroupState::Binding { .. }
                    | GroupState::Undoing
                    | GroupState::Failed { .. }) => panic!("{name} is left {state:?}"),
                    _ => {}
                }
                if status.started && status.state != GroupState::Gated(Gate::Evicting) {
                    let bound = counts(group, &|pod| self.store.runs(pod));
                    let below = status.below_minimum_since;
                    assert!(bound || below.is_some(), "{name}: {status:?}");
                }
            }
            assert!(others.is_empty(), "{others:?} are in nobody's truth");
        }
    }
}
