//! Volumes of gangs: all of them, or none.

mod commits;
mod search;
mod victims;
mod watches;

use phalanx::model::{
    NodeSelector, NodeSelectorTerm, Operator, Requirement, StorageClass, Volume, VolumeClaim,
};
use phalanx::{Cluster, Node, Pod, PodGroup};

const HOST: &str = "kubernetes.io/hostname";

/// A cluster of nodes with their names as labels, a class of local volumes, and one that makes them.
fn cluster(nodes: &[&str]) -> Cluster {
    let mut cluster = Cluster::new();
    for name in nodes {
        let node = Node::new(*name).label(HOST, *name).capacity("cpu", 16).capacity("pods", 10);
        cluster.add_node(node).unwrap();
    }
    cluster.set_storage(StorageClass::new("local", "")).unwrap();
    cluster.set_storage(StorageClass::new("made", "csi")).unwrap();
    cluster
}

/// A volume that some nodes reach.
fn local(name: &str, capacity: i64, nodes: &[&str]) -> Volume {
    let on = Requirement::new(HOST, Operator::In, nodes.iter().copied());
    let reached = NodeSelector::any_of([NodeSelectorTerm::labels([on])]);
    Volume::new(name, capacity).class("local").reached_by(reached)
}

fn claim(name: &str, class: &str, bytes: i64) -> VolumeClaim {
    VolumeClaim::new("default", name).class(class).request(bytes)
}

/// A gang of a pod for each list of claims.
fn gang(name: &str, pods: &[&[&str]]) -> PodGroup {
    let mut group = PodGroup::gang(name, pods.len() as u32);
    for (number, claims) in pods.iter().enumerate() {
        let pod = Pod::new().name(format!("{name}-{number}")).request("cpu", 1);
        group = group.pod(claims.iter().fold(pod, |pod, claim| pod.volume_claim(*claim)));
    }
    group
}
