//! The program: arguments, the grid, the answers.

pub(crate) mod cell;
pub(crate) mod model;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod trace;
pub(crate) mod workload;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{BufRead, BufReader, BufWriter};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use phalanx::Framework;
use phalanx::plugins::Fit;
use phalanx::simulate::Estimates;
use serde_json::Value;

use crate::common::cli::{Arguments, DONE, Finish, Mistake, NO, Program};
use crate::common::files;
use crate::common::text::{Progress, count};
use cell::{Cell, Done, Machines, POLICIES};
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
       simulate --replay FILE

Options:
  --jobs FILE          the trace, in gzip or not
  --format FORMAT      swf, philly, muri, openb or stream
  --name STREAM        which of the streams of a file [the first]
  --days N             only what is submitted in the first N days
  --processors P[,...] equal processors [what the file says]
  --nodes N[,...]      nodes of GPUs [philly 125, muri 8, openb 777]
  --gpus-per-node G    GPUs of each [8]
  --policy P[,...]     fcfs, easy, easy_sjbf, conservative, srtf, srsf; none (whoever fits goes),
                       reservations (room is set aside for the first of the line); two tenants
                       with half of the GPUs each: tenants_joint, tenants_quota (who yields is
                       searched over quota and room, or quota names it), tenants_none [easy]
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
  --kill               a job ends at its estimate
  --threads T          cells at a time [1]
  --shard i/n          only the cells whose number leaves i when divided by n
  --results FILE       cells that are done are kept here; those found here are not run again
  --record FILE        writes every input and decision as JSON lines (one cell)
  --replay FILE        runs a recording again, up to the first decision that differs
  --starts             with the start of each job, in milliseconds (json)
  --output FORM        text, json (a line a cell), csv, html, or summary: means over seeds with 95 %
                       intervals, and differences to the first policy, as csv [text]
  --help               this text
",
    options: &[
        "--jobs",
        "--format",
        "--name",
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
        "--threads",
        "--shard",
        "--results",
        "--record",
        "--replay",
        "--output",
    ],
    flags: &["--dependencies", "--kill", "--starts"],
};

pub(crate) use muri::read as muri_jobs;

/// The largest number of nodes or processors.
const MOST: u32 = 1_000_000;

/// The program.
///
/// # Errors
/// The arguments, or the trace they name, cannot be used.
pub(crate) fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    if let Some(file) = arguments.value("--replay") {
        return replay(file);
    }
    let output = arguments.word("--output", &["text", "json", "csv", "html", "summary"])?;
    let file = arguments.value("--jobs").ok_or_else(|| usage("--jobs is needed"))?;
    if arguments.value("--format").is_none() {
        return Err(usage("--format is needed"));
    }
    let format = arguments.word("--format", &["swf", "philly", "muri", "openb", "stream"])?;
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
    let threads = arguments.number("--threads", 1, 1..=1_024)? as usize;
    let shard = shard(arguments)?;
    let estimates = estimates(arguments)?;
    let days = arguments.number("--days", MOST, 1..=MOST)?;
    if arguments.flag("--processors") && arguments.flag("--nodes") {
        return Err(usage("--processors and --nodes exclude each other"));
    }
    let text = files::read(file).and_then(|bytes| files::text(file, bytes));
    let trace = text.and_then(|text| trace::read(file, &text, format, arguments.value("--name")));
    let mut trace = trace.map_err(Mistake::Input)?;
    trace.jobs.retain(|job| job.submit.as_secs() < u64::from(days) * 86_400);
    if trace.jobs.is_empty() {
        return Err(Mistake::Input(format!("{file}: has no jobs in the first {days} days")));
    }
    let (mut cells, kill) = (Vec::new(), arguments.flag("--kill"));
    for machines in machines(arguments, format, &trace)? {
        for &estimates in &estimates {
            for &policy in &policies {
                let model = &model;
                let cell =
                    |seed| Cell { policy, machines, seed, estimates, kill, model: model.clone() };
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
    if record.is_some() && cells.iter().any(|cell| matches!(cell.policy, "srtf" | "srsf")) {
        return Err(usage("--record: srtf and srsf place all jobs anew at every event"));
    }
    let grid = Grid {
        trace: &trace,
        change,
        cells: &cells,
        starts: arguments.flag("--starts"),
        bars: output == "html",
        record,
        results: arguments.value("--results").filter(|_| output != "html"),
    };
    let done = grid.run(threads).map_err(Mistake::Input)?;
    let out = match output {
        "json" => {
            let lines: Vec<String> = done.iter().map(|done| done.figures.to_string()).collect();
            lines.join("\n") + "\n"
        }
        "csv" => table::csv(&done),
        "html" => report::html(file, &trace, &done),
        "summary" => statistics::csv(&done),
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

fn policies(arguments: &Arguments) -> Result<Vec<&'static str>, Mistake> {
    let names = arguments.value("--policy").unwrap_or("easy").split(',');
    names
        .map(|name| {
            let known = POLICIES.iter().find(|known| **known == name).copied();
            known.ok_or_else(|| {
                usage(&format!("--policy {name:?} is none of: {}", POLICIES.join(", ")))
            })
        })
        .collect()
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

/// The cells to be run, and how.
struct Grid<'a> {
    trace: &'a Trace,
    change: Change,
    cells: &'a [Cell],
    starts: bool,
    bars: bool,
    record: Option<&'a str>,
    results: Option<&'a str>,
}

impl Grid<'_> {
    /// Runs all cells that are not known, several at a time; the answers are in the order of cells.
    fn run(&self, threads: usize) -> Result<Vec<Done>, String> {
        let known = self.known();
        let results = self.results.map(|file| {
            let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
            let ended = opened.and_then(|mut opened| {
                // The next cell begins a line of its own.
                if self.is_cut_off() {
                    std::io::Write::write_all(&mut opened, b"\n")?;
                }
                Ok(opened)
            });
            ended.map(Mutex::new).map_err(|error| format!("{file}: {error}"))
        });
        let results = results.transpose()?;
        let slots: Vec<Mutex<Option<Result<Done, String>>>> =
            self.cells.iter().map(|_| Mutex::new(None)).collect();
        let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let all = self.cells.len() * self.trace.jobs.len();
        let progress = Mutex::new(Progress::new(count(self.cells.len(), "cell")));
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(cell) = self.cells.get(at) else { break };
                let done = match known.get(&self.line(cell).to_string()) {
                    Some(figures) => Ok(found(figures)),
                    None => self.cell(cell, || {
                        let sum = ended.fetch_add(1, Ordering::Relaxed);
                        if let Ok(mut progress) = progress.try_lock() {
                            progress.show(sum, all);
                        }
                    }),
                };
                if let (Some(results), Ok(done)) = (&results, &done)
                    && !known.contains_key(&self.line(cell).to_string())
                    && let Ok(mut file) = results.lock()
                {
                    // A cell that cannot be kept is run again the next time.
                    let _ = std::io::Write::write_all(
                        &mut *file,
                        format!("{}\n", done.figures).as_bytes(),
                    );
                }
                if let Ok(mut slot) = slots[at].lock() {
                    *slot = Some(done);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(self.cells.len()) {
                scope.spawn(work);
            }
            work();
        });
        let take = |slot: Mutex<Option<Result<Done, String>>>| {
            slot.into_inner().ok().flatten().unwrap_or_else(|| Err("a cell was not run".into()))
        };
        slots.into_iter().map(take).collect()
    }

    /// The file of results, as far as it is there and is text.
    fn kept(&self) -> Option<String> {
        let file = self.results?;
        files::read(file).and_then(|bytes| files::text(file, bytes)).ok()
    }

    /// Whether the last run was ended while it wrote a line.
    fn is_cut_off(&self) -> bool {
        self.kept().is_some_and(|text| !text.is_empty() && !text.ends_with('\n'))
    }

    /// Cells found in the file of results, by their line.
    fn known(&self) -> BTreeMap<String, Value> {
        let Some(text) = self.kept() else {
            return BTreeMap::new();
        };
        let mut known = BTreeMap::new();
        // A last line that was cut off is a cell that is not done.
        for figures in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if figures["starts"].is_null() == self.starts {
                continue;
            }
            for cell in self.cells {
                let line = self.line(cell);
                let mut same = line.as_object().into_iter().flatten();
                let changed = self.change.keys().iter().any(|(key, value)| figures[*key] != *value);
                if !changed && same.all(|(key, value)| figures[key] == *value) {
                    known.insert(line.to_string(), figures.clone());
                }
            }
        }
        known
    }

    /// The line that a cell is a function of, with the change of the trace.
    fn line(&self, cell: &Cell) -> Value {
        let mut line = cell.line();
        for (key, value) in self.change.keys().into_iter().filter(|(_, value)| !value.is_null()) {
            line[key] = value;
        }
        line
    }

    fn cell(&self, cell: &Cell, progress: impl FnMut()) -> Result<Done, String> {
        if self.change.is_none() {
            return self.run_cell(self.trace, cell, progress);
        }
        let mut done = self.run_cell(&self.change.of(self.trace, cell.seed), cell, progress)?;
        for (key, value) in self.change.keys().into_iter().filter(|(_, value)| !value.is_null()) {
            done.figures[key] = value;
        }
        Ok(done)
    }

    fn run_cell(
        &self,
        trace: &Trace,
        cell: &Cell,
        mut progress: impl FnMut(),
    ) -> Result<Done, String> {
        let Some(file) = self.record else {
            return cell.run(trace, self.starts, self.bars, None, |_| progress());
        };
        let out = std::fs::File::create(file).map_err(|error| format!("{file}: {error}"))?;
        let mut out = BufWriter::new(out);
        let done = cell.run(trace, self.starts, self.bars, Some(&mut out), |_| progress())?;
        std::io::Write::flush(&mut out).map_err(|error| format!("{file}: {error}"))?;
        Ok(done)
    }
}

/// A cell of an earlier run: its figures alone.
fn found(figures: &Value) -> Done {
    let (figures, never) = (figures.clone(), Vec::new());
    let (samples, waits, bars, nodes) = (Vec::new(), BTreeMap::new(), Vec::new(), 0);
    Done { figures, samples, waits, bars, nodes, never }
}

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
pub(crate) const COLUMNS: [(&str, &str, usize); 11] = [
    ("mean_wait_s", "mean wait s", 1),
    ("p50_wait_s", "p50 s", 0),
    ("p99_wait_s", "p99 s", 0),
    ("mean_bounded_slowdown", "slowdown", 2),
    ("makespan_s", "makespan s", 0),
    ("utilisation", "utilisation", 4),
    ("utilisation_arrivals", "on arrivals", 4),
    ("mean_queue", "mean queue", 1),
    ("jain", "Jain", 4),
    ("decisions", "decisions", 0),
    ("decisions_per_s", "decisions/s", 0),
];

/// The machine of a cell, as people write it.
pub(crate) fn machine(figures: &Value) -> String {
    match figures["processors"].as_u64() {
        Some(count) => format!("{count} processors"),
        None => format!("{} × {} GPUs", figures["nodes"], figures["gpus_per_node"]),
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
