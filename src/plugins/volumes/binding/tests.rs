use super::super::super::testing::{cluster, passing, refused, scores};
use super::*;
use crate::model::{
    LabelSelector, Node, Pod, StorageCapacity, StorageClass, StorageDriver, VolumeClaim,
};

#[test]
fn pools_of_a_driver_that_tracks_them_bound_what_is_made() {
    let mut cluster = cluster([
        Node::new("a").label("host", "a"),
        Node::new("b").label("host", "b"),
        Node::new("c").label("host", "c"),
    ]);
    let pod = Pod::new().volume_claim("c");
    let claim = VolumeClaim::new("default", "c").class("fast").request(60);
    cluster.set_storage(claim).unwrap();
    assert!(refused(VolumeBinding, &cluster, &pod));
    cluster.set_storage(StorageClass::new("fast", "csi")).unwrap();
    assert_eq!(passing(VolumeBinding, &cluster, &pod).concat(), "abc");
    cluster.set_storage(StorageDriver::new("csi").tracking_capacity()).unwrap();
    assert_eq!(passing(VolumeBinding, &cluster, &pod).concat(), "");
    for (node, capacity) in [("a", 100), ("b", 59), ("c", 240)] {
        let nodes = LabelSelector::label("host", node);
        cluster.set_storage(StorageCapacity::new(node, "fast", nodes, capacity)).unwrap();
    }
    assert_eq!(passing(VolumeBinding, &cluster, &pod).concat(), "ac");
    let curve = Utilization::new([(0, 10), (100, 0)]).unwrap();
    assert_eq!(scores(StorageCapacityScore::new(curve), &cluster, &pod), [40, 0, 75]);
}
