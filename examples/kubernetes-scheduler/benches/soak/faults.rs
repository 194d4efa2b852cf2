//! The trouble: nodes that fail and return, a scheduler that is killed, a server that is killed or forgets.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::load::SCHEDULER;
use crate::support::api::Api;
use crate::support::control_plane::ControlPlane;
use crate::support::objects;
use crate::support::program::{Program, Usage};
use crate::support::random::Random;

/// Nodes, and how many share a rack.
pub const NODES: usize = 100;
pub const RACK: usize = 10;

/// Nodes that are in trouble at a time, at most.
const FAILED: usize = 12;

/// A gang is evicted if it is below its minimum for `belowMinimum`.
pub const BELOW_MINIMUM: Duration = Duration::from_secs(20);

/// Configuration of the scheduler.
fn configuration() -> String {
    let below = BELOW_MINIMUM.as_secs();
    format!(
        "preemption: {{timeout: 1m, start: 20s, grace: 30s}}\n\
         timeouts: {{belowMinimum: {below}s, binding: 20s}}\n\
         bindings: {{retryFor: 5s}}\n"
    )
}

/// The scheduler, life after life.
pub struct Lives<'a> {
    plane: &'a ControlPlane,
    log: PathBuf,
    file: PathBuf,
    /// None between two lives.
    program: Option<Program>,
    pub kills: usize,
    /// Ends that nobody asked for.
    pub own_ends: usize,
    cpu: f64,
    last: Usage,
    pub peak_mib: u64,
    /// Resident memory at the end of each life.
    pub resident_mib: Vec<u64>,
}

impl<'a> Lives<'a> {
    pub fn start(plane: &'a ControlPlane) -> Self {
        let file = plane.state().join("soak.yaml");
        fs::write(&file, configuration()).expect("the state folder can be written");
        let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak.log");
        fs::write(&log, "").expect("the target folder can be written");
        let program = Some(launch(plane, &file, &log));
        let (cpu, last) = (0.0, Usage::default());
        Self {
            plane,
            log,
            file,
            program,
            kills: 0,
            own_ends: 0,
            cpu,
            last,
            peak_mib: 0,
            resident_mib: Vec::new(),
        }
    }

    /// Reads what the program uses; starts it anew if it has ended.
    pub fn look(&mut self) {
        let Some(program) = &mut self.program else { return };
        if let Some(usage) = Usage::of(program.id()) {
            self.last = usage;
            self.peak_mib = self.peak_mib.max(usage.peak_mib);
        }
        if !program.runs() {
            self.own_ends += 1;
            self.again();
        }
    }

    /// SIGKILL, and a new life at once.
    pub fn kill(&mut self) {
        self.look();
        self.kills += 1;
        self.again();
    }

    fn again(&mut self) {
        // Two must not run for an instant.
        if let Some(old) = self.program.take() {
            old.kill();
        }
        self.program = Some(launch(self.plane, &self.file, &self.log));
        self.cpu += self.last.cpu;
        self.resident_mib.push(self.last.resident_mib);
        self.last = Usage::default();
    }

    /// CPU seconds of all lives.
    pub fn cpu(&self) -> f64 {
        self.cpu + self.last.cpu
    }
}

fn launch(plane: &ControlPlane, file: &std::path::Path, log: &std::path::Path) -> Program {
    let file = file.to_str().expect("the path is text");
    let arguments = ["--config", file, "--scheduler-name", SCHEDULER];
    Program::start(&plane.kubeconfig("scheduler"), &arguments, log)
}

/// Kills the scheduler at a random moment of each period, until a time is over; looks at it each second.
pub async fn kill_scheduler(lives: &Mutex<Lives<'_>>, every: Duration, time: Duration, seed: u64) {
    let mut random = Random(seed);
    let begin = Instant::now();
    let mut period = 0;
    let moment = |period: u32, random: &mut Random| {
        every * period + every.mul_f64(random.below(1000) as f64 / 1000.0)
    };
    let mut next = moment(period, &mut random);
    while begin.elapsed() < time {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut lives = lives.lock().expect("the lives are whole");
        lives.look();
        if begin.elapsed() >= next {
            lives.kill();
            period += 1;
            next = moment(period, &mut random);
        }
    }
}

/// Trouble that the server had.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerTrouble {
    pub kills: usize,
    pub expired: usize,
    pub longest_away: Duration,
}

/// Kills the API server once a period, and half a period later lets it forget the past: etcd's history is
/// dropped and the server is started anew, so that every watch ends and each old version is too old.
pub async fn trouble_server(
    plane: &ControlPlane,
    every: Duration,
    time: Duration,
) -> ServerTrouble {
    let begin = Instant::now();
    let mut done = ServerTrouble::default();
    for half in 1_u32.. {
        let at = every * half / 2;
        if at + Duration::from_secs(20) >= time {
            break;
        }
        tokio::time::sleep(at.saturating_sub(begin.elapsed())).await;
        let plane = plane.clone();
        let since = Instant::now();
        let kills = half % 2 == 0;
        let task = tokio::task::spawn_blocking(move || {
            if kills {
                let id = plane.id("kube-apiserver").expect("the server runs");
                let sent = Command::new("kill").args(["-9", &id.to_string()]).status();
                assert!(sent.expect("the program `kill` is there").success());
                std::thread::sleep(Duration::from_secs(10));
                plane.start();
            } else {
                plane.run(&["expire"]);
            }
        });
        task.await.expect("the control plane obeys");
        let away = since.elapsed();
        done.longest_away = done.longest_away.max(away);
        *(if kills { &mut done.kills } else { &mut done.expired }) += 1;
    }
    tokio::time::sleep(time.saturating_sub(begin.elapsed())).await;
    done
}

/// How a node is in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Gone,
    NotReady,
    Cordoned,
}

/// Nodes fail one after another and return after a while; all are well when a time is over. Returns how many
/// failed.
pub async fn fail_nodes(
    api: &Api,
    dead: &Mutex<BTreeSet<String>>,
    time: Duration,
    seed: u64,
) -> usize {
    let mut random = Random(seed);
    let begin = Instant::now();
    let mut failed: Vec<(usize, Trouble, Instant)> = Vec::new();
    let mut count = 0;
    while begin.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(1000 + random.below(3000))).await;
        let (due, rest) = failed.into_iter().partition(|(_, _, back)| *back <= Instant::now());
        failed = rest;
        heal(api, dead, due).await;
        let node = random.below(NODES as u64) as usize;
        // The first node of each rack never fails.
        if node.is_multiple_of(RACK)
            || failed.len() >= FAILED
            || failed.iter().any(|(own, ..)| *own == node)
        {
            continue;
        }
        let trouble =
            [Trouble::Gone, Trouble::NotReady, Trouble::Cordoned][random.below(3) as usize];
        fail(api, dead, node, trouble).await;
        count += 1;
        failed.push((node, trouble, Instant::now() + Duration::from_secs(10 + random.below(40))));
    }
    heal(api, dead, failed).await;
    count
}

fn name(node: usize) -> String {
    format!("node-{node:04}")
}

/// A node as it is when it is well.
fn node(number: usize) -> Value {
    objects::node(&name(number), &format!("rack-{}", number / RACK))
}

async fn fail(api: &Api, dead: &Mutex<BTreeSet<String>>, node: usize, trouble: Trouble) {
    let (name, path) = (name(node), format!("/api/v1/nodes/{}", name(node)));
    match trouble {
        Trouble::Gone => api.delete(&path).await,
        Trouble::NotReady => {
            let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
            api.patch(&format!("{path}/status"), &status).await;
        }
        Trouble::Cordoned => {
            return api.patch(&path, &json!({"spec": {"unschedulable": true}})).await;
        }
    }
    dead.lock().expect("the nodes are whole").insert(name);
}

async fn heal(api: &Api, dead: &Mutex<BTreeSet<String>>, failed: Vec<(usize, Trouble, Instant)>) {
    for (number, trouble, _) in failed {
        let path = format!("/api/v1/nodes/{}", name(number));
        match trouble {
            Trouble::Gone => {
                api.create("/api/v1/nodes", &node(number)).await;
            }
            Trouble::NotReady => {
                let status =
                    json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
                api.patch(&format!("{path}/status"), &status).await;
            }
            Trouble::Cordoned => {
                api.patch(&path, &json!({"spec": {"unschedulable": null}})).await;
            }
        }
        dead.lock().expect("the nodes are whole").remove(&name(number));
    }
}
