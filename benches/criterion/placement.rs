//! How long gangs take, each kind beside one plain pass over the same nodes.
//!
//! `cargo bench --features full --bench placement [-- warm]` in this folder; the method and the figures are in
//! `docs/benchmarks.md`. `examples/throughput` runs the same scenes, gang after gang.

#[path = "../support/cases.rs"]
mod cases;
#[path = "../../examples/throughput/scene.rs"]
mod scene;
#[path = "../support/stage.rs"]
mod stage;
#[path = "../../examples/throughput/straight.rs"]
mod straight;

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use stage::Stage;

fn place(criterion: &mut Criterion) {
    println!("simd: {}", phalanx::framework::math::simd_level());
    for case in cases::all() {
        let mut group = criterion.benchmark_group(&case.group);
        group.sample_size(10).throughput(Throughput::Elements(case.placements()));
        group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
        let id = BenchmarkId::from_parameter(&case.name);
        // Built when its turn comes, and only if it is asked for.
        let mut case = Some(case);
        let mut stage = None;
        group.bench_function(id, |bencher| {
            let stage = stage
                .get_or_insert_with(|| Stage::new(case.take().expect("a stage is built once")));
            bencher.iter_custom(|rounds| {
                let mut measured = Duration::ZERO;
                stage.rounds(rounds, &mut |part| {
                    let start = Instant::now();
                    part();
                    measured += start.elapsed();
                });
                measured
            });
        });
        group.finish();
    }
}

criterion_group!(benches, place);
criterion_main!(benches);
