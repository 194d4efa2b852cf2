//! Events that come early, late, or of what is not known.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use phalanx::model::Labels;
use phalanx::state::Applied;
use phalanx::{Cluster, Event, Framework, Node, Pod, StateError, place_gang};

use super::odd::*;
use crate::support::worlds::bytes;

#[test]
fn unknown_objects_in_events_change_nothing_that_is_seen() {
    let mut cluster = cluster();
    let before = bytes(&cluster);
    for event in [
        Event::NodeRemoved { name: "ghost".into(), version: 0 },
        Event::NodeRemoved { name: String::new(), version: 0 },
        pod_deleted("ghost", 0),
        Event::NamespaceRemoved { name: "ghost".into(), version: 0 },
    ] {
        assert_eq!(cluster.apply(event), Ok(Applied::Unknown));
        assert_eq!(bytes(&cluster), before);
    }
    assert_eq!(cluster.remove_node("ghost"), Err(StateError::UnknownNode("ghost".into())));
    assert_eq!(cluster.update_node(&Node::new("x")), Err(StateError::UnknownNode("x".into())));
    let unknown = StateError::UnknownPod("default/ghost".parse().unwrap());
    assert_eq!(cluster.remove_pod("default", "ghost"), Err(unknown.clone()));
    assert_eq!(cluster.txn().evict("default", "ghost"), Err(unknown));
    assert_eq!(bytes(&cluster), before);
}

#[test]
fn a_pod_on_a_node_that_does_not_exist_yet_waits_for_it() {
    let mut cluster = cluster();
    let pod = |cpu: i64| Pod::new().name("early").request("cpu", cpu).on("n3");
    assert_eq!(cluster.apply(pod_event(pod(1), 1)), Ok(Applied::Parked));
    assert_eq!(cluster.apply(pod_event(pod(2), 2)), Ok(Applied::Parked));
    assert_eq!(cluster.apply(pod_event(pod(1), 1)), Ok(Applied::Stale));
    assert!(cluster.pod("default", "early").unwrap().node().is_none());
    assert!(cluster.txn().evict("default", "early").is_err());
    let node = Node::new("n3").capacity("cpu", 4);
    cluster.apply(node_event(node.clone(), 1)).unwrap();
    let cpu = cluster.resource("cpu").unwrap();
    assert_eq!(cluster.node("n3").unwrap().free(cpu), 2_000);
    // The node goes and comes back; the pod waits meanwhile.
    cluster.apply(Event::NodeRemoved { name: "n3".into(), version: 2 }).unwrap();
    assert!(cluster.pod("default", "early").unwrap().node().is_none());
    assert_eq!(cluster.apply(node_event(node.clone(), 1)), Ok(Applied::Stale));
    cluster.apply(node_event(node, 3)).unwrap();
    assert_eq!(cluster.node("n3").unwrap().used(cpu), 2_000);
    // Waiting for one node, the pod turns up on another.
    cluster.apply(Event::NodeRemoved { name: "n3".into(), version: 4 }).unwrap();
    let moved = Pod::new().name("early").request("cpu", 2).on("n2");
    assert_eq!(cluster.apply(pod_event(moved, 3)), Ok(Applied::Changed));
    cluster.apply(node_event(Node::new("n3"), 5)).unwrap();
    assert_eq!(cluster.node("n3").unwrap().pod_count(), 0);
    assert_eq!(cluster.node("n2").unwrap().pod_count(), 1);
}

#[test]
fn a_deletion_before_the_addition_wins_over_it() {
    let mut cluster = cluster();
    assert_eq!(cluster.apply(pod_deleted("late", 7)), Ok(Applied::Unknown));
    let late = |version| pod_event(Pod::new().name("late").on("n1"), version);
    let before = bytes(&cluster);
    for version in [1, 6, 7] {
        assert_eq!(cluster.apply(late(version)), Ok(Applied::Stale));
    }
    assert_eq!(bytes(&cluster), before);
    assert_eq!(cluster.apply(late(8)), Ok(Applied::Changed));
    assert_eq!(cluster.apply(pod_deleted("late", 7)), Ok(Applied::Stale));
    assert!(cluster.pod("default", "late").is_some());

    assert_eq!(
        cluster.apply(Event::NodeRemoved { name: "n9".into(), version: 3 }),
        Ok(Applied::Unknown)
    );
    assert_eq!(cluster.apply(node_event(Node::new("n9"), 3)), Ok(Applied::Stale));
    let removed = Event::NamespaceRemoved { name: "ns".into(), version: 3 };
    assert_eq!(cluster.apply(removed), Ok(Applied::Unknown));
    let changed =
        |version| Event::NamespaceChanged { name: "ns".into(), labels: Labels::new(), version };
    assert_eq!(cluster.apply(changed(2)), Ok(Applied::Stale));
    // Forgotten deletions no longer hold late events off.
    cluster.forget_deleted(3);
    assert_eq!(cluster.apply(changed(2)), Ok(Applied::Changed));
}

#[test]
fn events_of_a_former_pod_do_not_touch_one_that_was_committed() {
    let mut cluster = cluster();
    let framework = Framework::default();
    let former = Pod::new().name("gang-0").request("cpu", 3).on("n1");
    cluster.apply(pod_event(former.clone(), 5)).unwrap();
    cluster.apply(pod_deleted("gang-0", 6)).unwrap();
    let outcome = place_gang(&cluster, &framework, &gang(1)).unwrap();
    cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
    let before = bytes(&cluster);
    // Late and repeated news of the former pod of that name.
    assert_eq!(cluster.apply(pod_event(former, 5)), Ok(Applied::Stale));
    assert_eq!(cluster.apply(pod_deleted("gang-0", 6)), Ok(Applied::Stale));
    assert_eq!(bytes(&cluster), before);
    // What is new counts.
    let confirmed = Pod::new().name("gang-0").request("cpu", 1).on("n2");
    assert_eq!(cluster.apply(pod_event(confirmed, 7)), Ok(Applied::Changed));
    assert_eq!(cluster.apply(pod_deleted("gang-0", 8)), Ok(Applied::Changed));
}

#[test]
fn a_pod_that_moves_frees_the_node_it_left_and_marks_both() {
    let mut cluster = cluster();
    let framework = Framework::default();
    let outcome = place_gang(&cluster, &framework, &gang(1)).unwrap();
    let generations =
        |cluster: &Cluster| ["n1", "n2"].map(|name| cluster.node(name).unwrap().generation());
    let before = generations(&cluster);
    cluster.apply(pod_event(Pod::new().name("old").request("cpu", 1).on("n2"), 1)).unwrap();
    let after = generations(&cluster);
    assert!(before[0] < after[0] && before[1] < after[1]);
    let cpu = cluster.resource("cpu").unwrap();
    assert_eq!(["n1", "n2"].map(|name| cluster.node(name).unwrap().used(cpu)), [0, 1_000]);
    cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
}
