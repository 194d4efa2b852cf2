//! Preemption for one pod.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::cycle_state::CycleState;
use super::dry_run::{DryRun, select_victims_on_node};
use super::node_infos::NodeInfos;
use super::nominator::Nominator;
use super::schedule::{Attempt, filter_name};
use super::snapshot::{PreemptionSnapshot, is};
use super::victims::{NodeCandidate, best, deleted, terminates_for};
use crate::model::{Pod, PodGroup, PreemptionPolicy};
use crate::place::PlaceError;
use crate::preempt::EvictedPod;
use crate::state::{NodeView, Row, StateError};

/// The answer of preemption for a pod that fits nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodPreemption {
    ineligible: Option<Ineligible>,
    candidates: Vec<NodeCandidate>,
    failed: BTreeMap<String, DryRunFailure>,
    cleared: Vec<Pod>,
}

/// Why a pod may not preempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ineligible {
    /// Its preemption policy is `Never`.
    PreemptionPolicyNever,
    /// It waits for a victim that terminates on the node it is nominated to.
    TerminatingVictim,
}

/// Why a node is no candidate though its pods were tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DryRunFailure {
    /// No pod of the node has a lower priority.
    NoVictims,
    /// This filter rejects the pod also without all pods of lower priority; `None` if the
    /// preparation of a filter left the node out.
    Rejected(Option<String>),
    /// The pod fits with all of them back, which kube-scheduler takes for an error.
    NothingToEvict,
}

/// The fate of the pod's own nomination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnNomination {
    /// It is nominated to the chosen node.
    Set,
    /// It loses the nomination that it may have had.
    Cleared,
    /// It keeps it.
    Unchanged,
}

impl PodPreemption {
    /// Why the pod may not preempt; `None` if it may.
    pub fn ineligible(&self) -> Option<Ineligible> {
        self.ineligible
    }

    /// The nodes on which the pod fits without victims, in node order.
    pub fn candidates(&self) -> &[NodeCandidate] {
        &self.candidates
    }

    /// The nodes that were tried in vain, and why.
    pub fn failed(&self) -> &BTreeMap<String, DryRunFailure> {
        &self.failed
    }

    /// The candidates that no criterion tells apart, in node order.
    pub fn best(&self) -> impl Iterator<Item = &NodeCandidate> {
        best(&self.candidates)
    }

    /// The candidate that is taken: the first of the best in node order.
    pub fn chosen(&self) -> Option<&NodeCandidate> {
        self.best().next()
    }

    /// The victims to evict, by namespace and name: those that are not being deleted already.
    pub fn deleted(&self) -> Vec<&EvictedPod> {
        deleted(self.chosen().into_iter().flat_map(NodeCandidate::victims))
    }

    /// The less important pods that lose their nomination to the chosen node, by namespace and name.
    pub fn cleared_nominations(&self) -> &[Pod] {
        &self.cleared
    }

    /// The fate of the pod's own nomination.
    pub fn own_nomination(&self) -> OwnNomination {
        match self.chosen() {
            Some(_) => OwnNomination::Set,
            // A dry run that failed in itself ends the attempt before the nomination is cleared.
            None if self.ineligible.is_some() || self.has_error() => OwnNomination::Unchanged,
            None => OwnNomination::Cleared,
        }
    }

    fn has_error(&self) -> bool {
        self.failed.values().any(|failure| *failure == DryRunFailure::NothingToEvict)
    }
}

/// Chooses the pods that leave a node for a pod that fits nowhere: `PostFilter` of
/// `DefaultPreemption`, with every node for which it may help tried.
///
/// `attempt` is what [`schedule_pod`](super::schedule_pod) answered for the pod and the snapshot.
/// An attempt that found a node asks for no preemption, and every node is passed over.
///
/// O(nodes tried × pods of a node × filters).
///
/// # Errors
/// The pod is unsound, or the sums of a node overflow with the pods nominated to it.
///
/// Source: kube-scheduler, `framework/preemption/preemption.go` (`Preempt`, `findCandidates`,
/// `DryRunPreemption`, `SelectCandidate`) and `plugins/defaultpreemption/default_preemption.go`
/// (`PodEligibleToPreemptOthers`, `SelectVictimsOnNode`).
pub fn preempt_pod(
    snapshot: &PreemptionSnapshot<'_>,
    pod: &Pod,
    attempt: &Attempt,
) -> Result<PodPreemption, PlaceError> {
    pod.check()?;
    let nominator = Nominator::new(snapshot);
    let mut infos = NodeInfos::new(&snapshot.cluster);
    let tried = attempt.resolvable().filter_map(|name| snapshot.cluster.node(name));
    let rows: Vec<Row> = tried.map(NodeView::row).collect();
    Ok(preempt(snapshot, &mut infos, &nominator, (pod, None), &rows)?)
}

impl PreemptionSnapshot<'_> {
    /// Applies an answer of [`preempt_pod`]: the victims are being deleted, less important pods
    /// lose their nomination, and the pod is nominated or not.
    ///
    /// # Errors
    /// A victim is not there, or the pod is unsound.
    pub fn apply(&mut self, pod: &Pod, preemption: &PodPreemption) -> Result<(), StateError> {
        for victim in preemption.deleted() {
            self.preempt(&victim.namespace, &victim.name)?;
        }
        for other in preemption.cleared_nominations() {
            self.clear_nomination(other.namespace(), &other.name);
        }
        match (preemption.chosen(), preemption.own_nomination()) {
            (Some(best), _) => self.nominate(pod, best.node())?,
            (None, OwnNomination::Cleared) => self.clear_nomination(pod.namespace(), &pod.name),
            (None, _) => {}
        }
        Ok(())
    }
}

/// [`preempt_pod`] on a working copy; `rows` are those whose rejection may be cured, in node order.
pub(super) fn preempt(
    snapshot: &PreemptionSnapshot<'_>,
    infos: &mut NodeInfos,
    nominator: &Nominator<'_>,
    (pod, group): (&Pod, Option<&PodGroup>),
    rows: &[Row],
) -> Result<PodPreemption, StateError> {
    let mut answer = PodPreemption {
        ineligible: why_ineligible(snapshot, infos, nominator, pod, rows),
        ..PodPreemption::default()
    };
    if answer.ineligible.is_some() || rows.is_empty() {
        return Ok(answer);
    }
    let framework = snapshot.framework;
    let mut state = CycleState::new(framework, infos.cluster(), pod, group, snapshot.now);
    for &row in rows {
        let name = infos.cluster().view(row).map_or("", |node| node.name()).to_string();
        let failure =
            match select_victims_on_node(snapshot, infos, &mut state, nominator, pod, row)? {
                DryRun::Fits(victims, violations) => {
                    answer
                        .candidates
                        .push(NodeCandidate::new(snapshot, name, &victims, violations));
                    continue;
                }
                DryRun::NoVictims => DryRunFailure::NoVictims,
                DryRun::Rejected(why) => DryRunFailure::Rejected(filter_name(framework, why)),
                DryRun::Idle => DryRunFailure::NothingToEvict,
            };
        answer.failed.insert(name, failure);
    }
    if let Some(node) = answer.chosen().and_then(|best| infos.cluster().node(best.node())) {
        let lower = |other: &&Pod| other.priority < pod.priority;
        let lower = nominator.on(node.row()).filter(lower);
        let lower = lower.filter(|other| !is(other, pod.namespace(), &pod.name));
        answer.cleared = lower.cloned().collect();
        answer.cleared.sort_by(|a, b| (a.namespace(), &a.name).cmp(&(b.namespace(), &b.name)));
    }
    Ok(answer)
}

/// Why a pod may not preempt, if so.
fn why_ineligible(
    snapshot: &PreemptionSnapshot<'_>,
    infos: &NodeInfos,
    nominator: &Nominator<'_>,
    pod: &Pod,
    rows: &[Row],
) -> Option<Ineligible> {
    if pod.preemption_policy == PreemptionPolicy::Never {
        return Some(Ineligible::PreemptionPolicyNever);
    }
    let row = nominator.row_of(pod).filter(|row| rows.contains(row))?;
    let mut pods = infos.cluster().view(row)?.pods();
    let waits = pods.any(|other| terminates_for(snapshot, pod.priority, other));
    waits.then_some(Ineligible::TerminatingVictim)
}
