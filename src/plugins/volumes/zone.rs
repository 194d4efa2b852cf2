//! The filter for zones and regions of bound volumes.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::of_claims;
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::{BindingMode, PodShape, PodVolume};
use crate::state::NodeView;

/// Labels of zones and regions, with the label of a node that stands in where it has none.
const LABELS: [(&str, Option<&str>); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", Some("topology.kubernetes.io/zone")),
    ("failure-domain.beta.kubernetes.io/region", Some("topology.kubernetes.io/region")),
    ("topology.kubernetes.io/zone", None),
    ("topology.kubernetes.io/region", None),
];

/// Lets a pod on nodes in the zones and regions that its volumes name by their labels.
///
/// A label may name several, separated by `__`. A node with none of these labels passes. A claim
/// without a volume is left to [`VolumeBinding`](super::VolumeBinding) if it waits for its first
/// pod, and refused outright else.
///
/// O(volumes) a node.
///
/// Source: kube-scheduler, `volumezone/volume_zone.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct VolumeZone;

/// A label, the one that stands in for it, and the values of which a node must have one.
type Rule = (&'static str, Option<&'static str>, Vec<String>);

struct Zones(Vec<Rule>);

/// The values that a label names; `None` if it is malformed.
fn values(text: &str) -> Option<Vec<String>> {
    let parts = text.split("__").map(str::trim);
    parts.map(|part| (!part.is_empty()).then(|| String::from(part))).collect()
}

fn rules(cx: &Context<'_>) -> Option<Vec<Rule>> {
    let storage = cx.cluster().storage();
    let mut rules = Vec::new();
    for volume in &cx.pod().volumes {
        let PodVolume::Claim(name) = volume else { continue };
        let claim = storage.claim(&cx.pod().namespace, name)?;
        if claim.volume.is_empty() {
            let class = storage.class(&claim.class).filter(|_| !claim.class.is_empty())?;
            if class.binding? == BindingMode::WaitForFirstConsumer {
                continue;
            }
            return None;
        }
        let volume = storage.volume(&claim.volume)?;
        for (label, stand_in) in LABELS {
            let found = volume.labels.get(label).and_then(|text| values(text));
            rules.extend(found.map(|values| (label, stand_in, values)));
        }
    }
    Some(rules)
}

impl FilterPlugin for VolumeZone {
    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        of_claims(pod).monotone()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        if cx.pod().volumes.is_empty() {
            return FilterPreparation::Skip;
        }
        match rules(cx) {
            None => FilterPreparation::Reject(Verdict::Unresolvable),
            Some(rules) if rules.is_empty() => FilterPreparation::Skip,
            Some(rules) => FilterPreparation::ready(Zones(rules)),
        }
    }
}

impl PreparedFilter for Zones {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        if LABELS.iter().all(|(label, _)| node.label(label).is_none()) {
            return Verdict::Pass;
        }
        let meets = |(label, stand_in, values): &Rule| {
            let value = node.label(label).or_else(|| node.label((*stand_in)?));
            value.is_some_and(|value| values.iter().any(|other| other == value))
        };
        Verdict::pass_or_unresolvable(self.0.iter().all(meets))
    }
}

#[cfg(test)]
mod tests;
