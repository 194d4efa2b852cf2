//! The filter for nodes that are being emptied: they take no pod, whatever it tolerates.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use crate::framework::{
    Block, Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::{Effect, PodShape, Taint};
use crate::state::{Cluster, NodeView, Row};

/// Rejects the nodes that are closed and were not before.
#[derive(Debug)]
pub(super) struct Emptied {
    /// Nodes that were closed before.
    before: BTreeSet<Row>,
}

struct Ready(Arc<Emptied>);

impl Emptied {
    /// The filter for a cluster; `None` if no pod tolerates a closed node. O(nodes + shapes).
    pub(super) fn of(cluster: &Cluster) -> Option<Emptied> {
        let taint = Taint::new("node.kubernetes.io/unschedulable", "", Effect::NoSchedule);
        let tolerates =
            |shape: &PodShape| shape.tolerations.iter().any(|own| own.tolerates(&taint));
        let closed = |node: &NodeView<'_>| node.unschedulable();
        cluster.shapes().any(|(_, shape, _)| tolerates(shape)).then(|| Emptied {
            before: cluster.nodes().filter(closed).map(NodeView::row).collect(),
        })
    }

    fn rejects(&self, node: NodeView<'_>) -> bool {
        node.unschedulable() && !self.before.contains(&node.row())
    }
}

impl FilterPlugin for Emptied {
    fn name(&self) -> &'static str {
        "Emptied"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
        FilterPreparation::ready(Ready(self))
    }
}

impl PreparedFilter for Ready {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_or_unresolvable(!self.0.rejects(node))
    }

    fn filter_block(&self, cx: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
        for at in block.places_of(cx.cluster().unschedulable_rows()) {
            if block.node(at).is_some_and(|node| self.0.rejects(node)) {
                verdicts[at] = -1;
            }
        }
    }
}
