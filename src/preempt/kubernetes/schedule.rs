//! One scheduling attempt of a pod: where it can go, where it goes, and why not elsewhere.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::cycle_state::CycleState;
use super::node_infos::NodeInfos;
use super::nominator::{Nominator, filter_with_nominated_pods};
use super::snapshot::PreemptionSnapshot;
use crate::framework::{Evaluation, Framework, Rejection, Verdict};
use crate::model::{Pod, PodGroup};
use crate::place::PlaceError;
use crate::state::{Cluster, Row, StateError};

/// The outcome of trying a pod on all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempt {
    feasible: Vec<String>,
    chosen: Option<String>,
    rejected: Vec<RejectedNode>,
}

/// A node that a pod cannot go to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedNode {
    /// The name of the node.
    pub node: String,
    /// The first filter that rejects it; `None` if the preparation of a filter left it out.
    pub filter: Option<String>,
    /// Whether taking pods away does not help (`UnschedulableAndUnresolvable`).
    pub unresolvable: bool,
}

impl Attempt {
    /// The nodes that the pod can go to, in node order. If the pod is nominated to a node and can
    /// go there, no other node is tried.
    pub fn feasible(&self) -> &[String] {
        &self.feasible
    }

    /// The feasible node with the best score, the first of them in node order.
    pub fn chosen(&self) -> Option<&str> {
        self.chosen.as_deref()
    }

    /// The nodes that the pod cannot go to, in node order.
    pub fn rejected(&self) -> &[RejectedNode] {
        &self.rejected
    }

    /// The nodes whose rejection taking pods away may cure, in node order.
    pub(super) fn resolvable(&self) -> impl Iterator<Item = &str> {
        let nodes = self.rejected.iter().filter(|rejected| !rejected.unresolvable);
        nodes.map(|rejected| rejected.node.as_str())
    }
}

/// [`Attempt`], by rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Fit {
    pub(super) feasible: Vec<Row>,
    pub(super) chosen: Option<Row>,
    pub(super) rejected: Vec<(Row, Rejection)>,
}

impl Fit {
    /// The rows that candidates for preemption are chosen from.
    pub(super) fn resolvable(&self) -> impl Iterator<Item = Row> + '_ {
        self.rejected.iter().filter(|(_, why)| !is_unresolvable(*why)).map(|(row, _)| *row)
    }

    fn named(self, cluster: &Cluster, framework: &Framework) -> Attempt {
        let name = |row: Row| cluster.view(row).map_or("", |node| node.name()).to_string();
        let rejected = self.rejected.iter().map(|&(row, why)| RejectedNode {
            node: name(row),
            filter: filter_name(framework, why),
            unresolvable: is_unresolvable(why),
        });
        Attempt {
            rejected: rejected.collect(),
            chosen: self.chosen.map(name),
            feasible: self.feasible.into_iter().map(name).collect(),
        }
    }
}

/// Whether taking pods away does not help.
pub(super) fn is_unresolvable(why: Rejection) -> bool {
    match why {
        Rejection::Narrowed => true,
        Rejection::Refused(_, verdict) | Rejection::Filter(_, verdict) => {
            verdict == Verdict::Unresolvable
        }
    }
}

/// The filter that a rejection comes from.
pub(super) fn filter_name(framework: &Framework, why: Rejection) -> Option<String> {
    match why {
        Rejection::Narrowed => None,
        Rejection::Refused(filter, _) | Rejection::Filter(filter, _) => {
            framework.filters().get(filter).map(|filter| filter.name().to_string())
        }
    }
}

/// Tries a pod on all nodes, on the node that it is nominated to first and alone.
///
/// O(nodes × filters), and as much for the scores. Pods nominated to a node count as kube-scheduler
/// counts them: those of a priority not lower than the pod's, and the pod must fit with and without
/// them.
///
/// # Errors
/// The pod is unsound, or the sums of a node overflow with the pods nominated to it.
///
/// Source: kube-scheduler, `schedule_one.go` (`schedulePod`, `findNodesThatFitPod`,
/// `evaluateNominatedNode`).
pub fn schedule_pod(snapshot: &PreemptionSnapshot<'_>, pod: &Pod) -> Result<Attempt, PlaceError> {
    pod.check()?;
    let nominator = Nominator::new(snapshot);
    let mut infos = NodeInfos::new(&snapshot.cluster);
    let fit = find_fit(snapshot, &mut infos, &nominator, (pod, None), &snapshot.rows())?;
    Ok(fit.named(&snapshot.cluster, snapshot.framework))
}

/// Tries a pod on some rows of a working copy.
pub(super) fn find_fit(
    snapshot: &PreemptionSnapshot<'_>,
    infos: &mut NodeInfos,
    nominator: &Nominator<'_>,
    (pod, group): (&Pod, Option<&PodGroup>),
    rows: &[Row],
) -> Result<Fit, StateError> {
    let framework = snapshot.framework;
    let mut state = CycleState::new(framework, infos.cluster(), pod, group, snapshot.now);
    let mut fit = Fit::default();
    // The own node is tried also if preparing has left it out, and what is found stands.
    let mut own = None;
    if let Some(row) = nominator.row_of(pod).filter(|row| rows.contains(row)) {
        match filter_with_nominated_pods(infos, &mut state, nominator, pod, row)? {
            Ok(()) => {
                fit.feasible.push(row);
                fit.chosen = Some(row);
                return Ok(fit);
            }
            Err(why) => own = Some((row, why)),
        }
    }
    for &row in rows {
        let verdict = if state.includes(row) {
            filter_with_nominated_pods(infos, &mut state, nominator, pod, row)?
        } else {
            Err(own.filter(|(own, _)| *own == row).map_or(Rejection::Narrowed, |(_, why)| why))
        };
        match verdict {
            Ok(()) => fit.feasible.push(row),
            Err(why) => fit.rejected.push((row, why)),
        }
    }
    fit.chosen = match *fit.feasible {
        [] => None,
        [only] => Some(only),
        _ => {
            let (shape, now) = (pod.shape(), snapshot.now);
            let mut scores = Evaluation::new(framework, infos.cluster(), shape, group, now);
            let totals = scores.totals(&fit.feasible);
            // `min_by_key` takes the first of equals.
            let best = fit.feasible.iter().zip(totals).min_by_key(|(_, total)| Reverse(*total));
            best.map(|(row, _)| *row)
        }
    };
    Ok(fit)
}
