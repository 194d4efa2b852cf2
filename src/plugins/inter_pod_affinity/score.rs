//! Inter-pod affinity as a score: preferred terms.

use alloc::vec::Vec;

use super::super::changes::take_and_undo;
use super::super::pod_rules::Term;
use super::InterPodAffinity;
use super::terms::{
    Effects, Sums, expanded, malformed, namespace_labels, preferred, required, visit_pods,
};
use crate::framework::{
    Context, Declaration, Grain, MAX_SCORE, Normalization, Preparation, Prepared, Score,
};
use crate::model::{Labels, PodShape};
use crate::state::{Cluster, NodeView};

/// What is prepared.
struct State {
    /// The pod's own terms, weights negative for anti-affinity.
    own: Vec<(i64, Term)>,
    namespace: Labels,
    /// What the pods of a domain are worth, per domain.
    worth: Sums,
    /// Of a shape: keys by number, with the amount.
    effects: Effects<Vec<(usize, i64)>>,
}

impl Score for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let wishes =
            !(pod.preferred_pod_affinity.is_empty() && pod.preferred_pod_anti_affinity.is_empty());
        let reads_others = cluster.has_affinity_pods();
        let alone = self.ignore_preferred_of_existing || !reads_others && !cx.is_kept();
        if !wishes && alone || malformed(pod) {
            return Preparation::Skip;
        }
        let mut state = State::new(cx);
        let mut effects = Vec::new();
        if wishes {
            for (id, shape, _) in cluster.shapes() {
                let effect = self.effect(&mut state, cluster, pod, shape);
                effects.extend((!effect.is_empty()).then_some((id, effect)));
            }
        } else {
            for (id, shape, _) in cluster.affinity_shapes() {
                let effect = self.effect(&mut state, cluster, pod, shape);
                effects.extend((!effect.is_empty()).then_some((id, effect)));
            }
        }
        if effects.is_empty() && !cx.is_kept() {
            return Preparation::Skip;
        }
        visit_pods(cluster, effects, |effect, node| state.apply(effect, node, 1));
        Preparation::with(state)
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Some(state) = cx.prepared::<State>() else { return 0 };
        state.worth.of(node).flatten().fold(0, i64::saturating_add)
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

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        Some(Grain::new(cx.prepared::<State>()?.worth.keys()))
    }

    take_and_undo!(InterPodAffinity::change);
}

impl InterPodAffinity {
    /// What a pod of a shape is worth to the pod being placed: keys by number, with the amount.
    fn effect(
        &self,
        state: &mut State,
        cluster: &Cluster,
        pod: &PodShape,
        shape: &PodShape,
    ) -> Vec<(usize, i64)> {
        let no_labels = Labels::new();
        let mut effect = Vec::new();
        for (weight, term) in &state.own {
            if term.means(shape, &no_labels) {
                effect.push((state.worth.number(cluster, &term.key), *weight));
            }
        }
        if !shape.has_pod_affinity() {
            return effect;
        }
        let mut theirs = preferred(&shape.preferred_pod_affinity, &shape.namespace);
        let dislikes = preferred(&shape.preferred_pod_anti_affinity, &shape.namespace);
        theirs.extend(dislikes.into_iter().map(|(weight, term)| (-weight, term)));
        if self.hard_weight > 0 {
            let terms = required(&shape.pod_affinity, &shape.namespace);
            theirs.extend(terms.into_iter().map(|term| (self.hard_weight, term)));
        }
        for (weight, term) in theirs {
            if term.means(pod, &state.namespace) {
                effect.push((state.worth.number(cluster, &term.key), weight));
            }
        }
        effect
    }

    fn change(
        &self,
        prepared: &mut Prepared,
        cx: &Context<'_>,
        placed: &PodShape,
        node: NodeView<'_>,
        sign: i64,
    ) {
        let Some(state) = prepared.value_mut::<State>() else { return };
        let effect = state.effects.find(placed).unwrap_or_else(|| {
            let effect = self.effect(state, cx.cluster(), cx.pod(), placed);
            state.effects.keep(placed, effect)
        });
        state.apply(&effect, node, sign);
    }
}

impl State {
    fn new(cx: &Context<'_>) -> State {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let likes = preferred(&pod.preferred_pod_affinity, &pod.namespace);
        let dislikes = preferred(&pod.preferred_pod_anti_affinity, &pod.namespace);
        let dislikes = dislikes.into_iter().map(|(weight, term)| (-weight, term));
        let (weights, terms): (Vec<i64>, Vec<Term>) = likes.into_iter().chain(dislikes).unzip();
        let own = weights.into_iter().zip(expanded(terms, cluster)).collect();
        State {
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
