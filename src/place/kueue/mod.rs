//! Kueue's topology-aware scheduling; [`reference::kueue`](crate::reference::kueue) tells of it.

mod balanced;
mod counts;
mod descend;
mod filter;
mod input;
mod mirror;
mod outcome;
mod pass;
mod repair;
mod request;
mod select;
pub(crate) mod strategy;
mod tree;

use crate::framework::KueueGates;
pub use input::{
    BackgroundPod, Expression, HOSTNAME_LABEL, KueueAmounts, KueueCluster, KueueFlavor, KueueNode,
    KueueNodeAffinity, KueueOperator, KueuePodSet, KueueTaint, KueueToleration,
    KueueTolerationOperator, KueueTopologyRequest, KueueUsage, PODS_RESOURCE, PreferredTerm,
    SliceLayer,
};
pub use outcome::{AssignedDomain, ClusterError, KueueAssignment, KueueOutcome, PodSetOutcome};

/// The topology tree of one flavor with the free capacity of its leaves.
#[derive(Debug, Clone)]
pub struct KueueSnapshot {
    tree: tree::Tree,
    flavor: KueueFlavor,
    gates: KueueGates,
}

impl KueueSnapshot {
    /// Builds the tree. Takes O(N·(L + R)·log N) for N nodes, L levels and R resources.
    ///
    /// # Errors
    ///
    /// The cluster has no level, or a level or a node twice.
    pub fn new(cluster: &KueueCluster) -> Result<KueueSnapshot, ClusterError> {
        Ok(KueueSnapshot {
            tree: tree::Tree::new(cluster)?,
            flavor: cluster.flavor.clone(),
            gates: cluster.gates,
        })
    }

    /// Places pod sets, each in view of those before it. The snapshot does not change; see
    /// [`charge`](KueueSnapshot::charge).
    ///
    /// If one member of a group has a node to replace, the group's other members keep their
    /// previous assignment; members without one are missing from the outcome.
    ///
    /// For every pod set and every level of a preferred request, with N nodes, R resources and D
    /// domains, this takes O(N·R + D·log D). Balanced placement adds
    /// O(d·k·p) for the `d` domains it chooses `k` from and the `p` different numbers of pods
    /// they can hold together.
    pub fn assign(&self, pod_sets: &[KueuePodSet]) -> KueueOutcome {
        let free = self.tree.free();
        pass::Pass { tree: &self.tree, flavor: &self.flavor, gates: self.gates, free }.all(pod_sets)
    }

    /// Takes usage out of the free capacity. Returns whether its leaf is in the snapshot; if not,
    /// nothing changes.
    pub fn charge(&mut self, usage: &KueueUsage) -> bool {
        self.tree.charge(usage, 1)
    }

    /// Gives usage back, the reverse of [`charge`](KueueSnapshot::charge).
    pub fn release(&mut self, usage: &KueueUsage) -> bool {
        self.tree.charge(usage, -1)
    }
}
