//! `Strategy::Kueue`: what a group becomes, what it gets, and what it is told.

use std::collections::BTreeMap;

use phalanx::framework::KueueGates;
use phalanx::model::Taint;
use phalanx::place::{Failure, KueueRoom};
use phalanx::plugins::{Fit, LeastAllocated, TaintToleration};
use phalanx::reference;
use phalanx::{
    Cluster, Framework, Node, Outcome, PlaceError, Pod, PodGroup, Request, Strategy, place_gang,
};

fn framework() -> Framework {
    let builder = Framework::builder().filter(Fit).filter(TaintToleration);
    let builder = builder.score(1, LeastAllocated::of([("cpu", 1)]));
    builder.strategy(Strategy::Kueue).build().unwrap()
}

/// Nodes `n0`, `n1` ... with so many cores, in racks.
fn cluster(levels: &[&str], nodes: &[(&str, i64)]) -> Cluster {
    let mut cluster = Cluster::builder().levels(levels.iter().copied()).build().unwrap();
    for (number, (rack, cpu)) in nodes.iter().enumerate() {
        let node = Node::new(format!("n{number}")).capacity("cpu", *cpu).label("rack", *rack);
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn group(name: &str, pods: usize, cpu: i64) -> PodGroup {
    PodGroup::gang(name, pods as u32).pods(pods, Pod::new().request("cpu", cpu))
}

fn place(cluster: &Cluster, group: &PodGroup) -> Outcome {
    let outcome = place_gang(cluster, &framework(), group).unwrap();
    if let Some(plan) = outcome.plan() {
        phalanx::reference::is_sound(plan, group, cluster, &framework()).unwrap();
    }
    outcome
}

fn on_nodes(outcome: &Outcome) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for one in outcome.plan().unwrap_or_else(|| panic!("{outcome}")).assignments() {
        *counts.entry(one.node().to_string()).or_default() += 1;
    }
    counts
}

fn failure(outcome: &Outcome) -> Failure {
    let Outcome::Unplaced(unplaced) = outcome else { panic!("{outcome}") };
    assert_eq!(outcome.word(), "greedy");
    unplaced.failure.clone().expect("a failure")
}

#[test]
fn without_levels_nodes_are_the_leaves() {
    let cluster = cluster(&[], &[("a", 3), ("a", 3), ("b", 2), ("b", 1)]);
    let outcome = place(&cluster, &group("g", 7, 1));
    let least_free_first = [("n0", 3), ("n1", 1), ("n2", 2), ("n3", 1)];
    let expected = least_free_first.map(|(node, pods)| (node.to_string(), pods));
    assert_eq!(on_nodes(&outcome), BTreeMap::from(expected));
    let gates = KueueGates { profile_mixed: false, ..KueueGates::default() };
    let gang = group("g", 7, 1);
    let outcome =
        place_gang(&cluster, &framework(), Request::new(&gang).kueue_gates(gates)).unwrap();
    let best_fit = [("n0", 3), ("n1", 3), ("n3", 1)].map(|(node, pods)| (node.to_string(), pods));
    assert_eq!(on_nodes(&outcome), BTreeMap::from(best_fit));
    assert_eq!(
        outcome,
        reference::place_by_definition(
            &cluster,
            &framework(),
            Request::new(&gang).kueue_gates(gates)
        )
        .unwrap()
    );
}

#[test]
fn a_rack_is_chosen_by_counts_and_its_nodes_by_scores() {
    let cluster = cluster(&["rack"], &[("a", 8), ("a", 8), ("b", 4), ("b", 4), ("b", 4)]);
    let outcome = place(&cluster, &group("g", 6, 2).require("rack"));
    // Rack b holds six of two cores too, and has less room. Its nodes share the pods.
    let plan = outcome.plan().unwrap();
    assert_eq!(plan.domains().next(), Some(("default/g", "rack", "b")));
    assert_eq!(on_nodes(&outcome).into_values().collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn what_does_not_fit_says_how_much_would() {
    let cluster = cluster(&["rack"], &[("a", 3), ("a", 3), ("b", 4)]);
    let outcome = place(&cluster, &group("g", 7, 1).require("rack"));
    let Failure::NoFit(no_fit) = failure(&outcome) else { panic!("{outcome}") };
    assert!(matches!(no_fit.room, KueueRoom::Whole { fits: 6, of: 7, .. }), "{no_fit}");
    assert!(outcome.to_string().contains("6 of 7 pods fit"), "{outcome}");
    let unknown = place(&cluster, &group("g", 1, 1).require("zone"));
    assert_eq!(failure(&unknown).kind(), "unknown-level");
    let odd = place(&cluster, &group("g", 5, 1).slice("rack", 2));
    assert_eq!(failure(&odd).kind(), "count-not-divisible");
    // The sum of a rack is enough, but three cores hold one pod of two.
    let scattered = place(&cluster, &group("g", 3, 2).require("rack"));
    assert_eq!(failure(&scattered).kind(), "no-node");
}

#[test]
fn groups_go_one_after_the_other_and_never_back() {
    let cluster = cluster(&["rack"], &[("a", 4), ("b", 2)]);
    let both = |first: usize, second: usize| {
        let first = group("first", first, 1).require("rack");
        PodGroup::gang("w", 2).group(first).group(group("second", second, 1).require("rack"))
    };
    let outcome = place(&cluster, &both(2, 4));
    assert_eq!(on_nodes(&outcome).into_values().collect::<Vec<_>>(), [4, 2]);
    // The first takes part of the roomier rack, as nobody else has room for it.
    let outcome = place(&cluster, &both(3, 3));
    assert!(matches!(failure(&outcome), Failure::NoFit(_)));
    let Outcome::Unplaced(unplaced) = outcome else { unreachable!() };
    assert_eq!(unplaced.group, "default/second");
    assert_eq!(unplaced.partial.expect("the first group").len(), 3);
}

#[test]
fn members_that_run_keep_the_others_in_their_rack() {
    let mut cluster = cluster(&["rack"], &[("a", 8), ("b", 4), ("b", 4)]);
    let mut gang = group("g", 4, 1).require("rack");
    for pod in &mut gang.pods {
        *pod = pod.clone().in_group("g");
    }
    let survivors = gang.pods.split_off(2);
    for pod in survivors {
        cluster.add_pod(pod.on("n2")).unwrap();
    }
    let outcome = place(&cluster, &gang);
    assert!(on_nodes(&outcome).keys().all(|node| node != "n0"));
    cluster.add_pod(Pod::new().name("x").request("cpu", 4).on("n1")).unwrap();
    cluster.add_pod(Pod::new().name("y").request("cpu", 1).on("n2")).unwrap();
    let outcome = place(&cluster, &gang);
    assert_eq!(failure(&outcome).kind(), "no-fit");
}

#[test]
fn hosts_are_filtered_and_a_leader_sits_with_its_workers() {
    let mut cluster =
        Cluster::builder().levels(["rack", "kubernetes.io/hostname"]).build().unwrap();
    for (name, rack, cpu) in [("a1", "a", 4), ("a2", "a", 4), ("b1", "b", 3), ("b2", "b", 3)] {
        let mut node = Node::new(name).capacity("cpu", cpu).label("rack", rack);
        node = node.label("kubernetes.io/hostname", name);
        if name == "a2" {
            node = node.taint(Taint::new("repair", "", "NoSchedule".to_string().into()));
        }
        cluster.add_node(node).unwrap();
    }
    let mut leader = group("leader", 1, 1).require("rack");
    leader.leader = true;
    let gang = PodGroup::gang("w", 2).group(leader).group(group("workers", 5, 1).require("rack"));
    let outcome = place(&cluster, &gang);
    assert_eq!(on_nodes(&outcome), BTreeMap::from([("b1".into(), 3), ("b2".into(), 3)]));
    let larger = group("g", 7, 1).require("rack");
    let Failure::NoFit(no_fit) = failure(&place(&cluster, &larger)) else { panic!("it fits") };
    assert_eq!(no_fit.excluded.taints, BTreeMap::from([("repair:NoSchedule".into(), 1)]));
}

#[test]
fn what_kueue_does_not_know_is_an_error() {
    let cluster = cluster(&["rack"], &[("a", 8)]);
    let mut ranked = group("g", 2, 1);
    ranked.topology.ranked = true;
    let mixed = group("g", 1, 1).pod(Pod::new().name("other").request("cpu", 2));
    let outer = PodGroup::gang("w", 1).group(group("g", 1, 1)).require("rack");
    for group in [ranked, mixed, outer] {
        let refused = place_gang(&cluster, &framework(), &group);
        assert!(matches!(refused, Err(PlaceError::Unsupported { .. })), "{refused:?}");
    }
}

#[test]
fn members_that_run_in_two_racks_are_an_error_as_in_every_strategy() {
    let mut cluster = cluster(&["rack"], &[("a", 8), ("b", 8)]);
    for (name, node) in [("r0", "n0"), ("r1", "n1")] {
        cluster.add_pod(Pod::new().name(name).in_group("g").on(node)).unwrap();
    }
    let scattered =
        PlaceError::Scattered { group: "default/g".parse().unwrap(), key: "rack".into() };
    let gang = group("g", 2, 1).require("rack");
    for strategy in [Strategy::Kubernetes, Strategy::Search, Strategy::Kueue] {
        let request = Request::new(&gang).strategy(strategy);
        assert_eq!(place_gang(&cluster, &framework(), request).unwrap_err(), scattered);
    }
    // What is preferred, or not asked at all, leaves them where they are.
    for gang in [group("g", 2, 1).prefer("rack"), group("g", 2, 1)] {
        assert!(place(&cluster, &gang).is_placed());
    }
}

#[test]
fn members_that_run_out_of_sight_leave_no_other_rack() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack, zone) in [("n0", "a", "x"), ("n1", "b", "y")] {
        let node = Node::new(name).capacity("cpu", 8).label("rack", rack).label("zone", zone);
        cluster.add_node(node).unwrap();
    }
    cluster.add_pod(Pod::new().name("r0").in_group("g").on("n0")).unwrap();
    let gang = group("g", 2, 1).require("rack");
    let within = |zone: &str| Request::new(&gang).within("zone", zone);
    let outcome = place_gang(&cluster, &framework(), within("y")).unwrap();
    assert_eq!(failure(&outcome), Failure::RunningElsewhere { level: "rack".into() });
    assert!(outcome.to_string().contains("another domain of \"rack\""), "{outcome}");
    let outcome = place_gang(&cluster, &framework(), within("x")).unwrap();
    assert_eq!(on_nodes(&outcome), BTreeMap::from([("n0".to_string(), 2)]));
}

/// Wherever members run, of whatever slices: a plan of the rest is sound, or there is none.
#[test]
fn the_rest_of_a_group_never_breaks_its_requirement() {
    // Two racks of two nodes, and a node of none.
    let mut nodes = Cluster::builder().levels(["rack", "kubernetes.io/hostname"]).build().unwrap();
    for (name, rack) in [("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b"), ("c0", "")] {
        let node = Node::new(name).capacity("cpu", 3);
        nodes.add_node(if rack.is_empty() { node } else { node.label("rack", rack) }).unwrap();
    }
    let names = ["", "a0", "a1", "b0", "b1", "c0"];
    let (mut placed, mut refused) = (0, 0);
    for (first, second) in names.iter().flat_map(|one| names.map(|other| (*one, other))) {
        let mut cluster = nodes.clone();
        for (name, node) in [("r0", first), ("r1", second)].iter().filter(|(_, n)| !n.is_empty()) {
            let pod = Pod::new().name(*name).request("cpu", 1).in_group("g");
            cluster.add_pod(pod.on(*node)).unwrap();
        }
        for (key, pods, slices) in [
            ("rack", 1, 0),
            ("rack", 2, 0),
            ("rack", 2, 2),
            ("rack", 1, 2),
            ("rack", 3, 3),
            ("kubernetes.io/hostname", 2, 0),
        ] {
            let mut gang = group("g", pods, 1).require(key);
            if slices > 0 {
                gang = gang.slice(key, slices);
            }
            match place_gang(&cluster, &framework(), &gang) {
                Ok(outcome) => {
                    let Some(plan) = outcome.plan() else { continue };
                    let sound = phalanx::reference::is_sound(plan, &gang, &cluster, &framework());
                    assert!(sound.is_ok(), "{first} {second} {key} {slices}: {sound:?}");
                    cluster.clone().commit(&framework(), plan).unwrap();
                    placed += 1;
                }
                Err(error) => {
                    assert!(matches!(error, PlaceError::Scattered { .. }), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(placed > 40 && refused > 40, "{placed} {refused}");
}
