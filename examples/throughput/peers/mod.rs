//! Benchmarks of other schedulers, with the same work, in process.

mod in_process;
mod objects;
mod run;
mod workloads;

use std::fmt::Write as _;

use phalanx::QueueError;

/// A figure beside one of another scheduler.
#[derive(Debug)]
pub(crate) struct Row {
    section: &'static str,
    name: String,
    nodes: usize,
    pods: usize,
    /// How many of them have a node.
    bound: usize,
    /// Pods a second, or operations.
    rate: f64,
    /// The same where pods differ in no label.
    alike: Option<f64>,
    theirs: Option<f64>,
    /// Whether their figure includes an API server.
    through_server: bool,
}

const NOTE: &str = "\
own: pods a second through this crate's queue, in process, from the first measured pod that is known to
the last that is bound; each pod has a label of its own, as theirs have. alike: without that label.
theirs: scheduler_perf's threshold (sections 4.1 to 4.8), which is a least rate of runs WITH AN API SERVER
AND ETCD, so the two are no comparison of schedulers; and in sections 7, 8 and 10 figures in process, each
of its publisher's machine, except Kueue's (7), whose rate is that of its client's limit of 50 a second.
Not here: what measures a client or a server (LowAPIServerQPS, in-tree volumes that migrate).
";

/// Runs the workloads whose names have a part, each with one part in `divide` of its size.
///
/// # Errors
/// A workload is not what the scheduler takes.
pub(crate) fn measure(divide: usize, only: &str) -> Result<Vec<Row>, QueueError> {
    let mut rows = Vec::new();
    for own in workloads::all().filter(|own| own.name.contains(only)) {
        let (unlike, alike) = (run::run(&own, divide, false)?, run::run(&own, divide, true)?);
        rows.push(Row {
            section: own.section,
            name: own.name.to_string(),
            nodes: unlike.nodes,
            pods: unlike.pods,
            bound: unlike.bound,
            rate: unlike.pods_per_s(),
            alike: Some(alike.pods_per_s()),
            theirs: own.threshold.map(f64::from),
            through_server: true,
        });
    }
    rows.extend(in_process::measure(divide, only)?);
    Ok(rows)
}

/// The rows as a table, with what they mean.
pub(crate) fn text(rows: &[Row], divide: usize) -> String {
    let mut text = format!("{NOTE}\nOne part in {divide} of each size.\n\n");
    text += "    §  workload                                   nodes   pods   bound      own/s    alike/s   theirs/s\n";
    for row in rows {
        let or_none = |figure: Option<f64>| figure.map_or("–".into(), |own| format!("{own:.0}"));
        let mark = if row.through_server && row.theirs.is_some() { "*" } else { " " };
        let _ = writeln!(
            text,
            "{:>5}  {:<40} {:>7} {:>6} {:>7} {:>10.0} {:>10} {:>9}{mark}",
            row.section,
            row.name,
            row.nodes,
            row.pods,
            row.bound,
            row.rate,
            or_none(row.alike),
            or_none(row.theirs),
        );
    }
    text + "\n* with an API server and etcd\n"
}

/// The rows as JSON.
pub(crate) fn json(rows: &[Row]) -> String {
    let number = |figure: Option<f64>| figure.map_or("null".into(), |own| format!("{own:.1}"));
    let rows: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{{\"section\":\"{}\",\"name\":\"{}\",\"nodes\":{},\"pods\":{},\"bound\":{},\
                 \"per_s\":{:.1},\"alike_per_s\":{},\"theirs_per_s\":{},\"theirs_with_server\":{}}}",
                row.section,
                row.name,
                row.nodes,
                row.pods,
                row.bound,
                row.rate,
                number(row.alike),
                number(row.theirs),
                row.through_server,
            )
        })
        .collect();
    format!("[{}]\n", rows.join(","))
}
