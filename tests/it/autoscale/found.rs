//! Faults that random worlds found from outside, each by its smallest case.

use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleDownRequest, ScaleUpRequest};
use phalanx::model::Toleration;
use phalanx::preempt::RunningWork;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang};

/// Nodes counted for pods that are needed for certain alone, and a rack had nothing for the others.
#[test]
fn a_rack_has_room_for_parts_of_which_one_may_stay_out() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    cluster.add_node(Node::new("old").capacity("cpu", 8).label("rack", "r")).unwrap();
    let framework = Framework::default();
    let part = |name: &str| PodGroup::of(name, 1, Pod::new().request("cpu", 1));
    let either = |name: &str| PodGroup::gang(name, 1).group(part("a")).group(part("b"));
    for gang in
        [either("g").require("rack"), PodGroup::gang("g", 1).group(either("m")).require("rack")]
    {
        assert!(place_gang(&cluster, &framework, &gang).unwrap().is_placed());
        let up = |request| Autoscaler::new().scale_up(&cluster, &framework, request).unwrap();
        assert!(up(ScaleUpRequest::new([&gang])).start().is_some());
        let template = NodeTemplate::new(Node::new("t").capacity("cpu", 8), 10).own_domain("rack");
        let answer = up(ScaleUpRequest::new([&gang]).template(template));
        let start = answer.start().unwrap();
        assert_eq!((start.price, start.lower_bound), (0, 0));
    }
}

/// The pod was laid out anew where it was, and its node counted as empty.
#[test]
fn a_pod_that_tolerates_closed_nodes_leaves_one_that_goes() {
    for (room, closed, moves) in [(0, false, None), (8, false, Some("n1")), (8, true, Some("n1"))] {
        let mut cluster = Cluster::new();
        cluster.add_node(Node::new("n0").capacity("cpu", 8)).unwrap();
        // A pod that tolerates it may go to a node that somebody else has closed.
        let other = Node::new("n1").capacity("cpu", room);
        cluster.add_node(if closed { other.unschedulable() } else { other }).unwrap();
        let tolerates = Toleration::exists("node.kubernetes.io/unschedulable");
        let pod = Pod::new().name("p").request("cpu", 4).toleration(tolerates).on("n0");
        cluster.add_pod(pod).unwrap();
        let request = ScaleDownRequest::new().candidates([("n0", 1)]);
        let down = Autoscaler::new()
            .scale_down(&cluster, &Framework::kubernetes(), &RunningWork::new(), request)
            .unwrap();
        let to = down.removals.iter().flat_map(|own| &own.moves).map(|step| &*step.to);
        assert_eq!(to.collect::<Vec<_>>(), Vec::from_iter(moves));
        assert_eq!(down.removals.len(), usize::from(moves.is_some()));
    }
}
