//! How long a gang takes: the front door and a warm planner, on clusters of 1,000 and 5,000 nodes.
//!
//! `cargo bench --bench placement`; the method is in `docs/benchmarks.md`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use phalanx::model::{Node, Pod, PodGroup};
use phalanx::{Cluster, Framework, Planner, Request, place_gang};

/// Nodes of 8 GPUs in racks of 32, a third of them partly in use.
fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().expect("levels differ");
    for index in 0..nodes {
        let node = Node::new(format!("node-{index:05}"))
            .capacity("cpu", 96)
            .capacity("memory", "768Gi")
            .capacity("nvidia.com/gpu", 8)
            .capacity("pods", 110)
            .label("rack", format!("rack-{:04}", index / 32));
        cluster.add_node(node).expect("names differ");
    }
    for index in (0..nodes).step_by(3) {
        let pod = Pod::new()
            .name(format!("running-{index}"))
            .request("cpu", 8)
            .request("memory", "64Gi")
            .request("nvidia.com/gpu", (index % 7) as i64 + 1)
            .on(format!("node-{index:05}"));
        cluster.add_pod(pod).expect("names differ");
    }
    cluster
}

fn gang(pods: usize) -> PodGroup {
    let template =
        Pod::new().request("cpu", 8).request("memory", "64Gi").request("nvidia.com/gpu", 2);
    PodGroup::gang("trainer", pods as u32).pods(pods, template)
}

fn place(criterion: &mut Criterion) {
    let framework = Framework::default();
    let mut group = criterion.benchmark_group("place_gang");
    group.sample_size(10);
    for nodes in [1_000, 5_000] {
        let cluster = cluster(nodes);
        for (layout, gang) in [("anywhere", gang(16)), ("one_rack", gang(16).require("rack"))] {
            group.throughput(Throughput::Elements(gang.pods.len() as u64));
            group.bench_function(BenchmarkId::new(layout, nodes), |bencher| {
                bencher.iter(|| place_gang(black_box(&cluster), &framework, &gang));
            });
        }
        let gang = gang(16);
        let mut planner = Planner::new();
        group.bench_function(BenchmarkId::new("warm", nodes), |bencher| {
            bencher.iter(|| planner.place(black_box(&cluster), &framework, Request::new(&gang)));
        });
    }
    group.finish();
}

criterion_group!(benches, place);
criterion_main!(benches);
