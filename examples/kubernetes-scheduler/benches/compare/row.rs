//! A row: its measurements, and how it is written.

use std::fmt::{self, Display, Formatter, Write};
use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::control_plane::ControlPlane;
use crate::support::program::{Usage, thread_cpu};

/// Readings at the begin of a measurement.
pub struct Meter {
    begin: Instant,
    server: u32,
    store: u32,
    server_cpu: f64,
    store_cpu: f64,
    program_cpu: f64,
    decide_cpu: f64,
    own_cpu: f64,
    busy: f64,
}

/// Resources used between the begin and the end of a measurement.
pub struct Measured {
    /// CPU seconds.
    program_cpu: f64,
    decide_cpu: f64,
    server_cpu: f64,
    store_cpu: f64,
    /// Cores that others kept busy, on average.
    others: f64,
    /// Peak of the resident memory in MiB.
    program_mib: u64,
    server_mib: u64,
    /// The load average of the last minute.
    load: f64,
}

fn cpu(pid: u32) -> f64 {
    Usage::of(pid).unwrap_or_default().cpu
}

/// CPU seconds that all cores have been busy.
fn busy() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, then idle and waiting for I/O, then interrupts; the rest counts twice.
    (ticks[..3].iter().sum::<f64>() + ticks[5..7].iter().sum::<f64>()) / 100.0
}

impl Meter {
    /// Readings of now. The program is taken not to run yet.
    pub fn start(plane: &ControlPlane) -> Self {
        let id = |part: &str| plane.id(part).expect("the control plane runs");
        let (server, store) = (id("kube-apiserver"), id("etcd"));
        Self {
            begin: Instant::now(),
            server,
            store,
            server_cpu: cpu(server),
            store_cpu: cpu(store),
            program_cpu: 0.0,
            decide_cpu: 0.0,
            own_cpu: cpu(std::process::id()),
            busy: busy(),
        }
    }

    /// Begins to count: the program's use so far does not count.
    pub fn running(&mut self, program: u32) {
        self.program_cpu = cpu(program);
        self.decide_cpu = thread_cpu(program, "decide");
    }

    /// Readings of now, less those of the begin.
    pub fn end(self, program: impl FnOnce() -> u32) -> Measured {
        let seconds = self.begin.elapsed().as_secs_f64();
        let server = Usage::of(self.server).unwrap_or_default();
        let store_cpu = cpu(self.store) - self.store_cpu;
        let server_cpu = server.cpu - self.server_cpu;
        let busy = busy() - self.busy;
        let own_cpu = cpu(std::process::id()) - self.own_cpu;
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let id = program();
        let program = Usage::of(id).unwrap_or_default();
        let program_cpu = program.cpu - self.program_cpu;
        Measured {
            program_cpu,
            decide_cpu: thread_cpu(id, "decide") - self.decide_cpu,
            server_cpu,
            store_cpu,
            others: ((busy - own_cpu - program_cpu - server_cpu - store_cpu) / seconds).max(0.0),
            program_mib: program.peak_mib,
            server_mib: server.peak_mib,
            load: load.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        }
    }
}

/// Load that the rows to compare have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// How pods hang together.
    pub shape: &'static str,
    /// Whether pods arrive while the program runs.
    pub arriving: bool,
}

impl Load {
    fn name(self) -> &'static str {
        if self.arriving { "arriving" } else { "waiting" }
    }
}

/// One program under one load.
pub struct Row {
    load: Load,
    binder: &'static str,
    /// Pods that there are.
    wanted: usize,
    /// Pods of it that were bound in time.
    pods: usize,
    /// Seconds from the first to the last binding.
    first_to_last: f64,
    /// Seconds from the begin (of the program, or of the first pod) to the last binding.
    since_begin: f64,
    /// Milliseconds from the begin (of the program, or of the pod) to the pod's binding.
    p50_ms: f64,
    p99_ms: f64,
    measured: Measured,
}

impl Row {
    /// The head of the table of rows.
    pub const HEAD: &str = "\
| nodes | pods | load | program | bound/s | since begin | p50 ms | p99 ms | CPU ms a pod | of it deciding | API server | etcd | two free cores | MiB | API MiB | others' cores | load average |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

    /// A row of times from begin to binding, by pod.
    pub fn new(
        load: Load,
        binder: &'static str,
        wanted: usize,
        times: impl Iterator<Item = (Instant, Instant)>,
        measured: Measured,
    ) -> Self {
        let (mut begins, mut ends, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
        for (begin, end) in times {
            begins.push(begin);
            ends.push(end);
            latencies.push(end.duration_since(begin).as_secs_f64() * 1e3);
        }
        latencies.sort_by(f64::total_cmp);
        let percentile = |part: usize| latencies[(latencies.len() * part).div_ceil(100) - 1];
        let first = |times: &[Instant]| times.iter().copied().min().expect("pods are bound");
        let last = ends.iter().copied().max().expect("pods are bound");
        Self {
            load,
            binder,
            wanted,
            pods: ends.len(),
            first_to_last: last.duration_since(first(&ends)).as_secs_f64(),
            since_begin: last.duration_since(first(&begins)).as_secs_f64(),
            p50_ms: percentile(50),
            p99_ms: percentile(99),
            measured,
        }
    }

    /// Bound pods a second, from the first to the last.
    fn rate(&self) -> f64 {
        self.pods as f64 / self.first_to_last
    }

    /// CPU milliseconds of the program for each pod.
    fn cpu(&self) -> f64 {
        self.a_pod(self.measured.program_cpu)
    }

    /// Seconds in all as milliseconds a pod.
    fn a_pod(&self, seconds: f64) -> f64 {
        seconds * 1e3 / self.pods as f64
    }

    /// Pods a second if the program, the API server and etcd had two cores for themselves and kept
    /// them busy: computed from CPU times, and not measured.
    fn two_free_cores(&self) -> f64 {
        let Measured { program_cpu, server_cpu, store_cpu, .. } = self.measured;
        2.0 * self.pods as f64 / (program_cpu + server_cpu + store_cpu)
    }

    /// Every figure under its name.
    pub fn json(&self) -> Value {
        let measured = &self.measured;
        json!({
            "nodes": self.load.nodes, "shape": self.load.shape, "load": self.load.name(),
            "pods": self.wanted, "bound": self.pods,
            "program": self.binder,
            "bound_per_s": self.rate(),
            "first_to_last_s": self.first_to_last, "since_begin_s": self.since_begin,
            "p50_ms": self.p50_ms, "p99_ms": self.p99_ms,
            "program_cpu_s": measured.program_cpu, "deciding_cpu_s": measured.decide_cpu,
            "api_server_cpu_s": measured.server_cpu, "etcd_cpu_s": measured.store_cpu,
            "two_free_cores_per_s": self.two_free_cores(),
            "program_peak_mib": measured.program_mib, "api_server_peak_mib": measured.server_mib,
            "others_cores": measured.others, "load_average": measured.load,
        })
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { load, wanted, binder, measured, .. } = self;
        write!(f, "| {} | {wanted} {} | {} | {binder} | ", load.nodes, load.shape, load.name())?;
        if self.pods < *wanted {
            write!(f, "({} bound) ", self.pods)?;
        }
        write!(f, "{:.0} | ", self.rate())?;
        write!(f, "{:.1} s | {:.0} | {:.0} | ", self.since_begin, self.p50_ms, self.p99_ms)?;
        write!(f, "{:.2} | ", self.cpu())?;
        match self.binder {
            "bare client" | "kube-scheduler" => f.write_str("- | ")?,
            _ => write!(f, "{:.2} | ", self.a_pod(measured.decide_cpu))?,
        }
        write!(f, "{:.2} | ", self.a_pod(measured.server_cpu))?;
        write!(f, "{:.2} | {:.0} | ", self.a_pod(measured.store_cpu), self.two_free_cores())?;
        write!(f, "{} | {} | ", measured.program_mib, measured.server_mib)?;
        write!(f, "{:.1} | {:.1} |", measured.others, measured.load)
    }
}

/// For each load, the scheduler of this package beside the others.
pub fn ratios(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.binder == "phalanx") {
        let other = |binder: &str| {
            rows.iter().find(|other| other.load == row.load && other.binder == binder)
        };
        let Load { nodes, shape, .. } = row.load;
        let _ = write!(text, "{nodes} nodes, {shape}, {}:", row.load.name());
        if let Some(kube) = other("kube-scheduler") {
            let deciding = kube.measured.program_cpu / row.measured.decide_cpu;
            let _ =
                write!(text, " kube-scheduler takes {:.1} times the CPU,", kube.cpu() / row.cpu());
            let _ = write!(text, " {deciding:.1} times that of deciding,");
            let _ = write!(text, " and binds {:.0} % as fast;", 100.0 * kube.rate() / row.rate());
        }
        if let Some(bare) = other("bare client") {
            let _ = write!(
                text,
                " {:.0} % of the rate of a bare client;",
                100.0 * row.rate() / bare.rate()
            );
        }
        text.push('\n');
    }
    text
}
