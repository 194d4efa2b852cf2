//! The scheduler beside kube-scheduler and a bare client, one after the other on one control plane:
//!
//! ```text
//! CONTROL_PLANE=... cargo bench --bench compare -- [--nodes 1000,5000] [--pods 3000]
//!     [--only PART-OF-A-NAME] [--output FILE]
//! ```
//!
//! One row is one program and one load: pods that *wait* when the program starts, or that *arrive*
//! while it runs; single, in gangs of 64, or in gangs of 64 that must share a rack. The rows go to
//! standard output as a table, and to FILE as JSON.

mod bare;
mod row;
#[path = "../../tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use row::{Load, Meter, Row};
use support::api::{Api, runtime};
use support::control_plane::ControlPlane;
use support::ledger::Ledger;
use support::objects::{self, Gang};
use support::program::{Program, started};

/// Members of a gang.
const GANG: usize = 64;

/// Nodes of a rack: two gangs of pods of one CPU fill it.
const RACK: usize = 16;

/// The namespace of all pods.
const NAMESPACE: &str = "compare";

/// The time for a row. What is not bound by then is missing in it.
const LIMIT: Duration = Duration::from_secs(300);

/// The program that binds the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binder {
    /// A client of the same library that only sends the bindings.
    Bare,
    /// The scheduler of this package.
    Phalanx,
    /// The same with an event for each pod.
    PhalanxEvents,
    /// kube-scheduler, without a limit of requests that matters.
    Kube,
}

impl Binder {
    const ALL: [Self; 4] = [Self::Bare, Self::Phalanx, Self::PhalanxEvents, Self::Kube];

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare client",
            Self::Phalanx => "phalanx",
            Self::PhalanxEvents => "phalanx, events",
            Self::Kube => "kube-scheduler",
        }
    }

    /// The `schedulerName` of the pods.
    fn scheduler(self) -> &'static str {
        if self == Self::Kube { "default-scheduler" } else { "phalanx" }
    }
}

/// How pods hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Single,
    Gangs,
    GangsInRacks,
}

impl Shape {
    const ALL: [Self; 3] = [Self::Single, Self::Gangs, Self::GangsInRacks];

    fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Gangs => "gangs",
            Self::GangsInRacks => "gangs in racks",
        }
    }
}

/// The arguments.
struct Arguments {
    nodes: Vec<usize>,
    pods: usize,
    only: String,
    output: Option<PathBuf>,
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut read =
            Self { nodes: vec![1000, 5000], pods: 3000, only: String::new(), output: None };
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().unwrap_or_else(|| panic!("{argument}: a value is missing"));
            match argument.as_str() {
                "--nodes" => {
                    let number = |text: &str| text.parse().expect("--nodes: numbers and commas");
                    read.nodes = value().split(',').map(number).collect();
                }
                "--pods" => read.pods = value().parse().expect("--pods: a number"),
                "--only" => read.only = value(),
                "--output" => read.output = Some(value().into()),
                // From cargo.
                "--bench" => {}
                _ => panic!("{argument} is no argument"),
            }
        }
        read
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, kubeconfig] = &arguments[..]
        && command == bare::COMMAND
    {
        return bare::main(Path::new(kubeconfig));
    }
    let arguments = Arguments::read(arguments.into_iter());
    let Some(plane) = ControlPlane::from_environment() else {
        println!("note: CONTROL_PLANE is not set; nothing is compared");
        return;
    };
    let runtime = runtime(1);
    runtime.block_on(compare(&plane, &arguments));
}

async fn compare(plane: &ControlPlane, arguments: &Arguments) {
    plane.start();
    let api = Api::new(&plane.kubeconfig("admin")).await;
    api.create("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await;
    let mut rows: Vec<Row> = Vec::new();
    println!("{}", Row::HEAD);
    for &nodes in &arguments.nodes {
        api.create_all("/api/v1/nodes", &objects::nodes(nodes, RACK)).await;
        for shape in Shape::ALL {
            for arriving in [false, true] {
                for binder in Binder::ALL {
                    // A bare client does not wait for pods; what events cost shows without waiting.
                    if arriving && matches!(binder, Binder::Bare | Binder::PhalanxEvents) {
                        continue;
                    }
                    let load = format!(
                        "{nodes} nodes, {}, {}, {}",
                        shape.name(),
                        if arriving { "arriving" } else { "waiting" },
                        binder.name()
                    );
                    if !load.contains(&arguments.only) {
                        continue;
                    }
                    let case =
                        Case { plane, api: &api, shape, arriving, binder, pods: arguments.pods };
                    let row = case.measure(nodes).await;
                    println!("{row}");
                    rows.push(row);
                    objects::clear_pods(&api).await;
                }
            }
        }
        // The next, larger number keeps these nodes; a smaller one would not.
    }
    print!("{}", row::ratios(&rows));
    if let Some(output) = &arguments.output {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        let text = serde_json::to_string_pretty(&rows).expect("rows are JSON");
        fs::write(output, text + "\n").expect("the output can be written");
    }
}

/// One row before it is measured.
struct Case<'a> {
    plane: &'a ControlPlane,
    api: &'a Api,
    shape: Shape,
    arriving: bool,
    binder: Binder,
    pods: usize,
}

impl Case<'_> {
    async fn measure(&self, nodes: usize) -> Row {
        let ledger = Ledger::start(self.api).await;
        let mut expected = self.expected();
        if !self.arriving {
            self.create().await;
        }
        let mut meter = Meter::start(self.plane);
        let program = self.start();
        if self.arriving {
            // It is there when it has bound a pod.
            let pod = objects::pod("first", 1, self.binder.scheduler());
            self.api.create(&pods(), &pod).await;
            expected += 1;
            until(&ledger, 1).await;
            meter = Meter::start(self.plane);
            meter.running(program.id(self.plane));
            self.create().await;
        }
        until(&ledger, expected).await;
        let measured = meter.end(|| program.id(self.plane));
        let book = ledger.book();
        // A pod that arrives has a begin of its own; those that wait have the program's.
        let begin = if self.arriving { None } else { started(program.id(self.plane)) };
        let times = book
            .present()
            .filter(|(_, pod)| pod.key.1 != "first")
            .filter_map(|(_, pod)| Some((begin.unwrap_or(pod.seen), pod.bound?)));
        let load = Load { nodes, shape: self.shape.name(), arriving: self.arriving };
        let row = Row::new(load, self.binder.name(), self.expected(), times, measured);
        program.end(self.plane);
        row
    }

    fn expected(&self) -> usize {
        match self.shape {
            Shape::Single => self.pods,
            Shape::Gangs | Shape::GangsInRacks => self.pods.div_ceil(GANG) * GANG,
        }
    }

    /// The pods, as fast as the server takes them.
    async fn create(&self) {
        let scheduler = self.binder.scheduler();
        if self.shape == Shape::Single {
            let all: Vec<Value> =
                (0..self.pods).map(|n| objects::pod(&format!("pod-{n}"), 1, scheduler)).collect();
            return self.api.create_all(&pods(), &all).await;
        }
        let names: Vec<String> = (0..self.expected() / GANG).map(|n| format!("gang-{n}")).collect();
        let gangs = names.iter().map(|name| Gang {
            name,
            pods: GANG,
            one_rack: self.shape == Shape::GangsInRacks,
            ..Gang::default()
        });
        let groups: Vec<Value> = gangs.clone().map(|gang| gang.group()).collect();
        self.api.create_all(&objects::groups(NAMESPACE), &groups).await;
        let all: Vec<Value> = gangs.flat_map(|gang| gang.all_pods(scheduler)).collect();
        self.api.create_all(&pods(), &all).await;
    }

    fn start(&self) -> Running {
        let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compare.log");
        let kubeconfig = self.plane.kubeconfig("scheduler");
        match self.binder {
            Binder::Bare => {
                let own = std::env::current_exe().expect("this program has a path");
                let mut command = Command::new(own);
                // The role of kube-scheduler may bind, and list what it must.
                command.arg(bare::COMMAND).arg(kubeconfig);
                Running::Child(Program::spawn(command, &log))
            }
            Binder::Phalanx | Binder::PhalanxEvents => {
                let file = self.plane.state().join("compare.yaml");
                let events = self.binder == Binder::PhalanxEvents;
                fs::write(&file, format!("events: {{perPod: {events}}}\n"))
                    .expect("the state folder");
                let file = file.to_str().expect("the path is text");
                Running::Child(Program::start(&kubeconfig, &["--config", file], &log))
            }
            Binder::Kube => {
                tokio::task::block_in_place(|| self.plane.run(&["start", "--with-scheduler"]));
                Running::Part("kube-scheduler")
            }
        }
    }
}

/// A program that runs.
enum Running {
    Child(Program),
    /// A part of the control plane.
    Part(&'static str),
}

impl Running {
    fn id(&self, plane: &ControlPlane) -> u32 {
        match self {
            Self::Child(program) => program.id(),
            Self::Part(part) => plane.id(part).expect("the part runs"),
        }
    }

    fn end(self, plane: &ControlPlane) {
        match self {
            Self::Child(program) => program.kill(),
            Self::Part(part) => drop(plane.run(&["stop", part])),
        }
    }
}

/// The path of the pods.
fn pods() -> String {
    objects::pods(NAMESPACE)
}

/// Waits for so many bound pods, or for the end of the time that a row has.
async fn until(ledger: &Ledger, count: usize) {
    ledger.within(LIMIT, |book| book.bound(NAMESPACE) >= count).await;
}
