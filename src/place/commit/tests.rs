//! Commits that hold, and ones that do not.

use alloc::format;

use super::*;
use crate::model::{Node, Pod, PodGroup};
use crate::place::{Outcome, place_gang};

fn node(name: &str) -> Node {
    Node::new(name).capacity("cpu", 12)
}

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new();
    for number in 0..nodes {
        cluster.add_node(node(&format!("n{number:03}"))).unwrap();
    }
    cluster
}

fn plan(cluster: &Cluster, framework: &Framework, name: &str, pods: usize) -> Plan {
    let group = PodGroup::gang(name, pods as u32).pods(pods, Pod::new().request("cpu", 1));
    match place_gang(cluster, framework, &group).unwrap() {
        Outcome::Placed(plan) => plan,
        other => panic!("{other}"),
    }
}

fn places(plan: &Plan) -> Vec<(String, String)> {
    plan.assignments().map(|a| (a.pod().name.clone(), a.node().to_string())).collect()
}

#[test]
fn plans_share_the_nodes_until_one_changes() {
    let framework = Framework::default();
    let mut cluster = cluster(600);
    let first = plan(&cluster, &framework, "a", 8);
    let second = plan(&cluster, &framework, "b", 4);
    let before = Arc::strong_count(&cluster.columns.spec);
    let copies = [first.clone(), second.clone()];
    assert_eq!(Arc::strong_count(&cluster.columns.spec), before + 2);
    drop(copies);
    assert!(cluster.has_nodes_of(&first) && cluster.has_nodes_of(&second));
    assert!(cluster.clone().has_nodes_of(&first));

    cluster.commit(&framework, &first).unwrap();
    assert!(cluster.has_nodes_of(&second), "pods change no node");
    let (shown, debug) = (places(&second), format!("{second:?}"));
    cluster.remove_node("n599").unwrap();
    cluster.update_node(&node("n000").label("zone", "z")).unwrap();
    assert!(!cluster.has_nodes_of(&first));
    assert!(Arc::ptr_eq(&first.nodes, &second.nodes));
    let same = (0..600).filter(|&row| {
        let (own, planned) = (&cluster.columns.spec[row], &second.nodes[row]);
        matches!((own, planned), (Some(own), Some(planned)) if Arc::ptr_eq(own, planned))
    });
    assert_eq!(same.count(), 598, "only what changed is copied");
    assert_eq!((places(&second), format!("{second:?}")), (shown, debug));
    cluster.commit(&framework, &second).unwrap();
    assert_eq!(cluster.pod_count(), 12);
    assert!(size_of::<crate::state::plan::PlanMember>() <= 8);
}

#[test]
fn rows_used_anew_are_told_apart_and_names_are_found_again() {
    let framework = Framework::default();
    let mut cluster = cluster(2);
    let planned = plan(&cluster, &framework, "a", 8);
    // The rows change places.
    cluster.remove_node("n000").unwrap();
    cluster.remove_node("n001").unwrap();
    let gone = cluster.commit(&framework, &planned).unwrap_err();
    assert!(matches!(gone, CommitError::NodeGone { .. }), "{gone}");
    cluster.add_node(node("n000")).unwrap();
    cluster.add_node(node("n001")).unwrap();
    cluster.commit(&framework, &planned).unwrap();
    for (pod, node) in places(&planned) {
        assert_eq!(cluster.pod("default", &pod).unwrap().node().unwrap().name(), node);
    }
}

#[test]
fn a_plan_that_fails_midway_leaves_groups_and_names_as_they_were() {
    let framework = Framework::default();
    let mut cluster = cluster(4);
    let planned = plan(&cluster, &framework, "a", 8);
    let taken = Pod::new().name("a-5").in_group("other").on("n003");
    cluster.add_pod(taken).unwrap();
    let error = cluster.commit(&framework, &planned).unwrap_err();
    assert_eq!(error, StateError::PodExists("default/a-5".parse().unwrap()).into());
    assert_eq!((cluster.pod_count(), cluster.group_pods("default/a").count()), (1, 0));
    assert_eq!(cluster.group_pods("default/other").count(), 1);
    cluster.remove_pod("default", "a-5").unwrap();
    cluster.commit(&framework, &planned).unwrap();
    assert_eq!(cluster.group_pods("default/a").count(), 8);
    cluster.remove_pod("default", "a-3").unwrap();
    assert_eq!(cluster.group_pods("default/a").count(), 7);
}

#[test]
fn pods_of_several_shapes_and_groups_are_linked_as_if_bound_one_by_one() {
    let framework = Framework::default();
    let mut cluster = cluster(9);
    let mut tree = PodGroup::gang("tree", 2);
    for name in ["left", "right"] {
        let mut leaf = PodGroup::gang(name, 4);
        for number in 0..4 {
            let pod = Pod::new().name(format!("{name}-{number}"));
            leaf = leaf.pod(pod.request("cpu", 1 + number % 2));
        }
        tree = tree.group(leaf);
    }
    let outcome = place_gang(&cluster, &framework, &tree).unwrap();
    cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
    for name in ["left", "right"] {
        let group = format!("default/{name}");
        let mut pods: Vec<_> = cluster.group_pods(&group).map(|p| p.name().to_string()).collect();
        pods.sort();
        assert_eq!(pods, [0, 1, 2, 3].map(|number| format!("{name}-{number}")));
        for (left, pod) in pods.iter().enumerate().rev() {
            cluster.remove_pod("default", pod).unwrap();
            assert_eq!(cluster.group_pods(&group).count(), left);
        }
    }
    assert_eq!(cluster.pod_count(), 0);
}

#[test]
fn a_plan_that_is_committed_in_place_is_judged_as_any_other() {
    use crate::model::{LabelSelector, PodAffinityTerm};
    let framework = Framework::kubernetes();
    let (mut held, mut refused) = (0, 0);
    let mut seed = 1_u64;
    let mut below = |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (seed >> 33) % sides
    };
    for round in 0..300 {
        let mut cluster = Cluster::new();
        for number in 0..4 {
            let name = format!("n{number:03}");
            let node = Node::new(&name).capacity("cpu", 4).capacity("pods", 9);
            cluster.add_node(node.label("host", name)).unwrap();
        }
        let pods = 1 + below(5) as usize;
        let mut pod = Pod::new().request("cpu", 1 + below(3) as i64).label("app", "x");
        pod = match below(4) {
            0 => pod.host_port("TCP", 80),
            1 => pod.anti_affinity(PodAffinityTerm::new("host", LabelSelector::label("app", "x"))),
            _ => pod,
        };
        let least = 1 + below(pods as u64) as u32;
        let group = PodGroup::gang("own", least).pods(pods, pod);
        let Outcome::Placed(plan) = place_gang(&cluster, &framework, &group).unwrap() else {
            continue;
        };
        for number in 0..below(6) {
            let other = Pod::new().name(format!("other-{number}")).request("cpu", 1);
            let other = if below(3) == 0 { other.label("app", "x") } else { other };
            let other = if below(3) == 0 { other.host_port("TCP", 80) } else { other };
            cluster.add_pod(other.on(format!("n{:03}", below(4)))).unwrap();
        }
        let (mut plain, mut in_place) = (cluster.clone(), cluster.clone());
        let (one, other) =
            (plain.commit(&framework, &plan), in_place.commit_in_place(&framework, &plan));
        assert_eq!(one.is_ok(), other.is_ok(), "round {round}: {one:?}, {other:?}");
        let pods = |cluster: &Cluster| {
            let of = |pod: PodView<'_>| {
                (pod.name().to_string(), pod.node().map(|node| node.name().to_string()))
            };
            let mut pods: Vec<_> = cluster.pods().map(of).collect();
            pods.sort();
            pods
        };
        assert_eq!(pods(&plain), pods(&in_place), "round {round}");
        if one.is_ok() {
            held += 1;
        } else {
            assert_eq!(pods(&in_place), pods(&cluster));
            refused += 1;
        }
    }
    assert!(held > 50 && refused > 50, "{held} and {refused}");
}
