use super::super::super::testing::{cluster, passing};
use super::*;
use crate::model::{DriverVolume, Node, Pod, StorageClass, Volume, VolumeAttachment, VolumeClaim};

#[test]
fn a_volume_counts_once_however_many_pods_of_the_node_use_it() {
    let mut cluster = cluster([Node::new("a"), Node::new("b"), Node::new("c")]);
    for node in ["a", "b"] {
        cluster.set_storage(AttachLimits::new(node).limit("csi", 2)).unwrap();
    }
    for number in 0..3 {
        let (claim, volume) = (std::format!("c{number}"), std::format!("v{number}"));
        let claim = VolumeClaim::new("default", claim).bound_to(&*volume);
        cluster.set_storage(claim).unwrap();
        cluster.set_storage(Volume::new(&*volume, 1).driver("csi", volume)).unwrap();
    }
    cluster.set_storage(StorageClass::new("fast", "csi")).unwrap();
    cluster.set_storage(VolumeClaim::new("default", "new").class("fast")).unwrap();
    let pod =
        |claims: &[&str]| claims.iter().fold(Pod::new(), |pod, claim| pod.volume_claim(*claim));
    let on = |claims: &[&str], cluster: &Cluster| {
        passing(NodeVolumeLimits, cluster, &pod(claims)).concat()
    };
    cluster.add_pod(pod(&["c0"]).name("p").on("a")).unwrap();
    assert_eq!(on(&["c0", "c1"], &cluster), "abc");
    assert_eq!(on(&["c1", "c2"], &cluster), "bc");
    assert_eq!(on(&["c1", "new"], &cluster), "bc");
    assert_eq!(on(&["c0", "c1", "c2"], &cluster), "c");
    let attached = VolumeAttachment::new("x", "csi", "b", "v1");
    cluster.set_storage(attached).unwrap();
    assert_eq!(on(&["c0", "new"], &cluster), "ac");
    // A volume that is attached and used by nobody counts twice.
    assert_eq!(on(&["c1", "c2"], &cluster), "c");
}

#[test]
fn volumes_of_plug_ins_count_where_these_have_migrated() {
    let mut cluster = cluster([Node::new("a"), Node::new("b"), Node::new("c")]);
    let limits = |node: &str| AttachLimits::new(node).limit("csi", 1);
    cluster.set_storage(limits("a").migrated("disks")).unwrap();
    cluster.set_storage(limits("b").migrated("others")).unwrap();
    let pod = |handles: &[&str]| {
        let of = |handle: &&str| PodVolume::Migrated {
            plugin: "disks".into(),
            volume: DriverVolume { driver: "csi".into(), handle: (*handle).into() },
        };
        handles.iter().fold(Pod::new(), |pod, handle| pod.volume(of(handle)))
    };
    let on = |handles: &[&str], cluster: &Cluster| {
        passing(NodeVolumeLimits, cluster, &pod(handles)).concat()
    };
    assert_eq!(on(&["v", "w"], &cluster), "bc");
    for node in ["a", "b"] {
        cluster.add_pod(pod(&["v"]).name(node).on(node)).unwrap();
    }
    // It is attached already.
    assert_eq!(on(&["v"], &cluster), "abc");
    assert_eq!(on(&["w"], &cluster), "bc");
    // Volumes of claims share the limit with them.
    cluster.set_storage(Volume::new("x", 1).driver("csi", "x")).unwrap();
    cluster.set_storage(VolumeClaim::new("default", "x").bound_to("x")).unwrap();
    assert_eq!(passing(NodeVolumeLimits, &cluster, &Pod::new().volume_claim("x")).concat(), "bc");
}
