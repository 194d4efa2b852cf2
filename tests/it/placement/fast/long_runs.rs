//! Runs of identical pods, as long as the cluster is large, and gangs of very many shapes.

use phalanx::plugins::{BalancedAllocation, Fit, LeastAllocated, MostAllocated};
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup};

use super::random::*;
use crate::support::budget;
use crate::support::dice::Dice;

/// Gangs of identical pods, one after another, on clusters that change and have gaps.
fn runs(seed: u64, nodes: u64, pods: u64, steps: u64) -> usize {
    let mut dice = Dice(seed);
    let mut cluster = Cluster::new();
    // Few kinds of nodes, so that many rows are alike, or many kinds.
    let alike = dice.roll(2) == 0;
    for name in 0..nodes {
        let mut kind = Dice(if alike { seed + name % 2 } else { seed + name });
        cluster.add_node(node(&mut kind, name)).unwrap();
    }
    for name in 0..nodes / 9 {
        cluster.remove_node(&format!("n{}", name * 7)).unwrap();
    }
    let framework = scored(&mut dice).build().unwrap();
    let mut planner = Planner::new();
    let mut placed = 0;
    for step in 0..steps {
        let members = 1 + dice.roll(pods) as usize;
        let minimum = if dice.roll(4) == 0 { members } else { 1 };
        let name = format!("s{seed}-{step}");
        let group = PodGroup::gang(&name, minimum as u32).pods(members, pod(&mut dice));
        let outcome = held(&mut planner, &cluster, &framework, &group);
        match dice.roll(4) {
            0 => {}
            1 => {
                placed += commit(&mut cluster, &framework, &outcome);
                remove_pods(&mut cluster, 0, 3);
            }
            _ => placed += commit(&mut cluster, &framework, &outcome),
        }
        if dice.roll(5) == 0 {
            let name = format!("n{}", dice.roll(nodes));
            if cluster.node(&name).is_some() {
                cluster.remove_node(&name).unwrap();
            } else {
                cluster.add_node(node(&mut dice, name[1..].parse().unwrap())).unwrap();
            }
        }
    }
    placed
}

#[test]
fn runs_of_identical_pods() {
    let small: usize = (0..budget::part(60)).map(|seed| runs(seed, 1 + seed * 7 % 90, 60, 8)).sum();
    let large: usize =
        (100..100 + budget::of(2, 8)).map(|seed| runs(seed, 40 * (seed - 90), 220, 5)).sum();
    assert!(
        small > budget::part(2_000) as usize && large > budget::of(250, 1_000) as usize,
        "{small} {large}"
    );
}

#[test]
fn runs_over_many_blocks() {
    let placed: usize = (0..2).map(|seed| runs(1_000 + seed, 1_200, 2_000, 2)).sum();
    assert!(placed > 500, "{placed}");
}

/// Rows that one run has looked ahead to are nothing to the next, which takes of other resources.
#[test]
fn a_run_leaves_nothing_to_the_next() {
    let mut cluster = Cluster::new();
    for name in 0..300 {
        let node = Node::new(format!("n{name:03}")).capacity("cpu", 32).capacity("memory", "64Gi");
        cluster.add_node(node.capacity("ephemeral-storage", "100Gi")).unwrap();
    }
    let resources = [("cpu", 1), ("ephemeral-storage", 5)];
    let framework = Framework::builder()
        .filter(Fit)
        .score(1, LeastAllocated::of(resources))
        .score(1, BalancedAllocation::default())
        .build()
        .unwrap();
    let mut planner = Planner::new();
    let heavy = Pod::new().request("memory", "9Gi").request("ephemeral-storage", "30Gi");
    let heavy = PodGroup::gang("heavy", 1).pods(700, heavy.request("cpu", 1));
    let light = PodGroup::gang("light", 1).pods(700, Pod::new().request("cpu", 1));
    for group in [&heavy, &light, &heavy] {
        assert!(held(&mut planner, &cluster, &framework, group).is_placed());
    }
    // Another cluster numbers its resources otherwise.
    let mut other = Cluster::new();
    for name in 0..90 {
        let node = Node::new(format!("m{name:03}")).capacity("memory", "64Gi").capacity("cpu", 9);
        other.add_node(node).unwrap();
    }
    assert!(held(&mut planner, &other, &framework, &light).is_placed());
}

/// More shapes in one gang than a planner keeps.
#[test]
fn a_gang_of_very_many_shapes() {
    let mut cluster = Cluster::new();
    for name in 0..3_i64 {
        cluster.add_node(Node::new(format!("n{name}")).capacity("memory", 900_000_000)).unwrap();
    }
    let resources = [("memory", 1)];
    let framework =
        Framework::builder().filter(Fit).score(1, MostAllocated::of(resources)).build().unwrap();
    let mut group = PodGroup::gang("many", 1);
    for size in 0..4_500_i64 {
        group = group.pods(1, Pod::new().request("memory", 1 + (size * 7_919) % 700_001));
    }
    for mut planner in [Planner::new(), Planner::new().threads(2)] {
        assert!(held(&mut planner, &cluster, &framework, &group).is_placed());
        assert!(held(&mut planner, &cluster, &framework, &group).is_placed());
    }
}

/// Gangs about as large as the cluster, asked for again and again on one that changes.
#[test]
fn gangs_as_large_as_the_cluster() {
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..budget::part(60) {
        let mut dice = Dice(7_000 + seed);
        let nodes = 1 + dice.roll(12);
        let mut cluster = Cluster::new();
        for name in 0..nodes {
            cluster.add_node(node(&mut dice, name)).unwrap();
        }
        let framework = scored(&mut dice).build().unwrap();
        let mut planner = Planner::new();
        let pods = [pod(&mut dice), pod(&mut dice)];
        for step in 0..24 {
            let members = (nodes * 2 + dice.roll(nodes * 8)) as usize;
            let name = format!("s{seed}-{step}");
            let minimum = if dice.roll(3) == 0 { members / 2 } else { members } as u32;
            let group =
                PodGroup::gang(&name, minimum).pods(members, pods[dice.roll(2) as usize].clone());
            let outcome = held(&mut planner, &cluster, &framework, &group);
            if outcome.is_placed() {
                placed += 1;
            } else {
                refused += 1;
            }
            match dice.roll(6) {
                0 => drop(commit(&mut cluster, &framework, &outcome)),
                1 => remove_pods(&mut cluster, 0, 2),
                _ => {}
            }
        }
    }
    assert!(placed > budget::part(200) && refused > budget::part(200), "{placed} {refused}");
}
