//! Questions to a scheduler that runs: `phalanx why`, `what-if`, `snapshot`, and `replay` of a snapshot.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubernetes_scheduler::command::main(std::env::args_os().skip(1))
}
