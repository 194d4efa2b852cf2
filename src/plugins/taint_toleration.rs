//! Taints and tolerations, as a filter and a score.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::framework::{
    Block, Context, Declaration, FilterPlugin, FilterPreparation, Normalization, PreparedFilter,
    PreparedScore, ScorePlugin, ScorePreparation, Verdict,
};
use crate::model::{Effect, PodShape, Toleration};
use crate::state::NodeView;

/// Keeps pods off nodes with taints that they do not tolerate, and prefers nodes with fewer soft
/// taints that they do not tolerate.
///
/// As a filter: every taint with effect `NoSchedule` or `NoExecute` must be tolerated; the
/// rejection is [`Unresolvable`](Verdict::Unresolvable). As a score: the number of
/// `PreferNoSchedule` taints that no toleration for that effect (or for any) tolerates, in
/// proportion to the highest, reversed. So 0, 1, 2, 3 become 100, 67, 34, 0.
///
/// O(taints × tolerations) a node that has taints, and nothing for others. The filter is skipped
/// where no node has taints; the score is the same for all nodes where none has a soft one.
///
/// Source: kube-scheduler, `tainttoleration/taint_toleration.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaintToleration;

/// The filter where some node has taints.
struct Hard;

/// The tolerations that count for soft taints.
struct Soft(Vec<Toleration>);

impl FilterPlugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        if cx.cluster().tainted_nodes() == 0 {
            return FilterPreparation::Skip;
        }
        FilterPreparation::ready(Hard)
    }
}

impl PreparedFilter for Hard {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_or_unresolvable(tolerated(node, cx.pod()))
    }

    fn filter_block(&self, cx: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
        for at in block.places_of(cx.cluster().tainted_rows()) {
            if !block.node(at).is_some_and(|node| tolerated(node, cx.pod())) {
                verdicts[at] = -1;
            }
        }
    }
}

/// Whether a pod tolerates every taint that keeps pods off a node.
pub(super) fn tolerated(node: NodeView<'_>, pod: &PodShape) -> bool {
    let mut repelling = node.taints().iter().filter(|taint| taint.repels());
    repelling.all(|taint| pod.tolerations.iter().any(|consent| consent.tolerates(taint)))
}

impl ScorePlugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        if cx.cluster().softly_tainted_nodes() == 0 {
            return ScorePreparation::Constant(0);
        }
        let counts = |consent: &&Toleration| {
            consent.effect.as_ref().is_none_or(|effect| *effect == Effect::PreferNoSchedule)
        };
        ScorePreparation::ready(Soft(cx.pod().tolerations.iter().filter(counts).cloned().collect()))
    }

    fn normalization(&self) -> Normalization {
        Normalization::MaxReversed
    }
}

impl PreparedScore for Soft {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let soft = node.taints().iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        soft.filter(|taint| !self.0.iter().any(|consent| consent.tolerates(taint))).count() as i64
    }
}

#[cfg(test)]
mod tests;
