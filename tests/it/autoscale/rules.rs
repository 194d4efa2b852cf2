//! Rules of scaling up one by one, errors, and what is kept between requests.

use phalanx::autoscale::{
    AutoscaleError, Autoscaler, NodeTemplate, ScaleUp, ScaleUpClaim, ScaleUpOutcome, ScaleUpRequest,
};
use phalanx::model::{Device, DeviceRequest};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Strategy};

use super::up::check;
use super::world::World;

fn cpu(name: &str, cpu: i64) -> Node {
    Node::new(name).capacity("cpu", cpu)
}

fn gang(name: &str, count: usize, cpu: i64) -> PodGroup {
    PodGroup::gang(name, count as u32).pods(count, Pod::new().request("cpu", cpu))
}

fn ask(cluster: &Cluster, request: ScaleUpRequest<'_>) -> ScaleUpOutcome {
    Autoscaler::new().scale_up(cluster, &Framework::default(), request).unwrap()
}

fn bought(answer: &ScaleUpOutcome) -> Vec<&str> {
    let start: &ScaleUp = answer.start().expect("the groups start");
    start.blocks.iter().map(|block| &*block.template).collect()
}

#[test]
fn groups_that_fit_need_nothing() {
    let mut cluster = Cluster::new();
    cluster.add_node(cpu("n1", 8)).unwrap();
    let group = gang("g", 2, 4);
    let request = ScaleUpRequest::new([&group]).template(NodeTemplate::new(cpu("t", 8), 1));
    let answer = ask(&cluster, request);
    assert!(bought(&answer).is_empty());
    assert_eq!(answer.start().unwrap().plans.len(), 1);
    // Without groups nothing is needed either.
    let none = ScaleUpRequest::new(Vec::<Request<'_>>::new());
    assert!(bought(&ask(&cluster, none)).is_empty());
}

#[test]
fn ties_go_to_fewer_nodes_and_then_to_the_first_template() {
    let group = gang("g", 4, 4);
    let small = || NodeTemplate::new(cpu("small", 8), 5);
    let templates = [small(), NodeTemplate::new(cpu("large", 16), 10)];
    let answer = ask(&Cluster::new(), ScaleUpRequest::new([&group]).templates(templates));
    assert_eq!(bought(&answer), ["large"]);
    let twin = NodeTemplate::new(cpu("twin", 8), 5);
    let answer =
        ask(&Cluster::new(), ScaleUpRequest::new([&group]).template(twin).template(small()));
    assert_eq!(bought(&answer), ["twin", "twin"]);
    let claim = answer.start().unwrap().claim;
    assert_eq!(claim, ScaleUpClaim::First);
}

#[test]
fn the_minimum_starts_unless_all_members_are_asked_for() {
    let mut group = gang("g", 4, 8);
    group.policy = phalanx::model::GroupPolicy::Gang { min_count: 1 };
    let request = || ScaleUpRequest::new([&group]).template(NodeTemplate::new(cpu("t", 8), 1));
    assert_eq!(bought(&ask(&Cluster::new(), request())).len(), 1);
    assert_eq!(bought(&ask(&Cluster::new(), request().all_members())).len(), 4);
}

#[test]
fn what_cannot_start_is_named() {
    let (large, small) = (gang("large", 1, 64), gang("small", 1, 1));
    let template = || NodeTemplate::new(cpu("t", 8), 1);
    let answer = ask(&Cluster::new(), ScaleUpRequest::new([&small, &large]).template(template()));
    assert_eq!(answer, ScaleUpOutcome::Impossible { groups: vec![large.full_name()] });
    // Each might start alone, and not both within the limit.
    let (one, two) = (gang("one", 1, 8), gang("two", 1, 8));
    let request = ScaleUpRequest::new([&one, &two]).template(template().limit(1));
    assert_eq!(ask(&Cluster::new(), request), ScaleUpOutcome::Impossible { groups: Vec::new() });
    let request = ScaleUpRequest::new([&one, &two]).template(template()).max_nodes(1);
    assert_eq!(ask(&Cluster::new(), request), ScaleUpOutcome::Impossible { groups: Vec::new() });
}

#[test]
fn devices_count_as_the_planner_counts_them() {
    let gpu = || Device::new("gpu", "A100").capacity("milli", 1_000);
    let node = cpu("t", 64).device(gpu()).device(gpu());
    // Two shares of 600 never fit one device.
    let pod = Pod::new().device(DeviceRequest::share("gpu", "milli", 600));
    let group = PodGroup::gang("g", 3).pods(3, pod);
    let request = ScaleUpRequest::new([&group]).template(NodeTemplate::new(node, 7));
    let answer = ask(&Cluster::new(), request);
    assert_eq!(bought(&answer), ["t", "t"]);
    assert!(answer.start().unwrap().is_cheapest());
}

#[test]
fn a_sequential_strategy_has_its_own_word() {
    // One after the other, spread, the small gang takes a node that the large one wants whole.
    let mut cluster = Cluster::new();
    cluster.add_node(cpu("a", 8)).unwrap();
    cluster.add_node(cpu("b", 8)).unwrap();
    let (small, large) = (gang("small", 2, 4), gang("large", 1, 8));
    let template = || NodeTemplate::new(cpu("t", 8), 3);
    let request = |strategy| {
        let groups = [&small, &large].map(|group| Request::new(group).strategy(strategy));
        ScaleUpRequest::new(groups).template(template())
    };
    let framework = Framework::spread();
    let ask = |strategy| {
        let answer = Autoscaler::new().scale_up(&cluster, &framework, request(strategy)).unwrap();
        answer.start().unwrap().price
    };
    assert_eq!(ask(Strategy::Search), 0);
    assert_eq!(ask(Strategy::Kubernetes), 3);
}

#[test]
fn unsound_requests_are_refused_by_name() {
    let group = gang("g", 1, 1);
    let ask = |request: ScaleUpRequest<'_>| {
        Autoscaler::new().scale_up(&Cluster::new(), &Framework::default(), request).unwrap_err()
    };
    let template = || NodeTemplate::new(cpu("t", 8), 1);
    let twice = ScaleUpRequest::new([&group]).template(template()).template(template());
    assert_eq!(ask(twice), AutoscaleError::DuplicateTemplate("t".into()));
    for bad in [
        template().block(0),
        template().block(u32::MAX),
        template().among("zone", Vec::<String>::new()),
        NodeTemplate::new(cpu("t", 8), u64::MAX),
    ] {
        let error = ask(ScaleUpRequest::new([&group]).template(bad));
        assert!(matches!(error, AutoscaleError::Template { name, .. } if name == "t"));
    }
    let nameless = ScaleUpRequest::new([&group]).template(NodeTemplate::new(Node::new(""), 1));
    assert!(matches!(ask(nameless), AutoscaleError::Model(_)));
    let empty = PodGroup::gang("g", 1);
    assert!(matches!(ask(ScaleUpRequest::new([&empty])), AutoscaleError::Place(_)));
}

#[test]
fn names_and_domains_that_are_taken_are_passed_over() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    cluster.add_node(Node::new("t-0-0").capacity("cpu", 1)).unwrap();
    cluster.add_node(Node::new("other").capacity("cpu", 1).label("rack", "t-1")).unwrap();
    let group = gang("g", 2, 8).require("rack");
    let template = NodeTemplate::new(cpu("t", 8), 1).block(2).own_domain("rack");
    let answer = ask(&cluster, ScaleUpRequest::new([&group]).template(template));
    let nodes: Vec<&str> = answer.start().unwrap().nodes().map(|node| &*node.name).collect();
    assert_eq!(nodes, ["t-2-0", "t-2-1"]);
}

#[test]
fn without_steps_the_bound_still_holds() {
    let group = gang("g", 8, 8);
    let request = ScaleUpRequest::new([&group]).template(NodeTemplate::new(cpu("t", 8), 5));
    match ask(&Cluster::new(), request.budget(0)) {
        ScaleUpOutcome::Exhausted { lower_bound } => assert_eq!(lower_bound, 40),
        ScaleUpOutcome::Start(start) => assert_eq!((start.price, start.lower_bound), (40, 40)),
        answer => panic!("{answer}"),
    }
}

#[test]
fn a_list_with_one_group_more_starts_from_the_last_answer() {
    let world = World::long(3, 61);
    let (cluster, groups) = (world.cluster(), world.groups());
    let framework = Framework::default();
    let request = |groups| ScaleUpRequest::new(groups).templates(world.templates());
    let mut autoscaler = Autoscaler::new();
    let before = autoscaler.scale_up(&cluster, &framework, request(&groups[..60])).unwrap();
    let after = autoscaler.scale_up(&cluster, &framework, request(&groups)).unwrap();
    let (before, after) = (before.start().unwrap(), after.start().unwrap());
    check(&world, &groups, after, false);
    assert!(after.lower_bound >= before.lower_bound);
    // And one less again.
    let fewer = autoscaler.scale_up(&cluster, &framework, request(&groups[1..])).unwrap();
    check(&world, &groups[1..], fewer.start().unwrap(), false);
    assert!(fewer.start().unwrap().price <= after.price);
    // Another cluster is another question.
    let mut other = cluster.clone();
    other.remove_node("old-0").unwrap();
    let anew = autoscaler.scale_up(&other, &framework, request(&groups)).unwrap();
    assert!(anew.start().unwrap().price >= anew.start().unwrap().lower_bound);
}

#[test]
fn equal_requests_have_equal_answers() {
    let world = World::long(5, 40);
    let (cluster, groups) = (world.cluster(), world.groups());
    let request = || ScaleUpRequest::new(&groups).templates(world.templates());
    let framework = Framework::default();
    let mut twice = Vec::new();
    for _ in 0..2 {
        let answer = Autoscaler::new().scale_up(&cluster, &framework, request()).unwrap();
        twice.push(answer);
    }
    assert_eq!(twice[0], twice[1]);
}
