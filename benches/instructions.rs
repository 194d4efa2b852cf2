//! Instructions that placing takes: a figure that does not depend on who else uses the machine.
//!
//! `cargo bench --features full,simd --bench instructions [-- part-of-a-name]` runs each case of 5,000 nodes
//! under valgrind, in a process of its own, and prints the instructions of its measured part: those of
//! one round, for each placement, and as a multiple of the plain pass over the same nodes. With
//! `--test`, or where there is no valgrind, each case just runs once.
//!
//! | argument | effect |
//! |---|---|
//! | `--limits` | fails if a case takes more than 3 % above its row in `benches/instructions.txt` |
//! | `--write-limits` | writes that table |
//!
//! Counts are those of one compiler, one C library and one level of vectors, which the table names. Elsewhere
//! `--limits` ends with a note.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/limits.rs"]
mod limits;
#[path = "../examples/throughput/scene.rs"]
mod scene;
#[path = "support/stage.rs"]
mod stage;
#[path = "../examples/throughput/straight.rs"]
mod straight;

use std::hint::black_box;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::Case;
use stage::{Stage, Work};

/// Names this process a child that runs one case.
const CHILD: &str = "--case";
/// Before the level of vectors, in what a child says.
const LEVEL: &str = "simd: ";
const ROUNDS: u64 = 8;

/// The part that valgrind counts: it is told this function's name.
#[inline(never)]
fn counted_part(part: &mut dyn FnMut()) {
    part();
    // Not a tail call: the function is left after the part.
    black_box(());
}

fn name(case: &Case) -> String {
    format!("{}/{}", case.group, case.name)
}

/// The small cases of one thread, and the straight pass of each group that has one.
fn chosen(filter: Option<&str>) -> Vec<Case> {
    let mut small = cases::all();
    small.retain(|case| case.scene.nodes == 5_000 && case.threads == 1);
    let Some(filter) = filter else { return small };
    let wanted = |case: &Case| case.work != Work::Straight && name(case).contains(filter);
    let groups: Vec<String> =
        small.iter().filter(|case| wanted(case)).map(|case| case.group.clone()).collect();
    small
        .retain(|case| wanted(case) || case.work == Work::Straight && groups.contains(&case.group));
    small
}

fn run(case: Case, rounds: u64) {
    Stage::new(case).rounds(rounds, &mut counted_part);
}

/// Instructions of one round, and the level of vectors: valgrind knows none above AVX2.
fn count(name: &str) -> Result<(u64, String), String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_part*")
        .arg(this)
        .args([CHILD, name])
        .stdout(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr);
    // ==1234== Collected : 123456
    let total = told.lines().find_map(|line| {
        let (_, number) = line.split_once("Collected : ")?;
        number.trim().parse::<u64>().ok()
    });
    let level = told.lines().find_map(|line| line.strip_prefix(LEVEL)).unwrap_or("none");
    match total {
        Some(total) if output.status.success() => Ok((total / ROUNDS, level.to_owned())),
        _ => Err(told.into_owned()),
    }
}

/// Counts of all cases, in their order: one process a core at a time.
fn count_all(cases: &[Case]) -> Vec<Result<(u64, String), String>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let names: Vec<String> = cases.iter().map(name).collect();
    let next = AtomicUsize::new(0);
    let counts = Mutex::new(vec![Err("not run".to_owned()); names.len()]);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((at, name)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    names.get(at).map(|name| (at, name))
                } {
                    let counted = count(name);
                    counts.lock().expect("no thread panics")[at] = counted;
                }
            });
        }
    });
    counts.into_inner().expect("no thread panics")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, wanted] = &arguments[..]
        && flag == CHILD
    {
        let case = cases::all().into_iter().find(|case| name(case) == *wanted);
        run(case.expect("the parent knows the names"), ROUNDS);
        eprintln!("{LEVEL}{}", phalanx::framework::math::simd_level());
        return ExitCode::SUCCESS;
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let chosen = chosen(filter.map(String::as_str));
    if has("--test") || Command::new("valgrind").arg("--version").output().is_err() {
        for case in chosen {
            run(case, 1);
        }
        println!("each case was run once, and nothing counted");
        return ExitCode::SUCCESS;
    }
    // The vectors are those that a counted run sees: valgrind has fewer than the machine.
    if has("--limits")
        && let Some(case) = chosen.first()
        && let Ok((_, level)) = count(&name(case))
    {
        match limits::are_of_this_machine(&level) {
            Ok(true) => {}
            Ok(false) => return ExitCode::SUCCESS,
            Err(code) => return code,
        }
    }
    println!("{:>12} {:>14} {:>8} {:>6}  case", "instructions", "per placement", "passes", "simd");
    let mut counts = Vec::new();
    let mut pass = 0;
    for (case, counted) in chosen.iter().zip(count_all(&chosen)) {
        let name = name(case);
        match counted {
            Ok((round, level)) => {
                if case.work == Work::Straight {
                    pass = round;
                }
                let passes = round as f64 / pass.max(1) as f64;
                let each = round / case.placements();
                println!("{round:>12} {each:>14} {passes:>8.2} {level:>6}  {name}");
                counts.push(limits::Count { name, round, level });
            }
            Err(told) => {
                eprintln!("{name}: {told}");
                return ExitCode::FAILURE;
            }
        }
    }
    if has("--write-limits") {
        limits::write(&counts)
    } else if has("--limits") {
        limits::hold(&counts, filter.is_none())
    } else {
        ExitCode::SUCCESS
    }
}
