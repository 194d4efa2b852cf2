//! Counts and scores of domains that one planner keeps from request to request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::framework::{DomainContext, DomainScore};
use phalanx::model::CPU;
use phalanx::plugins::{DomainAllocation, Fit, LeastFree, PodGroupPodsCount};
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Request, Strategy};

use super::random::*;
use crate::support::budget;
use crate::support::dice::Dice;

/// The free CPU of a domain; counts how often it is asked.
struct Asked {
    times: AtomicUsize,
    beyond: bool,
}

impl DomainScore for Asked {
    fn name(&self) -> &str {
        "Asked"
    }

    fn score(&self, cx: &DomainContext<'_>) -> i64 {
        self.times.fetch_add(1, Ordering::Relaxed);
        cx.cluster.resource(CPU).map_or(0, |cpu| cx.totals(cpu).free / 1_000)
    }

    fn reads_places(&self) -> bool {
        false
    }

    fn reads_beyond(&self) -> bool {
        self.beyond
    }
}

fn racks(racks: usize, each: usize) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for at in 0..racks * each {
        let node = Node::new(format!("n{at:03}")).capacity("cpu", 4).label("tilt", "0");
        cluster.add_node(node.label("rack", format!("r{:02}", at / each))).unwrap();
    }
    cluster
}

#[test]
fn only_domains_that_changed_are_scored_again() {
    for beyond in [false, true] {
        let asked = Arc::new(Asked { times: AtomicUsize::new(0), beyond });
        let framework = Framework::builder().filter(Fit).domain_score(1, Arc::clone(&asked));
        let framework = framework.build().unwrap();
        let mut cluster = racks(20, 3);
        let mut planner = Planner::new();
        let pod = Pod::new().request("cpu", 1);
        let group = |name: &str, pods| PodGroup::of(name, pods, pod.clone()).require("rack");
        let mut times = |cluster: &Cluster, group: &PodGroup| {
            let before = asked.times.load(Ordering::Relaxed);
            let request = Request::new(group).strategy(Strategy::Kubernetes);
            let outcome = planner.place(cluster, &framework, request).unwrap();
            (outcome, asked.times.load(Ordering::Relaxed) - before)
        };
        let (outcome, first) = times(&cluster, &group("a", 5));
        assert_eq!(first, 20);
        let (_, again) = times(&cluster, &group("b", 5));
        assert_eq!(again, if beyond { 20 } else { 0 });
        // The rack that got the pods, and one with a node that shrank.
        cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
        let shrunk = Node::new("n030").capacity("cpu", 3).label("rack", "r10");
        cluster.update_node(&shrunk).unwrap();
        let (_, changed) = times(&cluster, &group("c", 5));
        assert_eq!(changed, if beyond { 20 } else { 2 });
        // Others are counted for another number of pods, and what was known before stays.
        assert_eq!(times(&cluster, &group("d", 3)).1, 20);
        assert_eq!(times(&cluster, &group("e", 5)).1, if beyond { 20 } else { 0 });
        // A node that comes makes the domains anew.
        let new = Node::new("new").capacity("cpu", 4).label("rack", "r03");
        cluster.add_node(new).unwrap();
        assert_eq!(times(&cluster, &group("f", 5)).1, 20);
    }
}

/// Scores that read the domain alone, and now and then one that reads beyond it.
fn framework(dice: &mut Dice) -> Framework {
    let mut builder = scored(dice);
    if dice.one_in(4) {
        let asked = Asked { times: AtomicUsize::new(0), beyond: dice.one_in(2) };
        builder = builder.domain_score(1, asked);
    }
    if dice.one_in(2) {
        builder = builder.domain_score(2, PodGroupPodsCount);
    }
    let resources = [("cpu", 1), ("memory", 1), ("gpu", 2)];
    match dice.roll(4) {
        0 => builder = builder.domain_score(1, DomainAllocation::of(resources).reversed()),
        1 => builder = builder.domain_score(3, LeastFree::of("gpu")),
        _ => builder = builder.domain_score(1, DomainAllocation::of(resources)),
    }
    builder.build().unwrap()
}

/// Few shapes and sizes, so that what is kept is asked for; between two requests nodes change, move,
/// come and go, pods end, members run, and transactions are taken back.
#[test]
fn what_is_kept_of_domains_is_what_would_be_counted() {
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..budget::part(400) {
        let mut dice = Dice(77_000 + seed);
        let count = 3 + dice.roll(12);
        let mut cluster = topology_cluster(&mut dice, count, 3);
        let framework = framework(&mut dice);
        let shapes = [pod(&mut dice), pod(&mut dice)];
        let (mut planner, mut other) = (Planner::new(), cluster.clone());
        for step in 0..20 {
            let leaf = |dice: &mut Dice, name: &str| {
                let pods = dice.of(&[2, 2, 5]);
                let least = 1 + dice.roll(pods) as u32;
                let pod = shapes[dice.roll(2) as usize].clone();
                let group = PodGroup::gang(name, least).pods(pods as usize, pod);
                match dice.roll(6) {
                    0 => group.prefer("rack").require("zone"),
                    1 => group.prefer("rack"),
                    _ => group.require("rack"),
                }
            };
            let name = format!("s{seed}-{step}");
            let mut group = leaf(&mut dice, &name);
            if dice.one_in(5) {
                group = PodGroup::gang(&name, 1);
                for child in 0..3 {
                    group = group.group(leaf(&mut dice, &format!("{name}-{child}")));
                }
            }
            if dice.one_in(8) {
                core::mem::swap(&mut cluster, &mut other);
            }
            let outcome = held(&mut planner, &cluster, &framework, &group);
            refused += usize::from(!outcome.is_placed());
            match dice.roll(6) {
                0 => {}
                1 => {
                    let mut txn = cluster.txn();
                    let start = txn.checkpoint();
                    let nodes: Vec<_> = txn.nodes().map(|node| node.id()).collect();
                    for node in nodes {
                        if dice.one_in(4) {
                            let pod = shapes[0].clone().name(format!("txn-{step}"));
                            let name = format!("{}-{}", pod.name, txn.pod_count());
                            txn.place(&pod.name(name), node).unwrap();
                        }
                    }
                    let _ = held(&mut planner, &txn, &framework, &group);
                    txn.rollback(start).unwrap();
                    let _ = held(&mut planner, &txn, &framework, &group);
                }
                _ => placed += commit(&mut cluster, &framework, &outcome),
            }
            if outcome.is_placed() && group.groups.is_empty() && dice.one_in(4) {
                for (index, pod) in group.pods.iter_mut().enumerate() {
                    pod.name = format!("{name}-more-{index}");
                }
                let _ = held(&mut planner, &cluster, &framework, &group);
            }
            let name = dice.roll(count * 3);
            match (dice.roll(8), cluster.node(&format!("n{name}")).map(|node| node.to_node())) {
                (0, Some(old)) => cluster.update_node(&old.capacity("cpu", 2)).unwrap(),
                (1, Some(old)) => {
                    let rack = format!("r{}", dice.roll(count));
                    cluster.update_node(&old.label("rack", rack)).unwrap();
                }
                (2, Some(old)) => cluster.remove_node(&old.name).unwrap(),
                (3, None) => {
                    let node = node(&mut dice, name).label("rack", "r1").label("zone", "z1");
                    cluster.add_node(node).unwrap();
                }
                (4, _) => remove_pods(&mut cluster, 0, 3),
                _ => {}
            }
        }
    }
    assert!(
        placed > budget::part(4_000) as usize && refused > budget::part(240) as usize,
        "{placed} placed, {refused} refused"
    );
}
