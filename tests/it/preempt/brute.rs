//! The least set against all subsets of units of small clusters.

use std::collections::BTreeSet;

use phalanx::preempt::{Cost, PreemptingPlanner, Preemption, PreemptionRequest};
use phalanx::{Cluster, Framework, Planner, Request, Strategy, Time};

use super::world::{NOW, World};
use crate::support::budget;

fn request(world: &World) -> Request<'_> {
    Request::new(&world.gang).now(Time::from_secs(NOW)).strategy(Strategy::Search)
}

/// Whether the gang fits once these pods, and those that terminate, are gone.
fn fits(world: &World, cluster: &Cluster, framework: &Framework, gone: &BTreeSet<usize>) -> bool {
    let mut txn = cluster.txn();
    for (number, pod) in world.pods.iter().enumerate() {
        if pod.deleting || gone.contains(&number) {
            txn.evict("default", &pod.name).unwrap();
        }
    }
    Planner::new().place(&txn, framework, request(world)).unwrap().is_placed()
}

/// The least cost of a set that helps, by trying all.
fn brute_force(world: &World, cluster: &Cluster, framework: &Framework) -> Option<Cost> {
    let atoms: Vec<Vec<usize>> =
        world.atoms().into_iter().filter(|atom| world.is_free(atom)).collect();
    let mut sets = Vec::new();
    for set in 0_u32..1 << atoms.len() {
        let chosen: Vec<&Vec<usize>> =
            (0..atoms.len()).filter(|at| set & 1 << at != 0).map(|at| &atoms[at]).collect();
        let gone: BTreeSet<usize> = chosen.iter().copied().flatten().copied().collect();
        if world.is_sound(&gone) {
            sets.push((world.cost(&chosen), gone));
        }
    }
    sets.sort();
    sets.into_iter().find(|(_, gone)| fits(world, cluster, framework, gone)).map(|(cost, _)| cost)
}

/// Holds an answer to brute force.
pub(crate) fn holds(
    seed: u64,
    planner: &mut PreemptingPlanner,
    framework: &Framework,
) -> &'static str {
    let world = World::random(seed);
    let (cluster, running) = (world.cluster(), world.running());
    let asked = PreemptionRequest::new(request(&world)).budget(1_000_000);
    let answer = planner.place(&cluster, framework, &running, asked).unwrap();
    let placed = Planner::new().place(&cluster, framework, request(&world)).unwrap().is_placed();
    let word = answer.word();
    assert_eq!(placed, word == "placed", "seed {seed}: {answer}");
    if placed {
        return word;
    }
    let least = brute_force(&world, &cluster, framework);
    match answer {
        Preemption::Preempt(preempt) => {
            assert_eq!(Some(preempt.cost), least, "seed {seed}: {world:#?}");
            assert_eq!(preempt.lower_bound, preempt.cost, "seed {seed}");
            // The victims are sound, cost what is said, and the plan holds without them.
            let named: BTreeSet<String> = preempt
                .victims
                .iter()
                .flat_map(|victim| victim.pods.iter().map(|pod| pod.name.clone()))
                .collect();
            let gone: BTreeSet<usize> = (0..world.pods.len())
                .filter(|&pod| named.contains(&world.pods[pod].name))
                .collect();
            assert_eq!(gone.len() as u64, preempt.cost.pods, "seed {seed}");
            assert!(world.is_sound(&gone), "seed {seed}");
            let atoms = world.atoms();
            let chosen: Vec<&Vec<usize>> =
                atoms.iter().filter(|atom| gone.contains(&atom[0])).collect();
            assert_eq!(world.cost(&chosen), preempt.cost, "seed {seed}");
            let asked = PreemptionRequest::new(request(&world));
            let pods = named.iter().map(|name| ("default", name.as_str()));
            let cost = asked.cost_of(&cluster, &running, pods).unwrap();
            assert_eq!(cost, preempt.cost, "seed {seed}");
            let mut after = cluster.clone();
            for pod in world.pods.iter().enumerate().filter(|(n, p)| p.deleting || gone.contains(n))
            {
                after.remove_pod("default", &pod.1.name).unwrap();
            }
            after
                .commit(framework, &preempt.plan)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        Preemption::NoVictimsHelp(help) => {
            assert_eq!(least, None, "seed {seed}: {help:?} {world:#?}");
        }
        other => panic!("seed {seed}: {other}"),
    }
    word
}

#[test]
fn sets_of_small_clusters_are_the_least_of_all_subsets() {
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let mut counts = std::collections::BTreeMap::new();
    let from = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in from..from + budget::part(2_000) {
        *counts.entry(holds(seed, &mut planner, &framework)).or_insert(0) += 1;
    }
    println!("{counts:?}");
    assert!(counts.get("preempt").is_some_and(|count| *count > budget::part(400)), "{counts:?}");
    assert!(
        counts.get("no-victims-help").is_some_and(|count| *count > budget::part(200)),
        "{counts:?}"
    );
}

/// Weaker bounds and a worse order change no answer: they show in the work.
#[test]
fn small_clusters_take_few_steps_and_trials() {
    let (framework, mut planner) = (Framework::default(), PreemptingPlanner::new());
    let mut steps = 0;
    for seed in 0..600 {
        let world = World::random(seed);
        let asked = PreemptionRequest::new(request(&world)).budget(1_000_000);
        let answer = planner.place(&world.cluster(), &framework, &world.running(), asked).unwrap();
        steps += answer.preempt().map_or(0, |preempt| preempt.steps);
    }
    let work = (steps, planner.trials());
    assert!(work.0 <= 6_908 && work.1 <= 644, "{work:?}");
}
