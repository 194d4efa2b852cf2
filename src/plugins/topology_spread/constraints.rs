//! The spread constraints that hold for a pod.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::pod_rules::Selector;
use super::{PodTopologySpread, SpreadDefaults};
use crate::model::{
    LabelSelector, NodeInclusion, PodShape, SelectorError, SpreadConstraint, WhenUnsatisfiable,
};

/// The label with a value of its own on each node.
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A constraint, with its selector checked.
#[derive(Debug, Clone)]
pub(super) struct Constraint {
    pub(super) key: String,
    pub(super) max_skew: i64,
    pub(super) min_domains: i64,
    pub(super) honours_affinity: bool,
    pub(super) honours_taints: bool,
    selector: Selector,
}

/// The constraints of one kind for a pod.
pub(super) struct Constraints<'a> {
    list: Vec<Cow<'a, SpreadConstraint>>,
    /// Default constraints count these pods.
    owner: Option<&'a LabelSelector>,
    /// Nodes that lack a key are left out; not so under the system's defaults.
    pub(super) all_keys: bool,
}

impl PodTopologySpread {
    /// The constraints of a kind for a pod, its own or default ones. O(constraints).
    pub(super) fn constraints<'a>(
        &'a self,
        pod: &'a PodShape,
        kind: WhenUnsatisfiable,
    ) -> Constraints<'a> {
        let none = Constraints { list: Vec::new(), owner: None, all_keys: true };
        let of_kind = |list: &'a [SpreadConstraint]| {
            list.iter().filter(|c| c.when_unsatisfiable == kind).map(Cow::Borrowed).collect()
        };
        if !pod.spread.is_empty() {
            return Constraints { list: of_kind(&pod.spread), ..none };
        }
        let owner = pod.owner_selector.as_ref().filter(|selector| !selector.is_empty());
        if owner.is_none() {
            return none;
        }
        match &self.defaults {
            SpreadDefaults::List(list) => Constraints { list: of_kind(list), owner, ..none },
            SpreadDefaults::System if kind == WhenUnsatisfiable::ScheduleAnyway => {
                let wish = |skew, key: &str| {
                    let constraint = SpreadConstraint::new(skew, key, LabelSelector::default());
                    Cow::Owned(constraint.preferred())
                };
                let list = [wish(3, HOSTNAME), wish(5, ZONE)].into();
                Constraints { list, owner, all_keys: false }
            }
            SpreadDefaults::System => none,
        }
    }
}

impl Constraints<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The node label keys, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|constraint| constraint.topology_key.as_str())
    }

    /// The constraints with their selectors checked, each or why not.
    pub(super) fn check<'b>(
        &'b self,
        pod: &'b PodShape,
    ) -> impl Iterator<Item = (Constraint, Option<SelectorError>)> + 'b {
        self.list.iter().map(|constraint| {
            let selector = match self.owner {
                Some(owner) => Selector::new(Some(owner)),
                None => own_selector(constraint, pod),
            };
            let (selector, error) = match selector {
                Ok(selector) => (selector, None),
                Err(error) => (Selector::Nothing, Some(error)),
            };
            let constraint = Constraint {
                key: constraint.topology_key.clone(),
                max_skew: constraint.max_skew.into(),
                min_domains: constraint.min_domains.unwrap_or(1).into(),
                honours_affinity: constraint.node_affinity_policy == NodeInclusion::Honor,
                honours_taints: constraint.node_taints_policy == NodeInclusion::Honor,
                selector,
            };
            (constraint, error)
        })
    }
}

/// The selector of a constraint, with what the pod's own labels add to it.
fn own_selector(constraint: &SpreadConstraint, pod: &PodShape) -> Result<Selector, SelectorError> {
    let mut selector = Selector::new(constraint.label_selector.as_ref())?;
    for key in &constraint.match_label_keys {
        if let Some(value) = pod.labels.get(key) {
            selector.require(key, value);
        }
    }
    Ok(selector)
}

impl Constraint {
    pub(super) fn is_hostname(&self) -> bool {
        self.key == HOSTNAME
    }

    /// Whether a pod that runs is counted for `pod`.
    pub(super) fn counts(&self, running: &PodShape, pod: &PodShape) -> bool {
        !self.selector.is_empty()
            && running.namespace == pod.namespace
            && self.selector.matches(&running.labels)
    }

    /// Whether the pod would itself be one of those counted. A selector without requirements
    /// matches the pod itself, though it counts no other.
    pub(super) fn matches_itself(&self, pod: &PodShape) -> bool {
        self.selector.matches(&pod.labels)
    }
}
