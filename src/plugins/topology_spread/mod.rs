//! Topology spread: pods spread evenly over the values of a node label.

mod constraints;
mod counts;
mod filter;
mod score;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::model::SpreadConstraint;

/// Spreads pods over the domains that node labels form, as their constraints ask.
///
/// A constraint counts the pods of a node in the pod's own namespace that its selector matches and
/// that are not being deleted. With a selector without requirements none count. A node is left out
/// if the pod's node selector and required node affinity exclude it, unless the constraint says
/// `nodeAffinityPolicy: Ignore`. It is left out if the pod does not tolerate its taints and the
/// constraint says `nodeTaintsPolicy: Honor`. So is a node that lacks the key of any constraint of
/// the same kind.
///
/// As a filter, with `DoNotSchedule`: a node's domain holds its pods, and one more if the pod
/// matches its own selector. That may be at most `maxSkew` more than the least filled domain has,
/// which counts as empty while there are fewer domains than `minDomains`. The rejection is
/// [`Unresolvable`](crate::framework::Verdict::Unresolvable) if the node lacks a key. A malformed
/// selector refuses the pod.
///
/// As a score, with `ScheduleAnyway`: for each constraint, the pods of the node's domain times
/// `ln(domains + 2)`, plus `maxSkew − 1`. Where the key is `kubernetes.io/hostname`, the domain is
/// the node itself; domains are those of feasible nodes. The rounded sum `s` becomes `100·(max +
/// min − s) ÷ max`. Feasible nodes that lack a key score 0. A malformed selector counts no pods.
/// (kube-scheduler fails the attempt with an error there if more than one node is left.)
///
/// O(nodes × constraints + pods) to prepare, O(constraints) a placement, O(constraints ×
/// log labels) a node.
///
/// Source: kube-scheduler, `podtopologyspread/{common,filtering,scoring}.go`.
#[derive(Debug, Clone, Default)]
pub struct PodTopologySpread {
    defaults: SpreadDefaults,
}

/// The constraints of pods that have none of their own. They count the pods that
/// [`owner_selector`](crate::model::PodShape::owner_selector) means; a pod without one has no
/// constraints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SpreadDefaults {
    /// The defaults of Kubernetes: both wishes, over `kubernetes.io/hostname` with skew 3 and over
    /// `topology.kubernetes.io/zone` with skew 5. A node that lacks a key is scored without it.
    #[default]
    System,
    /// These, with their selectors replaced (`defaultConstraints`). An empty list is no
    /// constraints.
    List(Vec<SpreadConstraint>),
}

impl PodTopologySpread {
    /// With Kubernetes' own default constraints.
    pub fn new() -> PodTopologySpread {
        PodTopologySpread::default()
    }

    /// With these default constraints.
    pub fn with_defaults(defaults: SpreadDefaults) -> PodTopologySpread {
        PodTopologySpread { defaults }
    }
}
