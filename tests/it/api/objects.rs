//! Nodes and pods with odd names, labels and selectors.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use phalanx::model::{Effect, LabelSelector, Labels, Operator, Problem, Requirement, Taint};
use phalanx::{
    Cluster, CommitError, Framework, Node, PlaceError, Pod, PodGroup, Request, StateError,
    place_gang,
};

use super::odd::*;
use crate::support::worlds::bytes;

#[test]
fn names_used_twice_in_a_cluster_are_refused() {
    let mut cluster = cluster();
    let before = bytes(&cluster);
    let again = cluster.add_node(Node::new("n1").capacity("cpu", 99));
    assert_eq!(again, Err(StateError::NodeExists("n1".into())));
    let again = cluster.add_pod(Pod::new().name("old").on("n2"));
    assert_eq!(again, Err(StateError::PodExists("default/old".parse().unwrap())));
    let levels = Cluster::builder().levels(["zone", "rack", "zone"]).build();
    assert_eq!(levels.unwrap_err(), StateError::DuplicateLevel("zone".into()));
    assert!(cluster.txn().add_node(Node::new("n1")).is_err());
    assert_eq!(bytes(&cluster), before);
    // A member that runs under its name already: refused at the latest when it would be bound.
    let group = PodGroup::gang("g", 1).pod(Pod::new().name("old"));
    let framework = Framework::default();
    match place_gang(&cluster, &framework, &group) {
        Err(error) => assert_eq!(error, PlaceError::AlreadyBound("default/old".parse().unwrap())),
        Ok(outcome) => assert_eq!(
            cluster.commit(&framework, outcome.plan().unwrap()),
            Err(CommitError::State(StateError::PodExists("default/old".parse().unwrap())))
        ),
    }
    assert_eq!(bytes(&cluster), before);
}

#[test]
fn nameless_objects_are_refused() {
    let mut cluster = cluster();
    for event in [node_event(Node::new(""), 1), pod_event(Pod::new().name("").on("n1"), 1)] {
        let StateError::Model(error) = refused(&mut cluster, event) else { panic!("taken") };
        assert_eq!((error.field.as_str(), error.problem), ("name", Problem::Required));
    }
    for pod in [Pod::new().name("p"), Pod::new().name("p").on("")] {
        let error = refused(&mut cluster, pod_event(pod.clone(), 1));
        assert_eq!(error, StateError::NotBound("default/p".parse().unwrap()));
        assert_eq!(cluster.add_pod(pod), Err(StateError::NotBound("default/p".parse().unwrap())));
    }
}

#[test]
fn unlabelled_nodes_are_in_no_domain_and_still_usable() {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for index in 0..3 {
        cluster.add_node(Node::new(format!("bare-{index}")).capacity("cpu", 1)).unwrap();
    }
    let framework = Framework::default();
    assert!(place_gang(&cluster, &framework, &gang(3)).unwrap().is_placed());
    let required = gang(1).require("rack");
    assert!(!place_gang(&cluster, &framework, &required).unwrap().is_placed());
    let unknown = gang(1).require("no-such-level");
    assert!(!place_gang(&cluster, &framework, &unknown).unwrap().is_placed());
    let preferred = gang(3).prefer("rack");
    assert!(place_gang(&cluster, &framework, &preferred).unwrap().is_placed());
    let within = gang(1);
    let within = Request::new(&within).within("zone", "a");
    assert!(!place_gang(&cluster, &framework, within).unwrap().is_placed());
    // One labelled node among them is a domain of one.
    let labelled = Node::new("labelled").capacity("cpu", 1).label("rack", "r");
    cluster.add_node(labelled).unwrap();
    let outcome = place_gang(&cluster, &framework, &required).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("labelled", 1)]);
    // An empty value is a value.
    cluster.add_node(Node::new("empty").capacity("cpu", 2).label("rack", "")).unwrap();
    let outcome = place_gang(&cluster, &framework, &gang(2).require("rack")).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("empty", 2)]);
}

#[test]
fn malformed_selectors_match_nothing() {
    let malformed = LabelSelector::default();
    let malformed = malformed.requirement(Requirement::new("a/b/c", Operator::Exists, [""; 0]));
    assert!(malformed.check().is_err());
    assert!(!malformed.matches(&Labels::from([("a/b/c".into(), "x".into())])));
    let text = r#"{"matchExpressions":[{"key":"k","operator":"Near","values":["v"]}]}"#;
    let selector: LabelSelector = serde_json::from_str(text).unwrap();
    assert!(selector.check().is_err() && !selector.matches(&Labels::new()));
}

#[test]
fn odd_names_and_labels_are_only_names() {
    let mut cluster = Cluster::new();
    for name in ["a/b", "ü", "\u{0}", " ", "a\nb", &"x".repeat(10_000)] {
        let node = Node::new(name).label("", "").label(name, name).taint(Taint::new(
            name,
            name,
            Effect::Unknown(name.into()),
        ));
        cluster.add_node(node.capacity("", 1).capacity(name, 1)).unwrap();
        cluster.add_pod(Pod::new().name(name).in_group(name).on(name)).unwrap();
    }
    assert_eq!((cluster.node_count(), cluster.pod_count()), (6, 6));
    let again: Cluster = serde_json::from_str(&bytes(&cluster)).unwrap();
    assert_eq!(bytes(&again), bytes(&cluster));
}
