//! The grid: cells that are run, several at a time, and those that are known from before.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::cell::{Cell, Done, Machines};
use super::lublin;
use super::trace::Trace;
use super::workload::Change;
use crate::common::files;
use crate::common::text::{Progress, count};

/// The cells to be run, and how.
pub(crate) struct Grid<'a> {
    pub(crate) trace: &'a Trace,
    /// The name of the trace, for one grid of several.
    pub(crate) name: Option<&'a str>,
    /// Number of jobs that are drawn anew for each seed and size; zero: the trace is of a file.
    pub(crate) generate: usize,
    pub(crate) change: Change,
    pub(crate) cells: &'a [Cell],
    pub(crate) starts: bool,
    pub(crate) bars: bool,
    pub(crate) record: Option<&'a str>,
    pub(crate) results: Option<&'a str>,
}

impl Grid<'_> {
    /// Runs all cells that are not known, several at a time; the answers are in the order of cells.
    pub(crate) fn run(&self, threads: usize) -> Result<Vec<Done>, String> {
        let known = self.known();
        let results = self.results.map(|file| {
            let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
            let ended = opened.and_then(|mut opened| {
                // The next cell begins a line of its own.
                match self.cut_off() {
                    Some((whole, line)) if is_half_a_cell(&line) => opened.set_len(whole as u64)?,
                    Some(_) => std::io::Write::write_all(&mut opened, b"\n")?,
                    None => {}
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

    /// The last line, if it has no end as the last run was ended meanwhile, and the bytes before it.
    fn cut_off(&self) -> Option<(usize, String)> {
        let text = self.kept()?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        (whole < text.len()).then(|| (whole, text[whole..].to_owned()))
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
        if self.generate > 0 {
            line["generate"] = self.generate.into();
        }
        if let Some(name) = self.name {
            line["trace"] = name.into();
        }
        line
    }

    fn cell(&self, cell: &Cell, progress: impl FnMut()) -> Result<Done, String> {
        let drawn = match cell.machines {
            Machines::Processors(count) if self.generate > 0 => {
                Some(lublin::draw(self.generate, count, cell.seed))
            }
            _ => None,
        };
        let trace = drawn.as_ref().unwrap_or(self.trace);
        let mut done = if self.change.is_none() {
            self.run_cell(trace, cell, progress)?
        } else {
            self.run_cell(&self.change.of(trace, cell.seed), cell, progress)?
        };
        if self.generate > 0 {
            done.figures["generate"] = self.generate.into();
        }
        if let Some(name) = self.name {
            done.figures["trace"] = name.into();
        }
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
pub(crate) fn found(figures: &Value) -> Done {
    let (figures, never) = (figures.clone(), Vec::new());
    let (samples, waits, bars, nodes) = (Vec::new(), BTreeMap::new(), Vec::new(), 0);
    let records = Vec::new();
    Done { figures, samples, waits, bars, records, nodes, never }
}

/// Whether a line is the beginning of a cell, which is run again.
fn is_half_a_cell(line: &str) -> bool {
    line.starts_with('{') && serde_json::from_str::<Value>(line).is_err()
}
