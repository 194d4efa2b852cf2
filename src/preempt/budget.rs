//! Disruption budgets: how many pods of an application may be taken at a time.

use alloc::collections::BTreeSet;
use alloc::string::String;

use crate::model::LabelSelector;
use crate::state::PodView;

/// A `PodDisruptionBudget` of `policy/v1`, with the parts of its status that preemption reads.
///
/// A selector that is empty matches no pod, and a pod without labels is in no budget.
/// kube-scheduler reads budgets so, though the eviction API takes an empty selector for all pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct DisruptionBudget {
    /// The namespace, that of the pods too.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The pods it protects.
    pub selector: LabelSelector,
    /// How many of them may be disrupted now. Below zero counts as zero.
    pub disruptions_allowed: i64,
    /// Names of pods whose eviction has been counted already.
    pub disrupted_pods: BTreeSet<String>,
}

impl DisruptionBudget {
    /// A budget that allows so many disruptions, in namespace `default`.
    pub fn new(name: impl Into<String>, selector: LabelSelector, allowed: i64) -> DisruptionBudget {
        DisruptionBudget {
            namespace: "default".into(),
            name: name.into(),
            selector,
            disruptions_allowed: allowed,
            disrupted_pods: BTreeSet::new(),
        }
    }

    /// Sets the namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> DisruptionBudget {
        self.namespace = namespace.into();
        self
    }

    /// Adds a pod whose eviction has been counted already.
    #[must_use]
    pub fn disrupted(mut self, pod: impl Into<String>) -> DisruptionBudget {
        self.disrupted_pods.insert(pod.into());
        self
    }

    /// Whether the budget is charged for the eviction of a pod. O(requirements).
    pub fn is_charged_for(&self, pod: PodView<'_>) -> bool {
        self.covers(pod) && !self.disrupted_pods.contains(pod.name())
    }

    /// Whether pods of a shape are the budget's. What it asks is the same for all of a shape.
    pub(crate) fn covers(&self, pod: PodView<'_>) -> bool {
        let labels = &pod.shape().labels;
        pod.namespace() == self.namespace
            && !labels.is_empty()
            && !self.selector.is_empty()
            && self.selector.matches(labels)
    }
}
