//! Preemption for a group pod by pod.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::group_cycle::GroupCycle;
use super::node_infos::NodeInfos;
use super::pod::preempt;
use super::snapshot::PreemptionSnapshot;
use super::victims::{NodeCandidate, PodVictim, deleted};
use crate::model::PodGroup;
use crate::place::PlaceError;
use crate::preempt::EvictedPod;
use crate::state::NodeView;

/// The answer of pod-by-pod preemption for a group that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodByPodPreemption {
    helps: bool,
    nodes: Vec<(usize, String)>,
    preempting: Vec<usize>,
    victims: Vec<PodVictim>,
}

impl PodByPodPreemption {
    /// Whether the group waits for its victims to go. If not, they were evicted for nothing.
    pub fn helps(&self) -> bool {
        self.helps
    }

    /// The members that have a node, by index, with its name, in the order of trying.
    pub fn nodes(&self) -> &[(usize, String)] {
        &self.nodes
    }

    /// The members that preempted, by index, in the order of trying.
    pub fn preempting(&self) -> &[usize] {
        &self.preempting
    }

    /// The pods to evict, by namespace and name.
    pub fn deleted(&self) -> Vec<&EvictedPod> {
        deleted(&self.victims)
    }
}

/// Tries a group with preemption for each member that fits nowhere, whose victims are evicted at
/// once: a group may lose pods to others and not be scheduled. A member that preempted counts as
/// placed on its node beside its victims, which later members count again.
///
/// O(members × nodes × pods of a node × filters).
///
/// # Errors
/// The group is unsound, holds groups, or has a member that is bound; or a sum overflows.
///
/// Source: kube-scheduler, `schedule_one_podgroup.go` (`podGroupSchedulingDefaultAlgorithm`,
/// `podGroupPodSchedulingAlgorithm`).
pub fn preempt_pod_by_pod(
    snapshot: &PreemptionSnapshot<'_>,
    group: &PodGroup,
) -> Result<PodByPodPreemption, PlaceError> {
    let cycle = GroupCycle::new(snapshot, group)?;
    let mut infos = NodeInfos::new(&snapshot.cluster);
    let mut answer = PodByPodPreemption::default();
    // Members of constrained groups do not preempt.
    let may = group.topology.require.is_none();
    let placed = cycle.run(&mut infos, &snapshot.rows(), |infos, nominator, index, rows| {
        if !may {
            return Ok(None);
        }
        let what = (&group.pods[index], Some(group));
        let preemption = preempt(snapshot, infos, nominator, what, rows)?;
        answer
            .victims
            .extend(preemption.chosen().into_iter().flat_map(NodeCandidate::victims).cloned());
        let node = preemption.chosen().and_then(|best| infos.cluster().node(best.node()));
        answer.preempting.extend(node.map(|_| index));
        Ok(node.map(NodeView::row))
    })?;
    let name = |row| snapshot.cluster.view(row).map_or("", |node| node.name()).to_string();
    answer.nodes = placed.rows.iter().map(|&(index, row)| (index, name(row))).collect();
    // A member that preempted is placed, so the last one that is placed decides.
    answer.helps = placed.feasible && !answer.preempting.is_empty();
    Ok(answer)
}
