//! Checks on the scheduler after every event.

use std::collections::BTreeSet;
use std::time::Duration;

use phalanx::queue::{Gate, GroupState, HeadOfLine, PriorityThenTime, SavedScheduler};
use phalanx::{Pod, Scheduler};

use super::*;
use crate::lifecycle::world::{counts, placeable};

impl World {
    pub(super) fn check(&mut self) {
        let scheduler = &self.scheduler;
        let cluster = scheduler.cluster();
        // Capacity; that of devices is the cluster's own promise.
        let gpus = cluster.resource("gpu").unwrap();
        for node in cluster.nodes() {
            let held: i64 = node
                .pods()
                .filter(|pod| pod.namespace() == Scheduler::RESERVED_NAMESPACE)
                .map(|pod| pod.shape().requests.of("gpu"))
                .sum();
            assert!(node.free(gpus) + held >= 0, "{} holds too much", node.name());
        }
        // Nobody lost, nobody twice.
        let known: BTreeSet<&str> = scheduler.groups().collect();
        assert!(known.iter().copied().eq(self.groups.keys().map(String::as_str)));
        let queue: Vec<&str> = scheduler.queue("").collect();
        let queued: BTreeSet<&str> = queue.iter().copied().collect();
        assert_eq!(queue.len(), queued.len());
        let strict = scheduler.settings().rule("") == HeadOfLine::StrictFifo;
        for (root, group) in &self.groups {
            let state = scheduler.state(root).unwrap();
            let waits = matches!(
                state,
                GroupState::Queued
                    | GroupState::BackingOff { .. }
                    | GroupState::Unschedulable { .. }
            );
            assert_eq!(waits, queued.contains(root.as_str()), "{root}: {state:?}");
            match &state {
                GroupState::Queued => {
                    assert!(
                        strict && queue.first() != Some(&root.as_str()),
                        "{root} is left queued"
                    );
                }
                GroupState::BackingOff { until } => {
                    assert!(*until > self.now && until.since(self.now) <= Duration::from_secs(10));
                }
                GroupState::Unschedulable { retry, .. } => {
                    assert!(retry.is_none_or(|retry| retry > self.now));
                    // What was seen to fit nowhere fits nowhere while nothing has changed.
                    let looked = (cluster.generation(), group.all_pods().len());
                    let fresh = self.tried.get(root).is_none_or(|tried| *tried != looked);
                    self.tried.insert(root.clone(), looked);
                    let trial = if fresh { scheduler.trial(root, self.now) } else { Ok(None) };
                    assert!(
                        !placeable(&trial),
                        "{root} sleeps, and could be placed: {:?} {trial:?}",
                        scheduler.status(root)
                    );
                }
                GroupState::Failed { reason } => panic!("{root} failed: {reason}"),
                GroupState::Undoing => {
                    let open = group
                        .all_pods()
                        .iter()
                        .any(|pod| self.unbinding.contains(&format!("default/{}", pod.name)));
                    assert!(open, "{root} is undoing nothing");
                }
                GroupState::Binding { since } => {
                    assert!(self.now.since(*since) <= scheduler.settings().bind_timeout);
                    let open = self.binding.iter().any(|(pod, _)| {
                        group.all_pods().iter().any(|p| format!("default/{}", p.name) == *pod)
                            || !group.gang_group.is_empty()
                    });
                    let partner =
                        self.groups.values().any(|g| g.gang_group.iter().any(|name| name == root));
                    assert!(open || partner, "{root} is binding nothing");
                }
                GroupState::Gated(Gate::Members { have, need, .. }) => assert!(have < need),
                _ => {}
            }
            // The minimum, by the model's own count.
            let status = scheduler.status(root).unwrap();
            let runs = |pod: &Pod| {
                let full = format!("default/{}", pod.name);
                let on = cluster.pod("default", &pod.name).and_then(phalanx::state::PodView::node);
                self.finished.contains(&full) || self.bound.contains(&full) && on.is_some()
            };
            let taking_off = group.all_pods().iter().any(|pod| {
                let name = format!("default/{}", pod.name);
                self.unbinding.contains(&name) || self.preemption.is_asked(&name)
            });
            let taking_off = taking_off || state == GroupState::Gated(Gate::Evicting);
            if status.started && !taking_off {
                let below = status.below_minimum_since;
                assert_eq!(counts(group, &runs), below.is_none(), "{root}: {status:?}");
                if let Some(since) = below {
                    assert!(self.now.since(since) < scheduler.settings().stale_after);
                }
            }
        }
        // Reservations are bounded, and held by those who wait.
        let reservations = scheduler.reservations();
        let at_most =
            scheduler.settings().discipline.reservation().map_or(0, |policy| policy.at_most);
        let moved = &self.preemption.moved.roots;
        let moves = reservations.iter().filter(|own| moved.contains(own.group.as_str())).count();
        let claims = self.preemption.claims.len() + moves;
        assert!(reservations.len() <= at_most + claims, "{reservations:?} {:?}", self.preemption);
        for reservation in &reservations {
            assert!(reservation.until > self.now && queued.contains(reservation.group.as_str()));
            assert!(reservation.pods.values().sum::<usize>() <= reservation.wanted);
        }
    }

    pub(super) fn save(&mut self) {
        let text = serde_json::to_string(&self.scheduler.save()).unwrap();
        if let Some(twin) = self.twin.take() {
            assert_eq!(serde_json::to_string(&twin.save()).unwrap(), text);
        }
        let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
        let twin = Scheduler::restore(saved, self.framework.clone(), PriorityThenTime);
        assert_eq!(serde_json::to_string(&twin.save()).unwrap(), text);
        self.twin = Some(twin);
    }
}
