//! The filter for nodes that are closed to new pods.

use crate::framework::{Context, Declaration, Filter, Preparation, Prepared, Verdict};
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

impl Filter for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let taint = Taint::new(TAINT, "", Effect::NoSchedule);
        let tolerated = cx.pod().tolerations.iter().any(|consent| consent.tolerates(&taint));
        if tolerated || cx.cluster().unschedulable_nodes() == 0 {
            return Preparation::Skip;
        }
        Preparation::ready(Prepared::NONE)
    }

    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_or_unresolvable(!node.unschedulable())
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cluster, passing};
    use super::*;
    use crate::model::{Node, Pod, Toleration, TolerationOperator};

    #[test]
    fn closed_nodes_take_only_pods_that_tolerate_it() {
        let cluster = cluster([Node::new("open"), Node::new("closed").unschedulable()]);
        let all = passing(NodeUnschedulable, &cluster, &Pod::new());
        assert_eq!(all, ["open"]);
        let tolerant = Pod::new().toleration(Toleration::exists(TAINT));
        assert_eq!(passing(NodeUnschedulable, &cluster, &tolerant), ["closed", "open"]);
        let effect = Some(Effect::NoExecute);
        let other = Toleration { effect, ..Toleration::exists(TAINT) };
        assert_eq!(passing(NodeUnschedulable, &cluster, &Pod::new().toleration(other)), ["open"]);
        let any = Toleration { operator: TolerationOperator::Equal, ..Toleration::default() };
        let pod = Pod::new().toleration(any);
        assert_eq!(passing(NodeUnschedulable, &cluster, &pod), ["closed", "open"]);
    }
}
