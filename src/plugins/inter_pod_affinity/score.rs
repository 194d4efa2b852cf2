//! Inter-pod affinity as a score: preferred terms.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::pod_rules::{Term, meaning};
use super::InterPodAffinity;
use super::terms::{Effects, Sums, concerned, expanded, malformed, namespace_labels, preferred};
use crate::framework::{
    Context, Declaration, Grain, Incremental, MAX_SCORE, Normalization, PreparedScore, ScorePlugin,
    ScorePreparation,
};
use crate::model::{Labels, PodShape};
use crate::state::{Cluster, NodeView};

/// The preparation.
struct State {
    /// Weight of a required affinity term of a running pod.
    hard_weight: i64,
    /// The pod's own terms, weights negative for anti-affinity.
    own: Vec<(i64, Term)>,
    namespace: Labels,
    /// Weight of the pods of a domain, per domain.
    worth: Sums,
    /// Keys by number with their amounts, for a shape.
    effects: Effects<Vec<(usize, i64)>>,
}

impl ScorePlugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let wishes =
            !(pod.preferred_pod_affinity.is_empty() && pod.preferred_pod_anti_affinity.is_empty());
        let reads_others = cluster.has_affinity_pods();
        let alone = self.ignore_preferred_of_existing || !reads_others && !cx.is_kept();
        if !wishes && alone || malformed(pod) {
            return ScorePreparation::Skip;
        }
        let prefers = |(_, shape): (_, &PodShape)| {
            let weighted = [&shape.preferred_pod_affinity, &shape.preferred_pod_anti_affinity];
            !shape.pod_affinity.is_empty() || weighted.iter().any(|list| !list.is_empty())
        };
        if !wishes && !cx.is_kept() && !cluster.shapes_concerning(&pod.namespace).any(prefers) {
            return ScorePreparation::Skip;
        }
        let mut state = State::new(*self, cx);
        let mut effects = Vec::new();
        let own: Vec<&Term> = state.own.iter().map(|(_, term)| term).collect();
        for (id, shape) in concerned(cluster, pod, &own) {
            let effect = state.effect(cluster, pod, shape);
            effects.extend((!effect.is_empty()).then_some((id, effect)));
        }
        if effects.is_empty() && !cx.is_kept() {
            return ScorePreparation::Skip;
        }
        cx.visit_pods(effects, |effect, node, _| state.apply(effect, node, 1));
        ScorePreparation::ready(state)
    }

    fn normalization(&self) -> Normalization {
        Normalization::Extremes
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        let range = high.saturating_sub(low);
        if range <= 0 {
            return 0;
        }
        let share = raw.saturating_sub(low) as f64 / range as f64;
        (MAX_SCORE as f64 * share) as i64
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::cluster().reading_affinity().grained()
    }
}

impl PreparedScore for State {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        self.worth.of(node).flatten().fold(0, i64::saturating_add)
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for State {
    fn classes(&self, _: &Context<'_>) -> Grain {
        Grain::new(self.worth.keys())
    }

    fn concerned_by(&self, cx: &Context<'_>, pod: &PodShape) -> bool {
        let (namespace, asker) = (&*pod.namespace, (cx.pod(), &self.namespace));
        let weighted = [&pod.preferred_pod_affinity, &pod.preferred_pod_anti_affinity];
        self.own.iter().any(|(_, term)| term.means(pod, &Labels::new()))
            || meaning(&pod.pod_affinity, |term| term, namespace, asker).next().is_some()
            || weighted
                .iter()
                .any(|list| meaning(list, |own| &own.term, namespace, asker).next().is_some())
    }

    fn pod_added(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.change(cx, pod, node, 1);
    }

    fn pod_removed(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.change(cx, pod, node, -1);
    }
}

impl State {
    /// Weight of a pod of a shape to the pod being placed: keys by number, with the amount.
    fn effect(&mut self, cluster: &Cluster, pod: &PodShape, shape: &PodShape) -> Vec<(usize, i64)> {
        let no_labels = Labels::new();
        let mut effect = Vec::new();
        for (weight, term) in &self.own {
            if term.means(shape, &no_labels) {
                effect.push((self.worth.number(cluster, &term.key), *weight));
            }
        }
        if !shape.has_pod_affinity() {
            return effect;
        }
        let (namespace, asker) = (&*shape.namespace, (pod, &self.namespace));
        let weighted =
            [(&shape.preferred_pod_affinity, 1), (&shape.preferred_pod_anti_affinity, -1)];
        for (list, sign) in weighted {
            for own in meaning(list, |own| &own.term, namespace, asker) {
                let number = self.worth.number(cluster, &own.term.topology_key);
                effect.push((number, sign * i64::from(own.weight)));
            }
        }
        if self.hard_weight > 0 {
            for term in meaning(&shape.pod_affinity, |term| term, namespace, asker) {
                effect.push((self.worth.number(cluster, &term.topology_key), self.hard_weight));
            }
        }
        effect
    }

    /// Follows a pod that came (1) or left (-1).
    fn change(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>, sign: i64) {
        let effect = self.effects.find(pod).unwrap_or_else(|| {
            let effect = self.effect(cx.cluster(), cx.pod(), pod);
            self.effects.keep(pod, effect)
        });
        self.apply(&effect, node, sign);
    }

    fn new(plugin: InterPodAffinity, cx: &Context<'_>) -> State {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let likes = preferred(&pod.preferred_pod_affinity, &pod.namespace);
        let dislikes = preferred(&pod.preferred_pod_anti_affinity, &pod.namespace);
        let dislikes = dislikes.into_iter().map(|(weight, term)| (-weight, term));
        let (weights, terms): (Vec<i64>, Vec<Term>) = likes.into_iter().chain(dislikes).unzip();
        let own = weights.into_iter().zip(expanded(terms, cluster)).collect();
        State {
            hard_weight: plugin.hard_weight,
            own,
            namespace: namespace_labels(cx),
            worth: Sums::default(),
            effects: Effects::new(),
        }
    }

    fn apply(&mut self, effect: &[(usize, i64)], node: NodeView<'_>, sign: i64) {
        for (number, weight) in effect {
            self.worth.add(*number, node, sign * weight);
        }
    }
}
