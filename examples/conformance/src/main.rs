//! Compares phalanx with the answers of other schedulers: `cargo run --release --manifest-path
//! examples/conformance/Cargo.toml -- FILE...`.
//!
//! See `--help` for the files it reads, and `docs/kubernetes.md` for what is compared.

#[path = "../../common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::cli::{DONE, Finish, NO};

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(std::ffi::OsString::into_string);
    let files: Vec<String> = match arguments.collect() {
        Ok(files) => files,
        Err(text) => {
            return Finish::fault(format!("argument {} is not UTF-8", text.display())).exit();
        }
    };
    if files.iter().any(|file| file == "--help" || file == "-h") {
        return Finish::with(DONE, conformance::USAGE.to_string()).exit();
    }
    if let Some(flag) = files.iter().find(|file| file.starts_with('-')) {
        return Finish::misuse(&format!("{flag} is no option"), conformance::USAGE).exit();
    }
    if files.is_empty() {
        return Finish::misuse("no file is named", conformance::USAGE).exit();
    }
    let finish = match run(&files) {
        Ok(tally) => Finish::with(if tally.holds() { DONE } else { NO }, tally.to_string()),
        Err(error) => Finish::fault(error),
    };
    finish.exit()
}

/// Runs every case of every file.
///
/// # Errors
/// A file cannot be read, or is no text; the message names it.
fn run(files: &[String]) -> Result<conformance::Tally, String> {
    let mut tally = conformance::Tally::default();
    for file in files {
        let text = common::files::text(file, common::files::read(file)?)?;
        tally.run(file, &text);
    }
    Ok(tally)
}
