//! Plugins that read beyond the node: the planner answers what the plain loop answers, and asks
//! them once a class of nodes.

use phalanx::model::{LabelSelector, PodAffinityTerm};
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Request, Strategy, reference};

use super::random::*;
use crate::placement::equality::brief;
use crate::support::budget;
use crate::support::dice::Dice;

/// Pods that were placed, requests, and requests that were answered with what was kept.
#[derive(Default)]
pub(crate) struct Seen {
    placed: usize,
    asked: u32,
    fast: u32,
}

/// One cluster with gangs and changes between them, held to the plain loop.
pub(crate) fn stream(seed: u64, seen: &mut Seen) {
    let mut dice = Dice(seed);
    let mut cluster = Cluster::builder().levels([ZONE, RACK]).build().unwrap();
    let most = if dice.one_in(4) { 40 } else { 12 };
    let nodes = 1 + dice.roll(most);
    for name in 0..nodes {
        let node = node(&mut dice, name);
        cluster.add_node(node).unwrap();
    }
    let framework = framework(&mut dice);
    let mut planner = if dice.one_in(4) { reference::unpruned() } else { Planner::new() };
    planner = planner.threads(1 + dice.roll(2) as usize);
    let shared = leaf(&mut dice, "shared");
    for step in 0..12 {
        let name = format!("g{step}");
        let group = if dice.one_in(2) { again(&shared, &name) } else { group(&mut dice, &name) };
        let request = || Request::new(&group).strategy(Strategy::Kubernetes);
        let calls = reference::plugin_calls(&planner);
        let given = planner.place(&cluster, &framework, request());
        seen.asked += 1;
        seen.fast += u32::from(reference::plugin_calls(&planner) > calls);
        let expected = reference::place_by_definition(&cluster, &framework, request());
        assert_eq!(brief(&given), brief(&expected), "seed {seed} step {step}");
        assert_eq!(given, expected, "seed {seed} step {step}");
        if let Ok(outcome) = given
            && let Some(plan) = outcome.plan()
            && dice.roll(4) > 0
        {
            seen.placed += plan.len();
            let asked = Request::new(&group).strategy(Strategy::Kubernetes);
            phalanx::reference::is_sound(plan, asked, &cluster, &framework).unwrap();
            cluster.commit(&framework, plan).unwrap();
        }
        disturb(&mut dice, &mut cluster, nodes, step);
    }
}

#[test]
fn classes_answer_like_the_plain_loop() {
    let mut seen = Seen::default();
    let worlds = budget::of(25, 2_000);
    for seed in 0..worlds {
        stream(seed, &mut seen);
    }
    let Seen { placed, asked, fast } = seen;
    assert!(placed as u64 > 10 * worlds, "only {placed} pods placed");
    assert!(fast * 10 > asked * 7, "{fast} of {asked} with what was kept");
}

/// A rack that nobody was asked about, as no pod was in it, closes for all of its nodes.
#[test]
fn a_rack_closes_for_its_other_node() {
    let mut cluster = Cluster::builder().levels([ZONE, RACK]).build().unwrap();
    for number in 0..12_i64 {
        let node = Node::new(format!("n{number:02}"))
            .capacity("cpu", 64 - number)
            .capacity("pods", 110)
            .label(RACK, format!("r{}", number / 2));
        cluster.add_node(node).unwrap();
    }
    let term = PodAffinityTerm::new(RACK, LabelSelector::label("app", "x"));
    let pod = Pod::new().request("cpu", 1).label("app", "x").anti_affinity(term);
    let gang = PodGroup::gang("g", 3).pods(3, pod);
    let request = Request::new(&gang).strategy(Strategy::Kubernetes);
    let outcome = Planner::new().place(&cluster, &Framework::kubernetes(), request).unwrap();
    let plan = outcome.plan().unwrap();
    let nodes: Vec<&str> = plan.assignments().map(|member| member.node()).collect();
    assert_eq!(nodes, ["n00", "n02", "n04"]);
}
