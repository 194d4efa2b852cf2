//! Nodes and pods of `scheduler_perf`: its templates, as this crate's objects.

use phalanx::model::{
    Effect, LabelSelector, NodeAffinity, NodeInclusion, NodeSelectorTerm, Operator,
    PodAffinityTerm, Requirement, SpreadConstraint, Taint, WeightedPodAffinityTerm,
};
use phalanx::{Node, Pod};

use crate::scene::{HOSTNAME, ZONE};

pub(super) const RACK: &str = "topology.kubernetes.io/rack";

/// A kind of node; the argument is its number.
pub(super) type NodeKind = fn(usize) -> Node;
/// A kind of pod; the argument is its number.
pub(super) type PodKind = fn(usize) -> Pod;

fn node(index: usize) -> Node {
    let name = format!("node-{index:06}");
    let node = Node::new(&name).capacity("cpu", 4).capacity("memory", "32Gi");
    node.capacity("pods", 110).label(HOSTNAME, name)
}

pub(super) fn plain(index: usize) -> Node {
    node(index)
}

pub(super) fn one_zone(index: usize) -> Node {
    node(index).label(ZONE, "zone1")
}

pub(super) fn moons(index: usize) -> Node {
    node(index).label(ZONE, format!("moon-{}", index % 3 + 1))
}

pub(super) fn racked(index: usize) -> Node {
    node(index).label(ZONE, format!("z{}", index / 1_000)).label(RACK, format!("r{}", index / 100))
}

/// The first node alone may have the pods, and as many as there are.
pub(super) fn named(index: usize) -> Node {
    if index > 0 {
        return node(index);
    }
    let node = Node::new("scheduler-perf-node").label(HOSTNAME, "scheduler-perf-node");
    node.capacity("cpu", 4_000).capacity("memory", "32Ti").capacity("pods", 90_000)
}

/// One node in five has a taint.
pub(super) fn some_tainted(index: usize) -> Node {
    let taint = Taint::new("foo", "", Effect::NoSchedule);
    if index.is_multiple_of(5) { node(index).taint(taint) } else { node(index) }
}

pub(super) fn own_resource(index: usize) -> Node {
    node(index).capacity(&format!("foo.com/bar-{index}"), 1)
}

pub(super) fn default_pod(_: usize) -> Pod {
    Pod::new().request("cpu", "100m").request("memory", "500Mi")
}

pub(super) fn light(_: usize) -> Pod {
    Pod::new()
}

pub(super) fn small(_: usize) -> Pod {
    Pod::new().request("cpu", "100m").request("memory", "100Mi")
}

/// Fits no node.
pub(super) fn huge(_: usize) -> Pod {
    Pod::new().request("cpu", 9).request("memory", "500Mi").priority(10)
}

pub(super) fn extended(index: usize) -> Pod {
    Pod::new().request(&format!("foo.com/bar-{index}"), 1)
}

pub(super) fn daemon(_: usize) -> Pod {
    let field = Requirement::new("metadata.name", Operator::In, ["scheduler-perf-node"]);
    Pod::new().node_affinity(NodeAffinity::new().require(NodeSelectorTerm::default().field(field)))
}

pub(super) fn on_zone(index: usize) -> Pod {
    let zones = Requirement::new(ZONE, Operator::In, ["zone1", "zone2"]);
    let term = NodeSelectorTerm::labels([zones]);
    default_pod(index).node_affinity(NodeAffinity::new().require(term))
}

fn term(colour: &str, key: &str) -> PodAffinityTerm {
    let term = PodAffinityTerm::new(key, LabelSelector::label("color", colour));
    term.namespace("sched-0").namespace("sched-1")
}

fn coloured(colour: &str) -> Pod {
    default_pod(0).label("color", colour)
}

pub(super) fn green(_: usize) -> Pod {
    coloured("green")
}

pub(super) fn anti(_: usize) -> Pod {
    coloured("green").anti_affinity(term("green", HOSTNAME))
}

pub(super) fn affine(_: usize) -> Pod {
    coloured("blue").affinity(term("blue", ZONE))
}

pub(super) fn wish(_: usize) -> Pod {
    let mut pod = coloured("red");
    let wish = WeightedPodAffinityTerm::new(1, term("red", HOSTNAME));
    pod.shape_mut().preferred_pod_affinity.push(wish);
    pod
}

pub(super) fn anti_wish(_: usize) -> Pod {
    let mut pod = coloured("yellow");
    let wish = WeightedPodAffinityTerm::new(1, term("yellow", HOSTNAME));
    pod.shape_mut().preferred_pod_anti_affinity.push(wish);
    pod
}

/// The four kinds of affinity and plain pods, in turn by lots of the same size.
pub(super) fn mixed(index: usize) -> Pod {
    [default_pod, affine, anti, wish, anti_wish][index % 5](index)
}

fn spread_by(skew: i32) -> SpreadConstraint {
    SpreadConstraint::new(skew, ZONE, LabelSelector::label("color", "blue"))
}

pub(super) fn spread(_: usize) -> Pod {
    coloured("blue").spread(spread_by(5))
}

pub(super) fn spread_wish(_: usize) -> Pod {
    coloured("blue").spread(spread_by(5).preferred())
}

/// A pod of a service, so that the constraints of the profile apply.
pub(super) fn served(_: usize) -> Pod {
    let mut pod = Pod::new().label("app", "scheduler-perf");
    pod.shape_mut().owner_selector = Some(LabelSelector::label("app", "scheduler-perf"));
    pod
}

/// One a node; tainted nodes do not count.
pub(super) fn inclusion(index: usize) -> Pod {
    let honour = NodeInclusion::Honor;
    let own = SpreadConstraint::new(1, HOSTNAME, LabelSelector::label("foo", "bar"));
    let own = own.node_affinity_policy(honour).node_taints_policy(honour);
    default_pod(index).label("foo", "bar").spread(own)
}

pub(super) fn low(_: usize) -> Pod {
    Pod::new().request("cpu", "900m").request("memory", "500Mi")
}

pub(super) fn high(_: usize) -> Pod {
    Pod::new().request("cpu", "3970m").request("memory", "500Mi").priority(10_000)
}

/// Ten lie on each node, by their ports; each of a priority of its own.
pub(super) fn low_by_port(index: usize) -> Pod {
    let pod = Pod::new().request("cpu", "40m").request("memory", "100Mi");
    pod.host_port("TCP", 8_000 + (index % 10) as u16).priority(index as i32)
}

pub(super) fn whole_node(_: usize) -> Pod {
    Pod::new().request("cpu", "3970m").request("memory", "100Mi")
}

pub(super) fn whole_node_spread(index: usize) -> Pod {
    whole_node(index).label("color", "blue").spread(spread_by(5))
}

pub(super) fn most_of_a_node(_: usize) -> Pod {
    Pod::new().request("cpu", "3500m").request("memory", "100Mi")
}

pub(super) fn sixth_of_a_node(_: usize) -> Pod {
    Pod::new().request("cpu", "600m").request("memory", "100Mi")
}
