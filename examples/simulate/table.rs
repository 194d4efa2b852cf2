//! The answers as a table: for people, and as comma-separated values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

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
