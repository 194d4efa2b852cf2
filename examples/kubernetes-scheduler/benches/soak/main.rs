//! An hour of trouble, with checks from outside.
//!
//! ```text
//! CONTROL_PLANE=... cargo bench --bench soak -- [--minutes N] [--seed N] [--server-every MINUTES]
//!     [--drain SECONDS] [--plant] [--output FILE]
//! ```
//!
//! Gangs come, run for a while and go, on 100 nodes that fail and return; one minute in five they ask for more
//! than there is. The scheduler is killed once a minute, at a random moment. The API server is killed every ten
//! minutes; half way between, etcd's history is dropped and the server started anew, so that every watch
//! expires. Afterwards all gangs must run to their end, and gangs that take every CPU must then fit.
//!
//! The inspector, a process of its own that only reads the API, tells each rule that does not hold: a node over
//! its capacity, a gang below its minimum beyond the deadline or on two racks, a pod bound twice, anything that
//! waits at the end. One finding fails the run. `--plant` breaks the rules by a bare client, in three minutes; the
//! run then fails unless just those are found.

mod faults;
mod inspect;
mod load;
mod plant;
#[path = "../../tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use faults::{BELOW_MINIMUM, Lives, NODES, RACK};
use load::{CLASS, Load, NAMESPACE, Plan};
use support::api::{Api, runtime};
use support::control_plane::ControlPlane;
use support::objects::{self, NODE_CPU};
use support::random::Random;

/// The longest time for which a gang may be below its minimum: a kill lets the scheduler begin to count anew, and
/// it takes a while to begin, to evict, and to see what others have done.
const DEADLINE: Duration = BELOW_MINIMUM.saturating_mul(3);

/// The time for gangs that take every CPU.
const FILL: Duration = Duration::from_secs(120);

struct Arguments {
    time: Duration,
    seed: u64,
    server_every: Duration,
    drain: Duration,
    plant: bool,
    output: Option<PathBuf>,
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let minutes = |text: String| {
            Duration::from_secs(60) * text.parse::<u32>().expect("minutes: a number")
        };
        let mut read = Self {
            time: Duration::from_secs(3600),
            seed: 1,
            server_every: Duration::from_secs(600),
            drain: Duration::from_secs(300),
            plant: false,
            output: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().unwrap_or_else(|| panic!("{argument}: a value is missing"));
            match argument.as_str() {
                "--minutes" => read.time = minutes(value()),
                "--seed" => read.seed = value().parse().expect("--seed: a number"),
                "--server-every" => read.server_every = minutes(value()),
                "--drain" => {
                    read.drain = Duration::from_secs(value().parse().expect("--drain: seconds"))
                }
                "--plant" => read.plant = true,
                "--output" => read.output = Some(value().into()),
                // From cargo.
                "--bench" | "--test" => {}
                _ => panic!("{argument} is no argument"),
            }
        }
        assert!(read.seed > 0, "--seed: at least 1");
        read
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|first| first == inspect::COMMAND).is_some() {
        let kubeconfig = arguments.next().expect("a kubeconfig");
        let seconds =
            arguments.next().and_then(|text| text.parse().ok()).expect("a deadline in seconds");
        inspect::main(Path::new(&kubeconfig), Duration::from_secs(seconds));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::read(arguments);
    let Some(plane) = ControlPlane::from_environment() else {
        println!("note: CONTROL_PLANE is not set; the soak is not run");
        return ExitCode::SUCCESS;
    };
    plane.start();
    let runtime = runtime(2);
    let result = runtime.block_on(soak(&plane, &arguments));
    let text = serde_json::to_string_pretty(&result).expect("the result is JSON");
    println!("{text}");
    if let Some(output) = &arguments.output {
        fs::write(output, text + "\n").expect("the output can be written");
    }
    if result["holds"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn soak(plane: &ControlPlane, arguments: &Arguments) -> Value {
    let api = Api::new(&plane.kubeconfig("admin")).await;
    let class = json!({"metadata": {"name": CLASS}, "value": 1000});
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    api.create("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await;
    api.create_all("/api/v1/nodes", &objects::nodes(NODES, RACK)).await;
    let inspector = Process::start(&plane.kubeconfig("admin"));
    let lives = Mutex::new(Lives::start(plane));
    let dead = Mutex::new(BTreeSet::new());
    let load = Load::new(&api, &dead);
    let (time, seed) = (arguments.time, arguments.seed);
    let plan = Plan { cpus: NODES as u64 * NODE_CPU, time, drain: arguments.drain };
    let (mut server, mut failed) = (faults::ServerTrouble::default(), 0);
    let trouble = async {
        let planted = async {
            if arguments.plant {
                tokio::time::sleep(Duration::from_secs(30)).await;
                plant::plant(&api, DEADLINE).await;
            }
        };
        (server, failed, _, ()) = tokio::join!(
            faults::trouble_server(plane, arguments.server_every, time),
            faults::fail_nodes(&api, &dead, time, seed + 1),
            faults::kill_scheduler(&lives, Duration::from_secs(60), time, seed + 2),
            planted,
        );
    };
    let done = load.run(plan, &mut Random(seed), trouble).await;
    let began = Instant::now();
    let filled = load.fill_all(NODES / RACK, RACK, FILL).await;
    let fill = began.elapsed();
    let mut lives = lives.into_inner().expect("the lives are whole");
    lives.look();
    let (findings, seen) = inspector.end();
    let rules: BTreeSet<&str> =
        findings.iter().filter_map(|line| line.split(" s ").nth(1)?.split(": ").next()).collect();
    let expected: &[&str] = if arguments.plant { &plant::RULES } else { &[] };
    let holds = filled && done.made == done.ended && rules.iter().eq(expected);
    let pods = seen["bindings"].as_f64().unwrap_or(0.0).max(1.0);
    json!({
        "holds": holds,
        "findings": findings,
        "expectedRules": expected,
        "minutes": time.as_secs() / 60,
        "deadlineS": DEADLINE.as_secs(),
        "gangsMade": done.made,
        "gangsEnded": done.ended,
        "podsMadeAnew": done.pods_anew,
        "fullClusterAfterS": filled.then_some(fill.as_secs_f64()),
        "scheduler": {
            "kills": lives.kills,
            "ownEnds": lives.own_ends,
            "cpuS": lives.cpu(),
            "cpuMsABinding": lives.cpu() * 1e3 / pods,
            "peakMib": lives.peak_mib,
            "residentMibAtTheEndOfEachLife": lives.resident_mib,
        },
        "server": {
            "kills": server.kills,
            "expired": server.expired,
            "longestAwayS": server.longest_away.as_secs_f64(),
        },
        "nodesFailed": failed,
        "inspector": seen,
    })
}

/// The inspector's process, and a thread that reads what it says.
struct Process {
    child: Child,
    reader: JoinHandle<(Vec<String>, Value)>,
}

impl Process {
    fn start(kubeconfig: &Path) -> Self {
        let own = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(own)
            .arg(inspect::COMMAND)
            .arg(kubeconfig)
            .arg(DEADLINE.as_secs().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the inspector can be started");
        let output = child.stdout.take().expect("its output is a pipe");
        let reader = std::thread::spawn(move || {
            let (mut findings, mut seen) = (Vec::new(), Value::Null);
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                match line.split_once(' ') {
                    Some((inspect::SUMMARY, text)) => {
                        seen = serde_json::from_str(text).expect("the summary is JSON");
                    }
                    Some((inspect::FINDING, text)) => {
                        println!("{line}");
                        findings.push(text.to_owned());
                    }
                    _ => println!("{line}"),
                }
            }
            (findings, seen)
        });
        Self { child, reader }
    }

    /// Tells it that this is the end. Returns its findings and numbers.
    fn end(mut self) -> (Vec<String>, Value) {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("a child can be waited for");
        let (findings, seen) = self.reader.join().expect("its output is read");
        assert!(status.success() && seen.is_object(), "the inspector ends with {status}");
        (findings, seen)
    }
}
