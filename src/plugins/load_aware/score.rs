//! A score that prefers nodes with less in use.

use alloc::sync::Arc;

use super::LoadAware;
use super::estimate::add;
use crate::framework::{
    Context, Declaration, MAX_SCORE, PreparedScore, ScorePlugin, ScorePreparation,
};
use crate::model::{Amounts, PodShape, PriorityBand};
use crate::state::NodeView;

/// Prefers nodes with less in use once they have the pod. The score is `⌊(total − use) · 100 ÷
/// total⌋` of each resource, weighted, and the least of these with a weight of its own. Nodes
/// without a report, or with an old one, have 0.
///
/// O(pods of the node · pods of the report) a node.
#[derive(Debug, Clone, Default)]
pub struct LoadAwareScore(pub LoadAware);

/// The estimate of a shape.
struct Estimated {
    settings: LoadAware,
    prod: bool,
    pod: Amounts,
}

impl ScorePlugin for LoadAwareScore {
    fn name(&self) -> &'static str {
        "LoadAware"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::node().reading_time()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let settings = self.0.clone();
        let weighs = settings.weights.iter().any(|(_, weight)| weight != 0);
        if !weighs && settings.dominant_weight == 0 {
            return ScorePreparation::Constant(0);
        }
        let band = cx.pod().band();
        let prod = settings.score_by_prod && band == PriorityBand::Prod;
        let pod = settings.estimate(cx.pod(), band);
        ScorePreparation::ready(Estimated { settings, prod, pod })
    }
}

impl PreparedScore for Estimated {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let settings = &self.settings;
        let Some(usage) = node.measured() else { return 0 };
        if settings.is_expired(usage, cx) || usage.node.is_none() {
            return 0;
        }
        let measure = settings.score_measure.as_ref().filter(|_| !self.prod);
        let measure = measure.map(|(measure, over)| (measure.as_str(), *over));
        let mut in_use = settings.in_use(node, usage, self.prod, measure);
        add(&mut in_use, &self.pod);
        let dominant = i128::from(settings.dominant_weight);
        let (mut least, mut weights) = if dominant == 0 { (0, 0) } else { (MAX_SCORE, dominant) };
        let mut total = 0_i128;
        for (resource, weight) in settings.weights.iter() {
            let score = unused(in_use.of(resource), LoadAware::total(node, resource));
            total += i128::from(score) * i128::from(weight);
            weights += i128::from(weight);
            least = least.min(score);
        }
        total += i128::from(least) * dominant;
        if weights <= 0 { 0 } else { (total / weights).clamp(0, i128::from(MAX_SCORE)) as i64 }
    }
}

/// The part of an amount that is not in use, of 100.
fn unused(used: i64, total: i64) -> i64 {
    if total <= 0 || used > total {
        return 0;
    }
    let free = i128::from(total) - i128::from(used);
    (free * i128::from(MAX_SCORE) / i128::from(total)) as i64
}

#[cfg(test)]
mod tests;
