//! The dry run of preemption on one node.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::budgets::Charges;
use super::cycle_state::CycleState;
use super::node_infos::{NodeInfos, PodInfo};
use super::nominator::{Nominator, filter_with_nominated_pods};
use super::snapshot::PreemptionSnapshot;
use crate::base::Time;
use crate::framework::Rejection;
use crate::model::Pod;
use crate::state::{Row, StateError};

/// The outcome of a dry run.
#[derive(Debug)]
pub(super) enum DryRun {
    /// The pod fits without these pods, the most important first, of which so many are taken
    /// against a budget.
    Fits(Vec<PodInfo>, u32),
    /// No pod of the node has a lower priority.
    NoVictims,
    /// The pod does not fit without all pods of lower priority.
    Rejected(Rejection),
    /// All of them could stay.
    Idle,
}

/// The order of victims, the most important first: priority, then age.
///
/// Source: `k8s.io/kubernetes/pkg/scheduler/util` (`MoreImportantPod`).
fn importance(snapshot: &PreemptionSnapshot<'_>, pod: &Pod) -> (Reverse<i32>, Time) {
    (Reverse(pod.priority), snapshot.start(pod.start))
}

/// The victims on a row: all pods of lower priority go, then those come back that leave room for
/// the pod, those in budgets first and the most important first. The working copy and the state are
/// as before afterwards.
///
/// Source: kube-scheduler, `plugins/defaultpreemption/default_preemption.go`
/// (`SelectVictimsOnNode`).
pub(super) fn select_victims_on_node(
    snapshot: &PreemptionSnapshot<'_>,
    infos: &mut NodeInfos,
    state: &mut CycleState<'_>,
    nominator: &Nominator<'_>,
    pod: &Pod,
    row: Row,
) -> Result<DryRun, StateError> {
    let mut potential: Vec<PodInfo> = match infos.cluster().view(row) {
        Some(node) => {
            let lower = snapshot.pods_on(node).into_iter();
            lower.filter(|other| other.priority() < pod.priority).filter_map(PodInfo::new).collect()
        }
        None => Vec::new(),
    };
    if potential.is_empty() {
        return Ok(DryRun::NoVictims);
    }
    let mark = infos.mark();
    for info in &potential {
        infos.remove_pod(info)?;
        state.remove_pod(infos.cluster(), info.pod.shape(), row);
    }
    let verdict = filter_with_nominated_pods(infos, state, nominator, pod, row)?;
    let mut victims = Vec::new();
    let mut violations = 0;
    if verdict.is_ok() {
        potential.sort_by_key(|info| importance(snapshot, &info.pod));
        let mut charges = Charges::new(snapshot.running);
        let (violating, others): (Vec<PodInfo>, Vec<PodInfo>) = potential
            .iter()
            .cloned()
            .partition(|info| info.view(infos.cluster()).is_some_and(|view| charges.charge(view)));
        let count = violating.len();
        for (number, info) in violating.into_iter().chain(others).enumerate() {
            infos.add_pod(&info)?;
            state.add_pod(infos.cluster(), info.pod.shape(), row);
            if filter_with_nominated_pods(infos, state, nominator, pod, row)?.is_err() {
                infos.remove_pod(&info)?;
                state.remove_pod(infos.cluster(), info.pod.shape(), row);
                violations += u32::from(number < count);
                victims.push(info);
            }
        }
    }
    let gone = if verdict.is_ok() { &victims } else { &potential };
    infos.rollback(mark)?;
    for info in gone {
        state.add_pod(infos.cluster(), info.pod.shape(), row);
    }
    victims.sort_by_key(|info| importance(snapshot, &info.pod));
    Ok(match verdict {
        Err(why) => DryRun::Rejected(why),
        Ok(()) if victims.is_empty() => DryRun::Idle,
        Ok(()) => DryRun::Fits(victims, violations),
    })
}
