//! How full a node would be.

use alloc::string::String;
use alloc::vec::Vec;

use crate::framework::{Context, Declaration, MAX_SCORE, Preparation, Score};
use crate::model::PodShape;
use crate::model::resources::{CPU, MEMORY};
use crate::state::{NodeView, ResourceId};

/// Resources with weights, and whether a full or an empty node is liked.
///
/// For each resource, of a node with allocatable amount `A` whose pods would take `q` with the new
/// one: `(A−q)·100 ÷ A` if empty nodes are liked (0 beyond `A`), `min(q, A)·100 ÷ A` if full ones
/// are. The score is the weighted mean, truncated. A resource the node lacks, or one other than
/// CPU and memory that the pod does not request, is left out.
///
/// Source: kube-scheduler, `noderesources/least_allocated.go`, `most_allocated.go`.
#[derive(Debug, Clone)]
pub struct Allocation {
    name: &'static str,
    likes_full: bool,
    resources: Vec<(String, i64)>,
}

/// A score that likes full nodes, so that others stay free.
#[derive(Debug)]
pub struct MostAllocated;

/// A score that likes empty nodes.
#[derive(Debug)]
pub struct LeastAllocated;

impl MostAllocated {
    /// Over these resources, with these weights.
    pub fn of<S: Into<String>>(resources: impl IntoIterator<Item = (S, u32)>) -> Allocation {
        Allocation::new("MostAllocated", true, resources)
    }
}

impl LeastAllocated {
    /// Over these resources, with these weights.
    pub fn of<S: Into<String>>(resources: impl IntoIterator<Item = (S, u32)>) -> Allocation {
        Allocation::new("LeastAllocated", false, resources)
    }
}

impl Allocation {
    fn new<S: Into<String>>(
        name: &'static str,
        likes_full: bool,
        resources: impl IntoIterator<Item = (S, u32)>,
    ) -> Allocation {
        let resources =
            resources.into_iter().map(|(name, weight)| (name.into(), i64::from(weight))).collect();
        Allocation { name, likes_full, resources }
    }
}

/// A resource to look at.
struct Part {
    resource: ResourceId,
    weight: i64,
    request: i64,
    /// CPU and memory are counted with defaults.
    scored: Option<usize>,
}

impl Score for Allocation {
    fn name(&self) -> &str {
        self.name
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let parts: Vec<Part> = self
            .resources
            .iter()
            .filter_map(|(name, weight)| {
                let request = cx.pod().incoming_requests.of(name);
                let scored = [CPU, MEMORY].iter().position(|native| native == name);
                let resource = cx.cluster().resource(name)?;
                (request > 0 || scored.is_some()).then_some(Part {
                    resource,
                    weight: *weight,
                    request,
                    scored,
                })
            })
            .collect();
        Preparation::with(parts)
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Some(parts) = cx.prepared::<Vec<Part>>() else { return 0 };
        let (mut sum, mut weights) = (0_i128, 0_i128);
        for part in parts {
            let allocatable = i128::from(node.allocatable(part.resource));
            if allocatable <= 0 {
                continue;
            }
            let used =
                part.scored.map_or_else(|| node.used(part.resource), |at| node.scored_used()[at]);
            let taken = (i128::from(used) + i128::from(part.request)).min(allocatable);
            let liked = if self.likes_full { taken } else { allocatable - taken };
            sum += i128::from(part.weight) * (liked * i128::from(MAX_SCORE) / allocatable);
            weights += i128::from(part.weight);
        }
        if weights == 0 { 0 } else { (sum / weights) as i64 }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}
