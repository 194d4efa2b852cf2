//! The program: arguments, the published numbers, the table.

pub(crate) mod sharing;
pub(crate) mod simulation;
pub(crate) mod trace;

use std::fmt::Write;
use std::time::Instant;

use crate::common::cli::{Arguments, DONE, Finish, Mistake, NO, Program};
use crate::common::files;
use crate::common::text::{Progress, count, span, thousands};
use simulation::{Machines, Policy, Summary, replay};

/// The program's arguments.
pub(crate) const PROGRAM: Program = Program {
    usage: "\
Replays a trace of real gang jobs. Every job is placed by the crate, anew, at every event.

Usage: replay [OPTIONS]

Without --jobs it replays both variants of Muri's trace of 992 jobs under srtf and srsf on 64 GPUs
and compares with the published results. With --policy antman alone it does so with all eight traces:
there jobs share GPUs, and run slower by their neighbours.

Options:
  --jobs FILE           a trace in Muri's format: CSV, or CSV in gzip
  --nodes N             how many nodes there are [8]
  --gpus-per-node G     how many GPUs each has [8]
  --policy P            srtf or srsf, the shortest remaining time, or service, first; or antman [srtf]
  --output text|json    how to answer [text]
  --help                this text
",
    options: &["--jobs", "--nodes", "--gpus-per-node", "--policy", "--output"],
    flags: &[],
};

/// The two variants of the trace, as published with Muri.
const TRACES: [(&str, &[u8]); 8] = [
    ("trace3", include_bytes!("../data/muri/trace3.csv.gz")),
    ("trace3_pr", include_bytes!("../data/muri/trace3_pr.csv.gz")),
    ("trace1", include_bytes!("../data/muri/trace1.csv.gz")),
    ("trace1_pr", include_bytes!("../data/muri/trace1_pr.csv.gz")),
    ("trace2", include_bytes!("../data/muri/trace2.csv.gz")),
    ("trace2_pr", include_bytes!("../data/muri/trace2_pr.csv.gz")),
    ("trace4", include_bytes!("../data/muri/trace4.csv.gz")),
    ("trace4_pr", include_bytes!("../data/muri/trace4_pr.csv.gz")),
];
/// How many of them are replayed under the policies that preempt.
const PREEMPTIVE: usize = 2;
/// Results that Muri's authors published: policy, metric, trace, seconds.
const PUBLISHED: &str = include_str!("../data/muri/published.csv");
/// The cluster of the published results.
const MURI: Machines = Machines { nodes: 8, gpus: 8 };
/// How far from the published numbers is still equal.
const TOLERANCE: f64 = 1e-6;

impl Policy {
    /// All of them; the first is meant where none is named.
    const ALL: [Policy; 3] = [Policy::Srtf, Policy::Srsf, Policy::Antman];

    /// As arguments and answers spell it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Policy::Srtf => "srtf",
            Policy::Srsf => "srsf",
            Policy::Antman => "antman",
        }
    }

    /// As the table of published numbers spells it.
    fn published(self) -> &'static str {
        match self {
            Policy::Srtf => "SRTF",
            Policy::Srsf => "SRSF",
            Policy::Antman => "antman",
        }
    }
}

/// The program.
///
/// # Errors
/// The arguments, or the trace they name, cannot be used.
pub(crate) fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    let as_json = arguments.word("--output", &["text", "json"])? == "json";
    let nodes = arguments.number("--nodes", MURI.nodes, 1..=100_000)?;
    let gpus = arguments.number("--gpus-per-node", MURI.gpus, 1..=1_000_000)?;
    let word = arguments.word("--policy", &Policy::ALL.map(Policy::word))?;
    let named = Policy::ALL.into_iter().find(|policy| policy.word() == word);
    let policy = named.unwrap_or(Policy::Srtf);
    let Some(file) = arguments.value("--jobs") else {
        let others = ["--nodes", "--gpus-per-node", "--output"];
        if policy == Policy::Antman && !others.iter().any(|name| arguments.flag(name)) {
            return published(&TRACES, &[policy]);
        }
        let alone = ["--nodes", "--gpus-per-node", "--policy", "--output"];
        return match alone.into_iter().find(|name| arguments.flag(name)) {
            Some(name) => Err(Mistake::Usage(format!("{name} needs --jobs"))),
            None => published(&TRACES[..PREEMPTIVE], &[Policy::Srtf, Policy::Srsf]),
        };
    };
    let text = files::read(file).and_then(|bytes| files::text(file, bytes));
    let jobs = text.and_then(|text| trace::read(file, &text)).map_err(Mistake::Input)?;

    let start = Instant::now();
    let mut progress = Progress::new(policy.word());
    let machines = Machines { nodes, gpus };
    let summary = replay(&jobs, machines, policy, |done| progress.show(done, jobs.len()))
        .map_err(|error| Mistake::Input(format!("{file}: {error}")))?;
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    let out = if as_json {
        json(policy, jobs.len(), &summary, seconds)
    } else {
        let per_second = summary.asked as f64 / seconds.max(1e-9);
        format!(
            "{} on {nodes} × {gpus} GPUs, {}\n\n  average JCT  {:>18.3} s\n  makespan     \
             {:>18.3} s\n  99th JCT     {:>18.3} s\n\n{} placements asked at {} events in \
             {seconds:.2} s ({} a second)\n",
            count(jobs.len(), "job"),
            policy.word().to_uppercase(),
            summary.average_jct,
            summary.makespan,
            summary.p99_jct,
            thousands(summary.asked),
            thousands(summary.events),
            thousands(per_second as u64),
        )
    };
    let mut finish = Finish::with(0, out);
    if !summary.never_placed.is_empty() {
        let jobs = count(summary.never_placed.len(), "job");
        let ids = summary.never_placed.join(", ");
        let _ = writeln!(finish.err, "{jobs} larger than the cluster, never placed: {ids}");
    }
    Ok(finish)
}

/// One replay as JSON. `never_placed` is there only if there are such jobs.
fn json(policy: Policy, jobs: usize, summary: &Summary, seconds: f64) -> String {
    let mut object = serde_json::json!({
        "policy": policy.word(),
        "jobs": jobs,
        "average_jct_s": summary.average_jct,
        "makespan_s": summary.makespan,
        "p99_jct_s": summary.p99_jct,
        "placements_tried": summary.asked,
        "seconds": seconds,
    });
    if !summary.never_placed.is_empty() {
        object["never_placed"] = summary.never_placed.clone().into();
    }
    format!("{object}\n")
}

/// The jobs of an embedded trace.
///
/// # Errors
/// There is no such trace.
pub(crate) fn embedded(name: &str) -> Result<Vec<trace::Job>, String> {
    let found = TRACES.iter().find(|(have, _)| *have == name);
    let (_, bytes) = found.ok_or_else(|| format!("no trace {name}"))?;
    trace::read(name, &files::text(name, files::unpack(name, bytes.to_vec())?)?)
}

/// The metrics of a replay beside the published ones: name, ours, theirs.
pub(crate) fn compared(
    policy: Policy,
    trace: &str,
    summary: &Summary,
) -> Result<[(&'static str, f64, f64); 3], String> {
    let published = |metric: &str| {
        let wanted = format!("{},{metric},{trace},", policy.published());
        let value = PUBLISHED.lines().find_map(|line| line.strip_prefix(&wanted)?.parse().ok());
        value.ok_or_else(|| format!("nothing published for {wanted}"))
    };
    Ok([
        ("average JCT", summary.average_jct, published("JCT")?),
        ("makespan", summary.makespan, published("Makespan")?),
        ("99th JCT", summary.p99_jct, published("99JCT")?),
    ])
}

/// Traces under policies, beside the published numbers. Exit code 1 if any differs.
fn published(traces: &[(&str, &[u8])], policies: &[Policy]) -> Result<Finish, Mistake> {
    let start = Instant::now();
    let mut out = String::from(
        "real gang jobs (Microsoft Philly, as used by Muri, SIGCOMM'22) on 8 × 8 GPUs\n\n  \
         trace       policy  metric            replayed (s)       published (s)    difference\n",
    );
    let (mut asked, mut equal, mut all) = (0, 0, 0);
    for (trace, _) in traces {
        let jobs = embedded(trace).map_err(Mistake::Input)?;
        for &policy in policies {
            let mut progress = Progress::new(format!("{trace} {}", policy.word()));
            let summary = replay(&jobs, MURI, policy, |done| progress.show(done, jobs.len()))
                .map_err(|error| Mistake::Input(format!("{trace}: {error}")))?;
            drop(progress);
            asked += summary.asked;
            let rows = compared(policy, trace, &summary).map_err(Mistake::Input)?;
            for (index, (metric, ours, theirs)) in rows.into_iter().enumerate() {
                let difference = (ours - theirs).abs() / theirs;
                all += 1;
                equal += u32::from(difference <= TOLERANCE);
                let (trace, policy) = if index == 0 { (*trace, policy.word()) } else { ("", "") };
                let policy = policy.to_uppercase();
                let _ = writeln!(
                    out,
                    "  {trace:<10}  {policy:<6}  {metric:<12}  {ours:>16.3}  {theirs:>18.3}  \
                     {difference:>12.1e}",
                );
            }
        }
    }
    let elapsed = start.elapsed();
    let _ = writeln!(
        out,
        "\n{equal} of {all} within {TOLERANCE:.0e} of the published numbers; {} placements asked \
         in {}",
        thousands(asked),
        span(elapsed),
    );
    Ok(Finish::with(if equal == all { DONE } else { NO }, out))
}
