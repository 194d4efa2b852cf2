//! Means over seeds, their intervals, and policies compared seed by seed.

use std::fmt::Write;

use serde_json::Value;

use super::cell::Done;
use super::{COLUMNS, estimates_of, machine};

/// The mean of a sample, with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) mean: f64,
    /// Standard deviation of the sample, by `count − 1`.
    pub(crate) deviation: f64,
    /// Half of the 95 % interval of the mean, by Student's distribution.
    pub(crate) half: f64,
}

impl Summary {
    /// The summary of two values or more.
    pub(crate) fn of(values: &[f64]) -> Option<Summary> {
        let count = values.len();
        if count < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = (squares / (count - 1) as f64).sqrt();
        let half = student(count - 1) * deviation / (count as f64).sqrt();
        Some(Summary { count, mean, deviation, half })
    }

    /// Whether the interval leaves out zero.
    pub(crate) fn is_clear(self) -> bool {
        self.mean.abs() > self.half
    }
}

/// The 97.5 % quantile of Student's distribution, by degrees of freedom from 1 on.
const STUDENT: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
    2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687,
    2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
];

/// Beyond the table, the expansion in the reciprocal of the degrees of freedom.
pub(crate) fn student(freedom: usize) -> f64 {
    if let Some(quantile) = STUDENT.get(freedom.wrapping_sub(1)) {
        return *quantile;
    }
    let (z, n) = (1.959_964_f64, freedom.max(1) as f64);
    z + (z.powi(3) + z) / (4.0 * n)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
}

/// Cells that differ in nothing but the seed.
struct Group<'a> {
    policy: &'a str,
    rest: String,
    cells: Vec<&'a Value>,
}

fn groups(done: &[Done]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for figures in done.iter().map(|done| &done.figures) {
        let policy = figures["policy"].as_str().unwrap_or("");
        let rest = format!("{}, {} estimates", machine(figures), estimates_of(figures));
        match groups.iter_mut().find(|group| group.policy == policy && group.rest == rest) {
            Some(group) => group.cells.push(figures),
            None => groups.push(Group { policy, rest, cells: vec![figures] }),
        }
    }
    groups
}

/// The differences to another policy, of the seeds that both have.
fn paired(group: &Group<'_>, other: &Group<'_>, key: &str) -> Vec<f64> {
    let pairs = group.cells.iter().filter_map(|cell| {
        let same = other.cells.iter().find(|other| other["seed"] == cell["seed"])?;
        Some(cell[key].as_f64()? - same[key].as_f64()?)
    });
    pairs.collect()
}

/// A policy, the rest of its cell, a column and its figures; and another policy, with the difference.
type Row = (String, String, usize, Summary, Option<(String, Summary)>);

/// For each group: its figures, and how they differ from the first policy of the same machine.
fn rows(done: &[Done]) -> Vec<Row> {
    let groups = groups(done);
    let mut rows = Vec::new();
    for group in &groups {
        let base = groups.iter().find(|other| other.rest == group.rest);
        let base = base.filter(|base| base.policy != group.policy);
        // Decisions a second are no figure of the policy alone.
        for (column, (key, ..)) in COLUMNS.iter().enumerate().take(COLUMNS.len() - 1) {
            let values: Vec<f64> =
                group.cells.iter().filter_map(|cell| cell[*key].as_f64()).collect();
            let Some(summary) = Summary::of(&values) else { continue };
            let against = base.and_then(|base| {
                Some((base.policy.to_string(), Summary::of(&paired(group, base, key))?))
            });
            rows.push((group.policy.into(), group.rest.clone(), column, summary, against));
        }
    }
    rows
}

/// The summary as text; empty if no cell has a second seed.
pub(crate) fn text(done: &[Done]) -> String {
    let mut out = String::new();
    let mut last = String::new();
    for (policy, rest, column, summary, against) in rows(done) {
        let (_, title, decimals) = COLUMNS[column];
        let decimals = decimals.max(1);
        if out.is_empty() {
            out.push_str("\n  means over seeds ± half of the 95 % interval, [deviation]\n");
        }
        let head = format!("  {policy}, {rest}, {} seeds\n", summary.count);
        if head != last {
            out.push_str(&head);
            last = head;
        }
        let Summary { mean, half, deviation, .. } = summary;
        let _ = write!(
            out,
            "    {title:<12} {mean:>14.decimals$} ± {half:<12.decimals$} [{deviation:.decimals$}]"
        );
        if let Some((base, difference)) = against {
            let sign = if difference.is_clear() { "" } else { ", not clear" };
            let Summary { mean, half, .. } = difference;
            let _ = write!(out, "  to {base}: {mean:+.decimals$} ± {half:.decimals$}{sign}");
        }
        out.push('\n');
    }
    out
}

/// The summary as a table of comma-separated values.
pub(crate) fn csv(done: &[Done]) -> String {
    let mut out = String::from(
        "policy,of,figure,seeds,mean,deviation,low,high,against,difference,difference_low,\
         difference_high\n",
    );
    for (policy, rest, column, summary, against) in rows(done) {
        let Summary { count, mean, deviation, half } = summary;
        let (low, high, key) = (mean - half, mean + half, COLUMNS[column].0);
        let _ = write!(out, "{policy},\"{rest}\",{key},{count},{mean},{deviation},{low},{high},");
        if let Some((base, Summary { mean, half, .. })) = against {
            let _ = write!(out, "{base},{mean},{},{}", mean - half, mean + half);
        } else {
            out.push_str(",,,");
        }
        out.push('\n');
    }
    out
}

/// The columns of the table in Markdown: a figure, its title, what it is divided by, decimals.
const SHOWN: [(&str, &str, f64, usize); 8] = [
    ("mean_wait_s", "mean wait, h", 3_600.0, 2),
    ("p99_wait_s", "p99 wait, h", 3_600.0, 1),
    ("mean_bounded_slowdown", "slowdown", 1.0, 1),
    ("goodput_h", "goodput, GPU-h", 1.0, 0),
    ("utilisation", "utilisation, %", 0.01, 1),
    ("jain", "Jain by queue", 1.0, 3),
    ("jain_jobs", "Jain by job", 1.0, 3),
    ("makespan_s", "makespan, h", 3_600.0, 1),
];

/// Means with half of their 95 % intervals as a table in Markdown, a line for each policy.
pub(crate) fn markdown(done: &[Done]) -> String {
    let mut out = String::new();
    let mut last = String::new();
    for group in groups(done) {
        if group.rest != last {
            let titles: Vec<&str> = SHOWN.iter().map(|(_, title, ..)| *title).collect();
            let (titles, rule) = (titles.join(" | "), "---|".repeat(SHOWN.len() + 1));
            let seeds = group.cells.len();
            let _ =
                write!(out, "\n{}, {seeds} seeds:\n\n| policy | {titles} |\n|{rule}\n", group.rest);
            last.clone_from(&group.rest);
        }
        let _ = write!(out, "| `{}` |", group.policy);
        for (key, _, unit, decimals) in SHOWN {
            let values = group.cells.iter().filter_map(|cell| cell[key].as_f64());
            let values: Vec<f64> = values.map(|value| value / unit).collect();
            let _ = match (Summary::of(&values), values.as_slice()) {
                (Some(Summary { mean, half, .. }), _) => {
                    write!(out, " {mean:.decimals$} ± {half:.decimals$} |")
                }
                (None, [one]) => write!(out, " {one:.decimals$} |"),
                (None, _) => write!(out, " - |"),
            };
        }
        out.push('\n');
    }
    out
}
