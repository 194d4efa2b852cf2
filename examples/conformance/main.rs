//! Compares this crate with the answers of other schedulers: `cargo run --release --example
//! conformance -- FILE...`.
//!
//! See `--help` for the files it reads, and `docs/kubernetes.md` for what is compared.

#[path = "../common/mod.rs"]
mod common;
#[path = "mod.rs"]
mod conformance;

use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.iter().any(|file| file == "--help" || file == "-h") {
        print!("{}", conformance::USAGE);
        return ExitCode::SUCCESS;
    }
    if files.is_empty() {
        eprint!("error: no file is named\n\n{}", conformance::USAGE);
        return ExitCode::FAILURE;
    }
    match run(&files) {
        Ok(tally) => {
            print!("{tally}");
            if tally.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every case of every file.
///
/// # Errors
/// A file cannot be read, or a line of it is no case; the message names both.
fn run(files: &[String]) -> Result<conformance::Tally, String> {
    let mut tally = conformance::Tally::default();
    for file in files {
        let text = common::files::text(file, common::files::read(file)?)?;
        tally.run(file, &text)?;
    }
    Ok(tally)
}
