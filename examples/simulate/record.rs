//! Recordings: JSON lines, the state of the scheduler first; and the same run again.

use std::io::Write;

use phalanx::queue::{PriorityThenTime, SavedScheduler};
use phalanx::simulate::{Record, Replay};
use phalanx::{Framework, Scheduler};

/// Writes the state in which a recording begins.
pub(crate) fn begin(out: &mut dyn Write, scheduler: &Scheduler) -> Result<(), String> {
    let text = serde_json::to_string(&scheduler.save()).map_err(|error| error.to_string())?;
    writeln!(out, "{text}").map_err(|error| error.to_string())
}

/// Writes a line of a recording.
pub(crate) fn line(out: &mut dyn Write, record: &Record) -> Result<(), String> {
    let text = serde_json::to_string(record).map_err(|error| error.to_string())?;
    writeln!(out, "{text}").map_err(|error| error.to_string())
}

/// Runs a recording again under a framework, line by line. Returns the number of lines, or where
/// it differs.
///
/// # Errors
/// A line is no record; the message names it.
pub(crate) fn replay(
    file: &str,
    lines: impl Iterator<Item = std::io::Result<String>>,
    framework: Framework,
) -> Result<Result<u64, String>, String> {
    let mut lines = lines.zip(1_u64..);
    let bad =
        |number: u64, error: &dyn std::fmt::Display| format!("{file}: line {number}: {error}");
    let Some((first, _)) = lines.next() else { return Err(format!("{file}: is empty")) };
    let first = first.map_err(|error| bad(1, &error))?;
    let saved: SavedScheduler = serde_json::from_str(&first).map_err(|error| bad(1, &error))?;
    let mut replay = Replay::new(Scheduler::restore(saved, framework, PriorityThenTime));
    let mut count = 1;
    for (line, number) in lines {
        let line = line.map_err(|error| bad(number, &error))?;
        let record: Record = serde_json::from_str(&line).map_err(|error| bad(number, &error))?;
        if let Err(difference) = replay.step(&record) {
            return Ok(Err(difference.to_string()));
        }
        count = number;
    }
    Ok(Ok(count))
}
