//! Counts of pods per domain, kept for plugins that declare them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::declaration::{CountedPods, CounterSpec, Declaration};
use crate::model::PodShape;
use crate::state::{Cluster, LabelKey, LabelValue, NodeView};

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
                    let namespace = if term.is_own() {
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
