use super::*;
use crate::model::{Node, Pod};

const GPU: &str = "example.com/gpu";

fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    for i in 0..700_i64 {
        let node = Node::new(std::format!("n{i:03}")).capacity("cpu", i % 9);
        cluster.add_node(node.capacity("pods", 5 + i % 3)).unwrap();
        for pod in 0..i % 3 {
            let name = std::format!("p{i}-{pod}");
            let pod = Pod::new().name(name).request("cpu", 1).request(GPU, i % 4);
            cluster.add_pod(pod.on(std::format!("n{i:03}"))).unwrap();
        }
    }
    cluster
}

/// Holds columns to what single nodes say, with so many pods more by place.
fn hold(block: Block<'_>, cluster: &Cluster, takes: &Takes, more: impl Fn(usize) -> i64) {
    let (cpu, gpu) = (cluster.resource("cpu").unwrap(), cluster.resource(GPU).unwrap());
    let each = |resource: ResourceId| {
        takes.requests.iter().find(|(own, _)| *own == resource).map_or(0, |(_, each)| *each)
    };
    for (at, row) in block.rows().enumerate() {
        let (node, more) = (cluster.view(row).unwrap(), more(at));
        let seen = block.node(at).unwrap();
        assert_eq!(block.pod_limit()[at], node.pod_limit());
        assert_eq!(block.pod_count()[at], node.pod_count() + more);
        assert_eq!(block.pod_count()[at], seen.pod_count());
        assert_eq!([block.scored_cpu()[at], block.scored_memory()[at]], seen.scored_used());
        assert_eq!(block.rank()[at], cluster.columns.rank[row]);
        for resource in [cpu, gpu] {
            assert_eq!(block.allocatable(resource)[at], node.allocatable(resource));
            assert_eq!(block.used(resource)[at], node.used(resource) + more * each(resource));
            assert_eq!(block.used(resource)[at], seen.used(resource));
        }
    }
}

#[test]
fn gathered_rows_are_as_they_would_be() {
    let cluster = cluster();
    let pod = Pod::new().request("cpu", 2).request(GPU, 3);
    let takes = Takes::of(pod.shape(), &cluster);
    let mut gathered = Gathered::default();
    let scattered: Vec<u32> = (0..200).map(|i| i * 7 % 700).collect();
    let straight: Vec<u32> = (250..290).collect();
    for rows in [&scattered, &straight] {
        gathered.ahead(&cluster, &takes, rows.iter().copied(), 2..3);
        hold(Block::gathered(&cluster, &gathered, None), &cluster, &takes, |_| 2);
        assert!(gathered.are(rows.iter().copied()));
        gathered.advance(5);
        hold(Block::gathered(&cluster, &gathered, None), &cluster, &takes, |_| 5);
        let few = rows.iter().copied().take(50);
        gathered.ahead(&cluster, &takes, few, 1..4);
        let turns = |at: usize| 1 + at as i64 % 3;
        hold(Block::gathered(&cluster, &gathered, None), &cluster, &takes, turns);
        gathered.are_now(&cluster, rows);
        hold(Block::gathered(&cluster, &gathered, None), &cluster, &takes, |_| 0);
    }
}

#[test]
fn gathered_rows_show_what_was_placed() {
    let cluster = cluster();
    let pod = Pod::new().request("cpu", 2);
    let takes = Takes::of(pod.shape(), &cluster);
    let mut overlay = Overlay::default();
    overlay.clear(|_| ());
    let rows: Vec<u32> = (0..60).map(|i| i * 11).collect();
    for &row in rows.iter().step_by(2) {
        assert!(overlay.take(&cluster, Row::from(row), 0, &takes, None));
    }
    let mut gathered = Gathered::default();
    gathered.are_now(&cluster, &rows);
    let block = Block::gathered(&cluster, &gathered, Some(&overlay));
    hold(block, &cluster, &takes, |at| i64::from(at % 2 == 0));
    assert!(block.is_small());
    let mut huge = Takes::default();
    huge.scored = [1 << 50, 0];
    assert!(overlay.take(&cluster, Row::new(0), 0, &huge, None));
    assert!(!Block::gathered(&cluster, &gathered, Some(&overlay)).is_small());
}
