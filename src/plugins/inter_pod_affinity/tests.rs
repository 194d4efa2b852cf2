use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::testing::{cluster, passing, refused, scores};
use super::*;
use crate::base::Time;
use crate::framework::{Evaluation, Framework, Rejection, ScorePlugin, Verdict};
use crate::model::{
    LabelSelector, Labels, Node, Operator, Pod, PodAffinityTerm, Requirement,
    WeightedPodAffinityTerm,
};
use crate::state::Cluster;

fn node(name: &str, zone: &str) -> Node {
    Node::new(name).label("host", name).label("zone", zone)
}

/// Nodes a1, a2 in zone a, b1 in zone b, and one without labels; namespaces dev and prod.
fn zones() -> Cluster {
    let mut cluster =
        cluster([node("a1", "a"), node("a2", "a"), node("b1", "b"), Node::new("none")]);
    for name in ["dev", "prod"] {
        cluster.set_namespace(name, Labels::from([("env".into(), name.into())]));
    }
    cluster
}

fn pod(name: &str, app: &str) -> Pod {
    Pod::new().name(name).label("app", app)
}

fn near(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm::new(key, LabelSelector::label("app", app))
}

fn expressed(requirement: Requirement) -> LabelSelector {
    let match_expressions = alloc::vec![requirement];
    LabelSelector { match_expressions, ..LabelSelector::default() }
}

fn fits(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    passing(InterPodAffinity::new(), cluster, pod)
}

#[test]
fn affinity_needs_company_in_the_domain() {
    let mut cluster = zones();
    cluster.add_pod(pod("db", "db").on("a1")).unwrap();
    assert_eq!(fits(&cluster, &pod("p", "web").affinity(near("zone", "db"))), ["a1", "a2"]);
    assert_eq!(fits(&cluster, &pod("p", "web").affinity(near("host", "db"))), ["a1"]);
    assert!(fits(&cluster, &pod("p", "web").affinity(near("no-such", "db"))).is_empty());
    // All terms must mean one and the same pod.
    cluster.add_pod(pod("cache", "cache").on("a1")).unwrap();
    let both = pod("p", "web").affinity(near("zone", "db")).affinity(near("zone", "cache"));
    assert!(fits(&cluster, &both).is_empty());
}

#[test]
fn the_first_of_its_kind_goes_anywhere_with_the_keys() {
    let mut cluster = zones();
    let first = pod("p", "web").affinity(near("zone", "web"));
    assert_eq!(fits(&cluster, &first), ["a1", "a2", "b1"]);
    // Company on a node without the key is none.
    cluster.add_pod(pod("lost", "web").on("none")).unwrap();
    assert_eq!(fits(&cluster, &first), ["a1", "a2", "b1"]);
    cluster.add_pod(pod("second", "web").on("b1")).unwrap();
    assert_eq!(fits(&cluster, &first), ["b1"]);
    // A pod that its own term does not mean must wait.
    assert!(fits(&zones(), &pod("p", "db").affinity(near("zone", "web"))).is_empty());
}

#[test]
fn anti_affinity_holds_in_both_directions() {
    let mut cluster = zones();
    let web = pod("p", "web");
    cluster.add_pod(pod("shy", "db").anti_affinity(near("zone", "web")).on("b1")).unwrap();
    assert_eq!(fits(&cluster, &web), ["a1", "a2", "none"]);
    let shy = pod("p", "x").anti_affinity(near("host", "db"));
    assert_eq!(fits(&cluster, &shy), ["a1", "a2", "none"]);
    assert_eq!(fits(&cluster, &pod("p", "cache")), ["a1", "a2", "b1", "none"]);
}

#[test]
fn missing_company_is_unresolvable_and_bad_company_is_not() {
    let mut cluster = zones();
    cluster.add_pod(pod("db", "db").on("a1")).unwrap();
    let builder = Framework::builder().filter(InterPodAffinity::new());
    let framework = builder.without_room_filter().build().unwrap();
    for (pod, node, verdict) in [
        (pod("p", "web").affinity(near("zone", "db")), "b1", Verdict::Unresolvable),
        (pod("p", "web").affinity(near("zone", "db")), "none", Verdict::Unresolvable),
        (pod("p", "web").anti_affinity(near("zone", "db")), "a2", Verdict::Unschedulable),
    ] {
        let evaluation = Evaluation::new(&framework, &cluster, pod.shape(), None, Time::ZERO);
        let node = cluster.node(node).unwrap();
        assert_eq!(evaluation.filter(node), Err(Rejection::Filter(0, verdict)));
    }
}

#[test]
fn namespaces_are_read_as_kube_scheduler_reads_them() {
    let mut cluster = zones();
    cluster.add_pod(pod("db", "db").in_namespace("dev").on("a1")).unwrap();
    cluster.add_pod(pod("db", "db").in_namespace("unknown").on("b1")).unwrap();
    let with = |change: &dyn Fn(&mut PodAffinityTerm)| {
        let mut term = near("host", "db");
        change(&mut term);
        fits(&cluster, &pod("p", "web").affinity(term))
    };
    let exists = || Some(expressed(Requirement::new("env", Operator::Exists, [""; 0])));
    assert!(with(&|_| {}).is_empty());
    assert_eq!(with(&|term| term.namespaces = alloc::vec!["dev".into()]), ["a1"]);
    assert_eq!(with(&|term| term.namespace_selector = exists()), ["a1"]);
    // Selectors that need no label mean every namespace, even those they exclude.
    assert_eq!(
        with(&|term| term.namespace_selector = Some(LabelSelector::default())),
        ["a1", "b1"]
    );
    let not_dev = || Some(expressed(Requirement::new("env", Operator::NotIn, ["dev"])));
    assert_eq!(with(&|term| term.namespace_selector = not_dev()), ["a1", "b1"]);
    let not_dev_by = || near("host", "db").namespaces_by(not_dev().unwrap());
    assert_eq!(with(&|term| *term = not_dev_by()), ["a1", "b1"]);
    // Selectors are judged properly for running pods.
    let mut term = near("host", "web");
    term.namespace_selector = not_dev();
    cluster.add_pod(pod("shy", "x").anti_affinity(term).on("a2")).unwrap();
    assert_eq!(fits(&cluster, &pod("p", "web").in_namespace("dev")).len(), 4);
    assert_eq!(fits(&cluster, &pod("p", "web").in_namespace("prod")), ["a1", "b1", "none"]);
    assert_eq!(fits(&cluster, &pod("p", "web").in_namespace("other")), ["a1", "b1", "none"]);
}

#[test]
fn malformed_terms_refuse_the_pod_and_are_ignored_in_others() {
    let broken = || {
        let mut term = near("zone", "web");
        term.label_selector = Some(expressed(Requirement::new("app", Operator::In, [""; 0])));
        term
    };
    let mut cluster = zones();
    assert!(refused(InterPodAffinity::new(), &cluster, &pod("p", "web").affinity(broken())));
    let mut preferring = pod("p", "web");
    let weighted = WeightedPodAffinityTerm { weight: 1, term: broken() };
    preferring.shape_mut().preferred_pod_anti_affinity.push(weighted);
    assert!(refused(InterPodAffinity::new(), &cluster, &preferring));
    // The whole list counts as empty, its sound terms too.
    let shy = pod("shy", "x").anti_affinity(near("zone", "web")).anti_affinity(broken());
    cluster.add_pod(shy.on("a1")).unwrap();
    assert_eq!(fits(&cluster, &pod("p", "web")).len(), 4);
}

#[test]
fn null_selectors_mean_nobody_and_empty_ones_everybody() {
    let mut cluster = zones();
    cluster.add_pod(pod("db", "db").on("a1")).unwrap();
    let mut term = near("zone", "db");
    term.label_selector = None;
    let nobody = pod("p", "web").anti_affinity(term.clone());
    assert_eq!(fits(&cluster, &nobody).len(), 4);
    term.label_selector = Some(LabelSelector::default());
    assert_eq!(fits(&cluster, &pod("p", "web").anti_affinity(term)), ["b1", "none"]);
}

fn prefer(weight: i32, term: PodAffinityTerm) -> WeightedPodAffinityTerm {
    WeightedPodAffinityTerm { weight, term }
}

#[test]
fn preferences_count_in_both_directions() {
    let mut cluster = zones();
    cluster.add_pod(pod("db", "db").on("a1")).unwrap();
    let mut fan = pod("fan", "x").affinity(near("host", "web")).on("b1");
    fan.shape_mut().preferred_pod_affinity.push(prefer(9, near("zone", "web")));
    cluster.add_pod(fan).unwrap();
    let mut web = pod("p", "web");
    // The fan: 1 for its requirement, 9 for its wish, on b1 alone.
    assert_eq!(scores(InterPodAffinity::new(), &cluster, &web), [0, 0, 100, 0]);
    let ignoring = InterPodAffinity::new().ignore_preferred_terms_of_existing_pods();
    assert_eq!(scores(ignoring, &cluster, &web), [0; 4]);
    web.shape_mut().preferred_pod_affinity.push(prefer(30, near("zone", "db")));
    web.shape_mut().preferred_pod_anti_affinity.push(prefer(10, near("host", "db")));
    // Raws: 20, 30, 10, 0.
    assert_eq!(scores(InterPodAffinity::new(), &cluster, &web), [66, 100, 33, 0]);
    assert_eq!(scores(ignoring, &cluster, &web), [66, 100, 33, 0]);
    let unmoved = InterPodAffinity::new().hard_weight(0);
    // Raws: 20, 30, 9, 0.
    assert_eq!(scores(unmoved, &cluster, &web), [66, 100, 30, 0]);
    let moved = InterPodAffinity::new().hard_weight(255);
    // Raws: 20, 30, 109, 0.
    assert_eq!(scores(moved, &cluster, &web), [18, 27, 100, 0]);
}

#[test]
fn scaling_truncates_floats_as_go_does() {
    let plugin = InterPodAffinity::new();
    assert_eq!(plugin.rescale(29, 0, 50), 57);
    assert_eq!((plugin.rescale(5, 5, 5), plugin.rescale(50, 0, 50)), (0, 100));
    assert_eq!(plugin.rescale(-3, -10, 4), 50);
}

#[test]
fn pods_being_deleted_are_company() {
    let mut cluster = zones();
    let mut leaving = pod("db", "db").on("a1");
    leaving.deleting = true;
    cluster.add_pod(leaving).unwrap();
    assert_eq!(fits(&cluster, &pod("p", "web").affinity(near("host", "db"))), ["a1".to_string()]);
}
