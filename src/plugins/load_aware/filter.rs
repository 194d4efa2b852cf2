//! A filter that keeps pods off nodes that are in use too much.

use alloc::sync::Arc;

use super::LoadAware;
use super::estimate::{add, stated};
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::{Amounts, PodShape, PriorityBand};
use crate::state::NodeView;

/// The attribute of a shape that says which kind controls its pods.
const CONTROLLER: &str = "controller";

/// Rejects nodes whose use with the pod will be above a threshold: `⌊100 · use ÷ total⌉` of a
/// resource is above it. Nodes without a report pass; those with an old one do or do not as
/// [`LoadAware`] says, and pods whose attribute `controller` is `DaemonSet` always do.
///
/// O(pods of the node · pods of the report) a node.
#[derive(Debug, Clone, Default)]
pub struct LoadAwareFilter(pub LoadAware);

/// The estimate of a shape.
struct Estimated {
    settings: LoadAware,
    band: PriorityBand,
    pod: Amounts,
}

impl FilterPlugin for LoadAwareFilter {
    fn name(&self) -> &'static str {
        "LoadAware"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        // Pods that come add to what is in use.
        Declaration::node().reading_time().monotone()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        let pod = cx.pod();
        if pod.attributes.get(CONTROLLER).is_some_and(|kind| kind == "DaemonSet") {
            return FilterPreparation::Skip;
        }
        let band = pod.band();
        let estimate = self.0.estimate(pod, band);
        FilterPreparation::ready(Estimated { settings: self.0.clone(), band, pod: estimate })
    }
}

impl PreparedFilter for Estimated {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let Some(usage) = node.measured() else { return Verdict::Pass };
        let own = usage.thresholds.as_ref().map(|own| self.settings.thresholds_of(Some(own)));
        let thresholds = own.as_ref().unwrap_or(&self.settings.thresholds);
        let prod = self.band == PriorityBand::Prod && stated(&thresholds.prod).next().is_some();
        let aggregated = thresholds.aggregated.as_ref().filter(|own| own.is_stated() && !prod);
        let most = match aggregated {
            Some(aggregated) => &aggregated.thresholds,
            None if prod => &thresholds.prod,
            None => &thresholds.node,
        };
        if stated(most).next().is_none() {
            return Verdict::Pass;
        }
        if self.settings.filter_expired && self.settings.is_expired(usage, cx) {
            return if self.settings.schedule_when_expired {
                Verdict::Pass
            } else {
                Verdict::Unschedulable
            };
        }
        if usage.node.is_none() {
            return Verdict::Pass;
        }
        let measure = aggregated.map(|own| (own.measure.as_str(), own.over));
        let mut in_use = self.settings.in_use(node, usage, prod, measure);
        add(&mut in_use, &self.pod);
        let exceeds = |(resource, threshold): (&str, i64)| {
            let total = LoadAware::total(node, resource);
            let used = in_use.of(resource) as f64 / total as f64;
            total != 0 && libm::round(used * 100.0) as i64 > threshold
        };
        if stated(most).any(exceeds) { Verdict::Unschedulable } else { Verdict::Pass }
    }
}
