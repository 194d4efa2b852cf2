//! The program: arguments, the grid, the answers.

pub(crate) mod cell;
mod columns;
mod config;
mod grid;
pub(crate) mod lublin;
pub(crate) mod model;
pub(crate) mod pictures;
mod policy;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scaling;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod trace;
pub(crate) mod workload;

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use phalanx::Framework;
use phalanx::plugins::Fit;
use phalanx::simulate::Estimates;
use serde_json::Value;

use crate::common::cli::{Arguments, DONE, Finish, Mistake, NO, Program};
use crate::common::files;
use crate::common::text::count;
use cell::{Cell, Machines};
use grid::Grid;
use model::Model;
use trace::Trace;
use workload::Change;

#[path = "../replay/trace.rs"]
mod muri;

/// The program's arguments.
pub(crate) const PROGRAM: Program = Program {
    usage: "\
Simulates a trace of jobs under one or several policies.

Usage: simulate --jobs FILE --format FORMAT [OPTIONS]
       simulate --generate N --processors P [OPTIONS]
       simulate --config FILE [OPTIONS]
       simulate --merge FILE[,...] [--output FORM]
       simulate --replay FILE

Options:
  --config FILE        options from a JSON object, whose keys are theirs without the dashes; from a
                       list of objects, one grid after the other
  --generate N         N jobs by the model of Lublin and Feitelson, others for each seed
  --jobs FILE          the trace, in gzip or not
  --format FORMAT      swf, philly, muri, openb, stream, helios, pai2020, borg2019; or csv: any
                       table with a line of names
  --columns MAP        which column of a csv is what: KEY=COLUMN[,...], KEY one of id, submit,
                       run, start, end, size, share (hundredths), each (times share), estimate,
                       queue, user, model; and unit=s, ms or us
  --name STREAM        which of the streams of a file [the first]
  --days N             only what is submitted in the first N days
  --processors P[,...] equal processors [what the file says]
  --nodes N[,...]      nodes of GPUs [philly 125, muri 8, openb 777]
  --gpus-per-node G    GPUs of each [8]
  --policy P[,...]     how the line is served: fcfs, easy, easy_sjbf, conservative, or none (whoever
                       fits goes); with +reservations (room is set aside for the first of the
                       line), +tenants (two with half of the GPUs each), +preemption, +moves,
                       +byquota (quota names who yields), +turns (elastic gangs grow by turns):
                       easy+tenants+preemption. Short: reservations, tenants_joint,
                       tenants_quota, tenants_none. Others: srtf, srsf [easy]
  --estimates E[,...]  exact, over (1 to 3 times the run time) or modal (by classes) [those of
                       the file, else exact]
  --seed S[,...]       of estimates and of drawn arrivals [1]
  --seeds N            the seeds 1 to N
  --arrivals A         trace, poisson (gaps are drawn, with the mean of the trace) or resample
                       (jobs are drawn from the trace, for its times) [trace]
  --load PERCENT       the same arrivals, so much faster [100]
  --rates FILE         how fast jobs run where they are: tables as JSON, or a file of it
  --devices D[,...]    models of GPUs, rack by rack, over and over [all alike]
  --checkpoint E,S,R   a job saves after E seconds of work, for S; R to start from a checkpoint
  --elastic PERCENT    gangs start and go on with so many of their pods
  --users N,T          a user with N jobs that wait submits no more; T seconds to think
  --dependencies       jobs wait for those they follow in the file (swf, field 17)
  --failures N,R,T     N failures of nodes and R of racks, each for up to T seconds
  --autoscale JSON     nodes that are bought for what waits, or a file of it: lists of pools, with
                       gpus, most, delay (s), price (of a node for an hour) and device; and every
                       (s between two looks) and idle (s until a bought node goes)
  --watts IDLE,BUSY    of a GPU or processor: energy_kwh is their sum (json)
  --price P            of a GPU or processor for an hour: cost is their sum (json)
  --warmup SECONDS     jobs that arrive before are simulated, and in no figure of jobs
  --kill               a job ends at its estimate
  --threads T          cells at a time [1]
  --shard i/n          only the cells whose number leaves i when divided by n
  --merge FILE[,...]   cells of shards, in the order of the shards, as one grid; nothing is run
  --results FILE       cells that are done are kept here; those found here are not run again
  --pictures FOLDER    SVG files: use and line over time, differences, jobs by node and tenant
  --job-table FILE     each job of each cell, as csv
  --sample-table FILE  use and line over time of each cell, as csv
  --record FILE        writes every input and decision as JSON lines (one cell)
  --replay FILE        runs a recording again, up to the first decision that differs
  --starts             with the start of each job, in milliseconds (json)
  --output FORM        text, json (a line a cell), csv, html, or summary: means over seeds with 95 %
                       intervals, and differences to the first policy, as csv; markdown: the means
                       as a table [text]
  --help               this text
",
    options: &[
        "--config",
        "--generate",
        "--jobs",
        "--format",
        "--name",
        "--columns",
        "--days",
        "--processors",
        "--nodes",
        "--gpus-per-node",
        "--policy",
        "--estimates",
        "--seed",
        "--seeds",
        "--arrivals",
        "--load",
        "--rates",
        "--devices",
        "--checkpoint",
        "--elastic",
        "--users",
        "--failures",
        "--autoscale",
        "--watts",
        "--price",
        "--warmup",
        "--merge",
        "--threads",
        "--shard",
        "--results",
        "--pictures",
        "--job-table",
        "--sample-table",
        "--record",
        "--replay",
        "--output",
    ],
    flags: &["--dependencies", "--kill", "--starts"],
};

pub(crate) use muri::read as muri_jobs;

/// The formats of traces.
const FORMATS: [&str; 9] =
    ["swf", "philly", "muri", "openb", "stream", "helios", "pai2020", "borg2019", "csv"];
/// The largest number of nodes or processors.
const MOST: u32 = 1_000_000;

/// The program.
///
/// # Errors
/// The arguments, or the trace they name, cannot be used.
pub(crate) fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    match config::read(arguments)?.as_slice() {
        [one] => run_grid(one, false),
        grids => config::each(grids, |grid| run_grid(grid, true)),
    }
}

/// Runs one grid; one of several bears the name of its trace in each cell.
fn run_grid(arguments: &Arguments, is_of_several: bool) -> Result<Finish, Mistake> {
    if let Some(file) = arguments.value("--replay") {
        return replay(file);
    }
    let forms = ["text", "json", "csv", "html", "summary", "markdown"];
    let output = arguments.word("--output", &forms)?;
    if let Some(files) = arguments.value("--merge") {
        return merge(files, output);
    }
    let generate = arguments.number("--generate", 0, 1..=MOST)?;
    if arguments.flag("--generate") && (arguments.flag("--jobs") || arguments.flag("--nodes")) {
        return Err(usage("--generate excludes --jobs and --nodes"));
    }
    let named = if generate > 0 { Some("the model of Lublin and Feitelson") } else { None };
    let file = named.or_else(|| arguments.value("--jobs"));
    let file = file.ok_or_else(|| usage("--jobs is needed"))?;
    if arguments.value("--format").is_none() && generate == 0 {
        return Err(usage("--format is needed"));
    }
    let format = arguments.word("--format", &FORMATS)?;
    // What is wrong with the arguments is said before a large file is read.
    let policies = policies(arguments)?;
    if arguments.flag("--seed") && arguments.flag("--seeds") {
        return Err(usage("--seed and --seeds exclude each other"));
    }
    let seeds = if arguments.flag("--seeds") {
        (1..=u64::from(arguments.number("--seeds", 1, 1..=MOST)?)).collect()
    } else {
        numbers(arguments, "--seed", "1", 0..=u64::from(u32::MAX))?
    };
    let change = Change::parse(arguments)?;
    let model = Arc::new(Model::parse(arguments)?);
    let warmup = arguments.number("--warmup", 0, 0..=u32::MAX)?;
    let threads = arguments.number("--threads", 1, 1..=1_024)? as usize;
    let shard = shard(arguments)?;
    let estimates = estimates(arguments)?;
    let days = arguments.number("--days", MOST, 1..=MOST)?;
    if arguments.flag("--processors") && arguments.flag("--nodes") {
        return Err(usage("--processors and --nodes exclude each other"));
    }
    let mut trace = if generate > 0 {
        let processors = numbers(arguments, "--processors", "128", 1..=u64::from(MOST))?;
        lublin::draw(generate as usize, processors[0] as u32, seeds[0])
    } else {
        let text = files::read(file).and_then(|bytes| files::text(file, bytes));
        let name = if format == "csv" { "--columns" } else { "--name" };
        let read = |text: String| trace::read(file, &text, format, arguments.value(name));
        text.and_then(read).map_err(Mistake::Input)?
    };
    trace.jobs.retain(|job| job.submit.as_secs() < u64::from(days) * 86_400);
    if trace.jobs.is_empty() {
        return Err(Mistake::Input(format!("{file}: has no jobs in the first {days} days")));
    }
    let (mut cells, kill) = (Vec::new(), arguments.flag("--kill"));
    for machines in machines(arguments, format, &trace)? {
        for &estimates in &estimates {
            for policy in &policies {
                let cell = |seed| {
                    let (policy, model) = (policy.clone(), model.clone());
                    Cell { policy, machines, seed, estimates, kill, warmup, model }
                };
                cells.extend(seeds.iter().copied().map(cell));
            }
        }
    }
    let own = cells.into_iter().enumerate().filter(|(at, _)| at % shard.1 == shard.0);
    let cells: Vec<Cell> = own.map(|(_, cell)| cell).collect();
    let record = arguments.value("--record");
    if record.is_some() && cells.len() != 1 {
        return Err(usage("--record needs one policy, one size and one seed"));
    }
    if record.is_some() && cells.iter().any(Cell::is_preemptive) {
        return Err(usage("--record: srtf and srsf place all jobs anew at every event"));
    }
    // What was found in a file of results has its figures alone.
    let tables = ["--pictures", "--job-table", "--sample-table"];
    let keeps = output == "html" || tables.iter().any(|option| arguments.flag(option));
    let grid = Grid {
        trace: &trace,
        name: is_of_several.then(|| file.rsplit('/').next().unwrap_or(file)),
        generate: generate as usize,
        change,
        cells: &cells,
        starts: arguments.flag("--starts"),
        bars: keeps,
        record,
        results: arguments.value("--results").filter(|_| !keeps),
    };
    let done = grid.run(threads).map_err(Mistake::Input)?;
    if let Some(folder) = arguments.value("--pictures") {
        pictures::write(folder, file, &done).map_err(Mistake::Input)?;
    }
    for (option, table) in
        [("--job-table", table::jobs(&done)), ("--sample-table", table::samples(&done))]
    {
        if let Some(file) = arguments.value(option) {
            files::write(file, table).map_err(Mistake::Input)?;
        }
    }
    let out = match output {
        "json" => {
            let lines: Vec<String> = done.iter().map(|done| done.figures.to_string()).collect();
            lines_of(&lines)
        }
        "csv" => table::csv(&done),
        "html" => report::html(file, &trace, &done),
        "summary" => statistics::csv(&done),
        "markdown" => statistics::markdown(&done),
        _ => table::text(file, &trace, &done) + &statistics::text(&done),
    };
    let mut finish = Finish::with(DONE, out);
    if let Some(first) = done.iter().find(|done| !done.never.is_empty()) {
        let ids: Vec<&str> = first.never.iter().take(10).map(String::as_str).collect();
        let more = if first.never.len() > ids.len() { ", ..." } else { "" };
        let jobs = count(first.never.len(), "job");
        let ids = ids.join(", ");
        let _ = writeln!(finish.err, "{jobs} larger than the machine, never placed: {ids}{more}");
    }
    Ok(finish)
}

fn usage(text: &str) -> Mistake {
    Mistake::Usage(text.to_string())
}

fn policies(arguments: &Arguments) -> Result<Vec<String>, Mistake> {
    let names = arguments.value("--policy").unwrap_or("easy").split(',');
    names.map(|name| policy::check(name).map(|()| name.to_string())).collect()
}

fn estimates(arguments: &Arguments) -> Result<Vec<Option<Estimates>>, Mistake> {
    let Some(names) = arguments.value("--estimates") else { return Ok(vec![None]) };
    let one = |name| {
        Ok(Some(match name {
            "exact" => Estimates::Exact,
            "over" => Estimates::Over { most: 3_000 },
            "modal" => Estimates::Modal,
            other => {
                let text = format!("--estimates {other:?} is none of: exact, over, modal");
                return Err(Mistake::Usage(text));
            }
        }))
    };
    names.split(',').map(one).collect()
}

fn numbers(
    arguments: &Arguments,
    option: &str,
    default: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Vec<u64>, Mistake> {
    let list = arguments.value(option).unwrap_or(default).split(',');
    list.map(|text| {
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            usage(&format!("{option} {text:?} is not a whole number from {low} to {high}"))
        })
    })
    .collect()
}

fn shard(arguments: &Arguments) -> Result<(usize, usize), Mistake> {
    let text = arguments.value("--shard").unwrap_or("0/1");
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    parts
        .filter(|(i, n)| i < n)
        .ok_or_else(|| usage(&format!("--shard {text:?} is not i/n, i below n")))
}

fn machines(arguments: &Arguments, format: &str, trace: &Trace) -> Result<Vec<Machines>, Mistake> {
    let most = u64::from(MOST);
    let is_equal = matches!(format, "swf" | "stream") && !arguments.flag("--nodes");
    if arguments.flag("--processors") || is_equal {
        let own = trace.processors.map(|count| count.to_string()).unwrap_or_default();
        if own.is_empty() && !arguments.flag("--processors") {
            return Err(usage("the file does not say how many processors: --processors is needed"));
        }
        let counts = numbers(arguments, "--processors", &own, 1..=most)?;
        return Ok(counts.into_iter().map(|count| Machines::Processors(count as u32)).collect());
    }
    let default = match format {
        "philly" => "125",
        "openb" => "777",
        _ => "8",
    };
    let gpus = arguments.number("--gpus-per-node", 8, 1..=MOST)?;
    let counts = numbers(arguments, "--nodes", default, 1..=most)?;
    Ok(counts.into_iter().map(|count| Machines::Nodes(count as u32, gpus)).collect())
}

/// The cells of shards as one grid: the first of each shard, then the second of each, and so on. A
/// cell that is there twice counts once.
fn merge(names: &str, output: &str) -> Result<Finish, Mistake> {
    let mut shards = Vec::new();
    for name in names.split(',') {
        let text = files::read(name).and_then(|bytes| files::text(name, bytes));
        let text = text.map_err(Mistake::Input)?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let cells: Result<Vec<Value>, String> = lines
            .map(|(index, line)| {
                let cell = serde_json::from_str::<Value>(line).map_err(|error| error.to_string());
                let known = cell.and_then(|cell| {
                    let is_cell = cell["policy"].is_string();
                    if is_cell { Ok(cell) } else { Err("is no cell of a grid".into()) }
                });
                known.map_err(|error| format!("{name}: line {}: {error}", index + 1))
            })
            .collect();
        shards.push(cells.map_err(Mistake::Input)?);
    }
    let longest = shards.iter().map(Vec::len).max().unwrap_or(0);
    let mut seen = std::collections::BTreeSet::new();
    let in_turn = (0..longest).flat_map(|at| shards.iter().filter_map(move |shard| shard.get(at)));
    let done: Vec<_> = in_turn
        .filter(|cell| seen.insert(KEYS.map(|key| cell[key].to_string())))
        .map(grid::found)
        .collect();
    Ok(Finish::with(
        DONE,
        match output {
            "csv" => table::csv(&done),
            "summary" => statistics::csv(&done),
            "markdown" => statistics::markdown(&done),
            "text" => statistics::text(&done),
            "json" => {
                let lines: Vec<String> = done.iter().map(|done| done.figures.to_string()).collect();
                lines_of(&lines)
            }
            _ => return Err(usage("--merge has no html: cells have their figures alone")),
        },
    ))
}

/// The keys that a cell is a function of.
const KEYS: [&str; 14] = [
    "trace",
    "policy",
    "seed",
    "kill",
    "estimates",
    "model",
    "processors",
    "nodes",
    "gpus_per_node",
    "arrivals",
    "load",
    "generate",
    "warmup",
    "jobs",
];

/// Runs a recording again.
fn replay(file: &str) -> Result<Finish, Mistake> {
    let opened = std::fs::File::open(file);
    let opened = opened.map_err(|error| Mistake::Input(format!("{file}: {error}")))?;
    let framework =
        Framework::builder().filter(Fit).strategy(phalanx::Strategy::Kubernetes).build();
    let framework = framework.map_err(|error| Mistake::Input(error.to_string()))?;
    match record::replay(file, BufReader::new(opened).lines(), framework).map_err(Mistake::Input)? {
        Ok(lines) => Ok(Finish::with(DONE, format!("{lines} lines, none differs\n"))),
        Err(difference) => Ok(Finish::with(NO, difference)),
    }
}

/// Columns of the tables: the key, the title, and the number of decimals.
pub(crate) const COLUMNS: [(&str, &str, usize); 13] = [
    ("mean_wait_s", "mean wait s", 1),
    ("p50_wait_s", "p50 s", 0),
    ("p99_wait_s", "p99 s", 0),
    ("mean_bounded_slowdown", "slowdown", 2),
    ("makespan_s", "makespan s", 0),
    ("utilisation", "utilisation", 4),
    ("utilisation_arrivals", "on arrivals", 4),
    ("mean_queue", "mean queue", 1),
    ("jain", "Jain", 4),
    ("jain_jobs", "Jain by job", 4),
    ("goodput_h", "goodput h", 0),
    ("decisions", "decisions", 0),
    ("decisions_per_s", "decisions/s", 0),
];

/// The machine of a cell, as people write it.
pub(crate) fn machine(figures: &Value) -> String {
    let machine = match figures["processors"].as_u64() {
        Some(count) => format!("{count} processors"),
        None => format!("{} × {} GPUs", figures["nodes"], figures["gpus_per_node"]),
    };
    match figures["trace"].as_str() {
        Some(trace) => format!("{trace}, {machine}"),
        None => machine,
    }
}

/// The value of a column, as people write it.
pub(crate) fn shown(figures: &Value, key: &str, decimals: usize) -> String {
    figures[key].as_f64().map_or_else(|| String::from("-"), |value| format!("{value:.decimals$}"))
}

/// The estimates of a cell, as people write it.
pub(crate) fn estimates_of(figures: &Value) -> &str {
    figures["estimates"].as_str().unwrap_or("own")
}

/// The value that a share of sorted values does not exceed; the nearest rank.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// Text of lines, each with its end.
fn lines_of(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}
