//! Random worlds, and what must hold of any cluster.

use std::collections::BTreeMap;
use std::fmt::Write;

use phalanx::model::{Amounts, Effect, Taint};
use phalanx::state::PodView;
use phalanx::{Cluster, Node, Pod, PodGroup};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::support::budget;

/// So many cases in a soak, an eighth otherwise; failures are not written to files.
pub(crate) fn cases(full: u32) -> Config {
    let cases = budget::part(full.into()) as u32;
    Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() }
}

/// The state as canonical bytes.
pub(crate) fn bytes(cluster: &Cluster) -> String {
    serde_json::to_string(cluster).expect("a cluster serialises")
}

/// Everything a reader can see of a cluster beside the objects themselves: what is counted,
/// summed, indexed and linked.
pub(crate) fn derived(cluster: &Cluster) -> String {
    let mut text = String::new();
    let resources: Vec<&str> =
        ["cpu", "memory", "gpu"].into_iter().filter(|r| cluster.resource(r).is_some()).collect();
    for node in cluster.nodes() {
        let mut pods: Vec<String> =
            node.pods().map(|pod| format!("{}/{}", pod.namespace(), pod.name())).collect();
        pods.sort();
        let sums: Vec<(&str, i64, i64)> = resources
            .iter()
            .map(|name| (*name, cluster.resource(name).expect("it is known")))
            .map(|(name, id)| (name, node.allocatable(id), node.used(id)))
            .filter(|(_, allocatable, used)| (*allocatable, *used) != (0, 0))
            .collect();
        writeln!(
            text,
            "{} {:?} {} of {} {:?} {pods:?}",
            node.name(),
            sums,
            node.pod_count(),
            node.pod_limit(),
            node.scored_used(),
        )
        .expect("text grows");
    }
    let mut shapes: Vec<String> = cluster
        .shapes()
        .map(|(_, shape, uses)| format!("{uses} {:?} {:?}", shape.requests, shape.labels))
        .collect();
    shapes.sort();
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for group in cluster.pods().filter_map(PodView::group) {
        let mut members: Vec<String> =
            cluster.group_pods(group).map(|pod| pod.name().to_owned()).collect();
        members.sort();
        groups.insert(group, members);
    }
    write!(
        text,
        "{} nodes, {} pods, {} tainted, {} unschedulable, affinity {}, image on {}\n{shapes:#?}\n{groups:?}",
        cluster.node_count(),
        cluster.pod_count(),
        cluster.tainted_nodes(),
        cluster.unschedulable_nodes(),
        cluster.has_affinity_pods(),
        cluster.nodes_with_image("image"),
    )
    .expect("text grows");
    text
}

/// Whether what a cluster keeps beside its objects is what those objects say: a cluster made anew
/// from the same objects looks the same.
pub(crate) fn assert_consistent(cluster: &Cluster) {
    let text = bytes(cluster);
    let anew: Cluster = serde_json::from_str(&text).expect("canonical text loads");
    assert_eq!(bytes(&anew), text);
    assert_eq!(derived(&anew), derived(cluster));
}

/// Requests of the pods of each node, added up from the objects alone.
pub(crate) fn requested(cluster: &Cluster) -> BTreeMap<String, BTreeMap<String, i64>> {
    let mut sums: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for pod in cluster.pods() {
        let Some(node) = pod.node() else { continue };
        let of_node = sums.entry(node.name().to_owned()).or_default();
        *of_node.entry("pods".into()).or_default() += 1;
        for (resource, amount) in pod.shape().requests.iter() {
            *of_node.entry(resource.into()).or_default() += amount;
        }
    }
    sums
}

/// Fails if the pods of a node request more than it has.
pub(crate) fn assert_within_capacity(cluster: &Cluster) {
    for (node, sums) in requested(cluster) {
        let allocatable: Amounts = cluster.node(&node).expect("it runs pods").to_node().allocatable;
        for (resource, amount) in sums {
            let unlimited = resource == "pods" && !allocatable.lists("pods");
            assert!(
                unlimited || amount <= allocatable.of(&resource),
                "{node}: {amount} of {resource} taken, {} there",
                allocatable.of(&resource),
            );
        }
    }
}

/// A node of the small world: `n0` to `n7`, in one of two zones and four racks.
pub(crate) fn node(index: usize) -> impl Strategy<Value = Node> {
    (0..=8_i64, 0..=8_i64, 0..=4_i64, option_of(0..=5_i64), 0..12_u8, 0..3_i64).prop_map(
        move |(cpu, memory, gpu, pods, odd, rank)| {
            let mut node = Node::new(format!("n{index}"))
                .capacity("cpu", cpu)
                .capacity("memory", memory)
                .capacity("gpu", gpu)
                .tie_rank(rank);
            if let Some(pods) = pods {
                node = node.capacity("pods", pods);
            }
            if odd != 0 {
                node = node
                    .label("zone", ["a", "b"][index % 2])
                    .label("rack", ["a0", "b0", "a1", "b1"][index % 4]);
            }
            match odd {
                1 => node.taint(Taint::new("k", "v", Effect::NoSchedule)),
                2 => node.unschedulable(),
                3 => node.image("image", 1_000),
                _ => node,
            }
        },
    )
}

/// A pod without a name that asks for at least one CPU.
pub(crate) fn pod() -> impl Strategy<Value = Pod> {
    (1..=4_i64, 0..=3_i64, 0..=2_i64, 0..4_u8).prop_map(|(cpu, memory, gpu, label)| {
        let mut pod = Pod::new().request("cpu", cpu);
        if memory > 0 {
            pod = pod.request("memory", memory);
        }
        if gpu > 0 {
            pod = pod.request("gpu", gpu);
        }
        match label {
            0 => pod.label("app", "web"),
            1 => pod.priority(7).in_group("old"),
            _ => pod,
        }
    })
}

/// A gang of one or two kinds of pods, some bound to a domain, some of two gangs.
pub(crate) fn gang(name: &'static str) -> impl Strategy<Value = PodGroup> {
    let leaf = |name: String| {
        (1..=6_usize, pod(), option_of((1..=3_usize, pod())), 0..6_u8, 0..4_usize).prop_map(
            move |(count, pod, more, topology, slack)| {
                let mut group = PodGroup::gang(name.clone(), 1).pods(count, pod);
                if let Some((count, pod)) = more {
                    group = group.pods(count, pod);
                }
                let members = group.pods.len();
                let minimum = members.saturating_sub(slack).max(1);
                let mut bounded = PodGroup::gang(name.clone(), minimum as u32);
                bounded.pods = group.pods;
                // Members name their own group, or none.
                bounded.pods.iter_mut().for_each(|pod| pod.group = None);
                match topology {
                    0 => bounded.require("zone"),
                    1 => bounded.require("rack"),
                    2 => bounded.prefer("rack"),
                    _ => bounded,
                }
            },
        )
    };
    let tree = (leaf(format!("{name}-x")), leaf(format!("{name}-y")), 1..=2_u32, any::<bool>())
        .prop_map(move |(x, y, minimum, required)| {
            let tree = PodGroup::gang(name, minimum).group(x).group(y);
            if required { tree.require("zone") } else { tree }
        });
    prop_oneof![3 => leaf(name.to_owned()), 1 => tree]
}

/// Eight nodes or fewer, with pods that run within what the nodes have.
pub(crate) fn world() -> impl Strategy<Value = Cluster> {
    let nodes = (1..=8_usize).prop_flat_map(|count| (0..count).map(node).collect::<Vec<_>>());
    (nodes, vec((pod(), 0..8_usize), 0..6)).prop_map(|(nodes, pods)| {
        let mut cluster = empty();
        let count = nodes.len();
        for node in nodes {
            cluster.add_node(node).expect("names differ");
        }
        for (index, (pod, node)) in pods.into_iter().enumerate() {
            let node = format!("n{}", node % count);
            if has_room(&cluster, &node, &pod) {
                cluster.add_pod(pod.name(format!("old-{index}")).on(node)).expect("names differ");
            }
        }
        cluster
    })
}

/// No nodes yet, zones and racks.
pub(crate) fn empty() -> Cluster {
    Cluster::builder().levels(["zone", "rack"]).build().expect("levels differ")
}

/// Whether a node has room for a pod, by its objects alone.
pub(crate) fn has_room(cluster: &Cluster, node: &str, pod: &Pod) -> bool {
    let Some(view) = cluster.node(node) else { return false };
    let allocatable = view.to_node().allocatable;
    let taken = requested(cluster).remove(node).unwrap_or_default();
    let fits = |resource: &str, amount: i64| {
        taken.get(resource).copied().unwrap_or(0) + amount <= allocatable.of(resource)
    };
    pod.shape().requests.iter().all(|(resource, amount)| fits(resource, amount))
        && (!allocatable.lists("pods") || fits("pods", 1))
}

/// Some value, or none.
pub(crate) fn option_of<S: Strategy>(some: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    proptest::option::of(some)
}
