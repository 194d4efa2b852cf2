//! The answers as a table: for people, and as comma-separated values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use phalanx::Time;
use serde_json::Value;

use crate::common::text::count;

use super::cell::Done;
use super::trace::Trace;
use super::{COLUMNS, estimates_of, machine, quantile, report, shown};

/// The figures of each cell, and waits by size.
pub(crate) fn text(file: &str, trace: &Trace, done: &[Done]) -> String {
    let mut out = format!(
        "{} of {file}\n\n  {:<14} {:<9} {:<18} {:>4}",
        count(trace.jobs.len(), "job"),
        "policy",
        "estimates",
        "machine",
        "seed"
    );
    for (_, title, _) in COLUMNS {
        let _ = write!(out, " {title:>12}");
    }
    out.push('\n');
    let names: Vec<String> = done.iter().map(|done| name(&done.figures)).collect();
    for (done, name) in done.iter().zip(&names) {
        let figures = &done.figures;
        let _ = write!(out, "{name}");
        for (key, _, decimals) in COLUMNS {
            let _ = write!(out, " {:>12}", shown(figures, key, decimals));
        }
        out.push('\n');
    }
    let by_size: Vec<BTreeMap<u32, Vec<f64>>> = done.iter().map(report::classes).collect();
    let sizes: BTreeSet<u32> = by_size.iter().flat_map(|sizes| sizes.keys().copied()).collect();
    if !sizes.is_empty() {
        let _ = write!(out, "\n  waits by size, p50 / p99 in seconds\n  {:<48}", "");
        for size in &sizes {
            let _ = write!(out, " {:>17}", report::class_title(*size));
        }
        out.push('\n');
        for (waits, name) in by_size.iter().zip(&names) {
            let _ = write!(out, "{name}");
            for size in &sizes {
                let cell = waits.get(size).map_or_else(String::new, |waits| {
                    format!("{:.0} / {:.0}", quantile(waits, 0.5), quantile(waits, 0.99))
                });
                let _ = write!(out, " {cell:>17}");
            }
            out.push('\n');
        }
    }
    out
}

/// The first columns of a cell.
fn name(figures: &Value) -> String {
    let (policy, estimates) = (figures["policy"].as_str().unwrap_or(""), estimates_of(figures));
    let (machine, seed) = (machine(figures), &figures["seed"]);
    format!("  {policy:<14} {estimates:<9} {machine:<18} {seed:>4}")
}

/// The figures of each cell, a line each.
pub(crate) fn csv(done: &[Done]) -> String {
    let keys =
        ["policy", "processors", "nodes", "gpus_per_node", "seed", "estimates", "kill", "jobs"];
    let columns: Vec<&str> = keys.into_iter().chain(COLUMNS.map(|(key, ..)| key)).collect();
    let mut out = columns.join(",");
    out.push('\n');
    for done in done {
        let cell = |key: &&str| match &done.figures[*key] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out.push_str(&columns.iter().map(cell).collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    out
}

/// A field of a table: in quotes if it has a comma or a quote.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

/// The head of each line of a cell: its number, policy and seed.
fn head(index: usize, done: &Done) -> String {
    let policy = done.figures["policy"].as_str().unwrap_or("");
    format!("{index},{},{}", field(policy), done.figures["seed"])
}

/// Each job of each cell; times in seconds.
pub(crate) fn jobs(done: &[Done]) -> String {
    let mut out = String::from(
        "cell,policy,seed,job,queue,pods,amount,submit_s,first_start_s,start_s,end_s,wait_s,ran_s,\
         run_time_s,lost_s,overhead_s,restarts\n",
    );
    let time = |time: Option<Time>| {
        time.map_or_else(String::new, |time| (time.as_nanos() as f64 / 1e9).to_string())
    };
    let span = |span: Option<Duration>| {
        span.map_or_else(String::new, |span| span.as_secs_f64().to_string())
    };
    for (index, done) in done.iter().enumerate() {
        let head = head(index, done);
        for (id, job) in &done.records {
            let id = id.as_str().map_or_else(|| id.to_string(), String::from);
            let cells = [
                field(&id),
                field(&job.queue),
                job.pods.to_string(),
                job.amount.to_string(),
                time(Some(job.submit)),
                time(job.first_start),
                time(job.start),
                time(job.end),
                span(job.wait()),
                span(job.ran()),
                span(Some(job.run_time)),
                span(Some(job.lost)),
                span(Some(job.overhead)),
                job.restarts.to_string(),
            ];
            let _ = writeln!(out, "{head},{}", cells.join(","));
        }
    }
    out
}

/// Use and line over time of each cell.
pub(crate) fn samples(done: &[Done]) -> String {
    let mut out = String::from("cell,policy,seed,at_s,waiting,used,capacity,free,free_on_used\n");
    for (index, done) in done.iter().enumerate() {
        let head = head(index, done);
        for sample in &done.samples {
            let at = sample.at.as_nanos() as f64 / 1e9;
            let (waiting, used, capacity) = (sample.queue, sample.used, sample.capacity);
            let (free, partly) = (sample.free, sample.free_on_used);
            let _ = writeln!(out, "{head},{at},{waiting},{used},{capacity},{free},{partly}");
        }
    }
    out
}
