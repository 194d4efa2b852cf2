use super::super::testing::{cluster, scores};
use super::*;
use crate::model::{Node, Pod};

#[test]
fn nodes_with_scarce_resources_are_kept_for_others() {
    let node = |name| Node::new(name).capacity("cpu", 4).capacity("memory", 8);
    let cluster = cluster([
        node("a"),
        node("b").capacity("g/g", 8),
        node("c").capacity("g/g", 8).capacity("h/h", 1),
    ]);
    let score = || ScarceResourceAvoidance::of(["g/g", "h/h"]);
    let pod = Pod::new().request("cpu", 1);
    assert_eq!(scores(score(), &cluster, &pod), [100, 50, 33]);
    assert_eq!(scores(score(), &cluster, &pod.clone().request("g/g", 1)), [100, 100, 50]);
    assert_eq!(scores(score(), &cluster, &pod.request("memory", 1)), [100, 0, 0]);
    let none = ScarceResourceAvoidance::of(["no/such"]);
    assert_eq!(scores(none, &cluster, &Pod::new()), [100; 3]);
}
