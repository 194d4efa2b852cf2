//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

use phalanx::Scheduler;
use phalanx::queue::{Gate, GroupState, Shortage};

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
}

impl Metrics {
    /// Counts a decision by its outcome.
    pub fn count(&mut self, outcome: &'static str) {
        *self.decisions.entry(outcome).or_default() += 1;
    }

    /// Everything. O(groups).
    pub fn text(&self, scheduler: &Scheduler) -> String {
        let mut text = String::new();
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
        process(&mut text);
        text
    }
}

/// The state of a group, and the reason for which it waits, each in a word.
fn words(state: &GroupState) -> (&'static str, Option<&'static str>) {
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
