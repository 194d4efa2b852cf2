//! The filter for pods that name their node.

use crate::framework::{Context, Declaration, Filter, Preparation, Verdict};
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

impl Filter for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        match cx.pod().node_name.as_deref() {
            None | Some("") => Preparation::Skip,
            Some(name) => Preparation::with(Named(cx.cluster().node(name).map(NodeView::row))),
        }
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let named = cx.prepared::<Named>();
        Verdict::pass_or_unresolvable(named.is_some_and(|Named(row)| *row == Some(node.row())))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cluster, passing};
    use super::*;
    use crate::model::{Node, Pod};

    #[test]
    fn a_pod_goes_to_the_node_it_names() {
        let cluster = cluster([Node::new("a"), Node::new("b")]);
        let mut pod = Pod::new();
        assert_eq!(passing(NodeName, &cluster, &pod), ["a", "b"]);
        pod.shape_mut().node_name = Some("b".into());
        assert_eq!(passing(NodeName, &cluster, &pod), ["b"]);
        pod.shape_mut().node_name = Some("c".into());
        assert_eq!(passing(NodeName, &cluster, &pod), [""; 0]);
    }
}
