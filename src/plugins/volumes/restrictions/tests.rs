use super::super::super::testing::{cluster, passing, refused};
use super::*;
use crate::model::{AccessMode, Node, Pod, VolumeClaim};

#[test]
fn disks_are_written_by_one_pod_of_a_node() {
    let mut cluster = cluster([Node::new("a"), Node::new("b")]);
    let disk = |disk: InlineDisk| Pod::new().volume(PodVolume::Disk(disk));
    let there = disk(InlineDisk::new("gce", "d").read_only());
    cluster.add_pod(there.name("p").on("a")).unwrap();
    for (own, nodes) in [
        (InlineDisk::new("gce", "d"), &["b"][..]),
        (InlineDisk::new("gce", "d").read_only(), &["a", "b"]),
        (InlineDisk::new("aws", "d"), &["a", "b"]),
        (InlineDisk::new("gce", "e"), &["a", "b"]),
    ] {
        assert_eq!(passing(VolumeRestrictions, &cluster, &disk(own)), nodes);
    }
}

#[test]
fn a_claim_of_one_pod_is_taken_on_all_nodes_while_its_pod_runs() {
    let mut cluster = cluster([Node::new("a"), Node::new("b")]);
    let claim = VolumeClaim::new("default", "c").access([AccessMode::ReadWriteOncePod]);
    let pod = Pod::new().volume_claim("c");
    assert!(refused(VolumeRestrictions, &cluster, &pod));
    cluster.set_storage(claim).unwrap();
    assert_eq!(passing(VolumeRestrictions, &cluster, &pod), ["a", "b"]);
    cluster.add_pod(pod.clone().name("p").on("a")).unwrap();
    assert!(passing(VolumeRestrictions, &cluster, &pod).is_empty());
    let mut txn = cluster.txn();
    txn.evict("default", "p").unwrap();
    assert_eq!(passing(VolumeRestrictions, &txn, &pod), ["a", "b"]);
}
