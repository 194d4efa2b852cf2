//! A cluster and pods that plugins are checked on.

use phalanx::Cluster;
use phalanx::framework::{FilterPlugin, ScorePlugin};
use phalanx::laws::{LawError, check_filter, check_score};
use phalanx::model::{Node, Pod, PodShape};

/// Six nodes in three zones, some of them in use.
pub(super) fn cluster() -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone"]).build().unwrap();
    for (index, zone) in ["a", "a", "b", "b", "c", "c"].into_iter().enumerate() {
        let node = Node::new(format!("n{index}"))
            .capacity("cpu", 4)
            .capacity("memory", "8Gi")
            .capacity("pods", 3)
            .label("zone", zone);
        cluster.add_node(node).unwrap();
    }
    for (name, node) in [("old-1", "n1"), ("old-2", "n1"), ("old-3", "n4")] {
        let pod = Pod::new().name(name).request("cpu", 1).label("app", "web").on(node);
        cluster.add_pod(pod).unwrap();
    }
    cluster
}

pub(super) fn shapes() -> Vec<PodShape> {
    let pods = [
        Pod::new(),
        Pod::new().request("cpu", 1).label("app", "web"),
        Pod::new().request("cpu", 3).request("memory", "1Gi").label("app", "batch"),
    ];
    pods.iter().map(|pod| (**pod.shape()).clone()).collect()
}

pub(super) fn filter_breaks(filter: impl FilterPlugin + 'static) -> LawError {
    check_filter(filter, &cluster(), &shapes()).expect_err("a liar")
}

pub(super) fn score_breaks(score: impl ScorePlugin + 'static) -> LawError {
    check_score(score, &cluster(), &shapes()).expect_err("a liar")
}
