//! Random nodes, pods and scores, and answers held to the plain loop.

use phalanx::framework::{FrameworkBuilder, Reach, filter_fn};
use phalanx::plugins::{BalancedAllocation, Fit, LeastAllocated, MostAllocated};
use phalanx::{Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup};

use crate::support::dice::Dice;

/// Places a group by a planner, and holds the answer to that of the plain loop.
pub(super) fn held(
    planner: &mut Planner,
    cluster: &Cluster,
    framework: &Framework,
    group: &PodGroup,
) -> Outcome {
    crate::support::held::held(planner, cluster, framework, group).unwrap()
}

pub(super) fn commit(cluster: &mut Cluster, framework: &Framework, outcome: &Outcome) -> usize {
    let Some(plan) = outcome.plan() else { return 0 };
    cluster.commit(framework, plan).unwrap();
    plan.len()
}

/// Removes every so manieth pod, beginning with one.
pub(super) fn remove_pods(cluster: &mut Cluster, first: usize, every: usize) {
    let names: Vec<String> = cluster.pods().map(|pod| pod.name().to_string()).collect();
    for name in names.iter().skip(first).step_by(every) {
        cluster.remove_pod("default", name).unwrap();
    }
}

pub(super) fn node(dice: &mut Dice, name: u64) -> Node {
    let mut node = Node::new(format!("n{name}"))
        .capacity("cpu", 4 * dice.roll(5) as i64)
        .capacity("memory", (dice.roll(6) as i64) << 33)
        .capacity("ephemeral-storage", (dice.roll(4) as i64) << 36)
        .label("tilt", dice.roll(4).to_string());
    if dice.roll(3) > 0 {
        node = node.capacity("gpu", 4 * dice.roll(3) as i64);
    }
    if dice.roll(5) == 0 { node.capacity("pods", dice.roll(9) as i64) } else { node }
}

pub(super) fn pod(dice: &mut Dice) -> Pod {
    let mut pod = Pod::new();
    if dice.roll(4) > 0 {
        pod = pod.request("cpu", format!("{}m", 250 * dice.roll(6)).as_str());
    }
    if dice.roll(2) == 0 {
        pod = pod.request("memory", (1 + dice.roll(4) as i64) << 30);
    }
    if dice.roll(3) == 0 {
        pod = pod.request("ephemeral-storage", (1 + dice.roll(4) as i64) << 33);
    }
    if dice.roll(3) == 0 {
        pod = pod.request("gpu", 1 + dice.roll(2) as i64);
    }
    pod
}

pub(super) fn scored(dice: &mut Dice) -> FrameworkBuilder {
    let resources = [("cpu", 1), ("memory", 2), ("gpu", 3), ("ephemeral-storage", 1)];
    let mut builder = Framework::builder().filter(Fit);
    if dice.roll(3) == 0 {
        builder = builder
            .filter(filter_fn("even", Reach::Static, |_, node| !node.has_label("tilt", "1")));
    }
    builder = match dice.roll(3) {
        0 => builder.score(1, LeastAllocated::of(resources)),
        1 => builder.score(3, MostAllocated::of(resources)),
        _ => builder,
    };
    match dice.roll(3) {
        0 => builder.score(1, BalancedAllocation::default()),
        1 => builder.score(2, BalancedAllocation::of(["cpu", "memory", "gpu"])),
        _ => builder,
    }
}

pub(super) fn topology_cluster(dice: &mut Dice, racks: u64, each: u64) -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for name in 0..racks * each {
        let rack = dice.roll(racks);
        let node = node(dice, name).label("zone", format!("z{}", rack % 3));
        let node = if dice.roll(15) > 0 { node.label("rack", format!("r{rack}")) } else { node };
        cluster.add_node(node).unwrap();
    }
    cluster
}
