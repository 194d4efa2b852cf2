//! The table of limits: instructions of each case when they were last written.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
/// Growth that is let pass, in per mille.
const SLACK: u64 = 30;

pub(crate) struct Count {
    pub(crate) name: String,
    pub(crate) round: u64,
    pub(crate) level: String,
}

/// The first line of an answer of a program, or nothing.
fn told_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
}

/// All that counts depend on beside this crate: compiler, C library, valgrind, vectors, and the maker of the
/// processor, by which the C library chooses how to copy.
fn circumstances(level: &str) -> String {
    let compiler = told_by("rustc", &["--version"]);
    let library = told_by("getconf", &["GNU_LIBC_VERSION"]);
    let counter = told_by("valgrind", &["--version"]);
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let maker =
        processors.lines().find_map(|line| line.strip_prefix("vendor_id")).unwrap_or(": unknown");
    let maker = maker.trim_start_matches([' ', '\t', ':']);
    format!("{compiler}, {library}, {counter}, vectors {level}, processor {maker}")
}

/// Writes the table anew.
pub(crate) fn write(counts: &[Count]) -> ExitCode {
    let level = counts.first().map_or("none", |count| count.level.as_str());
    let mut text = format!("# {}\n", circumstances(level));
    for count in counts {
        text.extend([count.name.as_str(), " ", &count.round.to_string(), "\n"]);
    }
    match std::fs::write(PATH, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{PATH}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn table() -> Result<String, ExitCode> {
    std::fs::read_to_string(PATH).map_err(|error| {
        eprintln!("{PATH}: {error}");
        ExitCode::FAILURE
    })
}

/// Whether the table is of this machine, whose vectors are of `level`: else nothing is worth counting, and a note
/// says so.
pub(crate) fn are_of_this_machine(level: &str) -> Result<bool, ExitCode> {
    let table = table()?;
    let here = circumstances(level);
    let there = table.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
    if here != there {
        println!("note: the limits are those of {there}; this is {here}: nothing is compared");
    }
    Ok(here == there)
}

/// Compares with the table: rows that have grown, that are missing, and, if `all` were counted, rows without a
/// case fail by name.
pub(crate) fn hold(counts: &[Count], all: bool) -> ExitCode {
    let table = match table() {
        Ok(table) => table,
        Err(code) => return code,
    };
    let mut limits: BTreeMap<&str, u64> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let Some((name, Ok(limit))) =
            line.split_once(' ').map(|(name, limit)| (name, limit.parse()))
        else {
            eprintln!("{PATH}: no name and number: {line}");
            return ExitCode::FAILURE;
        };
        limits.insert(name, limit);
    }
    let mut faults = 0;
    for count in counts {
        let Some(limit) = limits.remove(count.name.as_str()) else {
            eprintln!("{}: has no limit", count.name);
            faults += 1;
            continue;
        };
        if count.round * 1000 > limit * (1000 + SLACK) {
            let growth = (count.round as f64 / limit as f64 - 1.0) * 100.0;
            eprintln!(
                "{}: {} instructions, limit {limit}: {growth:.1} % more",
                count.name, count.round
            );
            faults += 1;
        }
    }
    for name in limits.keys().filter(|_| all) {
        eprintln!("{name}: has a limit and no case");
        faults += 1;
    }
    println!("{} rows, {faults} above their limits of {} per mille", counts.len(), SLACK);
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
