//! Terms, and sums over the domains of their keys.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::pod_rules::{Term, is_sound};
use super::super::tally::Tally;
use crate::framework::Context;
use crate::model::{Labels, PodAffinityTerm, PodShape, WeightedPodAffinityTerm};
use crate::state::{Cluster, LabelKey, NodeView, PodView, ShapeId};

/// Required terms, or none if one is malformed.
pub(super) fn required(terms: &[PodAffinityTerm], namespace: &str) -> Vec<Term> {
    Term::list(terms, namespace).unwrap_or_default()
}

/// Preferred terms with their weights, or none if one is malformed.
pub(super) fn preferred(terms: &[WeightedPodAffinityTerm], namespace: &str) -> Vec<(i64, Term)> {
    let sound = Term::list(terms.iter().map(|weighted| &weighted.term), namespace);
    let weights = terms.iter().map(|weighted| i64::from(weighted.weight));
    weights.zip(sound.unwrap_or_default()).collect()
}

/// Whether a selector anywhere in a pod's terms is malformed.
pub(super) fn malformed(pod: &PodShape) -> bool {
    let weighted = pod.preferred_pod_affinity.iter().chain(&pod.preferred_pod_anti_affinity);
    let all = pod.pod_affinity.iter().chain(&pod.pod_anti_affinity);
    !all.chain(weighted.map(|weighted| &weighted.term)).all(is_sound)
}

/// The terms of the pod being placed, with their namespaces known.
pub(super) fn expanded(mut terms: Vec<Term>, cluster: &Cluster) -> Vec<Term> {
    for term in &mut terms {
        term.expand(cluster);
    }
    terms
}

/// The labels of the namespace of the pod being placed; none if it is not known.
pub(super) fn namespace_labels(cx: &Context<'_>) -> Labels {
    cx.cluster().namespace(&cx.pod().namespace).cloned().unwrap_or_default()
}

/// One sum per domain, for each of several keys.
#[derive(Debug, Default)]
pub(super) struct Sums {
    keys: Vec<String>,
    tallies: Vec<Tally>,
}

impl Sums {
    /// The number of a key, given now if it has none.
    pub(super) fn number(&mut self, cluster: &Cluster, key: &str) -> usize {
        self.keys.iter().position(|known| known == key).unwrap_or_else(|| {
            self.keys.push(key.into());
            self.tallies.push(Tally::new(cluster.label_key(key)));
            self.keys.len() - 1
        })
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.tallies.len()
    }

    /// Whether every sum is 0.
    pub(super) fn is_zero(&self) -> bool {
        self.tallies.iter().all(Tally::is_zero)
    }

    /// The keys that some node has.
    pub(super) fn keys(&self) -> impl Iterator<Item = LabelKey> + '_ {
        self.tallies.iter().filter_map(|tally| tally.key)
    }

    /// Adds to the sum of the node's domain. Returns whether it is in one.
    pub(super) fn add(&mut self, number: usize, node: NodeView<'_>, amount: i64) -> bool {
        self.tallies.get_mut(number).is_some_and(|tally| tally.add(node, amount))
    }

    /// The sums of the node's domains; `None` for a key that it lacks.
    #[inline]
    pub(super) fn of<'a>(&'a self, node: NodeView<'a>) -> impl Iterator<Item = Option<i64>> + 'a {
        self.tallies.iter().map(move |tally| tally.of(node))
    }
}

/// Calls `visit` for each pod on a node whose shape is in `effects`, with what is there for it.
pub(super) fn visit_pods<'a, T>(
    cluster: &'a Cluster,
    effects: Vec<(ShapeId, T)>,
    mut visit: impl FnMut(&T, NodeView<'a>),
) {
    let mut by_shape: Vec<Option<T>> = Vec::new();
    for (id, effect) in effects {
        if by_shape.len() <= id.index() {
            by_shape.resize_with(id.index() + 1, || None);
        }
        by_shape[id.index()] = Some(effect);
    }
    if by_shape.is_empty() {
        return;
    }
    let on_node = |pod: PodView<'a>| Some((pod.shape_id(), pod.node()?));
    for (shape, node) in cluster.pods().filter_map(on_node) {
        if let Some(Some(effect)) = by_shape.get(shape.index()) {
            visit(effect, node);
        }
    }
}

/// What pods of a shape change, worked out once a shape.
#[derive(Debug)]
pub(super) struct Effects<E>(Vec<(PodShape, Arc<E>)>);

impl<E> Effects<E> {
    /// How many shapes are remembered.
    const MOST: usize = 16;

    pub(super) fn new() -> Effects<E> {
        Effects(Vec::new())
    }

    /// The effect that was worked out for a shape.
    pub(super) fn find(&self, shape: &PodShape) -> Option<Arc<E>> {
        let known = self.0.iter().find(|(known, _)| known == shape);
        known.map(|(_, effect)| Arc::clone(effect))
    }

    pub(super) fn keep(&mut self, shape: &PodShape, effect: E) -> Arc<E> {
        if self.0.len() == Self::MOST {
            self.0.remove(0);
        }
        let effect = Arc::new(effect);
        self.0.push((shape.clone(), Arc::clone(&effect)));
        effect
    }
}
