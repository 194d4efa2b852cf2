//! The planner answers what the plain loop answers, whatever it has kept from before.

use phalanx::framework::{Context, Declaration, Normalization, Reach, filter_fn, score_fn};
use phalanx::model::PodShape;
use phalanx::plugins::{Fit, LeastAllocated, MostAllocated};
use phalanx::reference;
use phalanx::state::NodeView;
use phalanx::{
    Cluster, Framework, Node, Outcome, PlaceError, Planner, Pod, PodGroup, Request, Score, Strategy,
};

use crate::support::budget;
use crate::support::dice::Dice;

/// A score that is normalised between the extremes of the feasible nodes.
struct Tilted(Normalization);

impl Score for Tilted {
    fn name(&self) -> &str {
        "Tilted"
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let tilt = node.label("tilt").and_then(|tilt| tilt.parse().ok()).unwrap_or(0);
        let cpu = cx.cluster().resource("cpu").map_or(0, |cpu| node.used(cpu));
        if tilt == 3 && self.0 == Normalization::Extremes {
            return Normalization::IGNORED;
        }
        tilt * 7 + cpu / 1_000
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }

    fn normalization(&self) -> Normalization {
        self.0
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        if high == low { 50 } else { 100 * (raw - low) / (high - low) }
    }
}

fn framework(dice: &mut Dice) -> Framework {
    let mut builder = Framework::builder().without_room_filter();
    if dice.roll(8) > 0 {
        builder = builder.filter(Fit);
    }
    if dice.roll(3) == 0 {
        builder = builder
            .filter(filter_fn("even", Reach::Static, |_, node| !node.has_label("tilt", "1")));
    }
    if dice.roll(4) == 0 {
        let few = |_: &Context<'_>, node: NodeView<'_>| node.pod_count() < 3;
        builder = builder.filter(filter_fn("few", Reach::Node, few));
    }
    let resources = [("cpu", 1), ("memory", 1), ("gpu", 3)];
    match dice.roll(3) {
        0 => builder = builder.score(2, MostAllocated::of(resources)),
        1 => builder = builder.score(1, LeastAllocated::of(resources)),
        _ => {}
    }
    match dice.roll(5) {
        0 => builder = builder.score(2, Tilted(Normalization::Max)),
        1 => builder = builder.score(1, Tilted(Normalization::MaxReversed)),
        2 => builder = builder.score(3, Tilted(Normalization::Extremes)),
        _ => {}
    }
    if dice.roll(4) == 0 {
        let total = |cx: &Context<'_>, node: NodeView<'_>| {
            let nodes = cx.cluster().nodes().map(NodeView::pod_count).sum::<i64>();
            (nodes + node.pod_count()) % 7
        };
        builder = builder.score(1, score_fn("far", Reach::Cluster, total));
    }
    builder.build().unwrap()
}

fn node(dice: &mut Dice, name: u64) -> Node {
    let node = Node::new(format!("n{name}"))
        .capacity("cpu", dice.roll(9) as i64)
        .capacity("memory", 1_000_000_000 * dice.roll(5) as i64)
        .label("zone", format!("z{}", dice.roll(2)))
        .label("tilt", dice.roll(5).to_string());
    let node = if dice.roll(2) == 0 { node.capacity("gpu", dice.roll(5) as i64) } else { node };
    let node =
        if dice.roll(4) > 0 { node.label("rack", format!("r{}", dice.roll(4))) } else { node };
    if dice.roll(3) == 0 { node.capacity("pods", dice.roll(4) as i64) } else { node }
}

fn pod(dice: &mut Dice) -> Pod {
    let mut pod = Pod::new().request("cpu", format!("{}m", 500 * dice.roll(5)).as_str());
    if dice.roll(2) == 0 {
        pod = pod.request("gpu", dice.roll(3) as i64);
    }
    if dice.roll(6) == 0 {
        pod = pod.request("missing", 1);
    }
    pod
}

fn leaf(dice: &mut Dice, name: &str) -> PodGroup {
    let members = 1 + dice.roll(6);
    let mut group = PodGroup::gang(name, 1 + dice.roll(members + 1) as u32);
    let mixed = dice.roll(3) == 0;
    let template = pod(dice);
    for _ in 0..members {
        let next = if mixed { pod(dice) } else { template.clone() };
        group = group.pods(1, next);
    }
    topology(dice, group)
}

fn topology(dice: &mut Dice, group: PodGroup) -> PodGroup {
    match dice.roll(6) {
        0 => group.require("rack"),
        1 => group.require("zone"),
        2 => group.prefer("rack"),
        3 => group.prefer("rack").require("zone"),
        _ => group,
    }
}

fn group(dice: &mut Dice, name: &str) -> PodGroup {
    if dice.roll(3) > 0 {
        return leaf(dice, name);
    }
    let children = 1 + dice.roll(3);
    let mut group = PodGroup::gang(name, 1 + dice.roll(children) as u32);
    for child in 0..children {
        group = group.group(leaf(dice, &format!("{name}-{child}")));
    }
    topology(dice, group)
}

/// The outcome at a glance.
pub(super) fn brief(outcome: &Result<Outcome, PlaceError>) -> String {
    match outcome {
        Ok(Outcome::Placed(plan)) => {
            let pairs = plan.assignments().map(|a| format!("{}>{}", a.pod().name, a.node()));
            format!("{:?} {:?}", pairs.collect::<Vec<_>>(), plan.domains().collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

/// One cluster with gangs and changes between them, held to the plain loop; how many pods were placed.
pub(crate) fn stream(seed: u64) -> usize {
    let mut placed = 0;
    let mut dice = Dice(seed);
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    let nodes = 1 + dice.roll(14);
    for name in 0..nodes {
        let node = node(&mut dice, name);
        cluster.add_node(node).unwrap();
    }
    let framework = framework(&mut dice);
    let mut planner = if dice.roll(4) == 0 { reference::unpruned() } else { Planner::new() };
    let shared = leaf(&mut dice, "shared");
    for step in 0..12 {
        let name = format!("g{step}");
        let group = if dice.roll(3) == 0 {
            let mut again = shared.clone();
            again.name.clone_from(&name);
            for (index, pod) in again.pods.iter_mut().enumerate() {
                pod.name = format!("{name}-{index}");
            }
            again
        } else {
            group(&mut dice, &name)
        };
        let request = || Request::new(&group).strategy(Strategy::Kubernetes);
        let fast = planner.place(&cluster, &framework, request());
        let plain = reference::place_by_definition(&cluster, &framework, request());
        assert_eq!(brief(&fast), brief(&plain), "seed {seed} step {step}");
        assert_eq!(fast, plain, "seed {seed} step {step}");
        if let Ok(outcome) = fast
            && let Some(plan) = outcome.plan()
            && dice.roll(2) == 0
        {
            placed += plan.len();
            let asked = Request::new(&group).strategy(Strategy::Kubernetes);
            phalanx::reference::is_sound(plan, asked, &cluster, &framework).unwrap();
            cluster.commit(&framework, plan).unwrap();
        }
        match dice.roll(8) {
            0 => {
                let bound: Vec<String> = cluster.pods().map(|pod| pod.name().to_string()).collect();
                if !bound.is_empty() {
                    let gone = &bound[dice.roll(bound.len() as u64) as usize];
                    cluster.remove_pod("default", gone).unwrap();
                }
            }
            1 => {
                let name = dice.roll(nodes);
                let changed = node(&mut dice, name);
                cluster.update_node(&changed).unwrap();
            }
            2 => cluster = cluster.clone(),
            _ => {}
        }
    }
    placed
}

#[test]
fn kept_tables_answer_like_the_plain_loop() {
    let worlds = budget::of(150, 1_500);
    let placed: usize = (0..worlds).map(stream).sum();
    assert!(placed as u64 * 3 > 10 * worlds, "only {placed} pods placed");
}

#[test]
fn threads_change_neither_the_answer_nor_the_work() {
    let mut dice = Dice(7);
    let mut cluster = Cluster::new();
    for name in 0..2_000 {
        cluster.add_node(node(&mut dice, name).capacity("pods", 110)).unwrap();
    }
    let framework = Framework::default();
    let mut gang = PodGroup::gang("mixed", 64);
    for member in 0..64_i64 {
        gang = gang.pods(1, Pod::new().request("cpu", format!("{}m", 500 + member % 16).as_str()));
    }
    let answer = |threads: usize| {
        let mut planner = Planner::new().threads(threads);
        let request = Request::new(&gang).strategy(Strategy::Kubernetes);
        let outcome = planner.place(&cluster, &framework, request).unwrap();
        (outcome, reference::plugin_calls(&planner))
    };
    let alone = answer(1);
    assert!(alone.0.is_placed() && alone.1 >= 16 * 2_000);
    assert_eq!(alone, answer(2));
}

/// Asking again without change asks no plugin; a change of ten nodes asks about ten nodes.
#[test]
fn a_warm_gang_costs_what_has_changed() {
    let mut cluster = Cluster::new();
    for name in 0..1_000 {
        cluster.add_node(Node::new(format!("n{name}")).capacity("cpu", 8)).unwrap();
    }
    let framework = Framework::kubernetes();
    let mut planner = Planner::new();
    let group = |name: &str| PodGroup::gang(name, 1).pods(1, Pod::new().request("cpu", 1));
    assert!(planner.place(&cluster, &framework, group("a")).unwrap().is_placed());
    let cold = reference::plugin_calls(&planner);
    assert!((1_000..4_000).contains(&cold), "{cold}");
    let _ = planner.place(&cluster, &framework, group("b")).unwrap();
    let again = reference::plugin_calls(&planner) - cold;
    // The one node the last answer was about.
    assert!(again <= 4, "{again}");
    for index in 0..10 {
        let pod = Pod::new().name(format!("p{index}")).request("cpu", 1).on(format!("n{index}"));
        cluster.add_pod(pod).unwrap();
    }
    let before = reference::plugin_calls(&planner);
    let _ = planner.place(&cluster, &framework, group("c")).unwrap();
    let changed = reference::plugin_calls(&planner) - before;
    assert!((10..=44).contains(&changed), "{changed}");
}

/// A planner that has missed changes of any share of the nodes answers as the plain loop does, and
/// asks about a node once: about those that have changed, or, where these are half, about all.
#[test]
fn what_was_missed_costs_no_more_than_all_nodes() {
    const NODES: usize = 200;
    let framework = Framework::kubernetes();
    for salt in [0, 5] {
        for changed in [1, 20, 40, 80, 99, 100, 101, 150, 199, 200] {
            let mut cluster = Cluster::new();
            for name in 0..NODES {
                cluster.add_node(Node::new(format!("n{name}")).capacity("cpu", 8)).unwrap();
            }
            let mut planner = Planner::new();
            let mut place = |cluster: &Cluster| {
                let before = reference::plugin_calls(&planner);
                let group = PodGroup::gang("g", 3).pods(3, Pod::new().request("cpu", 2));
                let request = || Request::new(&group).strategy(Strategy::Kubernetes).salt(salt);
                let given = planner.place(cluster, &framework, request());
                let expected = reference::place_by_definition(cluster, &framework, request());
                assert_eq!(given, expected, "{changed} nodes changed, salt {salt}");
                reference::plugin_calls(&planner) - before
            };
            let cold = place(&cluster);
            let again = place(&cluster);
            for number in 0..changed {
                // A third of these nodes have no room left.
                let cpus = if number % 3 == 0 { 7 } else { 1 + number as i64 % 5 };
                let pod = Pod::new().name(format!("p{number}")).request("cpu", cpus);
                cluster.add_pod(pod.on(format!("n{}", number * 7 % NODES))).unwrap();
            }
            let calls = place(&cluster);
            let a_node = cold.div_ceil(NODES as u64);
            let most = again + a_node * (2 * changed).min(NODES) as u64 + a_node * 8;
            assert!(calls <= most, "{changed} nodes changed: {calls} calls, {most} at most");
        }
    }
}
