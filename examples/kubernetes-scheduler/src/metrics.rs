//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::{Duration, Instant};

use phalanx::Scheduler;
use phalanx::kubernetes::watch::Kind;
use phalanx::queue::{Gate, GroupState, Shortage};
use phalanx::quota::QueueKind;
use phalanx_kubernetes_client::api::Counts;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

#[derive(Default)]
pub struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    pub fn add(&mut self, value: Duration) {
        let seconds = value.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        if let Some(at) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.counts[at] += 1;
        }
    }

    fn write(&self, name: &str, help: &str, text: &mut String) {
        head(text, name, "histogram", help);
        let mut sum = 0;
        for (bound, count) in BOUNDS.iter().zip(self.counts) {
            sum += count;
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {sum}");
        }
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(text, "{name}_sum {}\n{name}_count {}", self.sum, self.count);
    }
}

#[derive(Default)]
pub struct Metrics {
    decisions: BTreeMap<&'static str, u64>,
    pub decision: Histogram,
    pub binding: Histogram,
    pub pod_scheduling: Histogram,
    /// From the arrival of news to their effect on the state.
    pub input_lag: Histogram,
    /// The last sign of life of each watch.
    pub watches: BTreeMap<Kind, Instant>,
    /// Configurations that were read anew, and those that were refused.
    pub reloads: BTreeMap<&'static str, u64>,
}

impl Metrics {
    /// Counts a decision by its outcome.
    pub fn count(&mut self, outcome: &'static str) {
        *self.decisions.entry(outcome).or_default() += 1;
    }

    /// Everything. O(groups).
    pub fn text(&self, scheduler: &Scheduler, api: &Counts) -> String {
        let mut text = String::new();
        leader(&mut text, true);
        requests(&mut text, api);
        let help = "Decisions by outcome.";
        labelled(&mut text, "phalanx_decisions_total", "counter", help, "outcome", &self.decisions);
        let help = "Time to take one decision, attempts before it included.";
        self.decision.write("phalanx_decision_seconds", help, &mut text);
        let help = "Time to bind one pod, attempts before it included.";
        self.binding.write("phalanx_binding_seconds", help, &mut text);
        let help = "Time from first seeing a pod to its binding.";
        self.pod_scheduling.write("phalanx_pod_scheduling_seconds", help, &mut text);
        let (mut states, mut reasons) = (BTreeMap::new(), BTreeMap::new());
        for group in scheduler.groups() {
            let Some(state) = scheduler.state(group) else { continue };
            let (state, reason) = words(&state);
            *states.entry(state).or_insert(0) += 1;
            if let Some(reason) = reason {
                *reasons.entry(reason).or_insert(0) += 1;
            }
        }
        labelled(&mut text, "phalanx_groups", "gauge", "Groups by state.", "state", &states);
        let help = "Groups that wait, by reason.";
        labelled(&mut text, "phalanx_groups_waiting", "gauge", help, "reason", &reasons);
        attempts(&mut text, scheduler);
        let help = "Time from the arrival of news of the API server to their effect on the state.";
        self.input_lag.write("phalanx_input_lag_seconds", help, &mut text);
        let help = "Time since a watch gave its last sign of life; bookmarks come each minute.";
        head(&mut text, "phalanx_watch_silence_seconds", "gauge", help);
        for (kind, at) in &self.watches {
            let (kind, silence) = (format!("{kind:?}"), at.elapsed().as_secs_f64());
            let kind = escaped(&kind);
            let _ = writeln!(text, "phalanx_watch_silence_seconds{{kind=\"{kind}\"}} {silence:.3}");
        }
        let help = "Configurations read while running, by result.";
        let name = "phalanx_configuration_reloads_total";
        labelled(&mut text, name, "counter", help, "result", &self.reloads);
        queues(&mut text, scheduler);
        process(&mut text);
        text
    }
}

/// The metrics of a replica that waits for the lease.
pub fn follower(api: &Counts) -> String {
    let mut text = String::new();
    leader(&mut text, false);
    requests(&mut text, api);
    process(&mut text);
    text
}

fn leader(text: &mut String, leads: bool) {
    head(text, "phalanx_leader", "gauge", "Whether this replica schedules.");
    let _ = writeln!(text, "phalanx_leader {}", u8::from(leads));
}

fn requests(text: &mut String, api: &Counts) {
    let counts: BTreeMap<_, _> = api.by_result().into_iter().collect();
    let help = "Answers of the API server to requests and to starts of watches, by result.";
    labelled(text, "phalanx_api_requests_total", "counter", help, "result", &counts);
}

/// Totals of the scheduler.
fn attempts(text: &mut String, scheduler: &Scheduler) {
    let all = scheduler.metrics();
    let results = BTreeMap::from([
        ("placed", all.placed),
        ("denied", all.denied),
        ("capacity", all.short_of_capacity),
        ("quota", all.short_of_quota),
        ("placement", all.no_placement),
    ]);
    let help = "Attempts to place a group, by result.";
    labelled(text, "phalanx_attempts_total", "counter", help, "result", &results);
    let mut value = |name: &str, help: &str, value: u64| {
        head(text, name, "counter", help);
        let _ = writeln!(text, "{name} {value}");
    };
    value("phalanx_groups_started_total", "Groups started.", all.started);
    value("phalanx_pods_bound_total", "Pods bound.", all.bound);
    value("phalanx_binding_failures_total", "Pods that could not be bound.", all.bind_failures);
    value("phalanx_victim_searches_total", "Searches for victims.", all.victim_searches);
    value("phalanx_victims_total", "Units evicted for others.", all.victims);
    value("phalanx_moves_total", "Units moved so that others fit.", all.moves);
    let help = "Evictions and moves that were taken back.";
    value("phalanx_evictions_cancelled_total", help, all.evictions_cancelled);
    value("phalanx_gangs_evicted_total", "Gangs evicted below their minimum.", all.evictions);
    value("phalanx_reservations_total", "Reservations begun.", all.reservations);
    value("phalanx_promises_total", "Starts promised to groups that wait.", all.promises);
}

/// Usage, guarantees and shares of the tenants' queues, and the groups that wait in each.
fn queues(text: &mut String, scheduler: &Scheduler) {
    let Some(tenants) = scheduler.tenants() else { return };
    let tree = tenants.tree();
    let leaves = tree.queues(QueueKind::Leaf).filter_map(|id| tree.spec(id));
    let (mut waiting, mut shares) = (String::new(), String::new());
    let mut amounts: [String; 4] = Default::default();
    for spec in leaves {
        let queue = escaped(&spec.name);
        let count = scheduler.queue(&spec.name).count();
        let _ = writeln!(waiting, "phalanx_queue_waiting{{queue=\"{queue}\"}} {count}");
        let Some(status) = scheduler.queue_status(&spec.name) else { continue };
        let share = status.report.share as f64 / 1_000.0;
        let _ = writeln!(shares, "phalanx_queue_share{{queue=\"{queue}\"}} {share}");
        for own in &status.report.resources {
            let (flavor, resource) = (escaped(&own.flavor), escaped(&own.resource));
            let values = [own.sums.used, own.sums.nominal, own.deserved, own.borrowed];
            for ((lines, name), value) in amounts.iter_mut().zip(AMOUNTS).zip(values) {
                let _ = writeln!(
                    lines,
                    "{}{{queue=\"{queue}\",flavor=\"{flavor}\",resource=\"{resource}\"}} {value}",
                    name.0
                );
            }
        }
    }
    head(text, "phalanx_queue_waiting", "gauge", "Groups that wait, by queue.");
    text.push_str(&waiting);
    let help = "Share of what is borrowed, over the weight.";
    head(text, "phalanx_queue_share", "gauge", help);
    text.push_str(&shares);
    for (lines, (name, help)) in amounts.iter().zip(AMOUNTS) {
        head(text, name, "gauge", help);
        text.push_str(lines);
    }
}

/// Amounts of a queue; CPU in thousandths of a core, memory in bytes.
const AMOUNTS: [(&str, &str); 4] = [
    ("phalanx_queue_used", "Usage by queue, flavor and resource."),
    ("phalanx_queue_nominal", "Guarantee of the queue."),
    ("phalanx_queue_deserved", "Amount that the queue would have if all claims were of one unit."),
    ("phalanx_queue_borrowed", "Usage beyond the guarantees."),
];

/// A value of a label, as the text format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The state of a group, and the reason for which it waits, each in a word.
pub fn words(state: &GroupState) -> (&'static str, Option<&'static str>) {
    match state {
        GroupState::Gated(gate) => (
            "gated",
            Some(match gate {
                Gate::Members { .. } => "members",
                Gate::Partner { .. } => "partner",
                Gate::Evicting => "evicting",
                _ => "gated",
            }),
        ),
        GroupState::Queued => ("queued", Some("turn")),
        GroupState::BackingOff { .. } => ("backing-off", Some("back-off")),
        GroupState::Unschedulable { shortage, .. } => (
            "unschedulable",
            Some(match shortage {
                Some(Shortage::Capacity { .. }) => "capacity",
                Some(Shortage::Permit { .. }) => "permit",
                Some(Shortage::Binding { .. }) => "binding",
                Some(Shortage::Quota { .. }) => "quota",
                _ => "placement",
            }),
        ),
        GroupState::Permitting { .. } => ("permitting", Some("permit")),
        GroupState::Binding { .. } => ("binding", None),
        GroupState::Undoing => ("undoing", None),
        GroupState::Running => ("running", None),
        GroupState::BelowMinimum { .. } => ("below-minimum", None),
        GroupState::Paused => ("paused", Some("paused")),
        GroupState::Finished => ("finished", None),
        GroupState::Failed { .. } => ("failed", Some("invalid")),
        _ => ("unknown", None),
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn labelled(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    label: &str,
    values: &BTreeMap<&'static str, u64>,
) {
    head(text, name, kind, help);
    for (value, count) in values {
        let _ = writeln!(text, "{name}{{{label}=\"{value}\"}} {count}");
    }
}

/// CPU time and memory, where the system tells.
fn process(text: &mut String) {
    let mut value = |name: &str, kind: &str, help: &str, value: &dyn Display| {
        head(text, name, kind, help);
        let _ = writeln!(text, "{name} {value}");
    };
    // Nanoseconds on a processor come first.
    let nanos = |path: &str| {
        let file = std::fs::read_to_string(path).ok()?;
        file.split_whitespace().next()?.parse::<f64>().ok()
    };
    if let Some(own) = nanos("/proc/thread-self/schedstat") {
        let help = "CPU time of the thread that decides and keeps the state.";
        value("phalanx_decision_cpu_seconds_total", "counter", help, &(own / 1e9));
    }
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all = threads.filter_map(|task| nanos(task.path().join("schedstat").to_str()?));
    let help = "CPU time of all threads.";
    value("process_cpu_seconds_total", "counter", help, &(all.sum::<f64>() / 1e9));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    if let Some(kib) = kib {
        value("process_resident_memory_bytes", "gauge", "Memory.", &(kib * 1024));
    }
}
