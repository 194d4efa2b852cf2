//! Node affinity and inter-pod affinity terms of a pod.

use alloc::string::String;
use alloc::vec::Vec;

use super::selector::{LabelSelector, Requirement};

/// A pod's wishes about the labels and names of nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct NodeAffinity {
    /// Must hold; `None` asks nothing, while a selector without terms matches no node.
    pub required: Option<NodeSelector>,
    /// Each adds its weight to the score of nodes it matches.
    pub preferred: Vec<PreferredNodeTerm>,
}

/// Terms; one of them must match.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct NodeSelector {
    /// The terms; any one suffices.
    pub terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all hold. A term without any matches nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct NodeSelectorTerm {
    /// On the node's labels.
    pub match_expressions: Vec<Requirement>,
    /// On the node's fields; only `metadata.name` with `In` or `NotIn` and one value.
    pub match_fields: Vec<Requirement>,
}

/// A node term with the weight it adds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PreferredNodeTerm {
    /// 1 to 100; 0 is ignored.
    pub weight: i32,
    /// The terms that must match.
    pub preference: NodeSelectorTerm,
}

impl PreferredNodeTerm {
    /// A term that adds a weight.
    pub fn new(weight: i32, preference: NodeSelectorTerm) -> PreferredNodeTerm {
        PreferredNodeTerm { weight, preference }
    }
}

/// Company of pods, in a domain that nodes with equal values of a label form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct PodAffinityTerm {
    /// The pods meant; `None` matches none.
    pub label_selector: Option<LabelSelector>,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// Namespaces of the pods meant. Empty, with no namespace selector: the pod's own.
    pub namespaces: Vec<String>,
    /// Further namespaces, by their labels; `{}` means all.
    pub namespace_selector: Option<LabelSelector>,
}

impl PodAffinityTerm {
    /// Whether the term means pods of its own pod's namespace alone.
    pub(crate) fn is_own(&self) -> bool {
        self.namespaces.is_empty() && self.namespace_selector.is_none()
    }
}

/// A [`PodAffinityTerm`] with the weight it adds to (or, as anti-affinity, takes from) a score.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WeightedPodAffinityTerm {
    /// 1 to 100.
    pub weight: i32,
    /// The company meant.
    pub term: PodAffinityTerm,
}

impl NodeAffinity {
    /// No wishes.
    pub fn new() -> NodeAffinity {
        NodeAffinity::default()
    }

    /// Adds a term; one of all terms must match.
    #[must_use]
    pub fn require(mut self, term: NodeSelectorTerm) -> NodeAffinity {
        self.required.get_or_insert_default().terms.push(term);
        self
    }

    /// Adds a term that adds its weight, 1 to 100, to the score of nodes it matches.
    #[must_use]
    pub fn prefer(mut self, weight: i32, preference: NodeSelectorTerm) -> NodeAffinity {
        self.preferred.push(PreferredNodeTerm { weight, preference });
        self
    }
}

impl NodeSelector {
    /// A selector of terms; one of them must match.
    pub fn any_of(terms: impl IntoIterator<Item = NodeSelectorTerm>) -> NodeSelector {
        NodeSelector { terms: terms.into_iter().collect() }
    }
}

impl NodeSelectorTerm {
    /// Adds a requirement on a label.
    #[must_use]
    pub fn label(mut self, requirement: Requirement) -> NodeSelectorTerm {
        self.match_expressions.push(requirement);
        self
    }

    /// Adds a requirement on a field.
    #[must_use]
    pub fn field(mut self, requirement: Requirement) -> NodeSelectorTerm {
        self.match_fields.push(requirement);
        self
    }

    /// A term on labels.
    pub fn labels(requirements: impl IntoIterator<Item = Requirement>) -> NodeSelectorTerm {
        NodeSelectorTerm {
            match_expressions: requirements.into_iter().collect(),
            match_fields: Vec::new(),
        }
    }

    /// Whether the term has no requirement, and so matches nothing.
    pub fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }
}

impl WeightedPodAffinityTerm {
    /// A term and its weight, 1 to 100.
    pub fn new(weight: i32, term: PodAffinityTerm) -> WeightedPodAffinityTerm {
        WeightedPodAffinityTerm { weight, term }
    }
}

impl PodAffinityTerm {
    /// Adds a namespace of the pods meant.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> PodAffinityTerm {
        self.namespaces.push(namespace.into());
        self
    }

    /// Sets the namespaces meant beside those named, by their labels.
    #[must_use]
    pub fn namespaces_by(mut self, selector: LabelSelector) -> PodAffinityTerm {
        self.namespace_selector = Some(selector);
        self
    }

    /// Company of the pods a selector means, in the pod's own namespace.
    pub fn new(topology_key: impl Into<String>, selector: LabelSelector) -> PodAffinityTerm {
        PodAffinityTerm {
            label_selector: Some(selector),
            topology_key: topology_key.into(),
            ..PodAffinityTerm::default()
        }
    }
}
