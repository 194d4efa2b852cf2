//! How fast gangs are placed: `cargo run --release --example throughput -- --nodes 5000 --pods 36000`.
//!
//! Builds a cluster, places pending gangs one after another, commits each plan, and reports times,
//! work and memory. Every node is considered and scored for every gang.

#[path = "../common/mod.rs"]
mod common;
mod report;
mod scene;
mod straight;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use phalanx::model::PodGroup;
use phalanx::place::Gang;
use phalanx::{Cluster, Framework, Outcome, Planner, Request};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use common::cli::{Arguments, Finish, Mistake, Program};
use report::Report;
use scene::Scene;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

const PROGRAM: Program = Program {
    usage: "\
Usage: throughput --nodes N --pods P [options]

  --gang G          members of a gang                                  (1)
  --shapes K        different pod shapes, in rotation over the gangs   (1)
  --mixed           shapes in rotation over the members of a gang
  --racks R         racks; zone = rack mod 3                           (50)
  --topology        each gang requires one rack
  --unpruned        every candidate rack is tried in full
  --node-shapes M   different nodes                                    (1)
  --fill F          share of all GPUs taken beforehand, 0 to 1         (0)
  --constraint C    none, zone-spread, zone-affinity, rack-affinity, hostname-anti
  --profile P       kubernetes, binpack
  --mode M          fast, reference, both
  --threads T       threads of the pool                                (1)
  --churn C         keep the planner, and change C random nodes between two gangs;
                    without it each gang meets a fresh planner
  --output O        text, json
",
    options: &[
        "--nodes",
        "--pods",
        "--gang",
        "--shapes",
        "--racks",
        "--node-shapes",
        "--fill",
        "--constraint",
        "--profile",
        "--mode",
        "--threads",
        "--churn",
        "--output",
    ],
    flags: &["--mixed", "--topology", "--unpruned"],
};

fn main() -> ExitCode {
    PROGRAM.main(run)
}

fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    let scene = Scene::read(arguments)?;
    let threads = arguments.number("--threads", 1, 1..=1_024)? as usize;
    let mode = arguments.word("--mode", &["fast", "reference", "both"])?;
    let output = arguments.word("--output", &["text", "json"])?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Mistake::Input(error.to_string()))?;
    let report = pool.install(|| match mode {
        "reference" => measure(&scene, Way::Reference).0,
        "fast" => measure(&scene, Way::Fast { threads }).0,
        _ => {
            let (mut report, plans) = measure(&scene, Way::Fast { threads });
            let (reference, expected) = measure(&scene, Way::Reference);
            report.equal = Some(plans == expected);
            report.ratio = Some(reference.seconds / report.seconds);
            report
        }
    });
    let text = if output == "json" { report.json() } else { report.text() };
    Ok(Finish::with(u8::from(report.equal == Some(false)), text))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Fast { threads: usize },
    Reference,
}

/// Where the pods of each gang went, gang by gang.
type Nodes = Vec<Vec<String>>;

fn measure(scene: &Scene, way: Way) -> (Report, Nodes) {
    let framework = scene.framework();
    let mut report = Report::new(scene);
    report.straight_pass_us = straight::pass_us(scene);

    let held = allocated();
    let start = Instant::now();
    let mut cluster = scene.nodes();
    report.bytes_per_node = (allocated() - held) / scene.nodes.max(1) as f64;
    let (held, bound) = (allocated(), cluster.pod_count());
    scene.fill(&mut cluster);
    if cluster.pod_count() > bound {
        report.bytes_per_pod = (allocated() - held) / cluster.pod_count() as f64;
    }
    report.build_seconds = start.elapsed().as_secs_f64();

    let mut churn = scene.churn();
    let mut planner = scene.planner(way_threads(way));
    let mut nodes = Nodes::new();
    let (mut deciding, mut interning) = (Duration::ZERO, Duration::ZERO);
    let (mut placed_times, mut refused_times) = (Vec::new(), Vec::new());
    let mut commit_times = Vec::new();
    let mut allocations = 0.0;
    let mut calls = 0;
    for group in scene.gangs() {
        if scene.churn.is_none() {
            calls += planner.plugin_calls();
            planner = scene.planner(way_threads(way));
        } else {
            churn.step(&mut cluster);
        }
        let start = Instant::now();
        // The groups of a scene are sound.
        let members = group.pods.len();
        let Ok(gang) = Gang::new(group) else { continue };
        interning += start.elapsed();
        let counted = allocation_count();
        let start = Instant::now();
        let outcome = decide(way, &mut planner, &cluster, &framework, &gang);
        let decided = start.elapsed();
        let own = allocation_count() - counted;
        if let Some(plan) = outcome.as_ref().and_then(Outcome::plan) {
            allocations += own - plan_allocations(plan);
            let start = Instant::now();
            let committed = cluster.commit(&framework, plan);
            let committing = start.elapsed();
            debug_assert!(committed.is_ok());
            deciding += decided + committing;
            placed_times.push(decided);
            commit_times.push(committing);
            report.placed += plan.len();
            report.refused += members - plan.len();
            nodes.push(plan.assignments().map(|a| a.node().to_string()).collect());
        } else {
            deciding += decided;
            refused_times.push(decided);
            report.refused += members;
            nodes.push(Vec::new());
        }
    }
    report.plugin_calls = calls + planner.plugin_calls();
    report.seconds = deciding.as_secs_f64();
    report.intern_seconds = interning.as_secs_f64();
    report.times(placed_times, refused_times, commit_times);
    report.allocations_per_placement = allocations / report.placed.max(1) as f64;
    (report, nodes)
}

fn way_threads(way: Way) -> usize {
    match way {
        Way::Fast { threads } => threads,
        Way::Reference => 1,
    }
}

fn decide(
    way: Way,
    planner: &mut Planner,
    cluster: &Cluster,
    framework: &Framework,
    gang: &Gang,
) -> Option<Outcome> {
    let request = Request::from(gang).strategy(phalanx::Strategy::Kubernetes);
    match way {
        Way::Fast { .. } => planner.place(cluster, framework, request).ok(),
        Way::Reference => Planner::place_reference(cluster, framework, request).ok(),
    }
}

/// Bytes held at this moment.
fn allocated() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

fn allocation_count() -> f64 {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations) as f64
}

/// What a copy of the plan takes: the plan itself is not counted as work.
fn plan_allocations(plan: &phalanx::Plan) -> f64 {
    let counted = allocation_count();
    let copy = plan.clone();
    let own = allocation_count() - counted;
    drop(copy);
    own
}

/// The gangs, one after another.
fn gang_name(number: usize) -> String {
    format!("g{number}")
}

impl Scene {
    /// The pending gangs, in order.
    fn gangs(&self) -> impl Iterator<Item = PodGroup> + '_ {
        let gangs = self.pods.div_ceil(self.gang.max(1));
        (0..gangs).map(move |number| self.group(number, gang_name(number)))
    }
}
