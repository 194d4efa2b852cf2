//! Replays real gang jobs and compares with published results: `cargo run --release --features full --example
//! replay`.
//!
//! The trace is that of Muri (SIGCOMM'22), whose jobs are from Microsoft's Philly logs; see
//! `examples/data/muri`. The program simulates; every placement is the crate's.

#[path = "../common/mod.rs"]
mod common;
#[path = "mod.rs"]
mod replay;

fn main() -> std::process::ExitCode {
    replay::PROGRAM.main(replay::run)
}
