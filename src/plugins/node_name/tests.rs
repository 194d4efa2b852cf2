use super::super::testing::{cluster, passing};
use super::*;
use crate::model::{Node, Pod};

#[test]
fn a_pod_goes_to_the_node_it_names() {
    let cluster = cluster([Node::new("a"), Node::new("b")]);
    let mut pod = Pod::new();
    assert_eq!(passing(NodeName, &cluster, &pod), ["a", "b"]);
    pod.shape_mut().node_name = Some("b".into());
    assert_eq!(passing(NodeName, &cluster, &pod), ["b"]);
    pod.shape_mut().node_name = Some("c".into());
    assert_eq!(passing(NodeName, &cluster, &pod), [""; 0]);
}
