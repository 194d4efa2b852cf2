//! The working copy of nodes on which preemption removes pods and puts them back.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::model::{HostPort, Pod};
use crate::state::{Checkpoint, Cluster, Devices, PodId, PodView, Row, StateError, Txn};

/// A pod on a node of the working copy, by which it is removed and put back.
#[derive(Debug, Clone)]
pub(super) struct PodInfo {
    /// Its id in the cluster that was copied.
    id: PodId,
    pub(super) row: Row,
    pub(super) pod: Pod,
}

impl PodInfo {
    pub(super) fn new(view: PodView<'_>) -> Option<PodInfo> {
        let row = view.node()?.row();
        Some(PodInfo { id: view.id(), row, pod: view.to_pod_on("") })
    }

    /// The pod as the cluster that was copied had it, in a copy where it may be on no node.
    pub(super) fn view<'c>(&self, cluster: &'c Cluster) -> Option<PodView<'c>> {
        cluster.pod_view(self.id.0)
    }
}

/// The nodes of a cluster with their pods, to be changed and rolled back.
///
/// Host ports of a node are a set, as in kube-scheduler. A pod that is removed takes its ports
/// along, even if another pod of the node holds the same ones. Here that other pod loses them.
///
/// Source: kube-scheduler, `framework/types.go` (`NodeInfo`, `HostPortInfo`).
#[derive(Debug, Clone)]
pub(super) struct NodeInfos {
    txn: Txn,
    /// The pods that are not where the cluster had them: those that were put back, and those that
    /// lost ports. By their id in the cluster.
    moved: BTreeMap<PodId, PodId>,
}

/// A state to roll back to.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    checkpoint: Checkpoint,
    moved: BTreeMap<PodId, PodId>,
}

impl NodeInfos {
    pub(super) fn new(cluster: &Cluster) -> NodeInfos {
        NodeInfos { txn: cluster.txn(), moved: BTreeMap::new() }
    }

    /// The cluster as it is in the working copy.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.txn
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { checkpoint: self.txn.checkpoint(), moved: self.moved.clone() }
    }

    pub(super) fn rollback(&mut self, mark: Mark) -> Result<(), StateError> {
        self.txn.rollback(mark.checkpoint)?;
        self.moved = mark.moved;
        Ok(())
    }

    /// Places a pod that is on no node of the copy.
    pub(super) fn place(&mut self, pod: &Pod, row: Row) -> Result<(), StateError> {
        self.assume(pod, row, None)
    }

    /// [`NodeInfos::place`] with the devices chosen.
    pub(super) fn assume(
        &mut self,
        pod: &Pod,
        row: Row,
        devices: Option<Devices>,
    ) -> Result<(), StateError> {
        self.txn.place_with(pod, row, devices).map(|_| ())
    }

    /// How many changes [`NodeInfos::forget`] can take back.
    pub(super) fn changes(&self) -> usize {
        self.txn.changes()
    }

    /// Takes back what was placed since so many changes; nothing else may have happened since.
    pub(super) fn forget(&mut self, changes: usize) -> Result<(), StateError> {
        self.txn.rollback_to(changes)
    }

    /// Puts back a pod that was removed.
    pub(super) fn add_pod(&mut self, info: &PodInfo) -> Result<(), StateError> {
        let id = self.txn.place_on(&info.pod, info.row)?;
        self.moved.insert(info.id, id);
        Ok(())
    }

    /// Takes a pod off its node.
    pub(super) fn remove_pod(&mut self, info: &PodInfo) -> Result<(), StateError> {
        let id = self.moved.get(&info.id).copied().unwrap_or(info.id);
        self.txn.evict_pod(id)?;
        let ports = &info.pod.shape().ports;
        if !ports.is_empty() {
            self.free_ports(ports, info.row)?;
        }
        Ok(())
    }

    /// Takes ports away from all pods of a node.
    fn free_ports(&mut self, freed: &[HostPort], row: Row) -> Result<(), StateError> {
        let Some(node) = self.txn.view(row) else { return Ok(()) };
        let holds = |pod: &PodView<'_>| pod.shape().ports.iter().any(|port| freed.contains(port));
        let holders: Vec<(PodId, Pod)> =
            node.pods().filter(holds).map(|pod| (pod.id(), pod.to_pod_on(""))).collect();
        for (id, mut pod) in holders {
            pod.shape_mut().ports.retain(|port| !freed.contains(port));
            self.txn.evict_pod(id)?;
            let now = self.txn.place_on(&pod, row)?;
            let known = self.moved.iter().find(|(_, current)| **current == id);
            let original = known.map_or(id, |(original, _)| *original);
            self.moved.insert(original, now);
        }
        Ok(())
    }
}
