//! Topology spread constraints.

use alloc::string::String;
use alloc::vec::Vec;

use super::selector::LabelSelector;

/// How unevenly pods may be spread over the domains that a node label forms.
///
/// Source: `k8s.io/api/core/v1`, `TopologySpreadConstraint`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct SpreadConstraint {
    /// How many more matching pods a domain may have than the least filled one; at least 1.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// Whether the rule filters or scores.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// The pods that are counted; `None` matches none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub label_selector: Option<LabelSelector>,
    /// With fewer domains than this the least filled one counts as empty.
    #[cfg_attr(feature = "serde", serde(default))]
    pub min_domains: Option<i32>,
    /// Whether nodes that the pod's own node affinity excludes are counted.
    #[cfg_attr(feature = "serde", serde(default = "honor"))]
    pub node_affinity_policy: NodeInclusion,
    /// Whether nodes with taints the pod does not tolerate are counted.
    #[cfg_attr(feature = "serde", serde(default = "ignore"))]
    pub node_taints_policy: NodeInclusion,
    /// Keys whose values in the pod's own labels join the selector.
    #[cfg_attr(feature = "serde", serde(default))]
    pub match_label_keys: Vec<String>,
}

#[cfg(feature = "serde")]
fn honor() -> NodeInclusion {
    NodeInclusion::Honor
}

#[cfg(feature = "serde")]
fn ignore() -> NodeInclusion {
    NodeInclusion::Ignore
}

/// The effect of a spread constraint on nodes that would break it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum WhenUnsatisfiable {
    /// Rejects them.
    DoNotSchedule,
    /// Scores them lower.
    ScheduleAnyway,
}

/// Whether nodes that the pod could not use are counted as domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum NodeInclusion {
    /// Nodes the pod could not use are left out.
    Honor,
    /// All nodes are counted.
    Ignore,
}

impl SpreadConstraint {
    /// A constraint that filters, with Kubernetes' defaults for the rest.
    pub fn new(
        max_skew: i32,
        topology_key: impl Into<String>,
        selector: LabelSelector,
    ) -> SpreadConstraint {
        SpreadConstraint {
            max_skew,
            topology_key: topology_key.into(),
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            label_selector: Some(selector),
            min_domains: None,
            node_affinity_policy: NodeInclusion::Honor,
            node_taints_policy: NodeInclusion::Ignore,
            match_label_keys: Vec::new(),
        }
    }

    /// The same constraint as a wish.
    #[must_use]
    pub fn preferred(mut self) -> SpreadConstraint {
        self.when_unsatisfiable = WhenUnsatisfiable::ScheduleAnyway;
        self
    }

    /// Sets how few domains make the least filled one count as empty.
    #[must_use]
    pub fn min_domains(mut self, domains: i32) -> SpreadConstraint {
        self.min_domains = Some(domains);
        self
    }

    /// Sets whether nodes that the pod's own node affinity excludes are counted.
    #[must_use]
    pub fn node_affinity_policy(mut self, policy: NodeInclusion) -> SpreadConstraint {
        self.node_affinity_policy = policy;
        self
    }

    /// Sets whether nodes with taints the pod does not tolerate are counted.
    #[must_use]
    pub fn node_taints_policy(mut self, policy: NodeInclusion) -> SpreadConstraint {
        self.node_taints_policy = policy;
        self
    }

    /// Adds a key whose value in the pod's own labels joins the selector.
    #[must_use]
    pub fn match_label_key(mut self, key: impl Into<String>) -> SpreadConstraint {
        self.match_label_keys.push(key.into());
        self
    }
}
