use super::*;
use crate::model::{Node, Pod, PodGroup, PodShape};
use crate::state::{Cluster, NodeView, Row};

#[test]
fn a_domain_is_scored_as_one_large_node() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("a").capacity("cpu", 10).capacity("g/g", 8)).unwrap();
    cluster.add_node(Node::new("b").capacity("cpu", 10)).unwrap();
    // Counts on b, where there is no device: left out of the sum.
    cluster.add_pod(Pod::new().name("p").request("cpu", 5).request("g/g", 4).on("b")).unwrap();
    let pod = Pod::new().request("cpu", 1).request("g/g", 2);
    let group = PodGroup::of("g", 2, pod.clone());
    let rows: Vec<Row> = cluster.nodes().map(NodeView::row).collect();
    let proposed: Vec<(&PodShape, Row)> = alloc::vec![(pod.shape(), rows[0]); 2];
    let mut cx = DomainContext::new(&cluster, &group, &rows, &proposed);
    cx.running = 3;
    // cpu 7 of 20, devices 4 of 8.
    let score = DomainAllocation::of([("cpu", 1), ("g/g", 3), ("no/such", 9)]);
    assert_eq!(score.score(&cx), 46);
    assert_eq!(score.reversed().score(&cx), 54);
    assert_eq!(PodGroupPodsCount.score(&cx), 5);
    let none = DomainContext { proposed: &[], ..cx };
    assert_eq!(DomainAllocation::of([("cpu", 1), ("g/g", 3)]).score(&none), 25);
}
