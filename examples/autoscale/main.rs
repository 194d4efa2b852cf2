//! Buys nodes for a backlog: `cargo run --release --features full --example autoscale [-- --output text|json]`.
//!
//! The nodes are those of openb, Alibaba's production GPU cluster, of whose GPUs 95 of 100 are taken.
//! 64 gangs wait. What is bought for them is drawn, beside what first-fit by template would buy and
//! the least that any set costs; and what could be taken away once they run.

#[path = "mod.rs"]
mod autoscale;
#[path = "../common/mod.rs"]
mod common;

fn main() -> std::process::ExitCode {
    autoscale::PROGRAM.main(autoscale::run)
}
