//! Hosts in Kueue's strategy: which of them a pod may have, and which it gets.

use phalanx::model::Taint;
use phalanx::plugins::{Fit, LeastAllocated, TaintToleration};
use phalanx::reference::kueue::{
    Expression, HOSTNAME_LABEL, KueueCluster, KueueOperator, KueueOutcome,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Strategy, place_gang};

use super::kueue::{assign, host, pods};

/// The hosts that a pod set is assigned to, with its pods on each.
fn hosts(outcome: &KueueOutcome, name: &str) -> Vec<(String, u32)> {
    let assignment = outcome.assignment(name).expect("an assignment");
    assignment.domains.iter().map(|own| (own.values.last().unwrap().clone(), own.count)).collect()
}

#[test]
fn hosts_that_a_required_affinity_does_not_name_stay_empty() {
    let labels = |at: usize| if at == 1 { [("disk", "fast")] } else { [("disk", "slow")] };
    let nodes = (0..3).map(|at| host(&format!("h{at}"), &labels(at), 4)).collect();
    let levels = vec![HOSTNAME_LABEL.into()];
    let cluster = KueueCluster { levels, nodes, ..KueueCluster::default() };
    let mut pod_set = pods(3);
    pod_set.topology.required = Some(HOSTNAME_LABEL.into());
    let term = |value: &str| Expression {
        key: "disk".into(),
        operator: KueueOperator::In,
        values: vec![value.into()],
    };
    pod_set.affinity.required = vec![vec![term("fast")]];
    assert_eq!(hosts(&assign(&cluster, &[pod_set.clone()]), "main"), [("h1".into(), 3)]);
    // One of several terms is enough.
    pod_set.affinity.required = vec![vec![term("none")], vec![term("fast")]];
    assert_eq!(hosts(&assign(&cluster, &[pod_set.clone()]), "main"), [("h1".into(), 3)]);
    pod_set.affinity.required = vec![vec![term("none")]];
    assert!(assign(&cluster, &[pod_set]).failure().is_some());
}

#[test]
fn within_a_domain_a_pod_gets_the_node_of_the_best_score() {
    let builder = Framework::builder().filter(Fit).filter(TaintToleration);
    let builder = builder.score(1, LeastAllocated::of([("cpu", 1)]));
    let framework = builder.strategy(Strategy::Kueue).build().unwrap();
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for name in ["n0", "n1", "n2"] {
        cluster.add_node(Node::new(name).capacity("cpu", 8).label("rack", "a")).unwrap();
    }
    let closed = Node::new("n3").capacity("cpu", 8).label("rack", "a");
    cluster
        .add_node(closed.taint(Taint::new("repair", "", "NoSchedule".to_string().into())))
        .unwrap();
    for (name, node, cpu) in [("a", "n0", 4), ("b", "n1", 3), ("c", "n2", 2)] {
        cluster.add_pod(Pod::new().name(name).request("cpu", cpu).on(node)).unwrap();
    }
    let group = PodGroup::gang("g", 1).pod(Pod::new().name("p").request("cpu", 1)).require("rack");
    let outcome = place_gang(&cluster, &framework, &group).unwrap();
    let plan = outcome.plan().unwrap();
    assert_eq!(plan.assignments().next().unwrap().node(), "n2");
}
