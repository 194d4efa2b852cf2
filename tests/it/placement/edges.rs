//! Edges of placement: groups in part bound, trees that outgrow a node, odd nodes, weights.

use std::sync::Arc;

use phalanx::framework::{
    Context, CountedPods, CounterSpec, Declaration, DomainContext, DomainScore, FilterPlugin,
    FilterPreparation, Grain, Incremental, PreparedFilter, PreparedScore, Reach, ScorePlugin,
    ScorePreparation, Verdict, filter_fn,
};
use phalanx::model::{
    Device, DeviceRequest, LabelSelector, PodAffinityTerm, PodShape, SpreadConstraint,
};
use phalanx::plugins::{DeviceFit, DomainAllocation, Fit, InterPodAffinity, LeastAllocated};
use phalanx::state::NodeView;
use phalanx::{
    Cluster, Event, Framework, Node, PlaceError, Planner, Pod, PodGroup, Request, Strategy,
    place_gang, reference,
};

fn nodes_of(cluster: &Cluster, framework: &Framework, request: Request<'_>) -> Vec<String> {
    let outcome = place_gang(cluster, framework, request).unwrap();
    let plan = outcome.plan().unwrap_or_else(|| panic!("{outcome}"));
    plan.assignments().map(|own| own.node().to_string()).collect()
}

#[test]
fn a_group_with_a_bound_member_is_an_error_and_not_a_plan() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n0").capacity("cpu", 8)).unwrap();
    let gang = PodGroup::gang("g", 2)
        .pod(Pod::new().name("a").request("cpu", 1))
        .pod(Pod::new().name("b").request("cpu", 1));
    cluster.add_pod(Pod::new().name("b").request("cpu", 1).on("n0")).unwrap();
    for strategy in [Strategy::Kubernetes, Strategy::Search, Strategy::Kueue] {
        let request = || Request::new(&gang).strategy(strategy);
        let bound = PlaceError::AlreadyBound("default/b".parse().unwrap());
        assert_eq!(place_gang(&cluster, &Framework::default(), request()), Err(bound.clone()));
        let defined = reference::place_by_definition(&cluster, &Framework::default(), request());
        assert_eq!(defined, Err(bound));
    }
}

#[test]
fn a_group_of_groups_is_not_placed_if_the_first_leaves_too_little_for_the_second() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n0").capacity("cpu", 5)).unwrap();
    let leaf = |name: &str, minimum: u32| {
        let pod = |at: usize| Pod::new().name(format!("{name}-{at}")).request("cpu", 1);
        (0..4).fold(PodGroup::gang(name, minimum), |leaf, at| leaf.pod(pod(at)))
    };
    // The first takes four cores of five, though two would do; the second needs two.
    let tree = PodGroup::gang("tree", 2).group(leaf("first", 2)).group(leaf("second", 2));
    let request = || Request::new(&tree).strategy(Strategy::Kubernetes);
    let outcome = place_gang(&cluster, &Framework::default(), request()).unwrap();
    assert!(!outcome.is_placed(), "{outcome}");
    let defined = reference::place_by_definition(&cluster, &Framework::default(), request());
    assert!(!defined.unwrap().is_placed());
    // Nor where a filter keeps room from being counted.
    let few = filter_fn("few", Reach::Node, |_, node| node.pod_count() < 5);
    let framework = Framework::builder().filter(Fit).filter(few).build().unwrap();
    let mut roomy = Cluster::new();
    roomy.add_node(Node::new("n0").capacity("cpu", 50)).unwrap();
    let outcome = place_gang(&roomy, &framework, request()).unwrap();
    assert!(!outcome.is_placed(), "{outcome}");
    cluster.add_node(Node::new("n1").capacity("cpu", 1)).unwrap();
    assert_eq!(nodes_of(&cluster, &Framework::default(), request()).len(), 6);
}

#[test]
fn more_members_come_beside_those_that_run_though_none_of_them_makes_a_minimum() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack) in [("a0", "a"), ("b0", "b"), ("c0", "c")] {
        cluster.add_node(Node::new(name).capacity("cpu", 4).label("rack", rack)).unwrap();
    }
    let member = |at: usize| Pod::new().name(format!("p{at}")).in_group("g").request("cpu", 1);
    // Three of the gang run in two racks, so that what is preferred is open again.
    for (at, node) in [(0, "a0"), (1, "a0"), (2, "b0")] {
        cluster.add_pod(member(at).on(node)).unwrap();
    }
    let builder = Framework::builder().filter(Fit);
    let score = DomainAllocation::of([("cpu", 1)]);
    let framework = builder.domain_score(1, score).build().unwrap();
    let gang = PodGroup::gang("g", 4).pod(member(3)).prefer("rack");
    let request = Request::new(&gang).strategy(Strategy::Kubernetes);
    let outcome = Planner::new().place(&cluster, &framework, request.clone()).unwrap();
    let defined = reference::place_by_definition(&cluster, &framework, request).unwrap();
    assert_eq!(outcome, defined);
    assert_eq!(outcome.plan().unwrap().assignments().next().unwrap().node(), "a0");
}

/// Likes one rack.
struct Likes(&'static str);

impl DomainScore for Likes {
    fn name(&self) -> &str {
        "Likes"
    }

    fn score(&self, cx: &DomainContext<'_>) -> i64 {
        let is_there = |row| cx.node(row).and_then(|node| node.label("rack")) == Some(self.0);
        let there = cx.proposed.iter().filter(|(_, row)| is_there(*row)).count();
        if there == cx.proposed.len() { 50 } else { 0 }
    }
}

#[test]
fn the_definition_takes_the_domain_that_scores_best_as_the_search_does() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for rack in ["a", "b", "c"] {
        let node = Node::new(format!("{rack}0")).capacity("cpu", 4).label("rack", rack);
        cluster.add_node(node).unwrap();
    }
    let gang = PodGroup::gang("g", 2).pods(2, Pod::new().request("cpu", 1)).require("rack");
    for rack in ["a", "b", "c"] {
        let builder = Framework::builder().filter(Fit).domain_score(2, Likes(rack));
        let framework = builder.build().unwrap();
        let request = Request::new(&gang).strategy(Strategy::Search);
        let defined = reference::place_by_definition(&cluster, &framework, request.clone());
        let defined = defined.unwrap().plan().cloned().unwrap();
        assert!(defined.assignments().all(|own| own.node().starts_with(rack)), "{rack}");
        let found = nodes_of(&cluster, &framework, request);
        assert!(found.iter().all(|node| node.starts_with(rack)), "{rack}");
    }
}

#[test]
fn a_gang_that_prefers_one_island_may_be_committed_beside_members_of_another() {
    let mut cluster = Cluster::new();
    let mut node = Node::new("n0").capacity("cpu", 8);
    for at in 0..4 {
        let mut device = Device::new("gpu", "A").capacity("milli", 100);
        device.island = Some(if at < 2 { "left".into() } else { "right".into() });
        node = node.device(device);
    }
    cluster.add_node(node).unwrap();
    let framework = Framework::builder().filter(Fit).filter(DeviceFit).build().unwrap();
    let member = |at: usize| {
        let pod = Pod::new().name(format!("p{at}")).in_group("g").request("cpu", 1);
        pod.device(DeviceRequest::whole("gpu", 1))
    };
    let gang = (0..2).map(member).fold(PodGroup::gang("g", 2), PodGroup::pod).prefer_island();
    let outcome = place_gang(&cluster, &framework, &gang).unwrap();
    let plan = outcome.plan().unwrap_or_else(|| panic!("{outcome}"));
    assert_eq!(plan.islands().next().map(|own| own.2), Some("left"));
    // A third appears in the other island before the commit: it was a wish, so that is no fault.
    cluster.add_pod(member(2).on("n0").holding([vec![3]])).unwrap();
    cluster.commit(&framework, plan).unwrap();
    assert_eq!(cluster.pods().filter(|pod| pod.node().is_some()).count(), 3);
}

#[test]
fn what_pods_use_on_a_node_without_that_resource_fills_no_domain() {
    // The second node of rack a states no memory; what its pod takes of it is no use of the rack.
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack, memory) in [("a0", "a", 64), ("a1", "a", 0), ("b0", "b", 64)] {
        let node = Node::new(name).capacity("cpu", 64).capacity("memory", memory);
        cluster.add_node(node.label("rack", rack)).unwrap();
    }
    let fills = |name: &str, memory: i64, node: &str| {
        Pod::new().name(name).request("cpu", 1).request("memory", memory).on(node)
    };
    cluster.add_pod(fills("x", 60, "a1")).unwrap();
    cluster.add_pod(fills("y", 16, "b0")).unwrap();
    cluster.add_pod(fills("z", 0, "a0")).unwrap();
    let builder = Framework::builder().filter(Fit);
    let score = DomainAllocation::of([("memory", 1)]);
    let framework = builder.domain_score(1, score).build().unwrap();
    let gang = PodGroup::gang("g", 1)
        .pods(1, Pod::new().request("cpu", 1).request("memory", 4))
        .require("rack");
    for strategy in [Strategy::Kubernetes, Strategy::Search] {
        let request = Request::new(&gang).strategy(strategy);
        // Rack b is at 20 of 64, rack a at 4 of 64.
        assert_eq!(nodes_of(&cluster, &framework, request), ["b0"], "{strategy:?}");
    }
}

fn apart(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm::new(key, LabelSelector::label("app", app))
}

#[test]
fn namespaces_count_for_all_terms_of_pods_that_repel() {
    // Two shapes of pods that repel others run; each names the namespaces by a label.
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack) in [("a0", "a"), ("b0", "b"), ("c0", "c")] {
        let node = Node::new(name).capacity("cpu", 8).label("rack", rack);
        cluster.add_node(node.label("room", rack)).unwrap();
    }
    let builder = Framework::builder().filter(Fit).filter(InterPodAffinity::new());
    let builder = builder.score(1, LeastAllocated::of([("cpu", 1)]));
    let framework = builder.strategy(Strategy::Kubernetes).build().unwrap();
    let team = LabelSelector::label("team", "red");
    for (name, node, key) in [("x", "a0", "rack"), ("y", "b0", "room")] {
        let pod = Pod::new().name(name).request("cpu", 1).on(node);
        let term = apart(key, "web").namespaces_by(team.clone());
        cluster.add_pod(pod.anti_affinity(term)).unwrap();
    }
    let web = PodGroup::gang("g", 1)
        .in_namespace("shop")
        .pods(1, Pod::new().in_namespace("shop").label("app", "web").request("cpu", 1));
    let mut planner = Planner::new();
    let node = |planner: &mut Planner, cluster: &Cluster| {
        let outcome = planner.place(cluster, &framework, &web).unwrap();
        let defined = reference::place_by_definition(cluster, &framework, &web).unwrap();
        assert_eq!(outcome, defined);
        outcome.plan().unwrap().assignments().next().unwrap().node().to_string()
    };
    // Fuller than the others, so that it is the last choice.
    cluster.add_pod(Pod::new().name("z").request("cpu", 4).on("c0")).unwrap();
    for labels in [vec![], vec![("team", "red")], vec![], vec![("team", "red")]] {
        let is_red = !labels.is_empty();
        let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let event = Event::NamespaceChanged { name: "shop".into(), labels, version: 0 };
        cluster.apply(event).unwrap();
        assert_eq!(node(&mut planner, &cluster), if is_red { "c0" } else { "a0" });
    }
}

/// Keeps a pod from racks and from rooms with a pod that repels it.
struct Welcome;

const PLACES: [&str; 2] = ["rack", "room"];

impl FilterPlugin for Welcome {
    fn name(&self) -> &str {
        "Welcome"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        let counter = |key: &str| CounterSpec::new(key, CountedPods::Repelling);
        let declaration = Declaration::domain(PLACES).counting(counter(PLACES[0]));
        declaration.counting(counter(PLACES[1])).grained()
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
        FilterPreparation::ready(Welcome)
    }
}

impl PreparedFilter for Welcome {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_if((0..2).all(|at| cx.count(at, node).unwrap_or(0) == 0))
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for Welcome {
    fn classes(&self, cx: &Context<'_>) -> Grain {
        Grain::of(cx, PLACES)
    }
}

#[test]
fn a_plugin_that_counts_repelling_pods_twice_sees_labels_of_namespaces_change() {
    let mut cluster = Cluster::new();
    for (name, rack) in [("a0", "a"), ("b0", "b"), ("c0", "c")] {
        let node = Node::new(name).capacity("cpu", 8).label("rack", rack).label("room", rack);
        cluster.add_node(node).unwrap();
    }
    for (name, node, key) in [("x", "a0", "rack"), ("y", "b0", "room")] {
        let term = apart(key, "web").namespaces_by(LabelSelector::label("team", "red"));
        let pod = Pod::new().name(name).request("cpu", 1).on(node);
        cluster.add_pod(pod.anti_affinity(term)).unwrap();
    }
    cluster.add_pod(Pod::new().name("z").request("cpu", 4).on("c0")).unwrap();
    let builder = Framework::builder().filter(Fit).filter(Welcome);
    let builder = builder.score(1, LeastAllocated::of([("cpu", 1)]));
    let framework = builder.strategy(Strategy::Kubernetes).build().unwrap();
    let pod = Pod::new().in_namespace("shop").label("app", "web").request("cpu", 1);
    let web = PodGroup::gang("g", 1).in_namespace("shop").pods(1, pod);
    let mut planner = Planner::new();
    for is_red in [false, true, false, true] {
        let team = if is_red { "red" } else { "blue" };
        let labels = [("team".into(), team.into())].into_iter().collect();
        let event = Event::NamespaceChanged { name: "shop".into(), labels, version: 0 };
        cluster.apply(event).unwrap();
        let outcome = planner.place(&cluster, &framework, &web).unwrap();
        let defined = reference::place_by_definition(&cluster, &framework, &web).unwrap();
        assert_eq!(outcome, defined);
        let node = outcome.plan().unwrap().assignments().next().unwrap().node();
        assert_eq!(node, if is_red { "c0" } else { "a0" });
    }
}

/// Likes a node by how many pods of an app are on it, each node for itself.
#[derive(Clone, Copy)]
struct Company;

impl ScorePlugin for Company {
    fn name(&self) -> &str {
        "Company"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        let selector = LabelSelector::label("app", "a");
        let pods = CountedPods::Matching { namespace: None, selector };
        Declaration::domain(["host"]).counting(CounterSpec::new("host", pods)).grained()
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> ScorePreparation {
        ScorePreparation::ready(*self)
    }
}

impl PreparedScore for Company {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        (10 * cx.count(0, node).unwrap_or(0)).min(100)
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for Company {
    fn classes(&self, cx: &Context<'_>) -> Grain {
        Grain::of(cx, ["host"]).each()
    }
}

#[test]
fn the_weight_of_a_score_of_single_nodes_multiplies_it() {
    // Three times ten for each pod of the app outweighs what a node loses by its fill.
    let mut cluster = Cluster::new();
    for at in 0..6 {
        let name = format!("n{at}");
        cluster.add_node(Node::new(&name).capacity("cpu", 10).label("host", &name)).unwrap();
        for pod in 0..at {
            let pod = Pod::new().name(format!("{name}-{pod}")).label("app", "a");
            cluster.add_pod(pod.request("cpu", 1).on(&name)).unwrap();
        }
    }
    let builder = Framework::builder().filter(Fit).score(3, Company);
    let builder = builder.score(1, LeastAllocated::of([("cpu", 1)]));
    let framework = builder.strategy(Strategy::Kubernetes).build().unwrap();
    let gang = PodGroup::gang("g", 3).pods(3, Pod::new().request("cpu", 1));
    let mut planner = Planner::new();
    for _ in 0..2 {
        let outcome = planner.place(&cluster, &framework, &gang).unwrap();
        let defined = reference::place_by_definition(&cluster, &framework, &gang).unwrap();
        assert_eq!(outcome, defined);
        assert_eq!(outcome.plan().unwrap().assignments().next().unwrap().node(), "n5");
    }
}

#[test]
fn what_only_a_search_refuses_is_not_called_proven_for_a_group_beyond_the_search() {
    // Three of two nodes of four: by sums and counts they fit, by twos and threes they do not.
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for name in ["n0", "n1"] {
        cluster.add_node(Node::new(name).capacity("cpu", 4).label("rack", "r")).unwrap();
    }
    let leaf = [3, 3, 2].into_iter().enumerate().fold(PodGroup::gang("leaf", 3), |leaf, own| {
        leaf.pod(Pod::new().name(format!("p{}", own.0)).request("cpu", own.1))
    });
    let framework = Framework::builder().filter(Fit).build().unwrap();
    let answer = |group: &PodGroup| {
        let request = Request::new(group).strategy(Strategy::Search);
        place_gang(&cluster, &framework, request).unwrap().word()
    };
    let tree = PodGroup::gang("tree", 1).group(leaf.clone().require("rack"));
    assert_eq!(answer(&leaf), "infeasible");
    assert_eq!(answer(&tree), "infeasible");
    // A minimum of pods beside one of groups is more than the search looks at.
    assert_eq!(answer(&tree.clone().min_pods(3)), "greedy");
}

/// A decision of a tiny cluster took 23 seconds: each step of the search prepared all filters anew.
#[test]
fn a_tiny_cluster_with_spread_and_anti_affinity_is_answered_within_the_steps_of_a_moment() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack) in [("n0", "a"), ("n1", "a"), ("n2", "b"), ("n3", "b")] {
        let node = Node::new(name).capacity("cpu", 8).label("rack", rack).label("host", name);
        cluster.add_node(node).unwrap();
    }
    let all = LabelSelector::label("job", "g");
    let member = |at: usize| {
        let pod = Pod::new().name(format!("p{at}")).request("cpu", 1 + at as i64 % 3);
        let pod = pod.label("job", "g").label("role", if at.is_multiple_of(2) { "x" } else { "y" });
        let pod = pod.spread(SpreadConstraint::new(1, "host", all.clone()));
        if at.is_multiple_of(4) { pod.anti_affinity(apart("host", "none")) } else { pod }
    };
    let gang = |size: usize| {
        let members = (0..size).map(member);
        members.fold(PodGroup::gang("g", size as u32).require("rack"), PodGroup::pod)
    };
    let framework = Framework::kubernetes();
    let mut planner = Planner::new();
    for (size, fits) in [(9, false), (6, false), (2, true)] {
        let gang = gang(size);
        let request = Request::new(&gang).strategy(Strategy::Search);
        let outcome = planner.place(&cluster, &framework, request).unwrap();
        // A rack has sixteen cores, of which nine members need eighteen; six are too uneven.
        assert_eq!(outcome.is_placed(), fits, "{outcome}");
        let calls = reference::plugin_calls(&planner);
        assert!(calls < 100_000, "{calls}");
    }
}
