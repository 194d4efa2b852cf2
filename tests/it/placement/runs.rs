//! Runs of identical pods, refusals by sums and rows judged side by side, held to the plain loop where
//! it is hardest: keys that rise and fall, scores out of range, very large weights and amounts.

use std::sync::Arc;

use phalanx::framework::{
    Block, Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use phalanx::model::PodShape;
use phalanx::plugins::{
    BalancedAllocation, DomainAllocation, Fit, LeastAllocated, LeastFree, MostAllocated,
    RequestedToCapacityRatio, Utilization,
};
use phalanx::state::NodeView;
use phalanx::{
    Cluster, Filter, Framework, Node, Outcome, Planner, Pod, PodGroup, Request, Score, Strategy,
    reference,
};

use crate::support::budget;
use crate::support::dice::Dice;
use crate::support::held::held;

/// The number of pods bound, if any were.
fn commit(cluster: &mut Cluster, framework: &Framework, outcome: &Outcome) -> usize {
    let Some(plan) = outcome.plan() else { return 0 };
    // Sums beyond 64 bits are refused.
    cluster.commit(framework, plan).map_or(0, |()| plan.len())
}

/// A score that goes up and down, or far beyond its range, as pods come.
struct Wild(&'static str, fn(i64) -> i64);

impl Score for Wild {
    fn name(&self) -> &str {
        self.0
    }

    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        self.1(node.pod_count())
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

/// Opens and closes nodes as pods come.
struct Doors(fn(i64) -> bool);

impl Filter for Doors {
    fn name(&self) -> &str {
        "Doors"
    }

    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        if self.0(node.pod_count()) { Verdict::Pass } else { Verdict::Unschedulable }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

const BEYOND: [i64; 6] = [i64::MIN, i64::MAX, -7, 150, 50, 101];

fn framework(dice: &mut Dice) -> Framework {
    let resources = [("cpu", 1), ("memory", 2), ("x/x", 3), ("ephemeral-storage", 1)];
    let weight = dice.of(&[1, 1, 2, 7, 1_000, 90_000]);
    let mut builder = Framework::builder().without_room_filter();
    if !dice.one_in(8) {
        builder = builder.filter(Fit);
    }
    match dice.roll(8) {
        0 => builder = builder.filter(Doors(|pods| pods % 4 != 3)),
        1 => builder = builder.filter(Doors(|pods| pods > 0)),
        _ => {}
    }
    match dice.roll(6) {
        0 => builder = builder.score(weight, Wild("bumps", |pods| pods * 37 % 101)),
        1 => builder = builder.score(weight, Wild("rises", |pods| 3 * pods)),
        2 => builder = builder.score(weight, Wild("beyond", |pods| BEYOND[pods as usize % 6])),
        3 => builder = builder.score(weight, Wild("flat", |_| 0)),
        _ => {}
    }
    let curve = || Utilization::new([(0, 3), (40, 10), (100, 0)]).unwrap();
    builder = match dice.roll(5) {
        0 => builder.score(weight, MostAllocated::of(resources)),
        1 => builder.score(1, RequestedToCapacityRatio::of(curve(), resources)),
        2 => builder,
        _ => builder.score(weight, LeastAllocated::of(resources)),
    };
    match dice.roll(3) {
        0 => builder = builder.score(1, BalancedAllocation::of(["memory", "x/x"])),
        1 => builder = builder.score(3, BalancedAllocation::default()),
        _ => {}
    }
    builder = match dice.roll(5) {
        0 => builder.domain_score(2, LeastFree::of("memory")),
        1 => builder.domain_score(1, DomainAllocation::of([("cpu", 1), ("x/x", 2)])),
        _ => builder,
    };
    builder.build().unwrap()
}

/// An amount near a power of two at which something changes, or a small one.
fn amount(dice: &mut Dice, large: bool) -> i64 {
    if !large || dice.one_in(2) {
        return dice.roll(200) as i64;
    }
    let power = dice.of(&[31, 32, 43, 44, 45, 46, 50, 51, 52, 57, 59, 60, 61, 62]);
    (1_i64 << power) + dice.roll(5) as i64 - 2
}

fn node(dice: &mut Dice, name: u64, large: bool) -> Node {
    let mut node = Node::new(format!("n{name}"))
        .capacity("cpu", format!("{}m", 50 * dice.roll(200)).as_str())
        .capacity("memory", amount(dice, large));
    if !dice.one_in(3) {
        node = node.capacity("x/x", amount(dice, large));
    }
    if dice.one_in(6) {
        node = node.capacity("pods", dice.roll(30) as i64);
    }
    if dice.one_in(9) {
        node = node.tie_rank(dice.roll(5) as i64 - 2);
    }
    node.label("rack", format!("r{}", dice.roll(4))).label("zone", format!("z{}", dice.roll(2)))
}

fn pod(dice: &mut Dice, large: bool) -> Pod {
    let mut pod = Pod::new().request("cpu", format!("{}m", 100 * dice.roll(6)).as_str());
    for (name, sides) in [("memory", 2), ("x/x", 3)] {
        if dice.one_in(sides) {
            pod = pod.request(name, amount(dice, large) >> dice.roll(8));
        }
    }
    // Resources that nobody has mentioned before.
    if dice.one_in(12) { pod.request(&format!("y/{}", dice.roll(3)), 1) } else { pod }
}

/// An event between two requests.
fn event(dice: &mut Dice, cluster: &mut Cluster, nodes: u64, large: bool, step: &str) {
    let name = dice.roll(nodes);
    let known = cluster.node(&format!("n{name}")).is_some();
    match dice.roll(7) {
        0 if known => cluster.remove_node(&format!("n{name}")).unwrap(),
        0 | 1 if !known => drop(cluster.add_node(node(dice, name, large))),
        1 => cluster.update_node(&node(dice, name, large)).unwrap(),
        // Whatever is free: nodes are overcommitted, or pods wait for a node that is not there.
        2 | 3 => {
            for number in 0..dice.roll(9) {
                let pod = pod(dice, large).name(format!("own-{step}-{number}"));
                drop(cluster.add_pod(pod.on(format!("n{}", dice.roll(nodes)))));
            }
        }
        4 => {
            let every = 1 + dice.roll(5) as usize;
            let mut names: Vec<_> = cluster.pods().map(|pod| pod.name().to_string()).collect();
            names.sort();
            for name in names.iter().skip(1).step_by(every) {
                cluster.remove_pod("default", name).unwrap();
            }
        }
        _ => {}
    }
}

fn story(seed: u64, nodes: u64, pods: u64, steps: u64) -> usize {
    let mut dice = Dice(seed);
    let large = dice.one_in(2);
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    let stride = dice.of(&[1, 7, 11, 13]);
    for at in 0..nodes {
        // In the order of names, or in another.
        let name = at * stride % nodes;
        if cluster.node(&format!("n{name}")).is_none() {
            cluster.add_node(node(&mut dice, name, large)).unwrap();
        }
    }
    let frameworks = [framework(&mut dice), framework(&mut dice)];
    let shapes = [pod(&mut dice, large), pod(&mut dice, large)];
    let mut clone = cluster.clone();
    let mut planners = [Planner::new(), reference::unpruned()];
    let mut placed = 0;
    for step in 0..steps {
        let framework = &frameworks[usize::from(dice.one_in(5))];
        let members = 1 + dice.roll(pods) as usize;
        let minimum = dice.of(&[1, members, members.div_ceil(2)]);
        let name = format!("s{seed}-{step}");
        let mut group = PodGroup::gang(&name, minimum as u32)
            .pods(members, shapes[dice.roll(2) as usize].clone());
        if dice.one_in(6) {
            group.pods[members / 2].scheduling_gates = vec![String::from("later")];
        }
        match dice.roll(6) {
            0 => group = group.require("rack"),
            1 => group = group.prefer("rack"),
            _ => {}
        }
        if dice.one_in(8) {
            group = PodGroup::gang(format!("{name}-root"), 1).group(group);
            if dice.one_in(2) {
                group = group.require("zone");
            }
        }
        let planner = &mut planners[usize::from(dice.one_in(4))];
        for again in 0..2 {
            let Ok(outcome) = held(planner, &cluster, framework, &group) else { break };
            placed += commit(&mut cluster, framework, &outcome);
            if again == 0 && !dice.one_in(3) || !group.groups.is_empty() {
                break;
            }
            // More members, where some may run already.
            for (index, pod) in group.pods.iter_mut().enumerate() {
                pod.name = format!("{name}-more-{index}");
            }
        }
        event(&mut dice, &mut cluster, nodes, large, &name);
        match dice.roll(9) {
            0 => clone = cluster.clone(),
            1 => std::mem::swap(&mut clone, &mut cluster),
            _ => {}
        }
    }
    placed
}

#[test]
fn stories_of_clusters_that_change() {
    let small: usize =
        (0..budget::part(220)).map(|seed| story(seed, 1 + seed * 7 % 40, 90, 9)).sum();
    let wide: usize = (1_000..1_000 + budget::part(8)).map(|seed| story(seed, 530, 300, 3)).sum();
    assert!(
        small > budget::part(9_000) as usize && wide > budget::part(1_000) as usize,
        "{small} {wide}"
    );
}

/// Nodes with room for very many pods, not in the order of names.
fn roomy(nodes: u64) -> Cluster {
    let mut cluster = Cluster::new();
    for name in 0..nodes {
        let node = Node::new(format!("n{}", name * 11 % nodes)).capacity("cpu", 4_000);
        cluster.add_node(node.capacity("memory", 900_i64 << 30)).unwrap();
    }
    cluster
}

fn tiny() -> Pod {
    Pod::new().request("cpu", "1m").request("memory", 900)
}

fn scored(least: bool) -> Framework {
    let builder = Framework::builder().filter(Fit);
    let resources = [("cpu", 1), ("memory", 1)];
    let builder = if least {
        builder.score(1, LeastAllocated::of(resources))
    } else {
        builder.score(1_000, MostAllocated::of(resources))
    };
    builder.score(1, BalancedAllocation::default()).build().unwrap()
}

#[test]
fn many_pods_on_few_nodes() {
    for (nodes, members) in [(1, 4_000), (2, 3_000), (3, 3_000), (70, 600)] {
        let mut cluster = roomy(nodes);
        let (frameworks, mut planner) = ([true, false].map(scored), Planner::new());
        for step in 0..4 {
            let framework = &frameworks[step / 2];
            let group = PodGroup::gang(format!("s{step}"), members as u32).pods(members, tiny());
            let outcome = held(&mut planner, &cluster, framework, &group).unwrap();
            assert_eq!(commit(&mut cluster, framework, &outcome), members);
        }
    }
}

/// How often a planner that knows the nodes asks of a row, for a gang of pods on roomy nodes.
fn rows_asked(nodes: u64, members: usize, framework: &Framework, pod: &Pod) -> u64 {
    const PLUGINS: u64 = 3;
    let mut cluster = roomy(nodes);
    let mut planner = Planner::new();
    let mut calls = |cluster: &Cluster, members: usize| {
        let group = PodGroup::gang(format!("g{members}"), members as u32);
        let group = group.pods(members, pod.clone());
        let before = reference::plugin_calls(&planner);
        let request = Request::new(&group).strategy(Strategy::Kubernetes);
        let outcome = planner.place(cluster, framework, request).unwrap();
        assert_eq!(outcome.plan().map_or(0, phalanx::Plan::len), members);
        (reference::plugin_calls(&planner) - before).div_ceil(PLUGINS)
    };
    calls(&cluster, 3);
    cluster.add_pod(Pod::new().name("own").request("cpu", 1).on("n0")).unwrap();
    calls(&cluster, members)
}

/// The cost of a run follows its pods, not pods times nodes, nor the square of its pods.
#[test]
fn a_run_asks_of_each_pod_a_few_times() {
    let heavy = Pod::new().request("cpu", 50).request("memory", 9 << 20);
    for (nodes, members) in [(1, 79), (90, 6_000), (1_000, 20_000), (6_000, 6_000), (6_000, 40)] {
        let asked = rows_asked(nodes, members, &scored(true), &heavy);
        assert!(asked <= 3 * members as u64 + 16, "{nodes} {members}: {asked}");
    }
    // Where one more pod makes a row no worse, all rows are asked as long as each may be the one:
    // a row more a pod with each doubling of the pods on one.
    let flat = [(1, 100_000), (2, 50_000), (90, 50_000), (6_000, 6_000), (6_000, 40)];
    for (nodes, members) in flat {
        for least in [true, false] {
            let asked = rows_asked(nodes, members, &scored(least), &tiny());
            let bound = members as u64 * u64::from(1 + members.ilog2()) + 16;
            assert!(asked <= bound, "{nodes} {members} {least}: {asked}");
        }
    }
}

/// [`Fit`] for all but the largest pods, which go anywhere.
struct FitOfSmall;

/// The preparation of `Fit`, without its knowledge of capacity.
struct Verdicts(Box<dyn PreparedFilter>);

impl FilterPlugin for FitOfSmall {
    fn name(&self) -> &str {
        "FitOfSmall"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        match Arc::new(Fit).prepare(cx) {
            _ if cx.pod().requests.of("x/x") > 1 << 61 => FilterPreparation::Skip,
            FilterPreparation::Ready(fit) => FilterPreparation::ready(Verdicts(fit)),
            other => other,
        }
    }
}

impl PreparedFilter for Verdicts {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        self.0.filter(cx, node)
    }

    fn filter_block(&self, cx: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
        self.0.filter_block(cx, block, verdicts);
    }
}

/// Sums that a decision under way has come to are beyond all amounts of the cluster.
#[test]
fn what_is_placed_makes_rows_wide() {
    let mut cluster = Cluster::new();
    for name in 0..5 {
        cluster.add_node(Node::new(format!("n{name}")).capacity("x/x", 9)).unwrap();
    }
    let framework = Framework::builder().filter(FitOfSmall).without_room_filter();
    let framework = framework.score(1, Wild("few", |pods| 100 - pods)).build().unwrap();
    let of = |amount: i64| Pod::new().request("x/x", amount);
    for small in [1, 1 << 59] {
        let group = PodGroup::gang("g", 1).pods(10, of((1 << 62) - 1));
        let group = group.pods(4, of(small)).pods(6, Pod::new()).pods(3, of(small));
        let outcome = held(&mut Planner::new(), &cluster, &framework, &group).unwrap();
        assert_eq!(outcome.plan().unwrap().len(), 16);
    }
}

#[test]
fn sums_of_resources_that_nobody_has_mentioned_overflow() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 9)).unwrap();
    let framework =
        Framework::builder().score(1, Wild("flat", |_| 0)).without_room_filter().build().unwrap();
    for (amount, fits) in [(1_i64 << 58, false), (1 << 56, true), (1 << 58, false)] {
        let group = PodGroup::gang("g", 75).pods(75, Pod::new().request("x/x", amount));
        let outcome = held(&mut Planner::new(), &cluster, &framework, &group);
        assert_eq!(outcome.is_ok(), fits);
    }
}

/// A group larger than the cluster is an error all the same where it would be if it were small.
#[test]
fn refusals_hide_no_errors() {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for name in 0..4 {
        let node = Node::new(format!("n{name}")).capacity("cpu", 4).capacity("pods", 50);
        let node = node.label("rack", format!("r{}", name / 2)).label("zone", "z");
        cluster.add_node(node).unwrap();
        let own = Pod::new().name(format!("own-{name}")).in_group("g").request("cpu", 1);
        cluster.add_pod(own.on(format!("n{name}"))).unwrap();
    }
    let framework = Framework::builder().filter(Fit).build().unwrap();
    let mut planner = Planner::new();
    for members in [2, 20, 900] {
        let pod = Pod::new().request("cpu", 1);
        let group =
            |name: &str| PodGroup::gang(name, members as u32 + 4).pods(members, pod.clone());
        for group in [
            group("g").require("rack"),
            group("g").prefer("rack"),
            group("g").prefer("rack").require("zone"),
            group("g").prefer("zone").require("rack"),
            group("other").require("rack"),
            group("sliced").slice("rack", 2),
        ] {
            for _ in 0..2 {
                drop(held(&mut planner, &cluster, &framework, &group));
            }
        }
    }
}
