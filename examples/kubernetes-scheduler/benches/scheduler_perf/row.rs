//! A row: the figures of its runs, their medians, and the ratios of the programs.

use std::fmt::{self, Display, Formatter, Write};
use std::time::Instant;

use serde_json::{Value, json};

use crate::workloads::Workload;

/// The result of a run.
pub struct Run {
    /// Mean of the samples, in pods a second; none for fewer than two.
    pub sampled: Option<f64>,
    /// Pods a second from the first creation to the last binding.
    pub whole: f64,
    pub bound: usize,
    /// CPU of the program a pod.
    pub cpu_ms: Option<f64>,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Run {
    /// A run that began at some time, from the times at which its pods were created and bound.
    pub fn new(
        sampled: Option<f64>,
        begin: Instant,
        wanted: usize,
        times: &[(Instant, Instant)],
        cpu_s: Option<f64>,
    ) -> Self {
        let bound = times.len();
        let mut waits: Vec<f64> =
            times.iter().map(|(seen, at)| (*at - *seen).as_secs_f64() * 1e3).collect();
        waits.sort_by(f64::total_cmp);
        let part = |of: usize| waits.get(bound * of / 100).copied().unwrap_or(0.0);
        let last = times.iter().map(|(_, at)| *at).max().unwrap_or(begin);
        let whole = bound as f64 / (last - begin).as_secs_f64().max(1e-3);
        // A program that leaves pods unbound has no rate.
        let (sampled, whole) = if bound < wanted { (None, 0.0) } else { (sampled, whole) };
        let cpu_ms = cpu_s.map(|seconds| seconds * 1e3 / bound.max(1) as f64);
        Self { sampled, whole, bound, cpu_ms, p50_ms: part(50), p99_ms: part(99) }
    }
}

/// A workload and a program.
pub struct Row {
    pub workload: &'static Workload,
    pub binder: &'static str,
    pub divide: usize,
    pub runs: Vec<Run>,
}

/// The median of figures; the lower one of an even number. None if there are none.
fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied()
}

impl Row {
    /// The head of the table.
    pub const HEAD: &str = "| workload | program | bound | pods/s, samples | pods/s, whole | CPU ms a pod | p50 ms | p99 ms |\n\
         |---|---|---:|---:|---:|---:|---:|---:|";

    /// The median of a figure over the runs that have it.
    fn of(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        median(self.runs.iter().filter_map(figure))
    }

    /// The fewest pods that a run bound.
    fn bound(&self) -> usize {
        self.runs.iter().map(|run| run.bound).min().unwrap_or(0)
    }

    /// Every figure under its name, medians first.
    pub fn json(&self) -> Value {
        let runs: Vec<Value> = (self.runs.iter())
            .map(|run| {
                json!({
                    "bound": run.bound, "sampledPodsPerS": run.sampled, "wholePodsPerS": run.whole,
                    "cpuMsAPod": run.cpu_ms, "p50Ms": run.p50_ms, "p99Ms": run.p99_ms,
                })
            })
            .collect();
        json!({
            "workload": self.workload.name, "program": self.binder, "divide": self.divide,
            "bound": self.bound(),
            "sampledPodsPerS": self.of(|run| run.sampled),
            "wholePodsPerS": self.of(|run| Some(run.whole)),
            "cpuMsAPod": self.of(|run| run.cpu_ms),
            "p50Ms": self.of(|run| Some(run.p50_ms)),
            "p99Ms": self.of(|run| Some(run.p99_ms)),
            "runs": runs,
        })
    }

    /// The median of a figure's ratio to another program's, run by run.
    fn ratio(&self, other: &Row, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let pairs = self.runs.iter().zip(&other.runs);
        median(pairs.filter_map(|(own, other)| {
            let (own, other) = (figure(own)?, figure(other)?);
            (other > 0.0).then(|| own / other)
        }))
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = |figure: Option<f64>, digits: usize| {
            figure.map_or("–".to_owned(), |figure| format!("{figure:.digits$}"))
        };
        write!(f, "| {} | {} | {} | ", self.workload.name, self.binder, self.bound())?;
        write!(f, "{} | ", shown(self.of(|run| run.sampled), 0))?;
        write!(f, "{} | ", shown(self.of(|run| Some(run.whole)), 0))?;
        write!(f, "{} | ", shown(self.of(|run| run.cpu_ms), 2))?;
        write!(f, "{} | ", shown(self.of(|run| Some(run.p50_ms)), 0))?;
        write!(f, "{} |", shown(self.of(|run| Some(run.p99_ms)), 0))
    }
}

/// For each workload, the scheduler of this package beside the others: in percent of their rates, by samples
/// where both have a figure and else by the whole run, and kube-scheduler's CPU as a multiple of its own.
pub fn ratios(rows: &[Row]) -> String {
    let mut text =
        "| workload | of kube-scheduler's rate | of a bare client's | kube-scheduler's CPU |\n\
         |---|---:|---:|---:|\n"
            .to_owned();
    for row in rows.iter().filter(|row| row.binder == "phalanx") {
        let other = |binder: &str| {
            rows.iter()
                .find(|other| other.workload.name == row.workload.name && other.binder == binder)
        };
        let rate = |binder: &str| {
            let other = other(binder)?;
            let sampled = row.ratio(other, |run| run.sampled);
            sampled.or_else(|| row.ratio(other, |run| Some(run.whole)))
        };
        let percent = |ratio: Option<f64>| {
            ratio.map_or("–".to_owned(), |ratio| format!("{:.0} %", 100.0 * ratio))
        };
        let cpu = other("kube-scheduler").and_then(|kube| kube.ratio(row, |run| run.cpu_ms));
        let cpu = cpu.map_or("–".to_owned(), |ratio| format!("{ratio:.1} times"));
        let (kube, bare) = (percent(rate("kube-scheduler")), percent(rate("bare client")));
        let _ = writeln!(text, "| {} | {kube} | {bare} | {cpu} |", row.workload.name);
    }
    text
}
