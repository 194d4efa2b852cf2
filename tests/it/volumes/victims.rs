//! Volumes of victims: what they free, and what stays theirs.

use phalanx::model::{
    AccessMode, AttachLimits, NodeSelector, NodeSelectorTerm, Operator, Requirement, Volume,
    VolumeAttachment, VolumeClaim,
};
use phalanx::preempt::{PreemptingPlanner, Preemption, RunningWork};
use phalanx::reference::is_sound;
use phalanx::{Cluster, Framework, Node, PodGroup, Request, place_gang};

use super::{HOST, cluster, gang};

/// A claim that is bound to a volume of a driver, reached from some nodes.
fn bound(cluster: &mut Cluster, name: &str, nodes: &[&str]) {
    let on = Requirement::new(HOST, Operator::In, nodes.iter().copied());
    let reached = NodeSelector::any_of([NodeSelectorTerm::labels([on])]);
    let volume = format!("{name}-volume");
    cluster.set_storage(Volume::new(&*volume, 1).driver("csi", name).reached_by(reached)).unwrap();
    cluster.set_storage(VolumeClaim::new("default", name).bound_to(&*volume)).unwrap();
}

/// Places a group of lower priority on a node.
fn run(cluster: &mut Cluster, running: &mut RunningWork, name: &str, claims: &[&str], node: &str) {
    let group = gang(name, &[claims]).priority(1).evicted_whole();
    for pod in &group.pods {
        let mut pod = pod.clone();
        pod.group = Some(name.into());
        cluster.add_pod(pod.on(node)).unwrap();
    }
    running.set_group(&group).unwrap();
}

/// The names of the victims for a group, whose plan is sound once they have gone.
fn victims(cluster: &Cluster, running: &RunningWork, group: &PodGroup) -> Vec<String> {
    let framework = Framework::default();
    assert!(!place_gang(cluster, &framework, group).unwrap().is_placed());
    let answer = PreemptingPlanner::new().place(cluster, &framework, running, Request::new(group));
    let Preemption::Preempt(found) = answer.unwrap() else { return Vec::new() };
    let mut after = cluster.clone();
    let mut names: Vec<String> = Vec::new();
    for pod in found.victims.iter().flat_map(|victim| &victim.pods) {
        after.remove_pod(&pod.namespace, &pod.name).unwrap();
        names.push(pod.name.clone());
    }
    is_sound(&found.plan, group, &after, &framework).unwrap();
    names.sort();
    names
}

#[test]
fn places_for_attachments_that_victims_have_count_as_free() {
    for attached in [false, true] {
        let mut running = RunningWork::new();
        let mut cluster = cluster(&["a", "b"]);
        cluster.set_storage(AttachLimits::new("a").limit("csi", 1)).unwrap();
        cluster.set_storage(AttachLimits::new("b").limit("csi", 0)).unwrap();
        bound(&mut cluster, "old", &["a", "b"]);
        bound(&mut cluster, "new", &["a", "b"]);
        run(&mut cluster, &mut running, "plain", &[], "a");
        run(&mut cluster, &mut running, "holder", &["old"], "a");
        if attached {
            let attachment = VolumeAttachment::new("x", "csi", "a", "old-volume");
            cluster.set_storage(attachment).unwrap();
        }
        let group = gang("late", &[&["new"]]).priority(100);
        assert_eq!(victims(&cluster, &running, &group), ["holder-0"], "{attached}");
        // A question in vain leaves no trace.
        let answer = place_gang(&cluster, &Framework::default(), &group).unwrap();
        assert!(!answer.is_placed());
    }
}

#[test]
fn an_attachment_counts_again_when_its_pod_is_taken_back() {
    let mut cluster = cluster(&["a"]);
    cluster.set_storage(AttachLimits::new("a").limit("csi", 1)).unwrap();
    bound(&mut cluster, "old", &["a"]);
    bound(&mut cluster, "new", &["a"]);
    run(&mut cluster, &mut RunningWork::new(), "holder", &["old"], "a");
    cluster.set_storage(VolumeAttachment::new("x", "csi", "a", "old-volume")).unwrap();
    let group = gang("late", &[&["new"]]);
    let mut txn = cluster.txn();
    let before = txn.checkpoint();
    let fits =
        |cluster: &Cluster| place_gang(cluster, &Framework::default(), &group).unwrap().is_placed();
    assert!(!fits(&txn));
    txn.evict("default", "holder-0").unwrap();
    assert!(fits(&txn));
    txn.rollback(before).unwrap();
    assert!(!fits(&txn));
    // A pod that has gone leaves the volume attached until an event says otherwise.
    cluster.remove_pod("default", "holder-0").unwrap();
    assert!(!fits(&cluster));
}

#[test]
fn a_claim_of_one_pod_is_taken_over_from_its_victim() {
    let mut running = RunningWork::new();
    let mut cluster = cluster(&["a", "b"]);
    bound(&mut cluster, "own", &["a", "b"]);
    let claim = cluster.storage().claim("default", "own").unwrap().clone();
    cluster.set_storage(claim.access([AccessMode::ReadWriteOncePod])).unwrap();
    run(&mut cluster, &mut running, "plain", &[], "b");
    run(&mut cluster, &mut running, "holder", &["own"], "a");
    let group = gang("late", &[&["own"]]).priority(100);
    assert_eq!(victims(&cluster, &running, &group), ["holder-0"]);
    // Nobody yields to a group of the same priority.
    assert!(victims(&cluster, &running, &gang("peer", &[&["own"]]).priority(1)).is_empty());
}

#[test]
fn victims_are_sought_where_the_volumes_of_a_group_are() {
    let mut running = RunningWork::new();
    let mut cluster = cluster(&["a", "b", "c"]);
    bound(&mut cluster, "data", &["b"]);
    for node in ["a", "b", "c"] {
        // Ten pods fill a node.
        for number in 0..10 {
            run(&mut cluster, &mut running, &format!("{node}{number}"), &[], node);
        }
    }
    let group = gang("late", &[&["data"]]).priority(100);
    let found = victims(&cluster, &running, &group);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with('b'), "{found:?}");
}

/// Victims free places for attachments, and move no zone: of two nodes of which each has a holder,
/// the one in the zone of the volume yields, though nodes of the other zone have room.
#[test]
fn victims_change_no_zone() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let mut running = RunningWork::new();
    let mut cluster = cluster(&["free"]);
    for (name, zone) in [("a", "one"), ("b", "two"), ("c", "two")] {
        let node = Node::new(name).label(HOST, name).label(ZONE, zone);
        cluster.add_node(node.capacity("cpu", 16).capacity("pods", 10)).unwrap();
        cluster.set_storage(AttachLimits::new(name).limit("csi", 1)).unwrap();
    }
    // A node that names no zone may have any volume: it is taken out of the way.
    cluster.set_storage(AttachLimits::new("free").limit("csi", 0)).unwrap();
    let everywhere = ["a", "b", "c", "free"];
    for (name, zone) in [("old-a", "one"), ("old-b", "two"), ("new", "one"), ("nowhere", "three")] {
        bound(&mut cluster, name, &everywhere);
        let volume = cluster.storage().volume(&format!("{name}-volume")).unwrap().clone();
        cluster.set_storage(volume.label(ZONE, zone)).unwrap();
    }
    run(&mut cluster, &mut running, "holder-a", &["old-a"], "a");
    run(&mut cluster, &mut running, "holder-b", &["old-b"], "b");
    let group = gang("late", &[&["new"]]).priority(100);
    assert_eq!(victims(&cluster, &running, &group), ["holder-a-0"]);
    // No victims help a volume whose zone has no node.
    let group = gang("lost", &[&["nowhere"]]).priority(100);
    assert!(victims(&cluster, &running, &group).is_empty());
    // Two volumes of two zones are on no node at once.
    let group = gang("torn", &[&["new", "old-b"]]).priority(100);
    assert!(victims(&cluster, &running, &group).is_empty());
}
