//! The same answers whatever the machine's vectors.

use phalanx::plugins::{
    BalancedAllocation, Fit, LeastAllocated, RequestedToCapacityRatio, Utilization,
};
use phalanx::reference::plugin_calls;
use phalanx::{Cluster, Event, Framework, Node, Planner, Pod, PodGroup, Request, Strategy};

use crate::support::budget;
use crate::support::dice::Dice;
use crate::support::levels::held_at_each_level;

const GPU: &str = "nvidia.com/gpu";

/// One amount in so many is too large for floats, which a block then goes without.
fn amount(dice: &mut Dice, small: i64, large: u64) -> i64 {
    if dice.one_in(large) { 1 << (44 + dice.roll(17)) } else { small * dice.roll(40) as i64 }
}

/// Nodes of which few are alike, and some are gone.
fn cluster(dice: &mut Dice, large: u64) -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for at in 0..900 {
        let (rack, disk) = (dice.roll(12), amount(dice, 1 << 33, large));
        let node = Node::new(format!("n{at}"))
            .capacity("cpu", 4 * dice.roll(17) as i64)
            .capacity("memory", amount(dice, 1 << 30, large))
            .capacity("ephemeral-storage", disk)
            .capacity(GPU, 2 * dice.roll(5) as i64)
            .label("rack", format!("r{rack}"))
            .label("zone", format!("z{}", rack % 3));
        let node =
            if dice.one_in(3) { node.capacity("pods", 1 + dice.roll(9) as i64) } else { node };
        cluster.add_node(node).unwrap();
        if !dice.one_in(3) {
            let pod = Pod::new().name(format!("p{at}")).on(format!("n{at}"));
            let pod = pod.request("cpu", dice.roll(9) as i64).request(GPU, dice.roll(4) as i64);
            cluster.add_pod(pod.request("memory", (dice.roll(30) as i64) << 30)).unwrap();
        }
    }
    for gone in [0, 100, 255, 256, 899] {
        cluster.remove_node(&format!("n{gone}")).unwrap();
    }
    cluster
}

fn pod(dice: &mut Dice, large: u64) -> Pod {
    Pod::new()
        .request("cpu", format!("{}m", 250 * dice.roll(12)).as_str())
        .request("memory", amount(dice, 1 << 28, large))
        .request("ephemeral-storage", (dice.roll(4) as i64) << 32)
        .request(GPU, dice.roll(3) as i64)
}

fn gang(dice: &mut Dice, name: u64, large: u64) -> PodGroup {
    let members = dice.of(&[1, 1, 3, 17, 120, 1_500]);
    let mut group = PodGroup::gang(format!("g{name}"), members as u32);
    if dice.one_in(4) && members < 100 {
        for _ in 0..members {
            group = group.pods(1, pod(dice, large));
        }
    } else {
        group = group.pods(members, pod(dice, large));
    }
    match dice.roll(4) {
        0 => group.require("rack"),
        1 => group.prefer("zone"),
        _ => group,
    }
}

fn frameworks() -> [Framework; 3] {
    let curve = Utilization::new([(0, 0), (60, 10), (100, 2)]).unwrap();
    let weights = [("cpu", 3), ("memory", 1), (GPU, 20), ("ephemeral-storage", 1)];
    let mixed = Framework::builder()
        .filter(Fit)
        .score(3, LeastAllocated::of(weights))
        .score(1, RequestedToCapacityRatio::of(curve, weights))
        .score(2, BalancedAllocation::of(["cpu", "memory", GPU]));
    [Framework::kubernetes(), Framework::default(), mixed.build().unwrap()]
}

/// A stream of gangs, most of them committed, before a warm planner and a fresh one: the outcomes, and
/// the evaluations.
fn stream(seed: u64, framework: &Framework) -> Vec<String> {
    let mut dice = Dice(seed);
    let large = dice.of(&[5, 400, u64::MAX]);
    let mut cluster = cluster(&mut dice, large);
    let mut warm = Planner::new();
    let mut answers = Vec::new();
    for at in 0..14 {
        let gang = gang(&mut dice, at, large);
        let strategy = dice.of(&[Strategy::Kubernetes, Strategy::Search]);
        let request = || Request::new(&gang).strategy(strategy);
        let outcome = warm.place(&cluster, framework, request());
        let fresh = Planner::new().place(&cluster, framework, request());
        answers.push(format!("{outcome:?} {fresh:?} {}", plugin_calls(&warm)));
        if let Some(plan) = outcome.as_ref().ok().and_then(|outcome| outcome.plan()) {
            answers.push(serde_json::to_string(plan).unwrap());
            cluster.commit(framework, plan).unwrap();
        }
        if dice.one_in(3) {
            let name = format!("n{}", 1 + dice.roll(90));
            let node = Node::new(name).capacity("cpu", 8).capacity("memory", 1_i64 << 36);
            cluster.apply(Event::NodeChanged { node, version: 0 }).unwrap();
        }
    }
    answers
}

#[test]
fn planners_answer_alike_at_each_level() {
    for (at, framework) in frameworks().iter().enumerate() {
        for seed in 0..budget::part(3) {
            let answers = held_at_each_level(|| stream(seed * 3 + at as u64, framework));
            assert!(answers.iter().any(|answer| answer.contains("Placed")), "{answers:?}");
        }
    }
}
