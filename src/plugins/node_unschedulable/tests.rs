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
