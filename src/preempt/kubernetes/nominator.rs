//! Nominated pods by node, and the filters of a pod with them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::cycle_state::CycleState;
use super::node_infos::NodeInfos;
use super::snapshot::{Nomination, PreemptionSnapshot, is};
use crate::framework::Rejection;
use crate::model::Pod;
use crate::state::{Row, StateError};

/// The nominations of a snapshot, by the row of their node. Those to nodes that are not there are
/// left out.
///
/// Source: kube-scheduler, `backend/queue/nominator.go`.
#[derive(Debug, Clone, Default)]
pub(super) struct Nominator<'a> {
    by_row: BTreeMap<Row, Vec<&'a Nomination>>,
}

impl<'a> Nominator<'a> {
    pub(super) fn new(snapshot: &'a PreemptionSnapshot<'_>) -> Nominator<'a> {
        let mut by_row: BTreeMap<Row, Vec<&'a Nomination>> = BTreeMap::new();
        for nomination in &snapshot.nominations {
            if let Some(node) = snapshot.cluster.node(&nomination.node) {
                by_row.entry(node.row()).or_default().push(nomination);
            }
        }
        Nominator { by_row }
    }

    /// The row that a pod is nominated to.
    pub(super) fn row_of(&self, pod: &Pod) -> Option<Row> {
        let has = |list: &[&Nomination]| {
            list.iter().any(|other| is(&other.pod, pod.namespace(), &pod.name))
        };
        self.by_row.iter().find(|(_, list)| has(list)).map(|(row, _)| *row)
    }

    /// Takes the nomination of a pod away.
    pub(super) fn delete(&mut self, pod: &Pod) {
        for list in self.by_row.values_mut() {
            list.retain(|other| !is(&other.pod, pod.namespace(), &pod.name));
        }
    }

    /// The pods nominated to a row.
    pub(super) fn on(&self, row: Row) -> impl Iterator<Item = &'a Pod> + '_ {
        self.by_row.get(&row).into_iter().flatten().map(|nomination| &nomination.pod)
    }
}

/// Whether a pod can go to a row, with the pods nominated there that are not less important and
/// without them: they may come, or not.
///
/// Source: kube-scheduler, `framework/runtime/framework.go` (`RunFilterPluginsWithNominatedPods`).
pub(super) fn filter_with_nominated_pods(
    infos: &mut NodeInfos,
    state: &mut CycleState<'_>,
    nominator: &Nominator<'_>,
    pod: &Pod,
    row: Row,
) -> Result<Result<(), Rejection>, StateError> {
    let counts =
        |other: &&Pod| other.priority >= pod.priority && !is(other, pod.namespace(), &pod.name);
    let nominated: Vec<&Pod> = nominator.on(row).filter(counts).collect();
    if !nominated.is_empty() {
        let mut marks = Vec::with_capacity(nominated.len());
        for other in &nominated {
            marks.push(infos.changes());
            infos.place(other, row)?;
            state.add_pod(infos.cluster(), other.shape(), row);
        }
        let verdict = state.filter(infos.cluster(), row);
        for (other, changes) in nominated.iter().zip(marks).rev() {
            infos.forget(changes)?;
            state.remove_pod(infos.cluster(), other.shape(), row);
        }
        if verdict.is_err() {
            return Ok(verdict);
        }
    }
    Ok(state.filter(infos.cluster(), row))
}
