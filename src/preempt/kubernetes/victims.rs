//! Victims, and the node that is chosen by them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::node_infos::PodInfo;
use super::snapshot::PreemptionSnapshot;
use crate::base::Time;
use crate::preempt::EvictedPod;
use crate::state::{Cluster, PodView};

/// A running pod that is to be evicted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PodVictim {
    /// The pod.
    pub pod: EvictedPod,
    /// Whether it is being deleted already, so that no eviction is asked for.
    pub deleting: bool,
}

impl PodVictim {
    pub(super) fn new(cluster: &Cluster, info: &PodInfo) -> PodVictim {
        let (pod, node) = (&info.pod, cluster.view(info.row));
        PodVictim {
            pod: EvictedPod {
                namespace: pod.namespace().to_string(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                key: pod.key,
                node: node.map_or("", |node| node.name()).to_string(),
            },
            deleting: pod.deleting,
        }
    }
}

/// The pods of victims to evict, by namespace and name.
pub(super) fn deleted<'v>(victims: impl IntoIterator<Item = &'v PodVictim>) -> Vec<&'v EvictedPod> {
    let going = victims.into_iter().filter(|victim| !victim.deleting);
    let mut deleted: Vec<&EvictedPod> = going.map(|victim| &victim.pod).collect();
    deleted.sort_unstable();
    deleted.dedup();
    deleted
}

/// A node on which the pod fits once its victims are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCandidate {
    node: String,
    victims: Vec<PodVictim>,
    violations: u32,
    rank: Rank,
}

/// Rank of a node as a candidate: the least is best.
///
/// Source: kube-scheduler, `framework/preemption/preemption.go` (`pickOneNodeForPreemption`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Victims taken against a budget.
    violations: u32,
    /// The priority of the first victim.
    highest: i32,
    /// The sum of priorities, each above the lowest there is.
    sum: i64,
    victims: usize,
    /// When the first of the victims of the highest priority started.
    earliest: Reverse<Time>,
}

impl NodeCandidate {
    /// A candidate of one victim or more, the most important first.
    pub(super) fn new(
        snapshot: &PreemptionSnapshot<'_>,
        node: String,
        victims: &[PodInfo],
        violations: u32,
    ) -> NodeCandidate {
        let highest = victims.iter().map(|info| info.pod.priority).max().unwrap_or(i32::MIN);
        let above = |info: &PodInfo| i64::from(info.pod.priority) + (1 << 31);
        let most_important = victims.iter().filter(|info| info.pod.priority == highest);
        let earliest = most_important.map(|info| snapshot.start(info.pod.start)).min();
        let rank = Rank {
            violations,
            highest: victims.first().map_or(i32::MIN, |info| info.pod.priority),
            sum: victims.iter().map(above).fold(0, i64::saturating_add),
            victims: victims.len(),
            earliest: Reverse(earliest.unwrap_or(snapshot.now)),
        };
        let victims = victims.iter().map(|info| PodVictim::new(&snapshot.cluster, info)).collect();
        NodeCandidate { node, victims, violations, rank }
    }

    /// The name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The pods to evict, the most important first.
    pub fn victims(&self) -> &[PodVictim] {
        &self.victims
    }

    /// How many of them are taken against a budget.
    pub fn pdb_violations(&self) -> u32 {
        self.violations
    }
}

/// The candidates that share the best rank, in the order given. Ranks compare victims against
/// budgets (fewest), then the priority of the most important victim (lowest). Then come the sum of
/// priorities above −2³¹ (smallest) and the number of victims (fewest). The last is the start of
/// the oldest victim of the highest priority (latest).
pub(super) fn best(candidates: &[NodeCandidate]) -> impl Iterator<Item = &NodeCandidate> {
    let best = candidates.iter().map(|candidate| candidate.rank).min();
    candidates.iter().filter(move |candidate| Some(candidate.rank) == best)
}

/// Whether a pod of lower priority terminates on a node because the scheduler preempted it.
pub(super) fn terminates_for(
    snapshot: &PreemptionSnapshot<'_>,
    priority: i32,
    pod: PodView<'_>,
) -> bool {
    pod.priority() < priority && snapshot.is_preempted(pod)
}
