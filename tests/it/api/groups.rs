//! Groups that cannot be, or cannot be placed: a typed error or a defined answer.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use phalanx::model::GroupPolicy;
use phalanx::{
    Cluster, Framework, Node, Outcome, PlaceError, Planner, Pod, PodGroup, Workload, place_gang,
};

use super::odd::*;

#[test]
fn a_minimum_above_the_members_is_an_answer_and_of_zero_an_error() {
    let cluster = cluster();
    let framework = Framework::default();
    let mut group = gang(2);
    group.policy = GroupPolicy::Gang { min_count: 3 };
    assert!(matches!(place_gang(&cluster, &framework, &group), Ok(Outcome::Unplaced(_))));
    group.policy = GroupPolicy::Gang { min_count: u32::MAX };
    assert!(matches!(place_gang(&cluster, &framework, &group), Ok(Outcome::Unplaced(_))));
    group.policy = GroupPolicy::Gang { min_count: 0 };
    let Err(PlaceError::Model(error)) = place_gang(&cluster, &framework, &group) else {
        panic!("placed a gang of none")
    };
    assert_eq!(error.field, "policy.gang.minCount");
    assert_eq!(error.object, "group default/gang");
}

#[test]
fn empty_groups_are_errors_at_every_level() {
    let cluster = cluster();
    let place = |group: &PodGroup| place_gang(&cluster, &Framework::default(), group);
    for group in [
        PodGroup::gang("g", 1),
        PodGroup::basic("g"),
        PodGroup::gang("root", 1).group(PodGroup::gang("leaf", 1)),
        PodGroup::gang("root", 1).group(gang(1)).group(PodGroup::basic("empty")),
        PodGroup::gang("", 1).pods(1, Pod::new()),
        PodGroup::default(),
    ] {
        assert!(matches!(place(&group), Err(PlaceError::Model(_))), "{group:?}");
    }
    let workload = Workload::new("w");
    let refusal = place_gang(&cluster, &Framework::default(), &workload);
    assert!(matches!(refusal, Err(PlaceError::Model(_))));
}

#[test]
fn a_tree_too_deep_is_an_error_however_deep() {
    let cluster = cluster();
    for (depth, sound) in
        [(PodGroup::MAX_DEPTH, true), (PodGroup::MAX_DEPTH + 1, false), (1_000, false)]
    {
        let tree = (1..depth)
            .fold(gang(1), |inner, level| PodGroup::gang(format!("level-{level}"), 1).group(inner));
        let outcome = place_gang(&cluster, &Framework::default(), &tree);
        if sound {
            assert!(outcome.unwrap().is_placed());
        } else {
            assert!(matches!(outcome, Err(PlaceError::Model(error)) if error.field == "groups"));
        }
    }
}

#[test]
fn a_group_with_pods_beside_groups_or_with_names_twice_is_an_error() {
    let cluster = cluster();
    let pod = Pod::new().request("cpu", 1);
    for (group, field) in [
        (gang(1).group(PodGroup::gang("inner", 1).pods(1, pod.clone())), "pods"),
        (gang(2).pod(pod.clone().name("gang-0")), "members"),
        (PodGroup::gang("root", 1).group(gang(1)).group(gang(1)), "members"),
        (PodGroup::gang("gang", 1).group(gang(1)), "members"),
        (gang(1).pod(pod.clone()), "pods.name"),
    ] {
        let Err(PlaceError::Model(error)) = place_gang(&cluster, &Framework::default(), &group)
        else {
            panic!("{field}")
        };
        assert_eq!(error.field, field);
    }
    // The same name in another namespace is another name.
    let other = PodGroup::gang("gang", 1).in_namespace("other");
    let other = other.pod(pod.name("gang-0").in_namespace("other"));
    let group = PodGroup::gang("root", 1).group(gang(1)).group(other);
    assert!(place_gang(&cluster, &Framework::default(), &group).unwrap().is_placed());
}

#[test]
fn an_empty_cluster_places_nothing() {
    for group in [gang(1), gang(1).require("rack"), PodGroup::basic("b").pods(2, Pod::new())] {
        let outcome = place_gang(&Cluster::new(), &Framework::default(), &group).unwrap();
        assert!(!outcome.is_placed());
    }
    let empty = Framework::builder().without_room_filter().build().unwrap();
    assert!(place_gang(&cluster(), &empty, &gang(1)).unwrap().is_placed());
}

#[test]
fn a_planner_survives_every_refusal() {
    let cluster = cluster();
    let framework = Framework::default();
    let mut planner = Planner::new();
    for group in [PodGroup::gang("g", 0), gang(99), PodGroup::gang("g", 1).pod(Pod::new())] {
        let _ = planner.place(&cluster, &framework, &group);
    }
    assert!(planner.place(&cluster, &framework, &gang(7)).unwrap().is_placed());
}

#[test]
fn a_preference_that_running_members_have_broken_is_given_up_and_a_requirement_is_an_error() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack) in [("n1", "a"), ("n2", "b"), ("n3", "b")] {
        cluster.add_node(Node::new(name).capacity("cpu", 1).label("rack", rack)).unwrap();
    }
    for (name, node) in [("r-1", "n1"), ("r-2", "n2")] {
        cluster.add_pod(Pod::new().name(name).request("cpu", 1).in_group("gang").on(node)).unwrap();
    }
    let framework = Framework::default();
    let outcome = place_gang(&cluster, &framework, &gang(1).prefer("rack")).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("n3", 1)]);
    let refusal = place_gang(&cluster, &framework, &gang(1).require("rack"));
    assert!(matches!(refusal, Err(PlaceError::Scattered { key, .. }) if key == "rack"));
}
