//! Tests: lists of pods by shape are those of the cluster.

use alloc::collections::BTreeMap;

use super::*;
use crate::model::{Node, Pod};
use crate::state::Cluster;
use crate::state::journal::Change;

/// The pods of each shape in order, by the lists or by a pass.
fn listed(placed: &PlacedPods, cluster: &Cluster) -> BTreeMap<ShapeId, Vec<(Row, bool)>> {
    let of = |(shape, _, _)| {
        let mut pods: Vec<(Row, bool)> = placed.of(shape).collect();
        pods.sort_unstable();
        (shape, pods)
    };
    cluster.shapes().map(of).collect()
}

fn passed(cluster: &Cluster) -> BTreeMap<ShapeId, Vec<(Row, bool)>> {
    let mut pods: BTreeMap<_, Vec<_>> =
        cluster.shapes().map(|(shape, _, _)| (shape, Vec::new())).collect();
    for (shape, row, deleting) in cluster.placed() {
        pods.entry(shape).or_default().push((row, deleting));
    }
    for pods in pods.values_mut() {
        pods.sort_unstable();
    }
    pods
}

#[test]
fn lists_follow_the_cluster() {
    let mut cluster = Cluster::new();
    for node in ["a", "b"] {
        cluster.add_node(Node::new(node)).unwrap();
    }
    let mut placed = PlacedPods::default();
    for number in 0..60_u64 {
        let name = std::format!("p{number}");
        let mut pod = Pod::new().label("app", std::format!("{}", number % 3)).name(name);
        pod.deleting = number % 5 == 0;
        cluster.add_pod(pod.on(if number % 2 == 0 { "a" } else { "b" })).unwrap();
    }
    placed.ask(|| cluster.placed());
    assert!(!placed.are_made(), "a single count is a pass");
    placed.ask(|| cluster.placed());
    assert_eq!(listed(&placed, &cluster), passed(&cluster));
    for number in 0..60 {
        let moment = cluster.moment();
        cluster.remove_pod("default", &std::format!("p{}", number * 7 % 60)).unwrap();
        let again = Pod::new().label("app", "1").name(std::format!("q{number}")).on("b");
        cluster.add_pod(again).unwrap();
        for change in cluster.journal.since(moment).unwrap() {
            if let Change::Pods { row, shape, added, deleting } = change {
                placed.change(shape, Row::from(row), deleting, added);
            }
        }
        assert_eq!(listed(&placed, &cluster), passed(&cluster));
    }
}

#[test]
fn a_shape_with_too_many_pods_has_no_list() {
    let mut placed = PlacedPods { state: State::Made, ..PlacedPods::default() };
    for pods in 0..=MOST {
        assert_eq!(placed.are_made(), pods <= MOST);
        placed.change(ShapeId(0), Row::new(pods), false, true);
    }
    assert!(!placed.are_made());
    placed.ask(core::iter::empty::<(ShapeId, Row, bool)>);
    assert!(!placed.are_made());
}
