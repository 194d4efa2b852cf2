//! Tests: balanced allocation.

use super::super::testing::{cluster, scores};
use super::*;
use crate::model::{Node, Pod};

#[test]
fn evening_out_is_rewarded_and_unevenness_punished() {
    let mut cluster = cluster([
        Node::new("a").capacity("cpu", 10).capacity("memory", 100),
        Node::new("b").capacity("cpu", 10).capacity("memory", 100),
        Node::new("c").capacity("cpu", 10),
    ]);
    cluster.add_pod(Pod::new().name("p").request("memory", 50).on("b")).unwrap();
    // a: from 100 to 75; b: from 75 to 100; c: nothing to compare.
    let pod = Pod::new().request("cpu", 5);
    assert_eq!(scores(BalancedAllocation::default(), &cluster, &pod), [62, 87, 75]);
    let pod = Pod::new().request("cpu", 5).request("memory", 50);
    assert_eq!(scores(BalancedAllocation::default(), &cluster, &pod), [75, 75, 75]);
}

#[test]
fn pods_that_request_nothing_are_not_judged() {
    let cluster = cluster([Node::new("a").capacity("cpu", 10)]);
    for pod in [Pod::new(), Pod::new().request("cpu", 0), Pod::new().request("x/y", 3)] {
        assert_eq!(scores(BalancedAllocation::default(), &cluster, &pod), [0]);
    }
}

#[test]
fn three_resources_use_the_standard_deviation() {
    let cluster =
        cluster([Node::new("a").capacity("cpu", 10).capacity("memory", 100).capacity("g/g", 4)]);
    let pod = Pod::new().request("cpu", 10).request("memory", 50).request("g/g", 0);
    let score = || BalancedAllocation::of(["cpu", "memory", "g/g"]);
    // The device is left out: σ of 1, ½ is ¼.
    assert_eq!(scores(score(), &cluster, &pod), [62]);
    let pod = pod.request("g/g", 2);
    // σ of 1, ½, ½ is 0.2357.
    assert_eq!(scores(score(), &cluster, &pod), [63]);
    let pod = pod.request("g/g", 9);
    assert_eq!(scores(score(), &cluster, &pod), [63]);
}
