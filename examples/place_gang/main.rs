//! Places gangs: `cargo run --release --example place_gang`.
//!
//! Without arguments a training gang on a real cluster; with `--cluster` and `--workload` whatever
//! Kubernetes manifests hold. See `--help`.

#[path = "../common/mod.rs"]
mod common;
#[path = "mod.rs"]
mod place_gang;

fn main() -> std::process::ExitCode {
    place_gang::PROGRAM.main(place_gang::run)
}
