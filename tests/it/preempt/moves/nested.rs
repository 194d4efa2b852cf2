//! Trees of groups, budgets, pods that terminate, and interplay: the fewest moves against all sets of
//! units and all places for them.

use std::collections::BTreeSet;

use phalanx::preempt::{
    Consolidation, LowerPriority, MoveClaim, PreemptingPlanner, Preemption, PreemptionRequest,
};
use phalanx::{Cluster, Framework, Planner, Request, Strategy, Time};

use super::simulate::carry_out;
use crate::preempt::world::{NOW, World};
use crate::support::budget;

fn request(world: &World) -> Request<'_> {
    Request::new(&world.gang).now(Time::from_secs(NOW)).strategy(Strategy::Search)
}

/// Whether pods have places somewhere beside which the gang fits.
fn has_layout(
    world: &World,
    cluster: &Cluster,
    framework: &Framework,
    pods: &[usize],
    to: &mut Vec<usize>,
    free: &mut Vec<i64>,
) -> bool {
    let Some(&pod) = pods.get(to.len()) else {
        let mut txn = cluster.txn();
        let leaves = |number: usize| world.pods[number].deleting || pods.contains(&number);
        for number in (0..world.pods.len()).filter(|&number| leaves(number)) {
            txn.evict("default", &world.pods[number].name).unwrap();
        }
        for (&pod, node) in pods.iter().zip(&*to) {
            let own = cluster.pod("default", &world.pods[pod].name).unwrap().to_pod();
            let node = txn.node(&format!("n{node}")).unwrap().id();
            txn.place(&own, node).unwrap();
        }
        return Planner::new().place(&txn, framework, request(world)).unwrap().is_placed();
    };
    let gpus = world.pods[pod].gpus as i64;
    (0..world.nodes.len()).any(|node| {
        if free[node] < gpus {
            return false;
        }
        free[node] -= gpus;
        to.push(node);
        let found = has_layout(world, cluster, framework, pods, to, free);
        to.pop();
        free[node] += gpus;
        found
    })
}

/// Budgets broken and pods of the fewest moves of at most so many units.
fn fewest(world: &World, framework: &Framework, limit: u64) -> Option<(u64, u64)> {
    let cluster = world.cluster();
    let atoms: Vec<Vec<usize>> =
        world.atoms().into_iter().filter(|atom| world.is_free(atom)).collect();
    let mut sets = Vec::new();
    for set in 1_u32..1 << atoms.len() {
        let chosen: Vec<&Vec<usize>> =
            (0..atoms.len()).filter(|at| set & 1 << at != 0).map(|at| &atoms[at]).collect();
        let gone: BTreeSet<usize> = chosen.iter().copied().flatten().copied().collect();
        let cost = world.cost(&chosen);
        if world.is_sound(&gone) && cost.units <= limit {
            sets.push(((cost.budgets_broken, cost.pods), gone));
        }
    }
    sets.sort();
    let fits = |gone: &BTreeSet<usize>| {
        let mut free: Vec<i64> = world.nodes.iter().map(|node| node.1 as i64).collect();
        for (number, pod) in world.pods.iter().enumerate() {
            if !pod.deleting && !gone.contains(&number) {
                free[pod.node] -= pod.gpus as i64;
            }
        }
        let pods: Vec<usize> = gone.iter().copied().collect();
        has_layout(world, &cluster, framework, &pods, &mut Vec::new(), &mut free)
    };
    sets.into_iter().find(|(_, gone)| fits(gone)).map(|(lead, _)| lead)
}

#[test]
fn moves_of_trees_are_the_fewest_of_all() {
    const LIMIT: u32 = 2;
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let (mut moved, mut none) = (0, 0);
    for seed in 0..budget::part(600) {
        let world = World::random(seed);
        let (cluster, running) = (world.cluster(), world.running());
        let settings = Consolidation::new(LIMIT).policy(&LowerPriority);
        let asked = PreemptionRequest::new(request(&world)).budget(400_000).consolidation(settings);
        let answer = planner.place(&cluster, &framework, &running, asked).unwrap();
        match &answer {
            Preemption::Placed(_) => {}
            Preemption::Preempt(preempt) if preempt.moves.is_empty() => {
                // It is enough to wait for what terminates.
                assert!(world.pods.iter().any(|pod| pod.deleting), "seed {seed}");
            }
            Preemption::Preempt(preempt) => {
                moved += 1;
                let least = fewest(&world, &framework, LIMIT.into());
                let cost = preempt.move_cost;
                let own = Some((cost.budgets_broken, cost.pods));
                assert_eq!(own, least, "seed {seed}: {preempt:#?} {world:#?}");
                assert!(preempt.move_claim <= Some(MoveClaim::Fewest), "seed {seed}");
                carry_out(&cluster, &running, &framework, preempt)
                    .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
            }
            Preemption::NoVictimsHelp(_) => {
                none += 1;
                let least = fewest(&world, &framework, LIMIT.into());
                assert_eq!(least, None, "seed {seed}: {world:#?}");
            }
            other => panic!("seed {seed}: {other}"),
        }
    }
    println!("{moved} moved, {none} not");
    assert!(moved > budget::of(1, 10) && none > budget::part(100), "{moved} moved, {none} not");
}
