use super::super::testing::{cluster, scores};
use super::*;
use crate::model::{Node, Pod};

#[test]
fn each_resource_has_its_own_strategy() {
    let mut cluster = cluster([
        Node::new("a").capacity("cpu", 10).capacity("g/g", 8),
        Node::new("b").capacity("cpu", 10).capacity("g/g", 8),
        Node::new("c").capacity("cpu", 10),
    ]);
    cluster.add_pod(Pod::new().name("p").request("cpu", 4).request("g/g", 6).on("a")).unwrap();
    let score = || {
        NodeResourcesFitPlus::of([
            ("g/g", ResourceStrategy::MostAllocated, 3),
            ("cpu", ResourceStrategy::LeastAllocated, 1),
        ])
    };
    let pod = Pod::new().request("cpu", 1).request("g/g", 2);
    // a: (3·100 + 50) / 4; b: (3·25 + 90) / 4; c: 90 / 4.
    assert_eq!(scores(score(), &cluster, &pod), [87, 41, 22]);
    assert_eq!(scores(score(), &cluster, &Pod::new().request("cpu", 1)), [50, 90, 90]);
    assert_eq!(scores(score(), &cluster, &Pod::new()), [100; 3]);
}
