//! The filter for pods that name their node.

use alloc::sync::Arc;

use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::PodShape;
use crate::state::{NodeView, Row};

/// Lets a pod that names a node on that node only.
///
/// The rejection is [`Unresolvable`](Verdict::Unresolvable). O(1) a node; skipped for pods that
/// name none.
///
/// Source: kube-scheduler, `nodename/node_name.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeName;

/// The row of the node named, if there is one.
struct Named(Option<Row>);

impl FilterPlugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        match cx.pod().node_name.as_deref() {
            None | Some("") => FilterPreparation::Skip,
            Some(name) => {
                FilterPreparation::ready(Named(cx.cluster().node(name).map(NodeView::row)))
            }
        }
    }
}

impl PreparedFilter for Named {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_or_unresolvable(self.0 == Some(node.row()))
    }
}

#[cfg(test)]
mod tests;
