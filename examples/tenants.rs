//! Days of real gang jobs with tenants: Microsoft's Philly cluster (see
//! `data/philly-ATTRIBUTION.txt`) on 1,000 GPUs, its 15 virtual clusters as queues of one tree, each
//! guaranteed its share of the GPU time of the whole trace.
//!
//! `cargo run --release --features full --example tenants` runs two days with the default dialect and prints the
//! shares over time, the waiting times by queue, the GPU-hours that were borrowed and the gangs that
//! had to give back; these stop within half a minute, and begin anew.

#[path = "tenants/draw.rs"]
mod draw;
#[path = "tenants/run.rs"]
mod run;

#[path = "common/mod.rs"]
mod common;

use std::fmt::Write as _;
use std::process::ExitCode;

use common::cli::{Arguments, DONE, Finish, Mistake, Program};
use run::{Dialect, Report};

const PROGRAM: Program = Program {
    usage: "\
Runs days of Philly's gangs with its 15 virtual clusters as queues: shares over time, waiting,
what is borrowed, and what has to be given back.

Usage: tenants [OPTIONS]

Options:
  --dialect NAME  whose rules: default, kai, koordinator, kueue, volcano_proportion,
                  volcano_capacity, volcano_drf, yunikorn       (default)
  --days N        how many days, 1 to 7                          (2)
  --svg FILE      draws use against guarantee, queue by queue
  --output text|json                                             (text)
  --help          this text

Exit code: 0 done; 2 misuse, or a drawing that cannot be written.
",
    options: &["--dialect", "--days", "--svg", "--output"],
    flags: &[],
};

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
    let _ = writeln!(
        out,
        "\nguaranteed: GPUs; used: GPUs on average; waits: gangs that wait at the end; wait: from \
         submission to start;\nborrowed: GPU-hours beyond the guarantee; reclaimed: gangs that gave \
         back; lost: GPU-hours that these had run"
    );
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
    PROGRAM.main(tenants)
}

fn tenants(arguments: &Arguments) -> Result<Finish, Mistake> {
    let name = arguments.word("--dialect", &Dialect::ALL.map(Dialect::name))?;
    let dialect = Dialect::ALL.into_iter().find(|own| own.name() == name).unwrap_or_default();
    let days = arguments.number("--days", 2, 1..=7)?;
    let output = arguments.word("--output", &["text", "json"])?;
    let report = run::run(dialect, days.into());
    if let Some(file) = arguments.value("--svg") {
        common::files::write(file, draw::svg(&report)).map_err(Mistake::Input)?;
    }
    let out = if output == "json" {
        let json = serde_json::to_string_pretty(&report);
        json.map_err(|error| Mistake::Input(error.to_string()))? + "\n"
    } else {
        text(&report)
    };
    Ok(Finish::with(DONE, out))
}
