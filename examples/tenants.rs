//! Days of real gang jobs with tenants: Microsoft's Philly cluster (see
//! `data/philly-ATTRIBUTION.txt`) on 1,000 GPUs, its 15 virtual clusters as queues of one tree, each
//! guaranteed its share of the GPU time of the whole trace.
//!
//! `cargo run --release --example tenants` runs two days with the default dialect and prints the
//! shares over time, the waiting times by queue, the GPU-hours that were borrowed and the gangs that
//! had to give back; these stop within half a minute, and begin anew. `--dialect kueue` has Kueue's
//! rules instead, `koordinator` Koordinator's, `volcano_proportion`, `volcano_capacity` and
//! `volcano_drf` those of Volcano's plugins, `yunikorn` YuniKorn's, `kai` those of KAI-Scheduler.
//! `--days N` other lengths (1 to 7),
//! `--svg FILE` draws use against guarantee, queue by queue, and `--output json` prints the same
//! numbers as JSON. It ends with 0, with 1 if the drawing cannot be written, with 2 on misuse.

#[path = "tenants/draw.rs"]
mod draw;
#[path = "tenants/run.rs"]
mod run;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use run::{Dialect, Report};

const USAGE: &str = "usage: tenants [--dialect NAME] [--days 1..7] [--svg FILE] \
    [--output text|json]\n\
    dialects: default, kai, koordinator, kueue, volcano_proportion, volcano_capacity, volcano_drf, \
    yunikorn\n";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    dialect: Dialect,
    days: u64,
    svg: Option<String>,
    json: bool,
}

/// The options; `None` if help is asked for.
fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { dialect: Dialect::Default, days: 2, svg: None, json: false };
    let mut arguments = arguments.into_iter();
    let mut seen: Vec<String> = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--help" || argument == "-h" {
            return Ok(None);
        }
        let (name, attached) = match argument.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (argument, None),
        };
        if !["--dialect", "--days", "--svg", "--output"].contains(&name.as_str()) {
            return Err(format!("unknown argument {name:?}"));
        }
        if seen.contains(&name) {
            return Err(format!("{name} is given twice"));
        }
        let value = attached.or_else(|| arguments.next());
        let value = value.ok_or_else(|| format!("{name} needs a value"))?;
        match (name.as_str(), value.as_str()) {
            ("--dialect", name) => {
                let known = Dialect::ALL.into_iter().find(|own| own.to_string() == name);
                options.dialect =
                    known.ok_or_else(|| format!("--dialect {name:?} is not known"))?;
            }
            ("--output", "text") => options.json = false,
            ("--output", "json") => options.json = true,
            ("--svg", _) => options.svg = Some(value),
            ("--days", days) => {
                let days = days.parse().ok().filter(|days| (1..=7).contains(days));
                options.days = days.ok_or_else(|| format!("--days {value:?} is not 1 to 7"))?;
            }
            _ => return Err(format!("{name} {value:?} is not known")),
        }
        seen.push(name);
    }
    Ok(Some(options))
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} gangs over {} days on {} GPUs, dialect {}\n",
        report.gangs, report.days, report.gpus, report.dialect
    );
    let _ = writeln!(
        out,
        "{:<8} {:>10} {:>8} {:>6} {:>6} {:>9} {:>9} {:>9} {:>10} {:>9} {:>7}",
        "queue",
        "guaranteed",
        "used",
        "gangs",
        "waits",
        "wait p50",
        "p90",
        "most",
        "borrowed h",
        "reclaimed",
        "lost h"
    );
    for queue in &report.queues {
        let _ = writeln!(
            out,
            "{:<8} {:>10} {:>8.1} {:>6} {:>6} {:>9} {:>9} {:>9} {:>10.0} {:>9} {:>7.0}",
            queue.name,
            queue.guaranteed,
            queue.mean_used,
            queue.started,
            queue.waiting,
            span(queue.wait_p50),
            span(queue.wait_p90),
            span(queue.wait_most),
            queue.borrowed_hours,
            queue.reclaimed,
            queue.lost_hours
        );
    }
    let _ = writeln!(out, "\nGPUs in use, by queue, over time");
    let named = report.queues.iter().filter(|queue| queue.used.iter().any(|used| *used > 0));
    let named: Vec<_> = named.collect();
    let _ = write!(out, "{:>6}", "hour");
    for queue in &named {
        let _ = write!(out, " {:>6}", queue.name);
    }
    let _ = writeln!(out, " {:>6}", "all");
    let samples = report.hours.len();
    let every = (samples / 24).max(1);
    for at in (0..samples).step_by(every) {
        let _ = write!(out, "{:>6}", report.hours[at]);
        for queue in &named {
            let _ = write!(out, " {:>6}", queue.used[at]);
        }
        let all: i64 = report.queues.iter().map(|queue| queue.used[at]).sum();
        let _ = writeln!(out, " {all:>6}");
    }
    let _ = writeln!(
        out,
        "\n{} tries: {} placed, {} refused by quota, {} by room; {} sleepers looked at; gangs \
         were asked {} times to give back, {} times not any more, and gave back {} times",
        report.attempts,
        report.placed,
        report.refused_by_quota,
        report.refused_by_room,
        report.quota_checks,
        report.asked,
        report.taken_back,
        report.queues.iter().map(|queue| queue.reclaimed).sum::<u64>()
    );
    out
}

/// Seconds for people.
fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        _ => format!("{:.1} h", seconds as f64 / 3_600.0),
    }
}

fn main() -> ExitCode {
    let mut arguments = Vec::new();
    for argument in std::env::args_os().skip(1) {
        match argument.into_string() {
            Ok(argument) => arguments.push(argument),
            Err(argument) => return misuse(&format!("{} is not UTF-8", argument.display())),
        }
    }
    let options = match parse(arguments) {
        Ok(Some(options)) => options,
        Ok(None) => return print(USAGE),
        Err(mistake) => return misuse(&mistake),
    };
    let report = run::run(options.dialect, options.days);
    if let Some(file) = &options.svg
        && let Err(error) = std::fs::write(file, draw::svg(&report))
    {
        let _ = writeln!(std::io::stderr().lock(), "error: {file}: {error}");
        return ExitCode::from(1);
    }
    if options.json {
        let json = serde_json::to_string_pretty(&report).unwrap_or_default();
        print(&format!("{json}\n"))
    } else {
        print(&text(&report))
    }
}

fn print(text: &str) -> ExitCode {
    // A reader that has gone away is no reason to fail.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn misuse(mistake: &str) -> ExitCode {
    let _ = write!(std::io::stderr().lock(), "error: {mistake}\n{USAGE}");
    ExitCode::from(2)
}
