//! Allocation scores with a strategy for each resource.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::allocation::percent;
use crate::framework::{
    Context, Declaration, MAX_SCORE, PreparedScore, ScorePlugin, ScorePreparation,
};
use crate::model::PodShape;
use crate::state::{NodeView, ResourceId};

/// Likes nodes full in some resources and empty in others, such as full of GPUs and empty of CPU.
///
/// Resources that are both listed and requested count. Where full is liked, the score is `min(q,
/// A)·100 ÷ A`; where empty is, `(A − q)·100 ÷ A` (0 beyond `A`). `A` is the allocatable amount and
/// `q` what the node's pods would request. The score of the node is the weighted mean, truncated; a
/// resource that the node lacks counts as 0. If no listed resource is requested, all nodes score
/// 100.
///
/// O(resources) a node.
///
/// Source: Koordinator, `noderesourcesfitplus`.
///
/// ```
/// use phalanx::plugins::{NodeResourcesFitPlus, ResourceStrategy};
///
/// let score = NodeResourcesFitPlus::of([
///     ("nvidia.com/gpu", ResourceStrategy::MostAllocated, 20),
///     ("cpu", ResourceStrategy::LeastAllocated, 1),
/// ]);
/// ```
#[derive(Debug, Clone)]
pub struct NodeResourcesFitPlus {
    resources: Vec<(String, ResourceStrategy, i64)>,
}

/// The usage of one resource that is liked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResourceStrategy {
    /// Nodes that have little left of it.
    MostAllocated,
    /// Nodes that have much left of it.
    LeastAllocated,
}

struct Part {
    /// `None` if the cluster has never seen the resource.
    resource: Option<ResourceId>,
    strategy: ResourceStrategy,
    weight: i64,
    request: i64,
}

/// The listed resources that the pod requests.
struct Parts(Vec<Part>);

impl NodeResourcesFitPlus {
    /// By resource: the strategy and the weight.
    pub fn of<S: Into<String>>(
        resources: impl IntoIterator<Item = (S, ResourceStrategy, u32)>,
    ) -> NodeResourcesFitPlus {
        let resource =
            |(name, strategy, weight): (S, _, u32)| (name.into(), strategy, weight.into());
        NodeResourcesFitPlus { resources: resources.into_iter().map(resource).collect() }
    }
}

impl ScorePlugin for NodeResourcesFitPlus {
    fn name(&self) -> &'static str {
        "NodeResourcesFitPlus"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let part = |(name, strategy, weight): &(String, ResourceStrategy, i64)| Part {
            resource: cx.cluster().resource(name),
            strategy: *strategy,
            weight: *weight,
            request: cx.pod().requests.of(name),
        };
        let parts = self.resources.iter().map(part);
        let parts: Vec<Part> = parts.filter(|part| part.request > 0 && part.weight > 0).collect();
        if parts.is_empty() {
            return ScorePreparation::Constant(MAX_SCORE);
        }
        ScorePreparation::ready(Parts(parts))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

impl PreparedScore for Parts {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for part in &self.0 {
            weights += part.weight;
            let Some(resource) = part.resource else { continue };
            let allocatable = node.allocatable(resource);
            let taken = node.used(resource).saturating_add(part.request);
            sum += part.weight
                * match part.strategy {
                    _ if allocatable <= 0 => 0,
                    ResourceStrategy::MostAllocated => percent(taken.min(allocatable), allocatable),
                    ResourceStrategy::LeastAllocated if taken > allocatable => 0,
                    ResourceStrategy::LeastAllocated => percent(allocatable - taken, allocatable),
                };
        }
        if weights == 0 { MAX_SCORE } else { sum / weights }
    }
}

#[cfg(test)]
mod tests;
