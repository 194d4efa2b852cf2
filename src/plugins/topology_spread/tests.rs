use alloc::vec::Vec;

use super::super::testing::{passing, refused, scores};
use super::*;
use crate::model::{Effect, WhenUnsatisfiable};
use crate::model::{LabelSelector, Node, NodeInclusion, Operator, Pod, Requirement, Taint};
use crate::state::Cluster;

const HOST: &str = "kubernetes.io/hostname";

fn node(name: &str, zone: &str) -> Node {
    Node::new(name).label(HOST, name).label("zone", zone)
}

fn app() -> Pod {
    Pod::new().label("app", "a")
}

fn selector() -> LabelSelector {
    LabelSelector::label("app", "a")
}

/// Three zones with 2, 1 and no pods; the last zone is tainted.
fn zones() -> Cluster {
    filled(Cluster::new())
}

/// The same in a cluster that keeps its nodes by zone and by hostname.
fn zones_as_levels() -> Cluster {
    filled(Cluster::builder().levels(["zone", HOST]).build().unwrap())
}

fn filled(mut cluster: Cluster) -> Cluster {
    let taint = Taint::new("k", "", Effect::NoSchedule);
    let nodes = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("c1", "c").taint(taint)];
    for node in nodes.into_iter().chain([Node::new("none")]) {
        cluster.add_node(node).unwrap();
    }
    for (index, on) in ["a1", "a2", "b1"].into_iter().enumerate() {
        cluster.add_pod(app().name(std::format!("p{index}")).on(on)).unwrap();
    }
    let mut leaving = app().name("leaving").on("b1");
    leaving.deleting = true;
    cluster.add_pod(leaving).unwrap();
    let other = app().in_namespace("other").name("other").on("b1");
    cluster.add_pod(other).unwrap();
    cluster
}

fn spread(constraint: &SpreadConstraint) -> Vec<alloc::string::String> {
    let pod = app().spread(constraint.clone());
    let names = passing(PodTopologySpread::new(), &zones(), &pod);
    assert_eq!(passing(PodTopologySpread::new(), &zones_as_levels(), &pod), names);
    names
}

#[test]
fn an_empty_tainted_zone_counts_unless_taints_are_honoured() {
    let mut constraint = SpreadConstraint::new(1, "zone", selector());
    assert_eq!(spread(&constraint), ["c1"]);
    constraint.node_taints_policy = NodeInclusion::Honor;
    assert_eq!(spread(&constraint), ["b1", "c1"]);
    constraint.max_skew = 2;
    assert_eq!(spread(&constraint), ["a1", "a2", "b1", "c1"]);
    constraint.min_domains = Some(3);
    assert_eq!(spread(&constraint), ["b1", "c1"]);
}

#[test]
fn node_affinity_leaves_domains_out_unless_ignored() {
    let constraint = SpreadConstraint::new(1, "zone", selector());
    let pod = app().node_selector("zone", "a");
    // b and c are no domains: their count is 0, the least is 2.
    let honouring = pod.clone().spread(constraint.clone());
    let names = passing(PodTopologySpread::new(), &zones(), &honouring);
    assert_eq!(names, ["a1", "a2", "b1", "c1"]);
    let policy = NodeInclusion::Ignore;
    let ignoring = pod.spread(SpreadConstraint { node_affinity_policy: policy, ..constraint });
    assert_eq!(passing(PodTopologySpread::new(), &zones(), &ignoring), ["c1"]);
}

#[test]
fn odd_selectors_count_as_kubernetes_counts_them() {
    let mut constraint = SpreadConstraint::new(1, "zone", LabelSelector::default());
    // {} counts nothing but the pod itself.
    assert_eq!(spread(&constraint), ["a1", "a2", "b1", "c1"]);
    constraint.max_skew = 0;
    assert!(spread(&constraint).is_empty());
    constraint.label_selector = None;
    assert_eq!(spread(&constraint), ["a1", "a2", "b1", "c1"]);
    // A null selector stays nothing; {} becomes restrictive.
    constraint.match_label_keys = alloc::vec!["app".into(), "absent".into()];
    assert_eq!(spread(&constraint), ["a1", "a2", "b1", "c1"]);
    constraint.label_selector = Some(LabelSelector::default());
    constraint.max_skew = 1;
    assert_eq!(spread(&constraint), ["c1"]);
    let broken = Requirement::new("app", Operator::In, [""; 0]);
    constraint.label_selector =
        Some(LabelSelector { match_expressions: alloc::vec![broken], ..LabelSelector::default() });
    let pod = app().spread(constraint);
    assert!(refused(PodTopologySpread::new(), &zones(), &pod));
}

#[test]
fn no_domain_at_all_lets_everything_with_the_key_pass() {
    let constraint = SpreadConstraint::new(1, "zone", selector());
    let pod = app().node_selector("zone", "nowhere").spread(constraint);
    let names = passing(PodTopologySpread::new(), &zones(), &pod);
    assert_eq!(names, ["a1", "a2", "b1", "c1"]);
}

#[test]
fn wishes_score_by_domain_and_leave_unlabelled_nodes_at_nothing() {
    let pod = app().spread(SpreadConstraint::new(1, "zone", selector()).preferred());
    // Counts 2, 2, 1, 0 times ln 5: 3, 3, 2, 0.
    assert_eq!(scores(PodTopologySpread::new(), &zones(), &pod), [0, 0, 33, 100, 0]);
    let pod = app().spread(SpreadConstraint::new(1, HOST, selector()).preferred());
    // One each on three of four hosts: ln 6 is 2 after rounding.
    assert_eq!(scores(PodTopologySpread::new(), &zones(), &pod), [0, 0, 0, 100, 0]);
    let pod = Pod::new().spread(SpreadConstraint::new(1, "zone", selector()).preferred());
    assert_eq!(scores(PodTopologySpread::new(), &zones(), &pod)[3], 100);
}

#[test]
fn default_constraints_need_an_owner_and_keep_unlabelled_nodes() {
    let mut pod = app();
    assert_eq!(scores(PodTopologySpread::new(), &zones(), &pod), [0; 5]);
    pod.shape_mut().owner_selector = Some(selector());
    // Hosts: 5 feasible nodes weigh ln 7 each pod and 2 beside; no zone label, so that term is
    // left out everywhere. Four nodes have 1, 1, 1 and 0 pods; the fifth has no host label.
    assert_eq!(scores(PodTopologySpread::new(), &zones(), &pod), [0, 0, 0, 50, 100]);
    let none = PodTopologySpread::with_defaults(SpreadDefaults::List(Vec::new()));
    assert_eq!(scores(none, &zones(), &pod), [0; 5]);
    let list = SpreadDefaults::List(alloc::vec![
        SpreadConstraint::new(1, "zone", LabelSelector::default()).preferred(),
        SpreadConstraint::new(1, "zone", LabelSelector::default()),
    ]);
    let listed = PodTopologySpread::with_defaults(list);
    assert_eq!(scores(listed.clone(), &zones(), &pod), [0, 0, 33, 100, 0]);
    assert_eq!(passing(listed, &zones(), &pod), ["c1"]);
}

#[test]
fn a_skew_of_zero_marks_nodes_as_if_they_took_no_part() {
    let mut constraint = SpreadConstraint::new(0, "zone", selector()).preferred();
    assert_eq!(constraint.when_unsatisfiable, WhenUnsatisfiable::ScheduleAnyway);
    // Raws 2, 2, 1, -1.
    let pod = app().spread(constraint.clone());
    assert_eq!(scores(PodTopologySpread::new(), &zones(), &pod), [0, 0, 0, 0, 0]);
    constraint.max_skew = 3;
    let pod = app().spread(constraint);
    // Raws 5, 5, 4, 2.
    assert_eq!(scores(PodTopologySpread::new(), &zones(), &pod), [40, 40, 60, 100, 0]);
}
