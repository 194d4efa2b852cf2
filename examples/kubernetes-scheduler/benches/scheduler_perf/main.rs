//! scheduler_perf, the benchmark of kube-scheduler's own: this scheduler, kube-scheduler and a bare client that
//! only binds, one after the other on one control plane, sampled once a second as theirs is.
//!
//! ```text
//! CONTROL_PLANE=... cargo bench --bench scheduler_perf -- [--divide N] [--runs N] [--only PART-OF-A-NAME]
//!     [--without-bare] [--output FILE]
//! ```
//!
//! `--divide 10` runs a tenth of each size. A row is one workload and one program: the mean of the samples in
//! pods a second, pods a second from the first creation to the last binding, CPU a pod, and percentiles from a
//! pod's creation to its binding. In each run the programs take turns, so that neighbours on the machine
//! disturb all of them. Ratios are of one run; with `--runs 5` every figure is the median of its own.

mod row;
#[path = "../../tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;
#[path = "../../tests/support/perf.rs"]
mod workloads;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use row::{Row, Run};
use support::api::{Api, IN_FLIGHT, runtime};
use support::control_plane::ControlPlane;
use support::ledger::Ledger;
use support::objects;
use support::program::{Program, Usage};
use workloads::{Objects, WORKLOADS, average};

/// The time for the pods of a step.
const LIMIT: Duration = Duration::from_secs(600);

/// A program that binds the measured pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binder {
    Phalanx,
    Kube,
    /// A client that binds pods to the nodes in turn as soon as they are there, and looks at nothing.
    Bare,
}

impl Binder {
    const ALL: [Self; 3] = [Self::Phalanx, Self::Kube, Self::Bare];

    fn name(self) -> &'static str {
        match self {
            Self::Phalanx => "phalanx",
            Self::Kube => "kube-scheduler",
            Self::Bare => "bare client",
        }
    }

    /// The `schedulerName` of the pods.
    fn scheduler(self) -> &'static str {
        if self == Self::Kube { "default-scheduler" } else { "phalanx" }
    }
}

/// The arguments.
struct Arguments {
    divide: usize,
    runs: usize,
    only: String,
    without_bare: bool,
    output: Option<PathBuf>,
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut read =
            Self { divide: 1, runs: 1, only: String::new(), without_bare: false, output: None };
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().unwrap_or_else(|| panic!("{argument}: a value is missing"));
            match argument.as_str() {
                "--divide" => read.divide = value().parse().expect("--divide: a number"),
                "--runs" => read.runs = value().parse().expect("--runs: a number"),
                "--only" => read.only = value(),
                "--without-bare" => read.without_bare = true,
                "--output" => read.output = Some(value().into()),
                // From cargo.
                "--bench" | "--test" => {}
                _ => panic!("{argument} is no argument"),
            }
        }
        assert!(read.divide > 0 && read.runs > 0, "--divide and --runs: at least 1");
        read
    }
}

fn main() {
    let arguments = Arguments::read(std::env::args().skip(1));
    let Some(plane) = ControlPlane::from_environment() else {
        println!("note: CONTROL_PLANE is not set; scheduler_perf is not run");
        return;
    };
    let runtime = runtime(1);
    runtime.block_on(measure(&plane, &arguments));
}

async fn measure(plane: &ControlPlane, arguments: &Arguments) {
    // Pods name their priority themselves, and no class, as in theirs.
    plane.run(&["start", "--api-arg=--disable-admission-plugins=Priority"]);
    let api = Api::new(&plane.kubeconfig("admin")).await;
    for namespace in ["sched-0", "sched-1", "probe"] {
        let body = json!({"metadata": {"name": namespace}});
        api.create("/api/v1/namespaces", &body).await;
    }
    println!("{}", Row::HEAD);
    let mut rows: Vec<Row> = Vec::new();
    let mut nodes: Vec<Value> = Vec::new();
    for workload in WORKLOADS.iter().filter(|workload| workload.name.contains(&arguments.only)) {
        let mut runs: Vec<(Binder, Vec<Run>)> = Vec::new();
        for _ in 0..arguments.runs {
            for binder in Binder::ALL {
                if arguments.without_bare && binder == Binder::Bare {
                    continue;
                }
                let objects = workload.objects(arguments.divide, binder.scheduler());
                if nodes != objects.nodes {
                    objects::clear_nodes(&api).await;
                    api.create_all("/api/v1/nodes", &objects.nodes).await;
                    nodes.clone_from(&objects.nodes);
                }
                let run = Case { plane, api: &api, binder, objects }.run().await;
                match runs.iter_mut().find(|(of, _)| *of == binder) {
                    Some((_, all)) => all.push(run),
                    None => runs.push((binder, vec![run])),
                }
            }
        }
        for (binder, runs) in runs {
            let row = Row { workload, binder: binder.name(), divide: arguments.divide, runs };
            println!("{row}");
            rows.push(row);
        }
        // A run that is broken off has the rows that it has finished.
        if let Some(output) = &arguments.output {
            let rows: Vec<Value> = rows.iter().map(Row::json).collect();
            let text = serde_json::to_string_pretty(&rows).expect("rows are JSON");
            fs::write(output, text + "\n").expect("the output can be written");
        }
    }
    print!("\n{}", row::ratios(&rows));
}

/// One run before it is measured.
struct Case<'a> {
    plane: &'a ControlPlane,
    api: &'a Api,
    binder: Binder,
    objects: Objects,
}

impl Case<'_> {
    /// Pods beforehand, then the measured ones, sampled once a second.
    async fn run(&self) -> Run {
        let Objects { nodes, before, groups, measured } = &self.objects;
        let ledger = Ledger::start(self.api).await;
        let child = self.start();
        let id = self.id(child.as_ref());
        self.prepare(&ledger, before, nodes).await;
        self.api.create_all(&objects::groups("sched-1"), groups).await;
        self.settle(id).await;

        let (begin, cpu_before) = (Instant::now(), cpu(id));
        let mut samples = Vec::new();
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
        let is_bare = self.binder == Binder::Bare;
        let nodes = if is_bare { &nodes[..] } else { &[] };
        tokio::join!(self.create("sched-1", measured, nodes), sampling);
        let used = cpu(id) - cpu_before;
        let times: Vec<(Instant, Instant)> = {
            let book = ledger.book();
            let own = book.present().filter(|(_, pod)| pod.key.0 == "sched-1");
            own.filter_map(|(_, pod)| Some((pod.seen, pod.bound?))).collect()
        };
        match child {
            Some(child) => child.kill(),
            None if is_bare => {}
            None => drop(self.plane.run(&["stop", "kube-scheduler"])),
        }
        objects::clear_pods(self.api).await;
        let cpu_s = (!is_bare).then_some(used);
        Run::new(average(&samples), begin, measured.len(), &times, cpu_s)
    }

    /// Starts the program; for kube-scheduler, as a part of the control plane.
    fn start(&self) -> Option<Program> {
        match self.binder {
            Binder::Bare => None,
            Binder::Kube => {
                tokio::task::block_in_place(|| self.plane.run(&["start", "--with-scheduler"]));
                None
            }
            Binder::Phalanx => {
                let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("scheduler_perf.log");
                let file = self.plane.state().join("scheduler_perf.yaml");
                fs::write(&file, "profile: kubernetes\npreemption: {}\n")
                    .expect("the state folder");
                let file = file.to_str().expect("the path is text");
                let kubeconfig = self.plane.kubeconfig("scheduler");
                Some(Program::start(&kubeconfig, &["--config", file], &log))
            }
        }
    }

    fn id(&self, child: Option<&Program>) -> Option<u32> {
        match child {
            Some(child) => Some(child.id()),
            None if self.binder == Binder::Kube => self.plane.id("kube-scheduler"),
            None => None,
        }
    }

    /// Waits until the program binds: a pod of no size tells. Then all pods that are there before the
    /// measured ones are bound.
    async fn prepare(&self, ledger: &Ledger, before: &[Value], nodes: &[Value]) {
        let probe = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
            "spec": {
                "schedulerName": self.binder.scheduler(), "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}],
            },
        });
        let nodes = if self.binder == Binder::Bare { nodes } else { &[] };
        self.create("probe", &[probe], nodes).await;
        let is_there = ledger.within(LIMIT, |book| book.bound("probe") == 1).await;
        assert!(is_there, "{} binds nothing", self.binder.name());
        self.api.delete(&format!("{}/probe", objects::pods("probe"))).await;
        self.create("sched-0", before, nodes).await;
        let all = ledger.within(LIMIT, |book| book.bound("sched-0") >= before.len()).await;
        assert!(all, "{} leaves pods beforehand unbound", self.binder.name());
    }

    /// Waits until the program is idle for a second: lists, groups and events of before are done with.
    async fn settle(&self, id: Option<u32>) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            let before = cpu(id);
            tokio::time::sleep(Duration::from_secs(1)).await;
            if cpu(id) - before <= 0.05 {
                return;
            }
        }
    }

    /// Makes pods as fast as the server takes them. Where there are nodes, binds them to those in turn, with
    /// as many requests in flight.
    async fn create(&self, namespace: &str, pods: &[Value], nodes: &[Value]) {
        let path = objects::pods(namespace);
        if nodes.is_empty() {
            return self.api.create_all(&path, pods).await;
        }
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<Value>();
        let creating = async {
            stream::iter(pods)
                .for_each_concurrent(IN_FLIGHT, async |pod| {
                    let created = self.api.create(&path, pod).await;
                    // The other end is open until all is made.
                    let _ = sender.send(created["metadata"].clone());
                })
                .await;
            drop(sender);
        };
        let incoming = stream::unfold(receiver, async |mut receiver| {
            let pod = receiver.recv().await?;
            Some((pod, receiver))
        });
        let binding = incoming.zip(stream::iter(nodes.iter().cycle())).for_each_concurrent(
            IN_FLIGHT,
            async |(pod, node)| {
                let node = node["metadata"]["name"].as_str().unwrap_or_default();
                let (path, body) = objects::binding(namespace, &pod, node);
                self.api.create(&path, &body).await;
            },
        );
        tokio::join!(creating, binding);
    }
}

/// CPU seconds of a process so far.
fn cpu(id: Option<u32>) -> f64 {
    id.and_then(Usage::of).unwrap_or_default().cpu
}
