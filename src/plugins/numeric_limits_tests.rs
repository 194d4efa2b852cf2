//! Tests: blocks and nodes are judged alike at the limits of exact floats, and beyond.

use std::sync::Arc;
use std::vec::Vec;

use super::*;
use crate::base::simd::at_each_level;
use crate::framework::{
    Block, Context, FilterPlugin, FilterPreparation, ScorePlugin, ScorePreparation,
};
use crate::model::{Node, Pod};
use crate::state::Cluster;

const RESOURCES: [&str; 4] = ["x/x", "memory", "ephemeral-storage", "y/y"];

/// Amounts about powers of two, none above the last.
fn amounts(most: i64) -> Vec<i64> {
    let mut amounts: Vec<i64> = [0, 1, 2, 3, 99, 100, 101].into();
    for power in [44, 45, 46, 50, 51, 52, 53, 59, 60, 62] {
        let at = 1_i64 << power;
        amounts.extend([at / 3, at - 1, at, at + 1]);
    }
    amounts.extend([i64::MAX / 100, i64::MAX / 100 + 1, i64::MAX - 1]);
    amounts.retain(|amount| *amount <= most);
    amounts.push(most);
    amounts
}

fn cluster(most: i64) -> Cluster {
    let amounts = amounts(most);
    let pick = |seed: usize| amounts[seed % amounts.len()];
    let mut cluster = Cluster::new();
    for at in 0..300 {
        let mut node = Node::new(std::format!("n{at}"));
        for (place, resource) in RESOURCES.into_iter().enumerate() {
            if (at + place) % 11 > 0 {
                node = node.capacity(resource, pick(at * 7 + place * 5 + at / 40));
            }
        }
        cluster.add_node(node).unwrap();
        let mut pod = Pod::new().name(std::format!("p{at}")).on(std::format!("n{at}"));
        for (place, resource) in RESOURCES.into_iter().enumerate() {
            pod = pod.request(resource, pick(at * 3 + place * 11));
        }
        if at % 3 > 0 {
            // A sum may be too large for a pod; then the node stays empty.
            let _ = cluster.add_pod(pod);
        }
    }
    for gap in [0, 17, 255, 256] {
        cluster.remove_node(&std::format!("n{gap}")).unwrap();
    }
    cluster
}

fn check_score(plugin: &Arc<impl ScorePlugin>, cx: &Context<'_>, cluster: &Cluster) -> usize {
    let ScorePreparation::Ready(score) = Arc::clone(plugin).prepare(cx) else { return 0 };
    let mut checked = 0;
    for block in Block::all(cluster) {
        let mut out = std::vec![-7; block.len()];
        score.score_block(cx, &block, &mut out);
        for (at, out) in out.iter().enumerate() {
            let Some(node) = block.node(at) else { continue };
            assert_eq!(*out, score.score(cx, node), "{} {}", plugin.name(), node.name());
            checked += 1;
        }
    }
    checked
}

fn check_fit(cx: &Context<'_>, cluster: &Cluster) {
    let FilterPreparation::Ready(fit) = Arc::new(Fit).prepare(cx) else { panic!() };
    let capacity = fit.capacity().unwrap();
    for block in Block::all(cluster) {
        let mut verdicts = std::vec![0; block.len()];
        fit.filter_block(cx, &block, &mut verdicts);
        let mut room = std::vec![i64::MAX; block.len()];
        capacity.of_block(cx, &block, &mut room);
        for (at, verdict) in verdicts.iter().enumerate() {
            let Some(node) = block.node(at) else { continue };
            assert_eq!(*verdict >= 0, fit.filter(cx, node).passes(), "{}", node.name());
            assert_eq!(room[at], capacity.of_node(cx, node), "{}", node.name());
        }
    }
}

#[test]
fn blocks_and_nodes_agree_at_the_ends_of_floats() {
    at_each_level(check_ends_of_floats);
}

fn check_ends_of_floats() {
    let ends = [44, 45, 46, 50, 51, 52, 53, 60, 61].map(|power| 1_i64 << power);
    let weights = [("x/x", 1), ("memory", u32::MAX), ("ephemeral-storage", 3), ("y/y", 0)];
    let curve = Utilization::new([(0, 0), (40, 10), (70, 3), (100, 9)]).unwrap();
    let allocations = [
        LeastAllocated::of(weights),
        MostAllocated::of(weights),
        RequestedToCapacityRatio::of(curve, weights),
        LeastAllocated::of([("y/y", 0)]),
    ]
    .map(Arc::new);
    let mut checked = 0;
    for most in ends.into_iter().flat_map(|end| [end - 1, end]).chain([i64::MAX]) {
        let cluster = cluster(most);
        let amounts = amounts(most);
        for at in 0..amounts.len() {
            let mut pod = Pod::new();
            for (place, resource) in RESOURCES.into_iter().enumerate() {
                if place != at % 5 {
                    let amount = amounts[(at + place * 9) % amounts.len()];
                    pod = pod.request(resource, if at % 2 == 0 { amount } else { amount % 1_000 });
                }
            }
            let cx = Context::new(&cluster, pod.shape());
            for score in &allocations {
                checked += check_score(score, &cx, &cluster);
            }
            for count in 1..=4 {
                let balanced = Arc::new(BalancedAllocation::of(RESOURCES.into_iter().take(count)));
                checked += check_score(&balanced, &cx, &cluster);
            }
            check_fit(&cx, &cluster);
        }
    }
    assert!(checked > 100_000, "{checked}");
}
