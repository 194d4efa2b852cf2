//! A score that keeps nodes with scarce resources for pods that request them.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::framework::{
    Context, Declaration, MAX_SCORE, PreparedScore, ScorePlugin, ScorePreparation,
};
use crate::model::PodShape;
use crate::state::{NodeView, ResourceId};

/// Keeps pods away from nodes with scarce resources that they do not request.
///
/// A node has `d` resources that the pod does not request, and `i` of them are listed as
/// scarce: the score is `(d − i)·100 ÷ d`, and 100 if either is 0.
///
/// O(resources of the cluster) a node.
///
/// Source: Koordinator, `scarceresourceavoidance`.
#[derive(Debug, Clone)]
pub struct ScarceResourceAvoidance {
    resources: Vec<String>,
}

/// The resources that are not requested, and whether they are scarce.
struct Unrequested(Vec<(ResourceId, bool)>);

impl ScarceResourceAvoidance {
    /// With these resources scarce.
    pub fn of<S: Into<String>>(resources: impl IntoIterator<Item = S>) -> ScarceResourceAvoidance {
        ScarceResourceAvoidance { resources: resources.into_iter().map(Into::into).collect() }
    }
}

impl ScorePlugin for ScarceResourceAvoidance {
    fn name(&self) -> &'static str {
        "ScarceResourceAvoidance"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let cluster = cx.cluster();
        let left = cluster.resources().filter_map(|resource| {
            let name = cluster.resource_name(resource);
            let scarce = self.resources.iter().any(|listed| listed == name);
            (cx.pod().requests.of(name) == 0).then_some((resource, scarce))
        });
        let left: Vec<_> = left.collect();
        if left.iter().any(|(_, scarce)| *scarce) {
            ScorePreparation::ready(Unrequested(left))
        } else {
            ScorePreparation::Constant(MAX_SCORE)
        }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }
}

impl PreparedScore for Unrequested {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let (mut different, mut scarce) = (0, 0);
        for (resource, listed) in &self.0 {
            if node.allocatable(*resource) > 0 {
                different += 1;
                scarce += i64::from(*listed);
            }
        }
        if scarce == 0 { MAX_SCORE } else { (different - scarce) * MAX_SCORE / different }
    }
}

#[cfg(test)]
mod tests;
