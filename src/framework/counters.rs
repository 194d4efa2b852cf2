//! Counts of pods per domain, kept for plugins that declare them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::declaration::Declaration;
use crate::model::{LabelSelector, PodShape};
use crate::state::{Cluster, LabelKey, LabelValue, NodeView};

/// Which pods a counter counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountedPods {
    /// Pods in a namespace (`None`: in any) whose labels a selector matches.
    Matching {
        /// The namespace.
        namespace: Option<String>,
        /// The labels.
        selector: LabelSelector,
    },
    /// Pods with a required anti-affinity term, over the counter's key, that matches the pod being
    /// placed; namespaces by the term's own rule. Each such term counts.
    Repelling,
}

/// A count a plugin asks for: pods of some kind, per value of a node label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSpec {
    /// The node label key whose values are the domains.
    pub key: String,
    /// The pods counted.
    pub pods: CountedPods,
}

/// A [`CounterSpec`] at work: the count of each domain.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    spec: CounterSpec,
    key: Option<LabelKey>,
    counts: BTreeMap<LabelValue, i64>,
}

impl Counter {
    /// Counts the pods that run. O(shapes + pods of the shapes that count).
    pub(crate) fn new(spec: CounterSpec, cluster: &Cluster, incoming: &PodShape) -> Counter {
        let mut counter =
            Counter { key: cluster.label_key(&spec.key), spec, counts: BTreeMap::new() };
        let mut weights = BTreeMap::new();
        for (id, shape, _) in cluster.shapes() {
            let weight = counter.weight(cluster, shape, incoming);
            if weight != 0 {
                weights.insert(id, weight);
            }
        }
        if !weights.is_empty() {
            for pod in cluster.pods() {
                if let (Some(weight), Some(node)) = (weights.get(&pod.shape_id()), pod.node()) {
                    counter.add(node, *weight);
                }
            }
        }
        counter
    }

    /// The counters that a declaration asks for.
    pub(crate) fn of_declaration(
        declaration: &Declaration,
        cluster: &Cluster,
        incoming: &PodShape,
    ) -> Vec<Counter> {
        let specs = declaration.counters.iter();
        specs.map(|spec| Counter::new(spec.clone(), cluster, incoming)).collect()
    }

    /// Takes a placement into account, or takes it back.
    pub(crate) fn change(
        &mut self,
        placed: &PodShape,
        node: NodeView<'_>,
        incoming: &PodShape,
        sign: i64,
    ) {
        let weight = self.weight(node.cluster, placed, incoming);
        if weight != 0 {
            self.add(node, weight * sign);
        }
    }

    /// The count of the node's domain; `None` if the node is in none.
    pub(crate) fn of(&self, node: NodeView<'_>) -> Option<i64> {
        let value = node.label_value(self.key?)?;
        Some(self.counts.get(&value).copied().unwrap_or(0))
    }

    fn add(&mut self, node: NodeView<'_>, weight: i64) {
        if let Some(value) = self.key.and_then(|key| node.label_value(key)) {
            *self.counts.entry(value).or_default() += weight;
        }
    }

    /// How often one pod of a shape counts.
    fn weight(&self, cluster: &Cluster, shape: &PodShape, incoming: &PodShape) -> i64 {
        match &self.spec.pods {
            CountedPods::Matching { namespace, selector } => i64::from(
                namespace.as_ref().is_none_or(|namespace| *namespace == shape.namespace)
                    && selector.matches(&shape.labels),
            ),
            CountedPods::Repelling => {
                let labels = cluster.namespace(&incoming.namespace);
                let terms = shape.pod_anti_affinity.iter().filter(|term| {
                    let own = term.namespaces.is_empty() && term.namespace_selector.is_none();
                    let namespace = if own {
                        shape.namespace == incoming.namespace
                    } else {
                        term.namespaces.contains(&incoming.namespace)
                            || term.namespace_selector.as_ref().is_some_and(|selector| {
                                labels.map_or_else(
                                    || selector.matches(&crate::model::Labels::new()),
                                    |labels| selector.matches(labels),
                                )
                            })
                    };
                    namespace
                        && term.topology_key == self.spec.key
                        && term
                            .label_selector
                            .as_ref()
                            .is_some_and(|selector| selector.matches(&incoming.labels))
                });
                terms.count() as i64
            }
        }
    }
}
