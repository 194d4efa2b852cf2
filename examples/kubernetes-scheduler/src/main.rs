//! The scheduler's program; its parts are in the library beside it.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kubernetes_scheduler::main(std::env::args_os().skip(1))
}
