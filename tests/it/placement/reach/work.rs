//! The work of far plugins is bounded by domains and by what has changed.

use std::sync::Arc;

use phalanx::model::{LabelSelector, PodAffinityTerm, SpreadConstraint};
use phalanx::reference;
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Request, Strategy};

use super::random::*;

/// Nodes in 20 racks and 4 zones.
fn racks(nodes: usize) -> Cluster {
    let mut cluster = Cluster::builder().levels([ZONE, RACK]).build().unwrap();
    for number in 0..nodes {
        let name = format!("n{number:05}");
        let node = Node::new(name.as_str())
            .capacity("cpu", 16)
            .capacity("pods", 110)
            .label(RACK, format!("r{}", number % 20))
            .label(ZONE, format!("z{}", number % 4))
            .label(HOSTNAME, name);
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn app() -> LabelSelector {
    LabelSelector::label("app", "x")
}

/// Evaluations per placement, beyond the first look at every node: for gangs of 100 pods on few
/// and on many nodes.
fn work(pod: &Pod) -> Vec<f64> {
    let framework = Framework::kubernetes();
    let calls = |nodes: usize, members: usize| {
        let cluster = racks(nodes);
        let mut planner = Planner::new();
        let gang = PodGroup::gang("g", members as u32).pods(members, pod.clone());
        let request = Request::new(&gang).strategy(Strategy::Kubernetes);
        let outcome = planner.place(&cluster, &framework, request).unwrap();
        assert_eq!(outcome.plan().map_or(0, phalanx::Plan::len), members);
        let calls = reference::plugin_calls(&planner);
        assert!(calls > 0, "not by classes");
        calls as f64
    };
    let per_placement = |nodes| (calls(nodes, 101) - calls(nodes, 1)) / 100.0;
    [200, 1_000, 4_000].map(per_placement).to_vec()
}

/// Near plugins are asked about the changed node, far ones once a domain at most.
#[test]
fn work_is_bounded_by_domains_not_by_nodes() {
    let pod = || Pod::new().request("cpu", "100m").label("app", "x");
    let near = 8.0;
    let zones = pod().spread(SpreadConstraint::new(1, ZONE, app()));
    let racks = pod().affinity(PodAffinityTerm::new(RACK, app()));
    let anti = pod().anti_affinity(PodAffinityTerm::new(HOSTNAME, app()));
    let wish = pod().spread(SpreadConstraint::new(1, RACK, app()).preferred());
    let both = anti.clone().spread(SpreadConstraint::new(1, ZONE, app()));
    for (pod, far) in
        [(&zones, 4.0), (&racks, 2.0), (&anti, 2.0), (&wish, 20.0), (&both, 4.0 + 2.0)]
    {
        let work = work(pod);
        for calls in &work {
            assert!(*calls <= near + far, "{work:?} for {:?}", pod.shape());
        }
    }
}

/// A kept company is told of pods that come and go, and asks about those domains alone.
#[test]
fn one_pod_at_a_time_costs_what_has_changed() {
    let framework = Framework::kubernetes();
    let mut cluster = racks(2_000);
    let mut planner = Planner::new();
    let shape = Arc::clone(
        Pod::new()
            .request("cpu", "100m")
            .label("app", "x")
            .spread(SpreadConstraint::new(1, ZONE, app()))
            .anti_affinity(PodAffinityTerm::new(HOSTNAME, app()))
            .shape(),
    );
    let mut place = |cluster: &mut Cluster, number: usize| {
        let before = reference::plugin_calls(&planner);
        let gang = PodGroup::gang(format!("g{number}"), 1).pods(1, Pod::of_shape(shape.clone()));
        let request = || Request::new(&gang).strategy(Strategy::Kubernetes);
        let outcome = planner.place(cluster, &framework, request()).unwrap();
        assert_eq!(
            Ok(outcome.clone()),
            reference::place_by_definition(cluster, &framework, request())
        );
        cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
        reference::plugin_calls(&planner) - before
    };
    for number in 0..4 {
        place(&mut cluster, number);
    }
    for number in 4..24 {
        let calls = place(&mut cluster, number);
        assert!(calls <= 20, "{calls}");
        if number % 5 == 0 {
            cluster.remove_pod("default", &format!("g{}-0", number - 3)).unwrap();
        }
    }
}

/// Anti-affinity by hostname is asked about the hosts that it rejects, not about each node: when a
/// planner meets the shape first, and after a node has come or gone.
#[test]
fn hosts_without_a_repelling_pod_are_not_asked_about() {
    let framework = Framework::kubernetes();
    let mut cluster = racks(2_000);
    let near = Pod::new().request("cpu", "100m").label("app", "y");
    let pod = Pod::new().request("cpu", "100m").label("app", "x");
    let pod = pod.anti_affinity(PodAffinityTerm::new(HOSTNAME, app()));
    for number in 0..30 {
        let old = pod.clone().name(format!("old{number}")).on(format!("n{:05}", 7 * number));
        cluster.add_pod(old).unwrap();
    }
    let place = |planner: &mut Planner, cluster: &Cluster, pod: &Pod| {
        let before = reference::plugin_calls(planner);
        let gang = PodGroup::gang("g", 4).pods(4, pod.clone());
        let request = || Request::new(&gang).strategy(Strategy::Kubernetes);
        let outcome = planner.place(cluster, &framework, request()).unwrap();
        assert!(outcome.is_placed());
        assert_eq!(Ok(outcome), reference::place_by_definition(cluster, &framework, request()));
        reference::plugin_calls(planner) - before
    };
    let mut planner = Planner::new();
    let cold = place(&mut planner, &cluster, &pod);
    let plain = place(&mut Planner::new(), &cluster, &near);
    assert!(cold <= plain + 30 + 4 * 10, "{cold} {plain}");
    for number in 0..6 {
        if number % 2 == 0 {
            let name = format!("m{number}");
            let node = Node::new(name.as_str()).capacity("cpu", 16).capacity("pods", 110);
            cluster.add_node(node.label(HOSTNAME, name)).unwrap();
        } else {
            cluster.remove_node(&format!("n{:05}", 1_000 + number)).unwrap();
        }
        let calls = place(&mut planner, &cluster, &pod);
        assert!(calls <= 30 + 4 * 20, "{calls}");
    }
}
