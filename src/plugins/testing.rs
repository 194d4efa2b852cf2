//! Test helpers: one plugin evaluated on every node of a small cluster.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::Time;
use crate::framework::{Evaluation, FilterPlugin, Framework, ScorePlugin};
use crate::model::{Node, Pod};
use crate::state::{Cluster, NodeView, Row};

pub(super) fn cluster<const N: usize>(nodes: [Node; N]) -> Cluster {
    let mut cluster = Cluster::new();
    for node in nodes {
        cluster.add_node(node).unwrap();
    }
    cluster
}

/// The names of the nodes that a filter lets a pod on, in order.
pub(super) fn passing(
    filter: impl FilterPlugin + 'static,
    cluster: &Cluster,
    pod: &Pod,
) -> Vec<String> {
    let framework = Framework::builder().filter(filter).without_room_filter().build().unwrap();
    let evaluation = Evaluation::new(&framework, cluster, pod.shape(), None, Time::ZERO);
    let passing = cluster.nodes().filter(|node| evaluation.filter(*node).is_ok());
    passing.map(|node| node.name().to_string()).collect()
}

/// Whether a filter refuses a pod outright.
pub(super) fn refused(filter: impl FilterPlugin + 'static, cluster: &Cluster, pod: &Pod) -> bool {
    let framework = Framework::builder().filter(filter).without_room_filter().build().unwrap();
    Evaluation::new(&framework, cluster, pod.shape(), None, Time::ZERO).refused().is_some()
}

/// The normalised scores of all nodes, in order; zeros if the plugin skipped itself.
pub(super) fn scores(score: impl ScorePlugin + 'static, cluster: &Cluster, pod: &Pod) -> Vec<i64> {
    let framework = Framework::builder().score(1, score).without_room_filter().build().unwrap();
    let rows: Vec<Row> = cluster.nodes().map(NodeView::row).collect();
    let mut evaluation = Evaluation::new(&framework, cluster, pod.shape(), None, Time::ZERO);
    evaluation.totals(&rows)
}
