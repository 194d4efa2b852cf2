//! Odd input: a small cluster, and what makes sure that a refusal changed nothing.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use phalanx::{Cluster, Event, Node, Pod, PodGroup, StateError};

use crate::support::worlds::bytes;

/// Two nodes with something on them.
pub(crate) fn cluster() -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for name in ["n1", "n2"] {
        let node = Node::new(name).capacity("cpu", 4).capacity("memory", "8Gi").label("zone", "a");
        cluster.add_node(node).unwrap();
    }
    cluster.add_pod(Pod::new().name("old").request("cpu", 1).on("n1")).unwrap();
    cluster
}

pub(crate) fn node_event(node: Node, version: u64) -> Event {
    Event::NodeChanged { node, version }
}

pub(crate) fn pod_event(pod: Pod, version: u64) -> Event {
    Event::PodChanged { pod, version }
}

pub(crate) fn pod_deleted(name: &str, version: u64) -> Event {
    Event::PodDeleted { namespace: "default".into(), name: name.into(), version }
}

/// Applies what must be refused, and makes sure that nothing changed.
pub(crate) fn refused(cluster: &mut Cluster, event: Event) -> StateError {
    let (before, generation) = (bytes(cluster), cluster.generation());
    let error = cluster.apply(event).expect_err("must be refused");
    assert_eq!(bytes(cluster), before);
    assert_eq!(cluster.generation(), generation);
    error
}

pub(crate) fn gang(pods: usize) -> PodGroup {
    PodGroup::gang("gang", pods as u32).pods(pods, Pod::new().request("cpu", 1))
}
