//! How many instructions placing takes: a figure that does not depend on who else uses the machine.
//!
//! `cargo bench --features full --bench instructions [-- part-of-a-name]` runs each case of 5,000 nodes under
//! valgrind, in a process of its own, and prints the instructions of its measured part: those of
//! one round, for each placement, and as a multiple of the plain pass over the same nodes. With
//! `--test`, or where there is no valgrind, each case just runs once.

#[path = "support/cases.rs"]
mod cases;
#[path = "../examples/throughput/scene.rs"]
mod scene;
#[path = "support/stage.rs"]
mod stage;
#[path = "../examples/throughput/straight.rs"]
mod straight;

use std::hint::black_box;
use std::process::{Command, ExitCode, Stdio};

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
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let counts = Command::new("valgrind").arg("--version").output().is_ok();
    if !counts || arguments.iter().any(|argument| argument == "--test") {
        for case in chosen(filter.map(String::as_str)) {
            run(case, 1);
        }
        println!("each case was run once{}", if counts { "" } else { ": there is no valgrind" });
        return ExitCode::SUCCESS;
    }
    println!("{:>12} {:>14} {:>8} {:>6}  case", "instructions", "per placement", "passes", "simd");
    let mut pass = 0;
    for case in chosen(filter.map(String::as_str)) {
        let name = name(&case);
        match count(&name) {
            Ok((round, level)) => {
                if case.work == Work::Straight {
                    pass = round;
                }
                let passes = round as f64 / pass.max(1) as f64;
                let each = round / case.placements();
                println!("{round:>12} {each:>14} {passes:>8.2} {level:>6}  {name}");
            }
            Err(told) => {
                eprintln!("{name}: {told}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
