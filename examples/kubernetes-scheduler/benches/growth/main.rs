//! Memory and CPU of the scheduler in a large cluster: idle, and while many objects change.
//!
//! ```text
//! CONTROL_PLANE=... cargo bench --bench growth -- [--nodes 5000] [--pods 100000] [--idle MINUTES]
//!     [--minutes N] [--rate CHANGES-A-SECOND] [--output FILE]
//! ```
//!
//! The pods run before the scheduler starts. Its first binding tells how long a start takes. Then
//! nothing changes for the idle minutes. Afterwards, in turn, a node reports that it is alive, a pod reports its
//! state, a pod ends, and a new one waits for the scheduler. So the number of pods stays as it is.
//!
//! Each minute is a row. The run fails if memory or CPU grows, or if a pod waits at the end.

#[path = "../../tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use support::api::{Api, IN_FLIGHT, runtime};
use support::control_plane::ControlPlane;
use support::objects;
use support::program::{Program, Usage};
use support::random::Random;

/// The namespace of all pods.
const NAMESPACE: &str = "growth";

/// The `schedulerName` of all pods.
const SCHEDULER: &str = "phalanx";

/// Nodes of a rack.
const RACK: usize = 16;

/// Objects that are made at a time: their bodies are in memory.
const CHUNK: usize = 10_000;

/// The time for the first binding, and for what waits at the end.
const PATIENCE: Duration = Duration::from_secs(300);

/// Most of what the last quarter may have, of the second quarter's: the first is a start.
const MEMORY_MAY_GROW: f64 = 1.05;
const CPU_MAY_GROW: f64 = 1.25;

struct Arguments {
    nodes: usize,
    pods: usize,
    idle: u32,
    minutes: u32,
    rate: u32,
    output: Option<PathBuf>,
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut read =
            Self { nodes: 5000, pods: 100_000, idle: 5, minutes: 60, rate: 100, output: None };
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().unwrap_or_else(|| panic!("{argument}: a value is missing"));
            let number = |text: String| -> u32 {
                text.parse().unwrap_or_else(|_| panic!("{argument}: {text} is no number"))
            };
            match argument.as_str() {
                "--nodes" => read.nodes = number(value()) as usize,
                "--pods" => read.pods = number(value()) as usize,
                "--idle" => read.idle = number(value()),
                "--minutes" => read.minutes = number(value()),
                "--rate" => read.rate = number(value()),
                "--output" => read.output = Some(value().into()),
                // From cargo.
                "--bench" | "--test" => {}
                _ => panic!("{argument} is no argument"),
            }
        }
        assert!(
            read.nodes > 0 && read.pods > 3 && read.rate > 0,
            "at least 1 node, 4 pods, rate 1"
        );
        read
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::read(std::env::args().skip(1));
    let Some(plane) = ControlPlane::from_environment() else {
        println!("note: CONTROL_PLANE is not set; growth is not measured");
        return ExitCode::SUCCESS;
    };
    plane.start();
    let result = runtime(1).block_on(measure(&plane, &arguments));
    let text = serde_json::to_string_pretty(&result).expect("the result is JSON");
    println!("{text}");
    if let Some(output) = &arguments.output {
        fs::write(output, text + "\n").expect("the output can be written");
    }
    if result["holds"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure(plane: &ControlPlane, arguments: &Arguments) -> Value {
    let api = Api::new(&plane.kubeconfig("admin")).await;
    api.create("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await;
    let mut load = Load::fill(&api, arguments.nodes, arguments.pods).await;
    let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("growth.log");
    let begin = Instant::now();
    let program = Program::start(&plane.kubeconfig("scheduler"), &[], &log);
    load.create(&api, "first").await;
    let first = waiting_is_over(&api, begin).await;
    println!("the first binding after {:.1} s", first.unwrap_or(f64::NAN));
    let idle = minutes("idle", arguments.idle, &program, async |_| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        0
    });
    let idle = idle.await;
    let busy = minutes("busy", arguments.minutes, &program, async |_| {
        load.change(&api, arguments.rate).await
    });
    let busy = busy.await;
    let last = waiting_is_over(&api, Instant::now()).await;
    let memory = growth(&busy, |minute| minute.resident_mib);
    let cpu = growth(&busy, |minute| minute.cpu);
    let holds = first.is_some()
        && last.is_some()
        && memory.is_none_or(|ratio| ratio <= MEMORY_MAY_GROW)
        && cpu.is_none_or(|ratio| ratio <= CPU_MAY_GROW);
    let peak = Usage::of(program.id()).map(|usage| usage.peak_mib);
    program.kill();
    json!({
        "holds": holds,
        "nodes": arguments.nodes,
        "pods": arguments.pods,
        "firstBindingAfterS": first,
        "peakMib": peak,
        "lastQuarterToSecond": {"memory": memory, "cpu": cpu},
        "idle": idle.iter().map(Minute::json).collect::<Vec<_>>(),
        "busy": busy.iter().map(Minute::json).collect::<Vec<_>>(),
    })
}

/// A minute of the scheduler.
struct Minute {
    /// CPU seconds.
    cpu: f64,
    resident_mib: f64,
    changes: u32,
    seconds: f64,
}

impl Minute {
    fn json(&self) -> Value {
        json!({"cpuS": self.cpu, "residentMib": self.resident_mib, "changes": self.changes,
            "seconds": self.seconds})
    }
}

/// Minutes of the program, each with the changes that an action has made in it.
async fn minutes(
    name: &str,
    count: u32,
    program: &Program,
    mut action: impl AsyncFnMut(u32) -> u32,
) -> Vec<Minute> {
    let mut all = Vec::new();
    for number in 0..count {
        let usage = || Usage::of(program.id()).expect("the scheduler runs");
        let (begin, before) = (Instant::now(), usage());
        let changes = action(number).await;
        let (after, seconds) = (usage(), begin.elapsed().as_secs_f64());
        let (cpu, resident_mib) = (after.cpu - before.cpu, after.resident_mib as f64);
        println!(
            "{name} {number}: {changes} changes in {seconds:.0} s, {cpu:.2} s of CPU, {resident_mib} MiB"
        );
        all.push(Minute { cpu, resident_mib, changes, seconds });
    }
    all
}

/// The mean of the last quarter over the mean of the second; `None` for less than four minutes.
fn growth(minutes: &[Minute], value: impl Fn(&Minute) -> f64) -> Option<f64> {
    let quarter = minutes.len() / 4;
    let sum = |part: &[Minute]| part.iter().map(&value).sum::<f64>();
    let early = sum(minutes.get(quarter..2 * quarter)?);
    let late = sum(minutes.get(minutes.len() - quarter..)?);
    (quarter > 0 && early > 0.0).then(|| late / early)
}

/// Seconds since a moment until no pod waits; `None` if one does for too long.
async fn waiting_is_over(api: &Api, begin: Instant) -> Option<f64> {
    let path = format!("{}?fieldSelector=spec.nodeName%3D&limit=1", objects::pods(NAMESPACE));
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
        if api.list(&path).await.is_empty() {
            return Some(begin.elapsed().as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    None
}

/// The cluster as it changes.
struct Load {
    nodes: usize,
    /// The pods, the oldest first.
    pods: VecDeque<String>,
    made: usize,
    random: Random,
}

impl Load {
    /// The nodes, and pods that run on them in turn.
    async fn fill(api: &Api, nodes: usize, pods: usize) -> Self {
        api.create_all("/api/v1/nodes", &objects::nodes(nodes, RACK)).await;
        let begin = Instant::now();
        for from in (0..pods).step_by(CHUNK) {
            let chunk = from..pods.min(from + CHUNK);
            let running = |n: usize| {
                let mut pod = objects::pod(&format!("old-{n}"), 1, SCHEDULER);
                pod["spec"]["nodeName"] = format!("node-{:04}", n % nodes).into();
                pod
            };
            let chunk: Vec<Value> = chunk.map(running).collect();
            api.create_all(&objects::pods(NAMESPACE), &chunk).await;
        }
        println!("{pods} pods on {nodes} nodes in {:.0} s", begin.elapsed().as_secs_f64());
        let pods = (0..pods).map(|n| format!("old-{n}")).collect();
        Self { nodes, pods, made: 0, random: Random(1) }
    }

    async fn create(&mut self, api: &Api, name: &str) {
        api.create(&objects::pods(NAMESPACE), &objects::pod(name, 1, SCHEDULER)).await;
        self.pods.push_back(name.to_owned());
    }

    /// Changes for a minute, so many a second; fewer if the server takes fewer. Returns their number.
    async fn change(&mut self, api: &Api, rate: u32) -> u32 {
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (begin, mut changes) = (Instant::now(), 0);
        while begin.elapsed() < Duration::from_secs(60) {
            ticks.tick().await;
            let permit = Arc::clone(&in_flight).acquire_owned().await.expect("nobody closes it");
            let (change, api) = (self.next(changes), api.clone());
            tokio::spawn(async move {
                change.send(&api).await;
                drop(permit);
            });
            changes += 1;
        }
        // All have ended.
        let _all = in_flight.acquire_many(IN_FLIGHT as u32).await.expect("nobody closes it");
        changes
    }

    fn next(&mut self, number: u32) -> Change {
        let pods = objects::pods(NAMESPACE);
        match number % 4 {
            0 => {
                let node = self.random.below(self.nodes as u64);
                let alive =
                    json!({"type": "Ready", "status": "True", "message": format!("{number}")});
                let path = format!("/api/v1/nodes/node-{node:04}/status");
                Change::Patch(path, json!({"status": {"conditions": [alive]}}))
            }
            1 => {
                // One in the middle neither is made nor ends at this moment.
                let half = self.pods.len() / 2;
                let pod = &self.pods[half / 2 + self.random.below(half as u64) as usize];
                let ready =
                    json!({"type": "Ready", "status": "True", "message": format!("{number}")});
                let status = json!({"phase": "Running", "conditions": [ready]});
                Change::Patch(format!("{pods}/{pod}/status"), json!({"status": status}))
            }
            2 => {
                let oldest = self.pods.pop_front().expect("as many are made as end");
                Change::Delete(format!("{pods}/{oldest}"))
            }
            _ => {
                self.made += 1;
                let name = format!("new-{}", self.made);
                let pod = objects::pod(&name, 1, SCHEDULER);
                self.pods.push_back(name);
                Change::Create(pods, pod)
            }
        }
    }
}

/// A write.
enum Change {
    Create(String, Value),
    Patch(String, Value),
    Delete(String),
}

impl Change {
    async fn send(self, api: &Api) {
        match self {
            Self::Create(path, object) => drop(api.create(&path, &object).await),
            Self::Patch(path, change) => api.patch(&path, &change).await,
            Self::Delete(path) => api.delete(&path).await,
        }
    }
}
