//! How fast gangs are placed: `cargo run --release --features full --example throughput -- --nodes 5000 --pods 36000`.
//!
//! Builds a cluster, places pending gangs one after another, commits each plan, and reports times,
//! work and memory. Every node is considered and scored for every gang.

mod claims;
#[path = "../common/mod.rs"]
mod common;
mod day;
mod figures;
mod peers;
mod preempt;
mod report;
mod scene;
mod straight;
mod workload;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use phalanx::framework::math::{SimdLevel, limit_simd};
use phalanx::place::Gang;
use phalanx::reference;
use phalanx::{Cluster, Event, Framework, Outcome, Planner, Request, place_gang};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use common::cli::{Arguments, Finish, Mistake, Program};
use day::Day;
use report::{Change, Report};
use scene::{Constraint, Scene};
use straight::Columns;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

const PROGRAM: Program = Program {
    usage: "\
Usage: throughput --nodes N --pods P [options]
       throughput --preempt [--nodes N] [--gang G] [--topology] [options]
       throughput --claims [--nodes N] [--gang G] [--simd LEVEL] [--output O]
       throughput --scheduler-perf [--divide D] [--only NAME] [--simd LEVEL] [--output O]
       throughput --day [--nodes N] [--racks R] [--seed S] [--seconds T] [--simd LEVEL] [--output O]

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
  --simd LEVEL      auto, none, avx2, avx512: vectors at most, of those the machine has
                    (needs the feature simd; none without it)          (auto)
  --churn C         keep the planner, and change C random nodes between two gangs;
                    without it each gang meets a fresh planner
  --first-use       each gang by place_gang(), which makes a planner and drops it: both are timed
  --output O        text, json
  --preempt         all nodes are filled with gangs of 8 to 64 pods of lower priority, and one gang
                    is to start: --nodes is 5000 then unless given
  --claims          pods with resource claims on nodes of 8 devices: --nodes is 1000 and --gang 64
                    unless given
  --queues Q        with --preempt: the gangs belong to Q queues that have borrowed the quota of
                    the new gang's, and who yields is searched over quota and room (0: no tenants)
  --scheduler-perf  workloads of kube-scheduler's own benchmark, and benchmarks of other schedulers, in
                    process, beside the figures of theirs; the text says which include an API server
  --divide D        one part in D of each size                         (1)
  --only NAME       only workloads that have this in their names
  --day             an hour of two schedulers on one cluster: --nodes is 5000 then unless given
  --seed S          what is drawn on that day                          (1)
  --seconds T       how long it is, of virtual time                    (3600)

Pods and gangs are counted as they are placed or refused. gang_*_us is the time to decide on a gang
that is placed, refused_p50_us on one that is not, commit_p50_us to bind a plan; seconds is all of
them together. straight_pass_us is one plain loop over the same nodes, the least of several; simd
says which vectors everything else was compiled for. clone_us is a copy of the cluster, made and
dropped, node_event_us a label put on a node, and after_event_us the next decision of a planner that
knew the gang; once each.
preempt_cold_us is the time to find the victims with a fresh planner, preempt_warm_us with one that
was asked before, refused_* that of a gang whose priority is too low; each the least of several.
victims counts units, which are whole gangs.
Claims: one, eight, last and island are claims of 1 device, of 8, of 1 where 7 of 8 are taken, and of 4
of one island where 2 are taken, each for one pod and for a gang; cold is a fresh planner, warm one
that has decided on such a gang. passes are of the straight pass.
refused is a gang that does not fit, on so many nodes: plain by the strategy that proves nothing, search
by the one that does, with the proof in a word. islands want one island more than there are, parts one
part of a GPU more than its counters allow beside the others.

The day: 20 gangs a second of 1, 2, 4 to 512 pods, in probability proportional to 1/size; a third
require a rack, 5 % are spread over zones, 5 % repel by hostname; 60 % of decisions are of 200 known
shapes, the others of shapes never seen. Lives are drawn so that 80 to 95 % of the GPUs are taken,
in a time that passes the faster the more are.
Each second 20 nodes are updated, of which one changes; a node goes or comes every 10 s, a taint or the
labels of a namespace every minute. Both schedulers decide on clones of the one cluster, each with a
salt, and a plan that no longer holds is a conflict: its gang is decided again. What does not fit goes.
p50_us and the like are the time of a decision; _local is gangs that nodes alone are judged for, _domain
those with plugins that read beyond (spread, repel), _to_64 those of up to 64 pods. decisions_per_s counts
gangs made, clones, commits and events too. warm_share is of decisions whose shapes the scheduler had
met: those with at most as many evaluations as twice the nodes changed since, plus the pods placed,
take (calls_a_row of a fresh planner each). fresh_ratio is the time of one decision in 8 with a fresh
planner over its own, and equal whether the answers are the same. bytes_at_10_min and bytes_at_60_min
are all that is held, at a sixth of the day and at its end; plans is a hash of all plans bound.
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
        "--simd",
        "--churn",
        "--seed",
        "--seconds",
        "--queues",
        "--divide",
        "--only",
        "--output",
    ],
    flags: &["--mixed", "--topology", "--unpruned", "--first-use", "--preempt", "--claims", "--day",
        "--scheduler-perf"],
};

fn main() -> ExitCode {
    PROGRAM.main(run)
}

fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    let (day, peers) = (arguments.flag("--day"), arguments.flag("--scheduler-perf"));
    let scene = if day || peers || arguments.flag("--claims") {
        Scene::default()
    } else {
        read(arguments)?
    };
    let threads = arguments.number("--threads", 1, 1..=1_024)? as usize;
    let mode = arguments.word("--mode", &["fast", "reference", "both"])?;
    let output = arguments.word("--output", &["text", "json"])?;
    limit_simd(match arguments.word("--simd", &["auto", "none", "avx2", "avx512"])? {
        "none" => SimdLevel::None,
        "avx2" => SimdLevel::Avx2,
        _ => SimdLevel::Avx512,
    });
    if day {
        let day = read_day(arguments)?;
        let figures = day.measure(straight_pass_us(&day.scene()), allocated);
        let text = if output == "json" { figures.json() } else { figures.text() };
        return Ok(Finish::with(u8::from(!figures.is_equal()), text));
    }
    if peers {
        let divide = arguments.number("--divide", 1, 1..=1_000_000)? as usize;
        let rows = peers::measure(divide, arguments.value("--only").unwrap_or_default());
        let rows = rows.map_err(|error| Mistake::Input(error.to_string()))?;
        let text = if output == "json" { peers::json(&rows) } else { peers::text(&rows, divide) };
        return Ok(Finish::with(0, text));
    }
    if arguments.flag("--claims") {
        let nodes = arguments.number("--nodes", 1_000, 1..=10_000_000)? as usize;
        let gang = arguments.number("--gang", 64, 1..=10_000_000)? as usize;
        let pass = straight_pass_us(&Scene { nodes, ..Scene::default() });
        let figures = claims::measure(nodes, gang, pass);
        let figures: Vec<(&str, String)> =
            figures.iter().map(|(name, value)| (&**name, value.clone())).collect();
        let text = if output == "json" { report::json(&figures) } else { report::text(&figures) };
        return Ok(Finish::with(0, text));
    }
    if arguments.flag("--preempt") {
        let queues = arguments.number("--queues", 0, 0..=1_000_000)? as usize;
        let straight = straight_pass_us(&scene);
        let figures = if queues == 0 {
            preempt::measure(&scene, straight)
        } else {
            let found = preempt::measure_tenants(&scene, queues, straight);
            found.map_err(|error| Mistake::Input(error.to_string()))?
        };
        let text = if output == "json" { figures.json() } else { figures.text() };
        return Ok(Finish::with(0, text));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Mistake::Input(error.to_string()))?;
    let fast = if arguments.flag("--first-use") { Way::Once } else { Way::Fast { threads } };
    let report = pool.install(|| match mode {
        "reference" => measure(&scene, Way::Reference).0,
        "fast" => measure(&scene, fast).0,
        _ => {
            let (mut report, plans) = measure(&scene, fast);
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
    Fast {
        threads: usize,
    },
    /// A planner made for each gang, inside of what is timed.
    Once,
    Reference,
}

/// Where the pods of each gang went, gang by gang.
type Nodes = Vec<Vec<String>>;

fn measure(scene: &Scene, way: Way) -> (Report, Nodes) {
    let framework = scene.framework();
    let mut report = Report::new(scene);
    report.straight_pass_us = straight_pass_us(scene);

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
            calls += reference::plugin_calls(&planner);
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
            if way == Way::Reference {
                // Fast plans are equal to these, and their times are not to be disturbed.
                let request = Request::from(&gang).strategy(phalanx::Strategy::Kubernetes);
                phalanx::reference::is_sound(plan, request, &cluster, &framework)
                    .expect("the plan keeps what was promised");
            }
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
    report.plugin_calls = calls + reference::plugin_calls(&planner);
    report.seconds = deciding.as_secs_f64();
    report.intern_seconds = interning.as_secs_f64();
    report.times(placed_times, refused_times, commit_times);
    report.allocations_per_placement = allocations / report.placed.max(1) as f64;
    if way != Way::Reference {
        report.change = Change::measure(scene, &mut planner, &mut cluster, &framework);
    }
    (report, nodes)
}

impl Change {
    /// The time to copy a cluster, to change a node, and to decide on a gang thereafter.
    fn measure(
        scene: &Scene,
        planner: &mut Planner,
        cluster: &mut Cluster,
        framework: &Framework,
    ) -> Change {
        let us = |start: Instant| start.elapsed().as_secs_f64() * 1e6;
        let start = Instant::now();
        drop(black_box(cluster.clone()));
        let clone = us(start);
        let mut group = scene.group(0);
        group.name = "late".into();
        // The groups of a scene are sound, and so are its nodes.
        let (Ok(gang), Some(node)) = (Gang::new(group), cluster.nodes().next()) else {
            return Change::default();
        };
        let node = node.to_node().label("changed", "yes");
        let way = Way::Fast { threads: 1 };
        for _ in 0..3 {
            decide(way, planner, cluster, framework, &gang);
        }
        let start = Instant::now();
        let changed = cluster.apply(Event::NodeChanged { node, version: 0 });
        let event = us(start);
        debug_assert!(changed.is_ok());
        let start = Instant::now();
        black_box(decide(way, planner, cluster, framework, &gang));
        Change { clone, event, next: us(start) }
    }
}

fn way_threads(way: Way) -> usize {
    match way {
        Way::Fast { threads } => threads,
        Way::Once | Way::Reference => 1,
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
        Way::Once => place_gang(cluster, framework, request).ok(),
        Way::Reference => reference::place_by_definition(cluster, framework, request).ok(),
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

/// Allocations of a copy of the plan: the plan itself is not counted as work.
fn plan_allocations(plan: &phalanx::Plan) -> f64 {
    let counted = allocation_count();
    let copy = plan.clone();
    let own = allocation_count() - counted;
    drop(copy);
    own
}

/// Microseconds of the fastest of several passes.
fn straight_pass_us(scene: &Scene) -> f64 {
    let columns = Columns::of(scene, &scene.cluster());
    let mut best = f64::INFINITY;
    for _ in 0..15 {
        let start = Instant::now();
        black_box(columns.pass());
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
    }
    best
}

/// The day that the options ask for.
fn read_day(arguments: &Arguments) -> Result<Day, Mistake> {
    Ok(Day {
        nodes: arguments.number("--nodes", 5_000, 1..=10_000_000)? as usize,
        racks: arguments.number("--racks", 50, 1..=10_000_000)? as usize,
        seed: arguments.number("--seed", 1, 0..=u32::MAX)?.into(),
        seconds: arguments.number("--seconds", 3_600, 1..=86_400)?.into(),
    })
}

/// The scene that the options ask for.
fn read(arguments: &Arguments) -> Result<Scene, Mistake> {
    let number = |name: &str, default: u32, low: u32| {
        arguments.number(name, default, low..=10_000_000).map(|number| number as usize)
    };
    let preempt = arguments.flag("--preempt");
    for required in ["--nodes", "--pods"] {
        if arguments.value(required).is_none() && !preempt {
            return Err(Mistake::Usage(format!("{required} is required")));
        }
    }
    let fill: f64 = match arguments.value("--fill") {
        None => 0.0,
        Some(text) => {
            text.parse().ok().filter(|fill| (0.0..=1.0).contains(fill)).ok_or_else(|| {
                Mistake::Usage(format!("--fill {text:?} is not a number from 0 to 1"))
            })?
        }
    };
    let constraints = ["none", "zone-spread", "zone-affinity", "rack-affinity", "hostname-anti"];
    let constraint = match arguments.word("--constraint", &constraints)? {
        "zone-spread" => Constraint::ZoneSpread,
        "zone-affinity" => Constraint::ZoneAffinity,
        "rack-affinity" => Constraint::RackAffinity,
        "hostname-anti" => Constraint::HostnameAnti,
        _ => Constraint::None,
    };
    Ok(Scene {
        nodes: number("--nodes", if preempt { 5_000 } else { 0 }, 1)?,
        pods: number("--pods", number("--gang", 1, 1)? as u32, 1)?,
        gang: number("--gang", 1, 1)?,
        mixed: arguments.flag("--mixed"),
        shapes: number("--shapes", 1, 1)?,
        racks: number("--racks", 50, 1)?,
        topology: arguments.flag("--topology"),
        unpruned: arguments.flag("--unpruned"),
        node_shapes: number("--node-shapes", 1, 1)?,
        fill,
        constraint,
        binpack: arguments.word("--profile", &["kubernetes", "binpack"])? == "binpack",
        churn: match arguments.value("--churn") {
            None => None,
            Some(_) => Some(number("--churn", 0, 0)?),
        },
        ..Scene::default()
    })
}
