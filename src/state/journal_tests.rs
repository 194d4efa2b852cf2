//! Tests of the journal's contract with its followers.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::cluster::Cluster;
use super::event::{Applied, Event};
use super::journal::{Change, Moment, NodeChange, REMEMBERED};
use super::view::{NodeView, PodView};
use crate::base::{ObjectName, Row};
use crate::model::{Amounts, Device, Effect, Node, Pod, Taint};

fn plain(name: &str) -> Node {
    Node::new(name).capacity("cpu", 4).capacity("pods", 9).label("a", "1").label("b", "2")
}

/// A change of a node.
type Edit = fn(Node) -> Node;

/// The kinds that the journal records for the last change of a node.
fn said_of(cluster: &Cluster, then: Moment) -> Vec<NodeChange> {
    let of_nodes = |change| match change {
        Change::Node { change, .. } => Some(change),
        _ => None,
    };
    cluster.journal.since(then).unwrap().filter_map(of_nodes).collect()
}

#[test]
fn a_node_that_comes_again_as_it_was_is_no_change() {
    let rich = plain("n").taint(Taint::new("t", "", Effect::NoSchedule)).unschedulable();
    let rich = rich.allocatable("gpu", 0).capacity("disk", 7).allocatable("disk", 5);
    let rich = rich.image("i", 5).device(Device::new("gpu", "a")).tie_rank(3).key(4);
    for node in [plain("n"), Node::new("n"), rich] {
        let mut cluster = Cluster::new();
        cluster.add_node(node.clone()).unwrap();
        let (then, spec) = (cluster.moment(), Arc::clone(&cluster.columns.spec));
        cluster.update_node(&node).unwrap();
        cluster.apply(Event::NodeChanged { node, version: 7 }).unwrap();
        assert_eq!(cluster.moment(), then);
        assert!(Arc::ptr_eq(&spec, &cluster.columns.spec));
        assert_eq!(cluster.columns.version(Row::new(0)), 7);
        let node = cluster.node("n").unwrap().to_node();
        let late = cluster.apply(Event::NodeChanged { node, version: 7 }).unwrap();
        assert_eq!(late, Applied::Stale);
    }
}

#[test]
fn each_kind_of_change_is_named_alone() {
    let key = |cluster: &Cluster, text| cluster.label_key(text).unwrap();
    let cases: Vec<(NodeChange, Edit)> = vec![
        (NodeChange::LABELS, |node| node.label("a", "3")),
        (NodeChange::TAINTS, |node| node.taint(Taint::new("t", "", Effect::NoSchedule))),
        (NodeChange::UNSCHEDULABLE, Node::unschedulable),
        (NodeChange::RESOURCES, |node| node.allocatable("cpu", 3)),
        (NodeChange::RESOURCES, |node| node.allocatable("pods", 8)),
        (NodeChange::RESOURCES, |node| node.allocatable("gpu", 0)),
        (NodeChange::RESOURCES, |node| node.capacity("gpu", 1)),
        (NodeChange::RESOURCES, |mut node| {
            node.allocatable = Amounts::new();
            node
        }),
        (NodeChange::DEVICES, |node| node.device(Device::new("gpu", "a"))),
        (NodeChange::IMAGES, |node| node.image("i", 5)),
        (NodeChange::TIE_RANK, |node| node.tie_rank(-1)),
        (NodeChange::KEY, |node| node.key(5)),
    ];
    for (kind, change) in cases {
        let mut cluster = Cluster::new();
        cluster.add_node(plain("n")).unwrap();
        cluster.add_node(plain("m")).unwrap();
        let (then, epoch) = (cluster.moment(), cluster.rank_epoch);
        cluster.update_node(&change(plain("n"))).unwrap();
        let said = said_of(&cluster, then);
        assert_eq!(said.len(), 1, "{kind:?}");
        if kind == NodeChange::LABELS {
            assert!(said[0].label(key(&cluster, "a")) && !said[0].label(key(&cluster, "b")));
        } else {
            assert_eq!(said[0], kind);
        }
        assert_eq!(cluster.rank_epoch, epoch);
        // And back.
        let then = cluster.moment();
        cluster.update_node(&plain("n")).unwrap();
        assert!(said_of(&cluster, then)[0].has(kind));
    }
    let mut cluster = Cluster::new();
    cluster.add_node(plain("n")).unwrap();
    let then = cluster.moment();
    let mut without = plain("n");
    without.labels.remove("b");
    cluster.update_node(&without).unwrap();
    cluster.update_node(&without.clone().label("new", "x")).unwrap();
    cluster.update_node(&plain("n").label("a", "7")).unwrap();
    let keys = ["a", "b", "new"].map(|text| key(&cluster, text));
    let said = said_of(&cluster, then).into_iter().map(|change| keys.map(|key| change.label(key)));
    // Gone alone; a key that had no number; several.
    assert_eq!(said.collect::<Vec<_>>(), [[false, true, false], [true; 3], [true; 3]]);
}

/// Keeps what is on each row by the journal alone: of nodes it reads what a change names.
#[derive(Default)]
struct Follower {
    seen: Moment,
    nodes: Vec<Option<Node>>,
    /// Requested CPU, whether it is deleted, and how many such pods, by row.
    pods: Vec<BTreeMap<(i64, bool), usize>>,
    behind: usize,
}

impl Follower {
    fn follow(&mut self, cluster: &Cluster) {
        self.nodes.resize(cluster.rows(), None);
        self.pods.resize(cluster.rows(), BTreeMap::new());
        match cluster.journal.since(self.seen) {
            None => {
                self.behind += 1;
                for row in Row::all(cluster.rows()) {
                    let view = cluster.view(row);
                    self.nodes[row] = view.map(NodeView::to_node);
                    self.pods[row] = pods(cluster, row);
                }
            }
            Some(changes) => changes.for_each(|change| self.take(cluster, change)),
        }
        self.seen = cluster.moment();
    }

    fn take(&mut self, cluster: &Cluster, change: Change) {
        match change {
            Change::Pods { row, shape, added, deleting } => {
                let shape = &cluster.shape_entry(shape).unwrap().shape;
                let pods = &mut self.pods[row as usize];
                let count = pods.entry((shape.requests.of("cpu"), deleting)).or_default();
                *count = if added { *count + 1 } else { *count - 1 };
                pods.retain(|_, count| *count > 0);
            }
            Change::Node { row, change } => {
                let row = Row::from(row);
                if change.has(NodeChange::REMOVED) {
                    assert!(self.nodes[row].take().is_some() && self.pods[row].is_empty());
                }
                let now = cluster.view(row).map(NodeView::to_node);
                if change.has(NodeChange::ADDED) {
                    assert!(self.nodes[row].is_none());
                    let name = now.as_ref().map_or("", |node| &node.name);
                    self.nodes[row] = Some(Node::new(name));
                }
                // It has gone since.
                let Some(now) = now else { return };
                let Some(own) = &mut self.nodes[row] else { return };
                for (key, value) in &now.labels {
                    if change.label(cluster.label_key(key).unwrap()) {
                        own.labels.insert(key.clone(), value.clone());
                    }
                }
                let is_gone = |key: &str| change.label(cluster.label_key(key).unwrap());
                own.labels.retain(|key, _| now.labels.contains_key(key) || !is_gone(key));
                if change.has(NodeChange::TAINTS) {
                    own.taints = now.taints;
                }
                if change.has(NodeChange::UNSCHEDULABLE) {
                    own.unschedulable = now.unschedulable;
                }
                if change.has(NodeChange::RESOURCES) {
                    (own.allocatable, own.capacity) = (now.allocatable, now.capacity);
                }
                if change.has(NodeChange::IMAGES) {
                    own.images = now.images;
                }
                if change.has(NodeChange::TIE_RANK) {
                    own.tie_rank = now.tie_rank;
                }
                if change.has(NodeChange::KEY) {
                    own.key = now.key;
                }
            }
            Change::Namespaces | Change::Claims | Change::Storage | Change::Parked => {}
        }
    }

    fn same(&self, cluster: &Cluster) {
        for row in Row::all(cluster.rows()) {
            let now = cluster.view(row).map(NodeView::to_node);
            assert_eq!(self.nodes[row], now);
            assert_eq!(self.pods[row], pods(cluster, row));
        }
    }
}

fn pods(cluster: &Cluster, row: Row) -> BTreeMap<(i64, bool), usize> {
    let mut pods = BTreeMap::new();
    for pod in cluster.view(row).into_iter().flat_map(NodeView::pods) {
        *pods.entry((pod.shape().requests.of("cpu"), pod.deleting())).or_default() += 1;
    }
    pods
}

/// The nodes and pods, also those that wait for their nodes.
fn contents(cluster: &Cluster) -> (Vec<Node>, BTreeMap<ObjectName, Pod>) {
    let pods = cluster.pods().map(PodView::to_pod).map(|pod| (pod.full_name(), pod));
    (cluster.nodes().map(NodeView::to_node).collect(), pods.collect())
}

/// One step: of nodes n0 to n5, and of pods p0 to p19.
fn step(cluster: &mut Cluster, (action, number, kind): (u8, u16, u16)) {
    let name = format!("n{}", number % 6);
    let mut node = Node::new(name.as_str()).capacity("cpu", 1 + i64::from(kind % 2));
    for bit in 0..4 {
        if kind >> bit & 1 == 1 {
            node = match bit {
                0 => node.label(format!("k{}", kind % 3), "x"),
                1 => node.tie_rank(i64::from(kind % 5)).label("both", format!("{kind}")),
                2 => node.taint(Taint::new("t", "", Effect::NoSchedule)).image("i", 1),
                _ => node.unschedulable().key(7),
            };
        }
    }
    let mut pod = Pod::new().name(format!("p{}", number % 20)).on(format!("n{}", kind % 7));
    pod = pod.request("cpu", 1 + i64::from(number));
    pod.deleting = kind.is_multiple_of(11);
    let pod_changed = Event::PodChanged { pod: pod.clone(), version: 0 };
    let _ = match action {
        0 => cluster.remove_node(&name),
        1..=3 => cluster.apply(Event::NodeChanged { node, version: 0 }).map(drop),
        4..=7 => cluster.apply(pod_changed).map(drop),
        8 => cluster.remove_pod("default", &pod.name),
        _ => {
            let mut txn = cluster.txn();
            let before = txn.checkpoint();
            if let Some(on) = txn.node(&name).map(NodeView::id) {
                txn.place(&pod, on).unwrap();
            }
            let _ = txn.evict("default", &pod.name);
            if kind.is_multiple_of(2) {
                txn.rollback(before).unwrap();
            }
            *cluster = txn.into_cluster();
            Ok(())
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_journal_says_all_there_is_to_follow(
        steps in prop::collection::vec((0_u8..10, any::<u16>(), any::<u16>()), 1..200),
        pause in 1_usize..20,
    ) {
        let mut cluster = Cluster::new();
        let mut follower = Follower { seen: cluster.moment(), ..Follower::default() };
        let forks = steps.iter().filter(|(action, ..)| *action == 9).count();
        for (at, action) in steps.into_iter().enumerate() {
            let before = (cluster.moment(), contents(&cluster));
            step(&mut cluster, action);
            prop_assert!(cluster.moment() != before.0 || contents(&cluster) == before.1);
            if at.is_multiple_of(pause) {
                follower.follow(&cluster);
                follower.same(&cluster);
            }
        }
        // A history that branched off twice since is not known.
        prop_assert!(follower.behind <= forks / 2);
    }
}

#[test]
fn shapes_are_known_as_long_as_the_journal_names_them_and_no_longer() {
    let mut cluster = Cluster::new();
    cluster.add_node(plain("n")).unwrap();
    let mut follower = Follower::default();
    follower.follow(&cluster);
    for at in 0..12_000_u32 {
        // A shape of its own for each, but every third comes back.
        let number = if at.is_multiple_of(3) { at % 7 } else { at };
        let pod = Pod::new().name(format!("p{at}")).request("cpu", number).on("n");
        cluster.add_pod(pod).unwrap();
        cluster.remove_pod("default", &format!("p{at}")).unwrap();
        if at.is_multiple_of(1_500) {
            follower.follow(&cluster);
            follower.same(&cluster);
        }
    }
    assert_eq!(follower.behind, 1, "the first time alone");
    assert_eq!(cluster.shapes().count(), 0);
    assert!(cluster.shapes.most_ids() <= REMEMBERED, "{}", cluster.shapes.most_ids());
    // A refused change is not remembered.
    for at in 0..2 * REMEMBERED {
        let pod = Pod::new().name("p").request("cpu", 20_000 + at as i64).on("n");
        let mut pod = pod.request("m", i64::MAX);
        pod.device_indexes = vec![vec![1]];
        cluster.add_pod(pod).unwrap_err();
    }
    assert!(cluster.shapes.most_ids() <= REMEMBERED, "{}", cluster.shapes.most_ids());
}

#[test]
fn ranks_in_between_leave_the_others() {
    let mut cluster = Cluster::new();
    for number in [5, 1, 9, 3, 7] {
        cluster.add_node(Node::new(format!("n{number}"))).unwrap();
    }
    assert_eq!(cluster.rank_epoch, 0);
    // Halves of what is left between two nodes, until nothing is.
    let mut name = alloc::string::String::from("n3");
    for count in 1..40 {
        let before: Vec<u32> = (0..cluster.rows()).map(|row| cluster.columns.rank[row]).collect();
        name.push('0');
        let epoch = cluster.rank_epoch;
        cluster.add_node(Node::new(name.as_str())).unwrap();
        let same = (0..before.len()).all(|row| cluster.columns.rank[row] == before[row]);
        assert_eq!(same, cluster.rank_epoch == epoch, "{count}");
    }
    assert!(cluster.rank_epoch > 0);
}

#[test]
fn a_large_cluster_remembers_more() {
    let mut cluster = Cluster::new();
    let label_nodes = |cluster: &mut Cluster, changes: usize| {
        let then = cluster.moment();
        for at in 0..changes {
            let node = Node::new("n0").label("at", format!("{at}"));
            cluster.update_node(&node).unwrap();
        }
        cluster.journal.since(then).map(Iterator::count)
    };
    cluster.add_node(Node::new("n0")).unwrap();
    assert_eq!(label_nodes(&mut cluster, REMEMBERED), Some(REMEMBERED));
    assert_eq!(label_nodes(&mut cluster, REMEMBERED + 1), None);
    for at in 1..33 * REMEMBERED {
        cluster.add_node(Node::new(format!("n{at:06}"))).unwrap();
    }
    assert_eq!(label_nodes(&mut cluster, REMEMBERED + 100), Some(REMEMBERED + 100));
}
