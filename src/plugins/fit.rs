//! Whether a node has room.

use alloc::vec::Vec;

use crate::framework::{Context, Declaration, Filter, Preparation, Verdict};
use crate::model::PodShape;
use crate::state::{NodeView, ResourceId};

/// Lets a pod on nodes that have room for what it requests, and for one more pod.
///
/// Mirrors kube-scheduler's `NodeResourcesFit` filter (`noderesources/fit.go`): a node has room if
/// it may have one more pod, and if of every resource requested no more is requested than is left.
/// A node without the resource has none of it. Nothing requested always fits, even on a node that
/// is overcommitted.
///
/// O(resources requested) a node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fit;

/// What the pod requests, resolved; a resource the cluster has never seen has no id.
struct Requests(Vec<(Option<ResourceId>, i64)>);

impl Filter for Fit {
    fn name(&self) -> &str {
        "NodeResourcesFit"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let requested = cx.pod().requests.iter().filter(|(_, amount)| *amount > 0);
        let resolved = requested.map(|(name, amount)| (cx.cluster().resource(name), amount));
        Preparation::with(Requests(resolved.collect()))
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let Some(Requests(requests)) = cx.prepared() else { return Verdict::Unschedulable };
        let full = node.pod_count() >= node.pod_limit();
        let mut lacking = full;
        for &(resource, amount) in requests {
            let (allocatable, free) =
                resource.map_or((0, 0), |id| (node.allocatable(id), node.free(id)));
            if amount > free {
                if amount > allocatable {
                    return Verdict::Unresolvable;
                }
                lacking = true;
            }
        }
        Verdict::pass_if(!lacking)
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage().judging_room()
    }
}
