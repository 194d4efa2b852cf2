//! The plugins of the crate keep the laws, on a cluster that shows what each of them looks at.

use phalanx::laws::{check_filter, check_framework, check_score};
use phalanx::model::{
    Effect, LabelSelector, Labels, NodeAffinity, NodeSelectorTerm, Operator, PodAffinityTerm,
    PodShape, Requirement, SpreadConstraint, Taint, Toleration, WeightedPodAffinityTerm,
};
use phalanx::plugins::{
    BalancedAllocation, Fit, InterPodAffinity, LeastAllocated, MostAllocated, NodeResourcesFitPlus,
    PodTopologySpread, RequestedToCapacityRatio, ResourceStrategy, ScarceResourceAvoidance,
    SpreadDefaults, Utilization,
};
use phalanx::{Cluster, Framework, Node, Pod};

use crate::support::budget;

const HOST: &str = "kubernetes.io/hostname";

/// Seven nodes in three zones, one of them in none; taints, images, ports, terms and gaps.
fn cluster() -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone"]).build().unwrap();
    cluster.set_namespace("default", Labels::from([("env".into(), "dev".into())]));
    for (index, zone) in ["a", "a", "b", "b", "c", "c", ""].into_iter().enumerate() {
        let name = format!("n{index}");
        let mut node = Node::new(&name)
            .capacity("cpu", 4)
            .capacity("memory", "8Gi")
            .capacity("pods", 3 + i64::from(index == 1))
            .label(HOST, &name)
            .label("gen", index.to_string());
        if !zone.is_empty() {
            node = node.label("zone", zone);
        }
        if index % 2 == 0 {
            node = node.capacity("nvidia.com/gpu", 8).image("app:1", 400 << 20);
        }
        if index == 2 {
            node = node.taint(Taint::new("k", "", Effect::NoSchedule)).unschedulable();
        }
        if index == 3 {
            node = node.taint(Taint::new("k", "", Effect::PreferNoSchedule));
        }
        cluster.add_node(node).unwrap();
    }
    let old = Pod::new().request("cpu", 1).label("app", "web");
    for (name, node, pod) in [
        ("old-1", "n1", old.clone()),
        ("old-2", "n1", old.clone().host_port("TCP", 80)),
        ("old-3", "n4", old.clone().anti_affinity(term("zone", "batch"))),
        ("old-4", "n5", old.affinity(term(HOST, "web"))),
    ] {
        cluster.add_pod(pod.name(name).on(node)).unwrap();
    }
    cluster.add_node(Node::new("gone").capacity("cpu", 1)).unwrap();
    cluster.remove_node("gone").unwrap();
    cluster
}

fn term(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm::new(key, LabelSelector::label("app", app))
}

/// Requests of a pod, one thing each. The laws try pairs of them: a third outside of a soak.
fn shapes() -> Vec<PodShape> {
    let web = || Pod::new().request("cpu", 1).label("app", "web");
    let batch = || Pod::new().request("cpu", "500m").label("app", "batch");
    let age = |operator, value: &str| {
        NodeSelectorTerm::labels([Requirement::new("gen", operator, [value])])
    };
    let affinity = NodeAffinity::new().require(age(Operator::Gt, "1"));
    let mut picky = batch().node_affinity(affinity.prefer(7, age(Operator::In, "4")));
    picky.shape_mut().images = vec!["app:1".into()];
    let mut sociable = web();
    let weighted =
        |weight, key: &str, app: &str| WeightedPodAffinityTerm::new(weight, term(key, app));
    sociable.shape_mut().preferred_pod_affinity = vec![weighted(50, "zone", "web")];
    sociable.shape_mut().preferred_pod_anti_affinity = vec![weighted(20, HOST, "batch")];
    let mut owned = web();
    owned.shape_mut().owner_selector = Some(LabelSelector::label("app", "web"));
    let mut named = batch();
    named.shape_mut().node_name = Some("n3".into());
    let spread = |key: &str| SpreadConstraint::new(1, key, LabelSelector::label("app", "web"));
    let pods = [
        Pod::new(),
        web().request("nvidia.com/gpu", 2).request("memory", "1Gi"),
        batch().toleration(Toleration::exists("k")),
        batch().host_port("TCP", 80),
        picky,
        named,
        sociable,
        owned,
        web().affinity(term("zone", "web")),
        web().anti_affinity(term(HOST, "web")),
        web().spread(spread("zone")),
        web().spread(spread("zone").preferred()).spread(spread(HOST).preferred()),
    ];
    pods.iter().step_by(budget::of(3, 1) as usize).map(|pod| (**pod.shape()).clone()).collect()
}

#[test]
fn the_profiles_keep_the_laws() {
    for framework in [Framework::kubernetes(), Framework::default(), Framework::spread()] {
        assert_eq!(check_framework(&framework, &cluster(), &shapes()), Ok(()));
    }
}

#[test]
fn plugins_with_arguments_keep_the_laws() {
    let weights = [("cpu", 1), ("memory", 2), ("nvidia.com/gpu", 20)];
    let curve = Utilization::new([(0, 0), (50, 10), (100, 3)]).unwrap();
    let framework = Framework::builder()
        .filter(Fit.ignoring(["nvidia.com/gpu"], ["amd.com"]))
        .filter(InterPodAffinity::new())
        .score(1, LeastAllocated::of(weights))
        .score(1, MostAllocated::of(weights))
        .score(1, RequestedToCapacityRatio::of(curve, weights))
        .score(1, BalancedAllocation::of(["cpu", "memory", "nvidia.com/gpu"]))
        .score(1, ScarceResourceAvoidance::of(["nvidia.com/gpu"]))
        .score(
            1,
            NodeResourcesFitPlus::of([
                ("nvidia.com/gpu", ResourceStrategy::MostAllocated, 3),
                ("cpu", ResourceStrategy::LeastAllocated, 1),
            ]),
        )
        .score(1, InterPodAffinity::new().hard_weight(50).ignore_preferred_terms_of_existing_pods())
        .build()
        .unwrap();
    assert_eq!(check_framework(&framework, &cluster(), &shapes()), Ok(()));
    let list = SpreadDefaults::List(vec![
        SpreadConstraint::new(2, "zone", LabelSelector::default()),
        SpreadConstraint::new(1, HOST, LabelSelector::default()).preferred(),
    ]);
    let spread = PodTopologySpread::with_defaults(list);
    assert_eq!(check_filter(spread.clone(), &cluster(), &shapes()), Ok(()));
    assert_eq!(check_score(spread, &cluster(), &shapes()), Ok(()));
}
