use super::super::testing::{cluster, scores};
use super::*;
use crate::model::{Node, Pod};

const GPU: &str = "nvidia.com/gpu";

#[test]
fn empty_and_full_are_opposites() {
    let mut cluster = cluster([
        Node::new("a").capacity("cpu", 10).capacity("memory", 1000),
        Node::new("b").capacity("cpu", 4).capacity("memory", 1000),
        Node::new("c").capacity("cpu", 4),
        Node::new("d"),
    ]);
    let bound = Pod::new().name("p").request("cpu", 3).request("memory", 100).on("b");
    cluster.add_pod(bound).unwrap();
    let pod = Pod::new().request("cpu", 2).request("memory", 500);
    let weights = [("cpu", 3), ("memory", 1)];
    // a: cpu 80, memory 50; b: cpu 0 (over), memory 40; c: cpu 50.
    assert_eq!(scores(LeastAllocated::of(weights), &cluster, &pod), [72, 10, 50, 0]);
    // a: cpu 20, memory 50; b: cpu 100 (held), memory 60; c: cpu 50.
    assert_eq!(scores(MostAllocated::of(weights), &cluster, &pod), [27, 90, 50, 0]);
}

#[test]
fn the_curve_counts_only_what_scores() {
    let cluster = cluster([
        Node::new("a").capacity("cpu", 10).capacity(GPU, 8),
        Node::new("b").capacity("cpu", 1).capacity(GPU, 3),
        Node::new("c").capacity("cpu", 10),
    ]);
    let curve = || Utilization::new([(0, 0), (100, 10)]).unwrap();
    let weights = [("cpu", 1), (GPU, 2)];
    let score = RequestedToCapacityRatio::of(curve(), weights);
    let pod = Pod::new().request("cpu", 5).request(GPU, 1);
    // a: (50 + 2·12) / 3 = 24.67; b: (100 + 2·33) / 3 = 55.33; c: 50.
    assert_eq!(scores(score.clone(), &cluster, &pod), [25, 55, 50]);
    let pod = Pod::new().request("cpu", 0).request("memory", 0).request(GPU, 1);
    assert_eq!(scores(score, &cluster, &pod), [12, 33, 0]);
}

#[test]
fn a_device_that_is_not_requested_is_left_out_and_disk_is_not() {
    let cluster = cluster([Node::new("a")
        .capacity("cpu", 10)
        .capacity(GPU, 8)
        .capacity(EPHEMERAL_STORAGE, 100)]);
    let pod = Pod::new().request("cpu", 5);
    assert_eq!(scores(LeastAllocated::of([("cpu", 1), (GPU, 9)]), &cluster, &pod), [50]);
    let with_disk = LeastAllocated::of([("cpu", 1), (EPHEMERAL_STORAGE, 1)]);
    assert_eq!(scores(with_disk, &cluster, &pod), [75]);
    // Defaults: 100m and 200 MiB for a container that asks for nothing.
    assert_eq!(scores(LeastAllocated::of([("cpu", 1)]), &cluster, &Pod::new()), [99]);
}

#[test]
fn huge_amounts_are_exact() {
    let cluster = cluster([Node::new("a").capacity("x", i64::MAX).capacity("memory", "8Ei")]);
    let pod = Pod::new().request("x", i64::MAX / 4 * 3).request("memory", "4Ei");
    assert_eq!(scores(MostAllocated::of([("x", 1)]), &cluster, &pod), [74]);
    let even = LeastAllocated::of([("x", 1), ("memory", u32::MAX)]);
    assert_eq!(scores(even, &cluster, &pod), [48]);
}

#[test]
fn blocks_are_scored_as_nodes_are() {
    let mut cluster = Cluster::new();
    for i in 0..300_i64 {
        let node = Node::new(std::format!("n{i:03}")).capacity("cpu", i % 7);
        cluster.add_node(node.capacity("memory", i * 1000).capacity(GPU, i % 3)).unwrap();
        let bound = Pod::new().name(std::format!("p{i}")).request("cpu", i % 4);
        cluster.add_pod(bound.request(GPU, i % 11).on(std::format!("n{i:03}"))).unwrap();
    }
    let pod = Pod::new().request("cpu", 1).request("memory", 50_000).request(GPU, 1);
    let weights = [("cpu", 1), ("memory", 2), (GPU, 20)];
    let curve = Utilization::new([(10, 10), (60, 0), (90, 7)]).unwrap();
    for score in [
        LeastAllocated::of(weights),
        MostAllocated::of(weights),
        RequestedToCapacityRatio::of(curve, weights),
    ] {
        let cx = Context::new(&cluster, pod.shape());
        let ScorePreparation::Ready(score) = Arc::new(score).prepare(&cx) else { panic!() };
        for block in Block::all(&cluster) {
            let mut out = alloc::vec![7; block.len()];
            score.score_block(&cx, &block, &mut out);
            for (at, out) in out.iter().enumerate() {
                assert_eq!(*out, score.score(&cx, block.node(at).unwrap()));
            }
        }
    }
}
