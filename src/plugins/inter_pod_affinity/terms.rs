//! Terms, and sums over the domains of their keys.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::pod_rules::{Term, is_sound};
use super::super::tally::Tally;
use crate::framework::Context;
use crate::model::{Labels, PodAffinityTerm, PodShape, WeightedPodAffinityTerm};
use crate::state::{Cluster, LabelKey, LabelValue, NodeView, ShapeId};

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

    /// Whether a sum of the node's domains is above 0. Keys whose sums are all 0 are not looked at.
    #[inline]
    pub(super) fn any_above_zero(&self, node: NodeView<'_>) -> bool {
        let mut tallies = self.tallies.iter().filter(|tally| !tally.is_zero());
        tallies.any(|tally| tally.of(node).is_some_and(|sum| sum > 0))
    }

    /// Calls `tell` with the domains whose sum is above 0.
    pub(super) fn above_zero(&self, tell: &mut dyn FnMut(LabelKey, LabelValue)) {
        for tally in self.tallies.iter().filter(|tally| !tally.is_zero()) {
            let Some(key) = tally.key else { continue };
            tally.values().filter(|(_, sum)| *sum > 0).for_each(|(value, _)| tell(key, value));
        }
    }

    /// The sums of the node's domains; `None` for a key that it lacks.
    #[inline]
    pub(super) fn of<'a>(&'a self, node: NodeView<'a>) -> impl Iterator<Item = Option<i64>> + 'a {
        self.tallies.iter().map(move |tally| tally.of(node))
    }
}

/// The shapes of bound pods that one of the terms may mean, and those with a term that may mean
/// the pod being placed; each once.
pub(super) fn concerned<'a>(
    cluster: &'a Cluster,
    pod: &PodShape,
    terms: &[&Term],
) -> Vec<(ShapeId, &'a PodShape)> {
    let lists: Option<Vec<&[String]>> = terms.iter().map(|term| term.namespaces()).collect();
    let Some(lists) = lists else {
        return cluster.shapes().map(|(id, shape, _)| (id, shape)).collect();
    };
    let mut namespaces: Vec<&String> = lists.into_iter().flatten().collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let mut shapes: Vec<(ShapeId, &PodShape)> = Vec::new();
    for namespace in &namespaces {
        cluster.shapes_of_namespace(namespace).for_each(|shape| shapes.push(shape));
    }
    let known = |shape: &PodShape| namespaces.binary_search(&&shape.namespace).is_ok();
    let others = cluster.shapes_concerning(&pod.namespace);
    shapes.extend(others.filter(|(_, shape)| !known(shape)));
    shapes
}

/// Changes by pods of a shape, computed once a shape.
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

#[cfg(test)]
mod tests;
