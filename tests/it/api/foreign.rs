//! Plans, ids, checkpoints and states from elsewhere.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use phalanx::state::Row;
use phalanx::{Cluster, CommitError, Framework, Node, Plan, Pod, StateError};

use super::odd::*;
use crate::support::worlds::bytes;

#[test]
fn a_plan_from_elsewhere_is_judged_like_any_other() {
    let mut cluster = cluster();
    let framework = Framework::default();
    let plan = |pods: &str| -> Plan {
        let planned = pods.matches(r#"{"pod":"#).count();
        let group = r#""namespace":"default","name":"g","parent":0,"minCount":1"#;
        let group = format!(r#"{{{group},"planned":{planned}}}"#);
        let text = format!(r#"{{"groups":[{group}],"domains":[],"assignments":[{pods}]}}"#);
        serde_json::from_str(&text).unwrap()
    };
    let member = |name: &str, cpu: i64, node: &str| {
        let pod = Pod::new().name(name);
        let mut pod = serde_json::to_value(&pod).unwrap();
        pod["shape"]["requests"]["cpu"] = cpu.into();
        format!(r#"{{"pod":{pod},"node":"{node}"}}"#)
    };
    let before = bytes(&cluster);
    let negative = plan(&member("p", -5_000, "n1"));
    assert!(matches!(
        cluster.commit(&framework, &negative),
        Err(CommitError::State(StateError::Model(_)) | CommitError::Conflict { .. })
    ));
    assert!(cluster.txn().apply_plan(&negative).is_err());
    let gone = plan(&[member("p", 1, "n1"), member("q", 1, "n9")].join(","));
    assert!(matches!(cluster.commit(&framework, &gone), Err(CommitError::NodeGone { .. })));
    assert!(cluster.txn().apply_plan(&gone).is_err());
    let twice = plan(&[member("p", 1, "n1"), member("p", 1, "n2")].join(","));
    assert_eq!(
        cluster.commit(&framework, &twice),
        Err(CommitError::State(StateError::PodExists("default/p".parse().unwrap())))
    );
    let too_much = plan(&[member("p", 2_000, "n1"), member("q", 2_000, "n1")].join(","));
    let Err(CommitError::Conflict { pod, node, .. }) = cluster.commit(&framework, &too_much) else {
        panic!("overcommitted")
    };
    assert_eq!((pod.as_str(), node.as_str()), ("default/q", "n1"));
    let nameless = plan(&member("", 1, "n1"));
    assert!(cluster.commit(&framework, &nameless).is_err());
    assert_eq!(bytes(&cluster), before);
    let empty = cluster.commit(&framework, &plan(""));
    assert_eq!(empty, Err(CommitError::Empty("default/g".parse().unwrap())));
    assert_eq!(bytes(&cluster), before);
}

#[test]
fn ids_of_another_cluster_or_of_what_is_gone_are_refused() {
    let mut large = Cluster::new();
    for index in 0..600 {
        let name = format!("n{index}");
        let node = Node::new(&*name).capacity(&format!("r{index}"), 1).label(&*name, &*name);
        large.add_node(node).unwrap();
        large.add_pod(Pod::new().name(&*name).on(&*name)).unwrap();
    }
    let last = large.node("n599").unwrap();
    let (node, pod) = (last.id(), large.pod("default", "n599").unwrap().id());
    let (key, value) = last.labels().next().unwrap();
    let resource = large.resource("r599").unwrap();

    let small = cluster();
    assert!(small.node_by_id(node).is_none());
    assert_eq!(small.txn().place(&Pod::new().name("p"), node), Err(StateError::StaleId));
    assert_eq!(small.txn().evict_pod(pod), Err(StateError::StaleId));
    assert_eq!((small.label_key_text(key), small.label_text(value)), ("", ""));
    assert_eq!(small.resource_name(resource), "");
    let n1 = small.node("n1").unwrap();
    assert_eq!((n1.free(resource), n1.label_value(key)), (0, None));
    assert!(small.view(Row::new(599)).is_none());

    let mut cluster = cluster();
    let id = cluster.node("n1").unwrap().id();
    cluster.remove_node("n1").unwrap();
    cluster.add_node(Node::new("n1")).unwrap();
    assert!(cluster.node_by_id(id).is_none());
    assert_eq!(cluster.txn().place(&Pod::new().name("p"), id), Err(StateError::StaleId));
}

#[test]
fn checkpoints_that_were_taken_back_are_refused() {
    let cluster = cluster();
    let mut txn = cluster.txn();
    let id = txn.node("n1").unwrap().id();
    let start = txn.checkpoint();
    txn.place(&Pod::new().name("a"), id).unwrap();
    let inner = txn.checkpoint();
    txn.rollback(start).unwrap();
    assert_eq!(txn.rollback(inner), Err(StateError::StaleId));
    // Also once as many changes have been made again.
    txn.place(&Pod::new().name("b"), id).unwrap();
    txn.place(&Pod::new().name("c"), id).unwrap();
    assert_eq!(txn.rollback(inner), Err(StateError::StaleId));
    assert_eq!(txn.changes(), 2);
    txn.rollback(start).unwrap();
    assert_eq!(bytes(&txn), bytes(&cluster));
}

#[test]
fn what_a_transaction_evicted_is_gone_from_the_cluster_it_becomes() {
    let cluster = cluster();
    let mut txn = cluster.txn();
    txn.evict("default", "old").unwrap();
    assert!(txn.evict("default", "old").is_err());
    let mut after = txn.into_cluster();
    assert_eq!((after.pod_count(), after.pods().count()), (0, 0));
    assert!(after.pod("default", "old").is_none());
    after.add_pod(Pod::new().name("old").on("n2")).unwrap();
    assert_eq!(cluster.pod_count(), 1);
}

#[test]
fn states_that_are_cut_short_or_contradict_themselves_do_not_load() {
    let text = bytes(&cluster());
    for end in (0..text.len()).step_by(7) {
        assert!(serde_json::from_str::<Cluster>(&text[..end]).is_err());
    }
    for (from, to) in [
        (r#""name":"n2""#, r#""name":"n1""#),
        (r#""levels":["zone","rack"]"#, r#""levels":["zone","zone"]"#),
        (r#""node":"n1""#, r#""node":null"#),
        (r#""cpu":4000"#, r#""cpu":-4000"#),
        (r#""name":"old""#, r#""name":"""#),
    ] {
        let bent = text.replace(from, to);
        assert_ne!(bent, text);
        assert!(serde_json::from_str::<Cluster>(&bent).is_err(), "{to}");
    }
    assert!(serde_json::from_slice::<Cluster>(b"\xff\xfe{}").is_err());
}
