//! Commit evaluates the filters again for the pods on rows that moved, and for no others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use phalanx::framework::{Reach, filter_fn};
use phalanx::model::{Effect, Taint};
use phalanx::plugins::{Fit, TaintToleration};
use phalanx::{Cluster, CommitError, Framework, Node, Plan, Pod, PodGroup, place_gang};

fn node(number: usize) -> Node {
    Node::new(format!("n{number}")).capacity("cpu", 1).capacity("pods", 4)
}

/// Eight nodes, a plan of a pod on each, and a framework that counts its evaluations.
fn planned() -> (Cluster, Framework, Plan, Arc<AtomicU64>) {
    let mut cluster = Cluster::new();
    for number in 0..8 {
        cluster.add_node(node(number)).unwrap();
    }
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&calls);
    let counting = filter_fn("counting", Reach::Node, move |_, _| {
        seen.fetch_add(1, Ordering::Relaxed);
        true
    });
    let framework =
        Framework::builder().filter(Fit).filter(TaintToleration).filter(counting).build().unwrap();
    let group = PodGroup::gang("g", 8).pods(8, Pod::new().request("cpu", 1));
    let plan = place_gang(&cluster, &framework, &group).unwrap().plan().unwrap().clone();
    calls.store(0, Ordering::Relaxed);
    (cluster, framework, plan, calls)
}

#[test]
fn a_change_of_one_node_costs_the_pod_on_it() {
    for (change, expected) in [
        (None, 0),
        // An equal node is no change.
        (Some(node(3)), 0),
        (Some(node(3).label("note", "x")), 1),
        // No pod of the plan is on this one.
        (Some(node(8)), 0),
    ] {
        let (mut cluster, framework, plan, calls) = planned();
        if let Some(node) = change {
            let known = cluster.node(&node.name).is_some();
            if known {
                cluster.update_node(&node).unwrap();
            } else {
                cluster.add_node(node).unwrap();
            }
        }
        cluster.commit(&framework, &plan).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), expected);
        assert_eq!(cluster.group_pods("default/g").count(), 8);
    }
}

#[test]
fn a_node_that_takes_its_pod_no_longer_is_noticed() {
    let (mut cluster, framework, plan, _) = planned();
    cluster.update_node(&node(5).taint(Taint::new("lost", "", Effect::NoSchedule))).unwrap();
    let error = cluster.commit(&framework, &plan).unwrap_err();
    assert!(matches!(&error, CommitError::Conflict { node, .. } if node == "n5"), "{error}");
    // A node of the same name on a row of its own is judged as it is now.
    cluster.remove_node("n5").unwrap();
    cluster.add_node(node(9)).unwrap();
    cluster.add_node(node(5)).unwrap();
    cluster.commit(&framework, &plan).unwrap();
    assert_eq!(cluster.group_pods("default/g").count(), 8);
}
