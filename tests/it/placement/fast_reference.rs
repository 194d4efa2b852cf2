//! The ways that the fast planner takes where it pays off, held to the plain loop: runs of
//! identical pods, counts of domains, trials side by side, kept tables and kept parts of levels.

use crate::support::dice::Dice;
use phalanx::framework::{
    Context, Declaration, DomainScore, Filter, FrameworkBuilder, Reach, Verdict, filter_fn,
};
use phalanx::model::{Node, Pod, PodGroup, PodShape};
use phalanx::plugins::{
    BalancedAllocation, DomainAllocation, FewestDomains, Fit, LeastAllocated, LeastFree,
    MostAllocated, PodGroupPodsCount,
};
use phalanx::state::NodeView;
use phalanx::{Cluster, Framework, Outcome, Planner, Request, Strategy};

/// Places a group by a planner, and holds the answer to that of the plain loop.
fn held(
    planner: &mut Planner,
    cluster: &Cluster,
    framework: &Framework,
    group: &PodGroup,
) -> Outcome {
    crate::support::held::held(planner, cluster, framework, group).unwrap()
}

fn commit(cluster: &mut Cluster, framework: &Framework, outcome: &Outcome) -> usize {
    let Some(plan) = outcome.plan() else { return 0 };
    cluster.commit(framework, plan).unwrap();
    plan.len()
}

/// Removes every so manieth pod, beginning with one.
fn remove_pods(cluster: &mut Cluster, first: usize, every: usize) {
    let names: Vec<String> = cluster.pods().map(|pod| pod.name().to_string()).collect();
    for name in names.iter().skip(first).step_by(every) {
        cluster.remove_pod("default", name).unwrap();
    }
}

fn node(dice: &mut Dice, name: u64) -> Node {
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

fn pod(dice: &mut Dice) -> Pod {
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

fn scored(dice: &mut Dice) -> FrameworkBuilder {
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
    let small: usize = (0..60).map(|seed| runs(seed, 1 + seed * 7 % 90, 60, 8)).sum();
    let large: usize = (100..108).map(|seed| runs(seed, 40 * (seed - 90), 220, 5)).sum();
    assert!(small > 2_000 && large > 1_000, "{small} {large}");
}

#[test]
fn runs_over_many_blocks() {
    let placed: usize = (0..2).map(|seed| runs(1_000 + seed, 1_200, 2_000, 2)).sum();
    assert!(placed > 500, "{placed}");
}

/// What one run has looked ahead to is nothing to the next, which takes of other resources.
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

/// A pod that asks for devices goes only where another runs already.
struct Company;

impl Filter for Company {
    fn name(&self) -> &str {
        "Company"
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let shy = cx.pod().requests.of("gpu") == 0;
        if shy || node.pod_count() > 0 { Verdict::Pass } else { Verdict::Unschedulable }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

/// A domain where nothing fits may be one where something fits once a sibling is there.
#[test]
fn a_sibling_opens_a_domain() {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for name in 0..12 {
        let node = Node::new(format!("n{name:02}")).capacity("cpu", 4).capacity("gpu", 4);
        let node = node.label("rack", format!("r{}", name / 3));
        cluster.add_node(node.label("zone", format!("z{}", name / 6))).unwrap();
    }
    let framework = Framework::builder()
        .filter(Company)
        .filter(Fit)
        .score(1, LeastAllocated::of([("cpu", 1)]))
        .domain_score(1, DomainAllocation::of([("cpu", 1)]))
        .build()
        .unwrap();
    let plain = Pod::new().request("cpu", 1);
    let group = |root: &str| {
        PodGroup::gang(root, 2)
            .group(PodGroup::gang(format!("{root}-a"), 2).pods(2, plain.clone()).require("rack"))
            .group(
                PodGroup::gang(format!("{root}-b"), 2)
                    .pods(2, plain.clone().request("gpu", 1))
                    .require("rack"),
            )
    };
    for mut planner in [Planner::new(), Planner::unpruned(), Planner::new().threads(2)] {
        assert!(held(&mut planner, &cluster, &framework, &group("g")).is_placed());
        assert!(held(&mut planner, &cluster, &framework, &group("z").require("zone")).is_placed());
    }
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

fn topology_cluster(dice: &mut Dice, racks: u64, each: u64) -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for name in 0..racks * each {
        let rack = dice.roll(racks);
        let node = node(dice, name).label("zone", format!("z{}", rack % 3));
        let node = if dice.roll(15) > 0 { node.label("rack", format!("r{rack}")) } else { node };
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn with_domain_scores(dice: &mut Dice, mut builder: FrameworkBuilder) -> Framework {
    let resources = [("cpu", 1), ("memory", 1), ("gpu", 2)];
    if dice.roll(3) == 0 {
        builder = builder.domain_score(2, FewestDomains::of("tilt"));
    }
    match dice.roll(5) {
        0 => builder = builder.domain_score(1, DomainAllocation::of(resources)),
        1 => builder = builder.domain_score(3, DomainAllocation::of(resources).reversed()),
        2 => builder = builder.domain_score(1, LeastFree::of("cpu")),
        3 => {
            builder = builder
                .domain_score(1, PodGroupPodsCount)
                .domain_score(2, DomainAllocation::of(resources));
        }
        _ => {}
    }
    builder.build().unwrap()
}

/// A level, asked for in one of the ways there are.
fn confined(dice: &mut Dice, group: PodGroup) -> PodGroup {
    match dice.roll(5) {
        0 => group.require("zone"),
        1 => group.prefer("rack"),
        2 => group.prefer("rack").require("zone"),
        _ => group.require("rack"),
    }
}

#[test]
fn identical_pods_are_counted_into_domains() {
    let mut placed = 0;
    for seed in 0..150 {
        let mut dice = Dice(seed);
        let racks = 2 + dice.roll(20);
        let mut cluster = topology_cluster(&mut dice, racks, 4);
        let builder = scored(&mut dice);
        let framework = with_domain_scores(&mut dice, builder);
        let mut planner = Planner::new();
        for step in 0..6 {
            let members = 1 + dice.roll(30) as usize;
            let minimum = 1 + dice.roll(members as u64) as u32;
            let name = format!("s{seed}-{step}");
            let group = PodGroup::gang(&name, minimum).pods(members, pod(&mut dice));
            let group = confined(&mut dice, group);
            let outcome = held(&mut planner, &cluster, &framework, &group);
            if dice.roll(3) > 0 {
                placed += commit(&mut cluster, &framework, &outcome);
            }
            // More members, where some run already, if they still fit.
            if outcome.is_placed() && dice.roll(2) == 0 {
                let mut more = group.clone();
                for (index, pod) in more.pods.iter_mut().enumerate() {
                    pod.name = format!("{name}-more-{index}");
                }
                let outcome = held(&mut planner, &cluster, &framework, &more);
                placed += commit(&mut cluster, &framework, &outcome);
            }
            if dice.roll(4) == 0 {
                remove_pods(&mut cluster, 1, 2);
            }
        }
    }
    assert!(placed > 3_000, "{placed}");
}

/// A filter that promises a room it does not keep to.
struct Liar(i64);

impl Filter for Liar {
    fn name(&self) -> &str {
        "Liar"
    }

    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        if node.pod_count() < 2 { Verdict::Pass } else { Verdict::Unschedulable }
    }

    fn room(&self, _: &Context<'_>, _: NodeView<'_>) -> i64 {
        self.0
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage().judging_room()
    }
}

#[test]
fn a_wrong_promise_of_room_never_overfills() {
    for (room, seed) in [0, 1, 3, i64::MAX, -5, i64::MIN].into_iter().zip(0..) {
        let mut dice = Dice(seed);
        let cluster = topology_cluster(&mut dice, 5, 4);
        let framework = Framework::builder()
            .filter(Liar(room))
            .domain_score(1, DomainAllocation::of([("cpu", 1)]))
            .build()
            .unwrap();
        let mut planner = Planner::new();
        for members in 1..14 {
            let name = format!("g{members}");
            let group = PodGroup::gang(&name, members as u32).require("rack");
            let group = group.pods(members, Pod::new().request("cpu", "1m"));
            let request = Request::new(&group).strategy(Strategy::Kubernetes);
            let outcome = planner.place(&cluster, &framework, request).unwrap();
            let Some(plan) = outcome.plan() else { continue };
            assert_eq!(plan.len(), members);
            let mut nodes: Vec<String> =
                plan.assignments().map(|own| own.node().to_string()).collect();
            nodes.sort_unstable();
            assert!(nodes.chunk_by(|a, b| a == b).all(|same| same.len() <= 2), "{room} {nodes:?}");
        }
    }
}

/// A score of places, so that every domain is tried.
struct Places;

impl DomainScore for Places {
    fn name(&self) -> &str {
        "Places"
    }

    fn score(&self, cx: &phalanx::framework::DomainContext<'_>) -> i64 {
        let of = |(at, (_, row)): (usize, &(&PodShape, usize))| (at as i64 + 1) * *row as i64;
        cx.proposed.iter().enumerate().map(of).sum::<i64>() % 101
    }
}

#[test]
fn domains_tried_side_by_side() {
    let mut placed = 0;
    for seed in 0..24 {
        let mut dice = Dice(500 + seed);
        let racks = 25 + dice.roll(10);
        let mut cluster = topology_cluster(&mut dice, racks, 5);
        let builder = scored(&mut dice).domain_score(1, Places);
        let framework = with_domain_scores(&mut dice, builder);
        let mut planners = [
            Planner::new(),
            Planner::new().threads(2),
            Planner::unpruned().threads(2),
            Planner::new().threads(7),
        ];
        for step in 0..4 {
            let name = format!("s{seed}-{step}");
            let mixed = dice.roll(2) == 0;
            let leaf = |dice: &mut Dice, name: &str, members: usize| {
                let minimum = 1 + dice.roll(8) as u32;
                let mut group = PodGroup::gang(name, minimum);
                let shapes = if mixed { 4 } else { 1 };
                for _ in 0..shapes {
                    let pod = pod(dice);
                    group = group.pods(members / shapes, pod);
                }
                confined(dice, group)
            };
            let group = if dice.roll(2) == 0 {
                leaf(&mut dice, &name, 60).require("rack")
            } else {
                let mut root = PodGroup::gang(&name, 1 + dice.roll(3) as u32);
                for child in 0..3 {
                    root = root.group(leaf(&mut dice, &format!("{name}-{child}"), 48));
                }
                if dice.roll(2) == 0 { root.require("rack") } else { root }
            };
            let mut answers =
                planners.iter_mut().map(|planner| held(planner, &cluster, &framework, &group));
            let first = answers.next().unwrap();
            assert!(answers.all(|other| other == first));
            if dice.roll(2) == 0 {
                placed += commit(&mut cluster, &framework, &first);
            }
        }
    }
    assert!(placed > 300, "{placed}");
}

/// One planner over clones that part ways, while nodes change racks, go and come back.
#[test]
fn parts_of_levels_follow_nodes_on_clones() {
    let mut placed = 0;
    for seed in 0..60 {
        let mut dice = Dice(900 + seed);
        let mut clusters = vec![topology_cluster(&mut dice, 6, 3)];
        clusters.push(clusters[0].clone());
        let builder = scored(&mut dice);
        let framework = with_domain_scores(&mut dice, builder);
        let mut planner = Planner::new();
        for step in 0..10 {
            let at = dice.roll(2) as usize;
            let name = format!("n{}", dice.roll(18));
            let other = node(&mut dice, name[1..].parse().unwrap())
                .label("zone", format!("z{}", dice.roll(3)))
                .label("rack", format!("r{}", dice.roll(7)));
            let cluster = &mut clusters[at];
            match (cluster.node(&name).is_some(), dice.roll(3)) {
                (true, 0) => cluster.remove_node(&name).unwrap(),
                (true, _) => cluster.update_node(&other).unwrap(),
                (false, _) => drop(cluster.add_node(other).unwrap()),
            }
            if dice.roll(6) == 0 {
                clusters[1 - at] = clusters[at].clone();
            }
            for (side, cluster) in clusters.iter_mut().enumerate() {
                let members = 1 + dice.roll(6) as usize;
                let name = format!("s{seed}-{step}-{side}");
                let group = PodGroup::gang(&name, 1).pods(members, pod(&mut dice));
                let group = confined(&mut dice, group);
                let outcome = held(&mut planner, cluster, &framework, &group);
                placed += commit(cluster, &framework, &outcome);
            }
        }
    }
    assert!(placed > 500, "{placed}");
}

/// A domain that would burst is an error also where another one is liked better.
#[test]
fn a_sum_that_overflows_is_told_of_wherever_it_is() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for name in 0..6_i64 {
        let node = Node::new(format!("n{name}")).capacity("cpu", 9 - name).capacity("x/x", 5);
        cluster.add_node(node.label("rack", format!("r{}", name / 2))).unwrap();
    }
    let huge = Pod::new().name("huge").request("x/x", i64::MAX - 10).on("n0");
    cluster.add_pod(huge).unwrap();
    let framework = Framework::builder().domain_score(1, LeastFree::of("cpu")).build().unwrap();
    let group = PodGroup::gang("g", 2).pods(2, Pod::new().request("x/x", 9)).require("rack");
    let request = || Request::new(&group).strategy(Strategy::Kubernetes);
    let plain = Planner::place_reference(&cluster, &framework, request());
    assert!(plain.is_err());
    for mut planner in [Planner::new(), Planner::unpruned(), Planner::new().threads(2)] {
        assert_eq!(planner.place(&cluster, &framework, request()), plain);
    }
}

/// The room of [`Fit`], with a count of how often it was asked of blocks of rows.
struct Asked(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl Filter for Asked {
    fn name(&self) -> &str {
        "Asked"
    }

    fn prepare(&self, cx: &Context<'_>) -> phalanx::framework::Preparation {
        Filter::prepare(&Fit, cx)
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Fit.filter(cx, node)
    }

    fn filter_block(
        &self,
        cx: &Context<'_>,
        block: &phalanx::framework::Block<'_>,
        out: &mut [i64],
    ) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Fit.filter_block(cx, block, out);
    }

    fn room(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        Fit.room(cx, node)
    }

    fn room_block(&self, cx: &Context<'_>, block: &phalanx::framework::Block<'_>, out: &mut [i64]) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Fit.room_block(cx, block, out);
    }

    fn room_of_all(&self, cx: &Context<'_>, enough: i64) -> i64 {
        Fit.room_of_all(cx, enough)
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        Fit.declare(pod)
    }
}

/// A gang larger than the cluster is refused without a look at any block if sums tell, and again
/// without anything while nothing has changed.
#[test]
fn what_is_larger_than_the_cluster_is_refused_by_sums() {
    let mut cluster = Cluster::new();
    for name in 0..300 {
        let node = Node::new(format!("n{name}")).capacity("cpu", 10).capacity("g/g", 4);
        cluster.add_node(node).unwrap();
    }
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let framework = Framework::builder().filter(Asked(asked.clone())).build().unwrap();
    let blocks = || asked.swap(0, std::sync::atomic::Ordering::Relaxed);
    let mut planner = Planner::new();
    let mut is_placed = |cluster: &Cluster, name: &str, members: usize, pod: &Pod| {
        let group = PodGroup::gang(name, members as u32).pods(members, pod.clone());
        let request = Request::new(&group).strategy(Strategy::Kubernetes);
        let calls = planner.plugin_calls();
        let outcome = planner.place(cluster, &framework, request).unwrap();
        let blocks = blocks();
        (outcome.is_placed(), blocks, planner.plugin_calls() - calls)
    };
    let (device, core) = (Pod::new().request("g/g", 1).request("cpu", 1), Pod::new());
    let core = core.request("cpu", 3);
    assert_eq!(is_placed(&cluster, "a", 1_201, &device), (false, 0, 0));
    // Three on every node leave one core each, of which no fourth is made: rows are looked at.
    assert_eq!(is_placed(&cluster, "b", 901, &core), (false, 2, 0));
    assert_eq!(is_placed(&cluster, "b", 901, &core), (false, 0, 0));
    assert_eq!(is_placed(&cluster, "c", 1_300, &device), (false, 0, 0));
    assert!(is_placed(&cluster, "d", 900, &core).0);
    assert!(is_placed(&cluster, "e", 1_200, &device).0);
    assert!(!is_placed(&cluster, "b", 901, &core).0);
    // One more node, and it is another question.
    cluster.add_node(Node::new("more").capacity("cpu", 10).capacity("g/g", 4)).unwrap();
    assert!(is_placed(&cluster, "b", 901, &core).0);
    assert!(is_placed(&cluster, "a", 1_201, &device).0);
    assert_eq!(is_placed(&cluster, "a", 1_205, &device), (false, 0, 0));
    for node in 0..300 {
        let pod = Pod::new().name(format!("p{node}")).request("g/g", 1).on(format!("n{node}"));
        cluster.add_pod(pod).unwrap();
    }
    assert!(!is_placed(&cluster, "a", 905, &device).0);
    assert!(is_placed(&cluster, "a", 904, &device).0);
}

/// Gangs about as large as the cluster, asked for again and again on one that changes.
#[test]
fn gangs_as_large_as_the_cluster() {
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..60 {
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
    assert!(placed > 200 && refused > 200, "{placed} {refused}");
}

/// Groups whose domains are scored while pods of their siblings are on some nodes.
#[test]
fn siblings_count_in_the_sums_of_domains() {
    let mut placed = 0;
    for seed in 0..60 {
        let mut dice = Dice(8_000 + seed);
        let racks = 3 + dice.roll(6);
        let mut cluster = topology_cluster(&mut dice, racks, 6);
        let builder = scored(&mut dice).domain_score(1, LeastFree::of("gpu"));
        let framework =
            builder.domain_score(5, DomainAllocation::of([("cpu", 1), ("gpu", 2)])).build();
        let framework = framework.unwrap();
        let mut planner = Planner::new();
        for step in 0..4 {
            let name = format!("s{seed}-{step}");
            let mut group = PodGroup::gang(&name, 1);
            for part in 0..3 {
                let leaf = PodGroup::gang(format!("{name}-{part}"), 1);
                group = group.group(leaf.pods(3, pod(&mut dice)).require("rack"));
            }
            let outcome = held(&mut planner, &cluster, &framework, &group);
            placed += commit(&mut cluster, &framework, &outcome);
        }
    }
    assert!(placed > 600, "{placed}");
}
