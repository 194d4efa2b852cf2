//! How long groups that ask something of the topology take, on 5,000 nodes in 50 racks in 3 zones.
//!
//! `cargo bench --features full --bench topology`; the method is in `docs/benchmarks.md`.
//!
//! - `composites`: 500 workloads of two groups of three pods, one after another, each committed;
//!   the workload asks for a zone or for a rack, each group for a rack.
//! - `refused`: a gang of 16 that does not fit, by count, by sum, and by shares of a node.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup};

const NODES: usize = 5_000;
const RACKS: usize = 50;
const GPU: &str = "nvidia.com/gpu";

/// Nodes of 8 GPUs of which so many are taken.
fn cluster(taken: impl Fn(usize) -> i64) -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().expect("levels differ");
    for index in 0..NODES {
        let rack = index % RACKS;
        let node = Node::new(format!("node-{index:05}"))
            .capacity("cpu", 96)
            .capacity("memory", "768Gi")
            .capacity("pods", 110)
            .capacity(GPU, 8)
            .label("zone", format!("zone-{}", rack % 3))
            .label("rack", format!("rack-{rack:02}"));
        cluster.add_node(node).expect("names differ");
        if taken(index) > 0 {
            let pod = Pod::new().name(format!("running-{index}")).request("cpu", 8);
            let pod = pod.request(GPU, taken(index)).on(format!("node-{index:05}"));
            cluster.add_pod(pod).expect("names differ");
        }
    }
    cluster
}

fn trainer(gpus: i64) -> Pod {
    Pod::new().request("cpu", 8).request("memory", "64Gi").request(GPU, gpus)
}

fn composite(number: usize, level: &str) -> PodGroup {
    let part = |name: &str| {
        PodGroup::gang(format!("{name}-{number}"), 3).pods(3, trainer(2)).require("rack")
    };
    PodGroup::gang(format!("composite-{number}"), 2)
        .group(part("left"))
        .group(part("right"))
        .require(level)
}

fn composites(criterion: &mut Criterion) {
    println!("simd: {}", phalanx::framework::math::simd_level());
    let framework = Framework::default();
    let start = cluster(|index| [0, 0, 3, 0, 6, 1, 0][index % 7]);
    let mut group = criterion.benchmark_group("composites");
    group.sample_size(10).throughput(Throughput::Elements(500));
    for level in ["zone", "rack"] {
        let all: Vec<PodGroup> = (0..500).map(|number| composite(number, level)).collect();
        for warm in [true, false] {
            let name = format!("{level}/{}", if warm { "warm" } else { "cold" });
            group.bench_function(name, |bencher| {
                let fresh = || {
                    let mut planner = Planner::new();
                    let first = composite(500, level);
                    let outcome = planner.place(&start, &framework, &first);
                    assert!(outcome.expect("a sound request").is_placed());
                    (start.clone(), planner)
                };
                bencher.iter_batched(
                    fresh,
                    |(mut cluster, mut planner)| {
                        for composite in &all {
                            if !warm {
                                planner = Planner::new();
                            }
                            let outcome = planner.place(&cluster, &framework, composite);
                            let outcome = outcome.expect("a sound request");
                            let plan = outcome.plan().expect("there is room");
                            cluster.commit(&framework, plan).expect("nothing has moved");
                        }
                        (cluster, planner)
                    },
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

fn refused(criterion: &mut Criterion) {
    let framework = Framework::default();
    let gang = |pods: Vec<Pod>| {
        let mut gang = PodGroup::gang("trainer", 16);
        for (number, pod) in pods.into_iter().enumerate() {
            gang = gang.pod(pod.name(format!("trainer-{number}")));
        }
        gang
    };
    // Eleven whole nodes are free, and much of the others.
    let few = cluster(|index| i64::from(index % 500 != 0 || index == 0));
    let full = cluster(|index| if index < 3 { 0 } else { 8 });
    let mut mixed = vec![trainer(8); 8];
    mixed.extend(vec![trainer(8).request("cpu", 16); 8]);
    let cases = [
        ("count", &few, gang(vec![trainer(8); 16])),
        ("sum", &full, gang(vec![trainer(2); 16])),
        ("shares", &few, gang(mixed.clone())),
        ("count_in_racks", &few, gang(vec![trainer(8); 16]).require("rack")),
        ("shares_in_racks", &few, gang(mixed).require("rack")),
    ];
    let mut group = criterion.benchmark_group("refused");
    group.sample_size(10);
    for (name, cluster, gang) in cases {
        group.bench_function(format!("{name}/cold"), |bencher| {
            bencher.iter(|| {
                let outcome = Planner::new().place(black_box(cluster), &framework, &gang);
                assert!(!outcome.expect("a sound request").is_placed());
            });
        });
        let mut planner = Planner::new();
        group.bench_function(format!("{name}/warm"), |bencher| {
            bencher.iter(|| {
                let outcome = planner.place(black_box(cluster), &framework, &gang);
                assert!(!outcome.expect("a sound request").is_placed());
            });
        });
    }
    group.finish();
}

criterion_group!(benches, composites, refused);
criterion_main!(benches);
