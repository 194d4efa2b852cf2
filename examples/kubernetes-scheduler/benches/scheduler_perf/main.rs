//! scheduler_perf, the benchmark of kube-scheduler's own: this scheduler and kube-scheduler, one after the
//! other on one control plane, sampled once a second as theirs is.
//!
//! ```text
//! CONTROL_PLANE=... cargo bench --bench scheduler_perf -- [--divide N] [--runs N] [--only PART-OF-A-NAME]
//!     [--output FILE]
//! ```
//!
//! `--divide 10` runs a tenth of each size. A row is one workload and one program: the mean of the samples in
//! pods a second, CPU a pod, and the 99th percentile from a pod's creation to its binding. With `--runs 5` it
//! is the run with the median rate.

#[path = "../../tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;
#[path = "../../tests/support/perf.rs"]
mod workloads;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use support::api::Api;
use support::control_plane::ControlPlane;
use support::ledger::Ledger;
use support::objects;
use support::program::{Program, Usage};
use workloads::{WORKLOADS, Workload, average};

/// The time for the pods of a step.
const LIMIT: Duration = Duration::from_secs(600);

/// The programs, with the `schedulerName` of their pods.
const PROGRAMS: [(&str, &str); 2] =
    [("phalanx", "phalanx"), ("kube-scheduler", "default-scheduler")];

/// The result of a run.
struct Run {
    rate: Option<f64>,
    bound: usize,
    cpu_ms: f64,
    p99_ms: f64,
}

fn main() {
    let (mut divide, mut runs, mut only, mut output) = (1, 1, String::new(), None::<PathBuf>);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value =
            || arguments.next().unwrap_or_else(|| panic!("{argument}: a value is missing"));
        match argument.as_str() {
            "--divide" => divide = value().parse().expect("--divide: a number"),
            "--runs" => runs = value().parse().expect("--runs: a number"),
            "--only" => only = value(),
            "--output" => output = Some(value().into()),
            // From cargo.
            "--bench" | "--test" => {}
            _ => panic!("{argument} is no argument"),
        }
    }
    let Some(plane) = ControlPlane::from_environment() else {
        println!("note: CONTROL_PLANE is not set; scheduler_perf is not run");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("the runtime starts");
    let rows = runtime.block_on(async {
        plane.start();
        let api = Api::new(&plane.kubeconfig("admin")).await;
        for namespace in ["sched-0", "sched-1"] {
            let body = json!({"metadata": {"name": namespace}});
            api.create("/api/v1/namespaces", &body).await;
        }
        println!("| workload | program | bound | pods/s | CPU ms a pod | p99 ms |\n|---|---|---:|---:|---:|---:|");
        let mut rows = Vec::new();
        for workload in WORKLOADS.iter().filter(|workload| workload.name.contains(&only)) {
            for (program, scheduler) in PROGRAMS {
                let mut all = Vec::new();
                for _ in 0..runs {
                    all.push(run(&plane, &api, workload, divide, scheduler).await);
                }
                all.sort_by(|a, b| a.rate.unwrap_or(0.0).total_cmp(&b.rate.unwrap_or(0.0)));
                let Run { rate, bound, cpu_ms, p99_ms } = all.swap_remove(all.len() / 2);
                let shown = rate.map_or("–".to_owned(), |rate| format!("{rate:.0}"));
                println!(
                    "| {} | {program} | {bound} | {shown} | {cpu_ms:.2} | {p99_ms:.0} |",
                    workload.name
                );
                rows.push(json!({
                    "workload": workload.name, "program": program, "bound": bound, "rate": rate,
                    "cpuMsAPod": cpu_ms, "p99Ms": p99_ms, "divide": divide, "runs": runs,
                }));
            }
        }
        rows
    });
    if let Some(output) = output {
        let text = serde_json::to_string_pretty(&rows).expect("rows are JSON");
        fs::write(output, text + "\n").expect("the output can be written");
    }
}

fn pods(objects: &[Value], namespace: &str) -> (String, Vec<Value>) {
    (objects::pods(namespace), objects.to_vec())
}

/// One run: nodes, pods beforehand, then the measured ones, sampled once a second.
async fn run(
    plane: &ControlPlane,
    api: &Api,
    workload: &Workload,
    divide: usize,
    scheduler: &str,
) -> Run {
    let all = workload.objects(divide, scheduler);
    api.create_all("/api/v1/nodes", &all.nodes).await;
    let ledger = Ledger::start(api).await;
    let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("scheduler_perf.log");
    let child = (scheduler == "phalanx").then(|| {
        let file = plane.state().join("scheduler_perf.yaml");
        fs::write(&file, "profile: kubernetes\npreemption: {}\n").expect("the state folder");
        let file = file.to_str().expect("the path is text");
        Program::start(&plane.kubeconfig("scheduler"), &["--config", file], &log)
    });
    if child.is_none() {
        tokio::task::block_in_place(|| plane.run(&["start", "--with-scheduler"]));
    }
    let id = match &child {
        Some(child) => child.id(),
        None => plane.id("kube-scheduler").expect("it runs"),
    };
    let (path, before) = pods(&all.before, "sched-0");
    api.create_all(&path, &before).await;
    ledger.within(LIMIT, |book| book.bound("sched-0") >= before.len()).await;
    api.create_all(&objects::groups("sched-1"), &all.groups).await;

    let cpu = || Usage::of(id).unwrap_or_default().cpu;
    let (begin, cpu_before) = (Instant::now(), cpu());
    let (path, measured) = pods(&all.measured, "sched-1");
    let mut samples = Vec::new();
    let creating = api.create_all(&path, &measured);
    let sampling = async {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            let bound = ledger.book().bound("sched-1");
            samples.push((begin.elapsed().as_secs_f64(), bound));
            if bound >= measured.len() || begin.elapsed() > LIMIT {
                return;
            }
        }
    };
    tokio::join!(creating, sampling);
    let used = cpu() - cpu_before;
    let mut times: Vec<f64> = {
        let book = ledger.book();
        let own = book.present().filter(|(_, pod)| pod.key.0 == "sched-1");
        let times = own.filter_map(|(_, pod)| Some((pod.bound? - pod.seen).as_secs_f64() * 1e3));
        times.collect()
    };
    times.sort_by(f64::total_cmp);
    let p99_ms = times.get(times.len() * 99 / 100).copied().unwrap_or(0.0);
    match child {
        Some(child) => child.kill(),
        None => drop(plane.run(&["stop", "kube-scheduler"])),
    }
    objects::clear_pods(api).await;
    objects::clear_nodes(api).await;
    let bound = times.len();
    let cpu_ms = used * 1e3 / bound.max(1) as f64;
    Run { rate: average(&samples), bound, cpu_ms, p99_ms }
}
