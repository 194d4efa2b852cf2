//! The filter for nodes that are closed to new pods.

use alloc::sync::Arc;

use crate::framework::{
    Block, Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::{Effect, PodShape, Taint};
use crate::state::NodeView;

/// The taint that stands for a closed node.
const TAINT: &str = "node.kubernetes.io/unschedulable";

/// Keeps pods off nodes that are marked unschedulable, unless they tolerate the taint
/// `node.kubernetes.io/unschedulable` with effect `NoSchedule` and no value.
///
/// The rejection is [`Unresolvable`](Verdict::Unresolvable). O(1) a node; skipped where no node is
/// marked.
///
/// Source: kube-scheduler, `nodeunschedulable/node_unschedulable.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeUnschedulable;

/// The filter for a pod that does not tolerate the taint.
struct OpenOnly;

impl FilterPlugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        let taint = Taint::new(TAINT, "", Effect::NoSchedule);
        let tolerated = cx.pod().tolerations.iter().any(|consent| consent.tolerates(&taint));
        if tolerated || cx.cluster().unschedulable_nodes() == 0 {
            return FilterPreparation::Skip;
        }
        FilterPreparation::ready(OpenOnly)
    }
}

impl PreparedFilter for OpenOnly {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_or_unresolvable(!node.unschedulable())
    }

    fn filter_block(&self, cx: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
        for at in block.places_of(cx.cluster().unschedulable_rows()) {
            verdicts[at] = -1;
        }
    }
}

#[cfg(test)]
mod tests;
