//! Simulates a trace of jobs under one or several policies: `cargo run --release --features full --example simulate
//! -- --jobs FILE --format swf --policy fcfs,easy`.
//!
//! See `--help`, and `docs/simulation.md`.

#[path = "../common/mod.rs"]
mod common;
#[path = "mod.rs"]
mod simulate;

fn main() -> std::process::ExitCode {
    simulate::PROGRAM.main(simulate::run)
}
