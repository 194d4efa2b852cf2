//! Inter-pod affinity as a filter: required terms.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::pod_rules::{Term, meaning};
use super::InterPodAffinity;
use super::terms::{Effects, Sums, concerned, expanded, malformed, namespace_labels, required};
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, Grain, Incremental, PreparedFilter,
    Verdict,
};
use crate::model::{Labels, PodShape};
use crate::state::{Cluster, LabelKey, LabelValue, NodeView};

/// The preparation.
struct State {
    affinity: Vec<Term>,
    anti_affinity: Vec<Term>,
    namespace: Labels,
    /// Pods that all affinity terms mean.
    wanted: Sums,
    /// How many entries `wanted` has in all domains together.
    wanted_anywhere: i64,
    /// Pods that an anti-affinity term means.
    unwanted: Sums,
    /// Pods with an anti-affinity term that means this pod.
    repelling: Sums,
    means_itself: bool,
    effects: Effects<Option<Effect>>,
}

/// Changes by one pod of a shape: keys by number.
#[derive(Debug, Default)]
struct Effect {
    wanted: bool,
    unwanted: Vec<usize>,
    repelling: Vec<usize>,
}

impl FilterPlugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let plain = pod.pod_affinity.is_empty() && pod.pod_anti_affinity.is_empty();
        if malformed(pod) {
            return FilterPreparation::Reject(Verdict::Unresolvable);
        }
        if plain && !cx.is_kept() && !is_meant(cluster, pod) {
            return FilterPreparation::Skip;
        }
        let mut state = State::new(cx);
        let mut effects = Vec::new();
        let own: Vec<&Term> = state.affinity.iter().chain(&state.anti_affinity).collect();
        for (id, shape) in concerned(cluster, pod, &own) {
            effects.extend(state.effect(cluster, pod, shape).map(|effect| (id, effect)));
        }
        cx.visit_pods(effects, |effect, node, _| state.apply(effect, node, 1));
        // Terms of pods on nodes that are in no domain of theirs repel no pod.
        if plain && !cx.is_kept() && state.repelling.is_zero() {
            return FilterPreparation::Skip;
        }
        FilterPreparation::ready(state)
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        let declaration = Declaration::cluster().reading_affinity().grained();
        if pod.pod_affinity.is_empty() { declaration.monotone() } else { declaration }
    }
}

/// Whether a required anti-affinity term of a pod that runs means the pod being placed.
fn is_meant(cluster: &Cluster, pod: &PodShape) -> bool {
    let no_labels = Labels::new();
    let labels = cluster.namespace(&pod.namespace).unwrap_or(&no_labels);
    cluster.shapes_concerning(&pod.namespace).any(|(_, shape)| {
        let terms = &shape.pod_anti_affinity;
        meaning(terms, |term| term, &shape.namespace, (pod, labels)).next().is_some()
    })
}

impl PreparedFilter for State {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let mut found = true;
        for count in self.wanted.of(node) {
            match count {
                None => return Verdict::Unresolvable,
                Some(count) => found &= count > 0,
            }
        }
        // The first of a group whose members want each other.
        if !found && (self.wanted_anywhere != 0 || !self.means_itself) {
            return Verdict::Unresolvable;
        }
        let meets = self.unwanted.any_above_zero(node) || self.repelling.any_above_zero(node);
        Verdict::pass_if(!meets)
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for State {
    /// Once a pod that all affinity terms mean is anywhere, being the first of a group no longer
    /// helps on any node.
    fn classes(&self, _: &Context<'_>) -> Grain {
        let sums = [&self.wanted, &self.unwanted, &self.repelling];
        let grain = Grain::new(sums.into_iter().flat_map(Sums::keys));
        grain.epoch(u64::from(self.wanted_anywhere != 0))
    }

    fn concerned_by(&self, cx: &Context<'_>, pod: &PodShape) -> bool {
        let (asker, no_labels) = ((cx.pod(), &self.namespace), Labels::new());
        let means = |term: &Term| term.means(pod, &no_labels);
        !self.affinity.is_empty() && self.affinity.iter().all(means)
            || self.anti_affinity.iter().any(means)
            || meaning(&pod.pod_anti_affinity, |term| term, &pod.namespace, asker).next().is_some()
    }

    /// Domains that anti-affinity closes.
    fn rejects(&self, _: &Context<'_>, tell: &mut dyn FnMut(LabelKey, LabelValue)) -> bool {
        self.unwanted.above_zero(tell);
        self.repelling.above_zero(tell);
        self.affinity.is_empty()
    }

    fn pod_added(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.change(cx, pod, node, 1);
    }

    fn pod_removed(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.change(cx, pod, node, -1);
    }
}

impl State {
    fn new(cx: &Context<'_>) -> State {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let own = |terms| expanded(required(terms, &pod.namespace), cluster);
        let (affinity, anti_affinity) = (own(&pod.pod_affinity), own(&pod.pod_anti_affinity));
        let (mut wanted, mut unwanted) = (Sums::default(), Sums::default());
        for term in &affinity {
            wanted.number(cluster, &term.key);
        }
        for term in &anti_affinity {
            unwanted.number(cluster, &term.key);
        }
        let means_itself = affinity.iter().all(|term| term.means(pod, &Labels::new()));
        State {
            affinity,
            anti_affinity,
            namespace: namespace_labels(cx),
            wanted,
            wanted_anywhere: 0,
            unwanted,
            repelling: Sums::default(),
            means_itself,
            effects: Effects::new(),
        }
    }

    /// Changes by a pod of a shape for the pod being placed, if there are any.
    fn effect(&mut self, cluster: &Cluster, pod: &PodShape, shape: &PodShape) -> Option<Effect> {
        let no_labels = Labels::new();
        let wanted = !self.affinity.is_empty()
            && self.affinity.iter().all(|term| term.means(shape, &no_labels));
        let mut effect = Effect { wanted, ..Effect::default() };
        for term in self.anti_affinity.iter().filter(|term| term.means(shape, &no_labels)) {
            effect.unwanted.push(self.unwanted.number(cluster, &term.key));
        }
        let asker = (pod, &self.namespace);
        for term in meaning(&shape.pod_anti_affinity, |term| term, &shape.namespace, asker) {
            effect.repelling.push(self.repelling.number(cluster, &term.topology_key));
        }
        let any = wanted || !effect.unwanted.is_empty() || !effect.repelling.is_empty();
        any.then_some(effect)
    }

    /// Follows a pod that came (1) or left (-1).
    fn change(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>, sign: i64) {
        let effect = self.effects.find(pod).unwrap_or_else(|| {
            let effect = self.effect(cx.cluster(), cx.pod(), pod);
            self.effects.keep(pod, effect)
        });
        if let Some(effect) = &*effect {
            self.apply(effect, node, sign);
        }
    }

    fn apply(&mut self, effect: &Effect, node: NodeView<'_>, sign: i64) {
        if effect.wanted {
            for number in 0..self.wanted.len() {
                if self.wanted.add(number, node, sign) {
                    self.wanted_anywhere += sign;
                }
            }
        }
        for &number in &effect.unwanted {
            self.unwanted.add(number, node, sign);
        }
        for &number in &effect.repelling {
            self.repelling.add(number, node, sign);
        }
    }
}
