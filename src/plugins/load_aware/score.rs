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
mod tests {
    use super::super::super::testing::{cluster, passing, scores};
    use super::super::{LoadAwareFilter, amounts};
    use super::*;
    use crate::model::{CPU, MEMORY, NodeUsage};
    use crate::state::Cluster;
    use crate::{Event, Time};
    use crate::{Node, Pod};
    use alloc::boxed::Box;

    fn report(cluster: &mut Cluster, node: &str, usage: NodeUsage, version: u64) {
        let usage = Some(Box::new(usage));
        let event = Event::NodeUsageChanged { name: node.into(), usage, version };
        cluster.apply(event).unwrap();
    }

    #[test]
    fn what_is_in_use_counts_not_what_is_promised() {
        let node = |name| Node::new(name).capacity(CPU, 10).capacity(MEMORY, "10Gi");
        let mut cluster = cluster([node("busy"), node("idle"), node("unknown")]);
        let full = Pod::new().name("full").request(CPU, 10).on("idle");
        cluster.add_pod(full.clone().since(Time::ZERO)).unwrap();
        report(&mut cluster, "busy", NodeUsage::new(Time::ZERO, amounts(6_000, 1 << 30)), 1);
        let idle = NodeUsage::new(Time::ZERO, amounts(500, 1 << 30));
        let own = amounts(400, 1 << 20);
        let idle = idle.pod("default", "full", PriorityBand::Prod, own);
        report(&mut cluster, "idle", idle.clone(), 1);
        let pod = Pod::new().request(CPU, 1).request(MEMORY, "1Gi");
        // 60 % and 8.5 % are above 65; the report is of the time at which the pod was started, so that
        // it is estimated beside it.
        let load = LoadAwareFilter::default;
        assert_eq!(passing(load(), &cluster, &pod), ["unknown"]);
        let later = Time::from_secs(120);
        let idle = NodeUsage { updated: Some(later), ..idle };
        report(&mut cluster, "idle", idle.clone(), 2);
        assert_eq!(passing(load(), &cluster, &pod), ["idle", "unknown"]);
        // CPU: 31.5 and 86.5 % are free beside the pod. Memory: less than 83 %, as the pod is
        // estimated at 0.7 GiB rounded up to a byte. Each is rounded down before the mean is.
        assert_eq!(scores(LoadAwareScore::default(), &cluster, &pod), [56, 84, 0]);
        // A report older than the known one counts for nothing; so does one about a pod that is
        // gone.
        report(&mut cluster, "idle", NodeUsage::new(Time::ZERO, amounts(9_000, 0)), 1);
        assert_eq!(cluster.node("idle").unwrap().measured(), Some(&idle));
        cluster.remove_node("idle").unwrap();
        cluster.add_node(node("idle")).unwrap();
        assert_eq!(cluster.node("idle").unwrap().measured(), None);
    }
}
