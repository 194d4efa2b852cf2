use super::super::super::testing::{cluster, passing, refused};
use super::*;
use crate::model::{Node, Pod, StorageClass, Volume, VolumeClaim};

#[test]
fn a_volume_confines_to_its_zones() {
    let (zone, beta) = (LABELS[2].0, LABELS[0].0);
    let node = |name: &str, label: &str, value: &str| Node::new(name).label(label, value);
    let mut cluster = cluster([
        node("a", zone, "z1"),
        node("b", zone, "z2"),
        node("c", beta, "z1"),
        Node::new("d"),
    ]);
    let pod = Pod::new().volume_claim("c");
    cluster.set_storage(VolumeClaim::new("default", "c").bound_to("v")).unwrap();
    assert!(refused(VolumeZone, &cluster, &pod));
    for (label, zones, nodes) in
        [(zone, "z1", "ad"), (beta, "z1", "acd"), (beta, "z2__z1", "abcd"), (zone, "z1__", "abcd")]
    {
        cluster.set_storage(Volume::new("v", 1).label(label, zones)).unwrap();
        assert_eq!(passing(VolumeZone, &cluster, &pod).concat(), nodes, "{label} {zones}");
    }
    let waiting = VolumeClaim::new("default", "c").class("local");
    cluster.set_storage(waiting).unwrap();
    assert!(refused(VolumeZone, &cluster, &pod));
    cluster.set_storage(StorageClass::new("local", "")).unwrap();
    assert_eq!(passing(VolumeZone, &cluster, &pod).len(), 4);
}
