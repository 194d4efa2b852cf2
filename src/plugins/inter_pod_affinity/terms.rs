//! Terms, and sums over the domains of their keys.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::pod_rules::{Term, is_sound};
use super::super::tally::Tally;
use crate::framework::Context;
use crate::model::{Labels, PodAffinityTerm, PodShape, WeightedPodAffinityTerm};
use crate::state::{Cluster, LabelKey, NodeView, ShapeId};

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
    cluster.placed().for_each(|(shape, row, _)| {
        if let Some(Some(effect)) = by_shape.get(shape.index())
            && let Some(node) = cluster.view(row)
        {
            visit(effect, node);
        }
    });
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
mod tests {
    use proptest::prelude::*;

    use super::super::super::pod_rules::meaning;
    use super::*;
    use crate::model::{LabelSelector, Node, Pod};

    /// A term about three namespaces with labels of their own; `scope` says which pods it means.
    fn term(app: usize, scope: usize) -> PodAffinityTerm {
        let names = ["n0", "n1", "n2"];
        let mut term = PodAffinityTerm::new("zone", LabelSelector::label("app", APPS[app]));
        match scope {
            0 | 1 => {}
            2 => term.namespaces = [names[app].into()].into(),
            3 => term.namespaces = names.map(Into::into).into(),
            4 => term.namespace_selector = Some(LabelSelector::default()),
            _ => term.namespace_selector = Some(LabelSelector::label("of", APPS[app])),
        }
        term
    }

    const APPS: [&str; 3] = ["a", "b", "c"];

    fn pod((namespace, app, terms): &(usize, usize, Vec<(usize, usize)>)) -> Pod {
        let pod = Pod::new().in_namespace(std::format!("n{namespace}")).label("app", APPS[*app]);
        terms.iter().fold(pod, |pod, &(app, scope)| pod.anti_affinity(term(app, scope)))
    }

    proptest! {
        /// Every shape that a term means, or that has a term which means the pod, is there once.
        #[test]
        fn no_shape_that_matters_is_left_out(
            drawn in proptest::collection::vec(
                (0..3_usize, 0..3_usize, proptest::collection::vec((0..3_usize, 0..6_usize), 0..3)),
                1..12,
            ),
        ) {
            let mut cluster = Cluster::new();
            cluster.add_node(Node::new("n")).unwrap();
            for (name, app) in ["n0", "n1"].iter().zip(APPS) {
                cluster.set_namespace(*name, Labels::from([("of".into(), app.into())]));
            }
            for (number, drawn) in drawn[1..].iter().enumerate() {
                cluster.add_pod(pod(drawn).name(std::format!("p{number}")).on("n")).unwrap();
            }
            let pod = pod(&drawn[0]);
            let pod = pod.shape();
            let own = expanded(required(&pod.pod_anti_affinity, &pod.namespace), &cluster);
            let mut known: Vec<ShapeId> = concerned(&cluster, pod, &own.iter().collect::<Vec<_>>())
                .into_iter()
                .map(|(id, _)| id)
                .collect();
            known.sort_unstable();
            prop_assert!(known.windows(2).all(|pair| pair[0] != pair[1]), "{known:?}");
            let labels = cluster.namespace(&pod.namespace).cloned().unwrap_or_default();
            for (id, shape, _) in cluster.shapes() {
                let meant = own.iter().any(|term| term.means(shape, &Labels::new()));
                let asker = (&**pod, &labels);
                let namespace = &shape.namespace;
                let means = meaning(&shape.pod_anti_affinity, |term| term, namespace, asker).next();
                let there = known.binary_search(&id).is_ok();
                prop_assert!(there || !(meant || means.is_some()), "{shape:?} for {pod:?}");
            }
        }
    }
}
