//! Larger clusters with moves that are known to help: no more are made.

use phalanx::preempt::{
    Consolidation, MoveClaim, PreemptingPlanner, Preemption, PreemptionRequest, RunningWork,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Time};

use super::case::{GPU, NOW};
use super::simulate::carry_out;
use crate::support::budget;
use crate::support::dice::Dice;

const RACK: usize = 20;

/// Racks of nodes of 8 GPUs on which 6 or 7 are used. In one rack some nodes have one pod of 3 alone,
/// and as many nodes elsewhere have just the room for it; the gang needs as many whole nodes.
fn plant(seed: u64) -> (Cluster, PodGroup, usize) {
    let mut dice = Dice(seed);
    let nodes = 100 + dice.roll(301) as usize;
    let members = 1 + dice.roll(4) as usize;
    let rack = dice.roll((nodes / RACK) as u64) as usize;
    let first = rack * RACK + dice.roll((RACK - members) as u64) as usize;
    let other = (rack + 1) % (nodes / RACK) * RACK;
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for number in 0..nodes {
        let name = format!("n{number}");
        let node = Node::new(&name).capacity(GPU, 8).label("rack", format!("k{}", number / RACK));
        cluster.add_node(node).unwrap();
        let sizes: Vec<i64> = if (first..first + members).contains(&number) {
            vec![3]
        } else if (other..other + members).contains(&number) {
            vec![2, 3]
        } else {
            let sizes = [[3, 3, 1], [2, 2, 2], [4, 2, 1], [2, 3, 2]];
            dice.of(&sizes).to_vec()
        };
        for (at, gpus) in sizes.into_iter().enumerate() {
            let pod = Pod::new()
                .name(format!("p{number}-{at}"))
                .request(GPU, gpus)
                .priority(dice.roll(3) as i32)
                .since(Time::from_secs(dice.roll(NOW)));
            cluster.add_pod(pod.on(&name)).unwrap();
        }
    }
    let pod = Pod::new().request(GPU, 8);
    let gang = PodGroup::gang("new", members as u32).pods(members, pod).require("rack");
    (cluster, gang, members)
}

#[test]
fn no_more_than_the_planted_moves_are_made() {
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let known = RunningWork::new();
    let mut most = 0;
    for seed in 0..budget::part(100) {
        let (cluster, gang, members) = plant(seed);
        let request = Request::new(&gang).now(Time::from_secs(NOW));
        let request = PreemptionRequest::new(request).consolidation(Consolidation::new(4));
        let before = planner.trials();
        let answer = planner.place(&cluster, &framework, &known, request).unwrap();
        let Preemption::Preempt(preempt) = answer else { panic!("seed {seed}: {answer}") };
        most = most.max(planner.trials() - before);
        assert_eq!(preempt.moves.len(), members, "seed {seed}");
        assert!(preempt.move_claim <= Some(MoveClaim::Fewest), "seed {seed}");
        assert_eq!(preempt.move_cost.stopped.pods, 0, "seed {seed}");
        carry_out(&cluster, &known, &framework, &preempt)
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
    println!("at most {most} layouts were asked for");
    assert!(most < 400, "{most}");
}
