//! Flavors: kinds of nodes that quota is kept apart for.

use alloc::string::String;
use alloc::vec::Vec;

use crate::model::{Labels, NodeSelector, Taint, Toleration};
use crate::quota::model::claim::PodSet;

/// A kind of nodes: those with the labels and the taints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Flavor {
    /// The name.
    pub name: String,
    /// Labels of its nodes.
    pub node_labels: Labels,
    /// Taints of its nodes.
    pub node_taints: Vec<Taint>,
    /// Tolerations that pods of this flavor are given.
    pub tolerations: Vec<Toleration>,
}

impl Flavor {
    /// A flavor of all nodes.
    pub fn new(name: impl Into<String>) -> Flavor {
        Flavor { name: name.into(), ..Flavor::default() }
    }

    /// Adds a node label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Flavor {
        self.node_labels.insert(key.into(), value.into());
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, taint: Taint) -> Flavor {
        self.node_taints.push(taint);
        self
    }

    /// Whether pods may be on nodes of this flavor: they tolerate its taints, and neither their node
    /// selector nor their required node affinity is against its labels. Keys that the flavor has no
    /// label of say nothing.
    ///
    /// ```
    /// use phalanx::quota::{Flavor, PodSet};
    ///
    /// let mut pods = PodSet::default();
    /// pods.node_selector.insert("zone".into(), "a".into());
    /// assert!(Flavor::new("any").admits(&pods));
    /// assert!(!Flavor::new("b").label("zone", "b").admits(&pods));
    /// ```
    pub fn admits(&self, pods: &PodSet) -> bool {
        let tolerated = |taint: &Taint| {
            let mut tolerations = pods.tolerations.iter().chain(&self.tolerations);
            tolerations.any(|toleration| toleration.tolerates(taint))
        };
        let repels = |taint: &Taint| taint.repels() && !tolerated(taint);
        let differs = |(key, value): (&String, &String)| {
            self.node_labels.get(key).is_some_and(|own| own != value)
        };
        !self.node_taints.iter().any(repels)
            && !pods.node_selector.iter().any(differs)
            && pods.affinity.as_ref().is_none_or(|affinity| self.meets(affinity))
    }

    fn meets(&self, affinity: &NodeSelector) -> bool {
        affinity.terms.iter().any(|term| {
            term.match_expressions.iter().all(|requirement| {
                let Some(own) = self.node_labels.get(&requirement.key) else { return true };
                requirement.check().is_ok() && requirement.matches(Some(own))
            })
        })
    }
}

#[cfg(test)]
mod tests;
