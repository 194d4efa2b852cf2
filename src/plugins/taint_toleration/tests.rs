//! Tests: taints and tolerations.

use super::super::testing::{cluster, passing, scores};
use super::*;
use crate::model::{Node, Pod, Taint};

#[test]
fn soft_taints_cost_in_proportion_to_the_most() {
    let soft = |key: &str| Taint::new(key, "", Effect::PreferNoSchedule);
    let cluster = cluster([
        Node::new("n0"),
        Node::new("n1").taint(soft("a")),
        Node::new("n2").taint(soft("a")).taint(soft("b")),
        Node::new("n3").taint(soft("a")).taint(soft("b")).taint(soft("c")),
    ]);
    assert_eq!(scores(TaintToleration, &cluster, &Pod::new()), [100, 67, 34, 0]);
    let hard = Toleration { effect: Some(Effect::NoSchedule), ..Toleration::exists("") };
    let pod = Pod::new().toleration(hard);
    assert_eq!(scores(TaintToleration, &cluster, &pod), [100, 67, 34, 0]);
    let pod = Pod::new().toleration(Toleration::exists("a"));
    assert_eq!(scores(TaintToleration, &cluster, &pod), [100, 100, 50, 0]);
    let pod = Pod::new().toleration(Toleration::exists(""));
    assert_eq!(scores(TaintToleration, &cluster, &pod), [100; 4]);
}

#[test]
fn hard_taints_must_be_tolerated_by_key_value_and_effect() {
    let taint = |effect| Taint::new("k", "v", effect);
    let cluster = cluster([
        Node::new("execute").taint(taint(Effect::NoExecute)),
        Node::new("none"),
        Node::new("prefer").taint(taint(Effect::PreferNoSchedule)),
        Node::new("schedule").taint(taint(Effect::NoSchedule)),
        Node::new("unknown").taint(taint(Effect::Unknown("Sometimes".into()))),
    ]);
    let on = |consents: &[Toleration]| {
        let mut pod = Pod::new();
        pod.shape_mut().tolerations = consents.to_vec();
        passing(TaintToleration, &cluster, &pod)
    };
    let free = ["none", "prefer", "unknown"];
    assert_eq!(on(&[]), free);
    assert_eq!(on(&[Toleration::default()]), free);
    assert_eq!(on(&[Toleration::equal("k", "w")]), free);
    assert_eq!(on(&[Toleration::equal("", "v")]).len(), 5);
    let schedule = Toleration { effect: Some(Effect::NoSchedule), ..Toleration::exists("k") };
    assert_eq!(on(&[schedule]), ["none", "prefer", "schedule", "unknown"]);
}
