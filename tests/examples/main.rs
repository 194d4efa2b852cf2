//! The example programs, run as a user runs them.
//!
//! A program of its own: the modules of the examples name each other from the root of a program.
#![allow(clippy::duplicate_mod, reason = "two examples read one trace")]

mod autoscale;
mod bad_input;
#[path = "../../examples/fgd/bound.rs"]
mod bound;
#[path = "../../examples/common/mod.rs"]
mod common;
#[path = "../../examples/throughput/day.rs"]
mod day;
mod fgd;
mod fgd_plain;
#[path = "../../examples/throughput/figures.rs"]
mod figures;
#[path = "../../examples/fgd/moves.rs"]
mod moves;
#[path = "../../examples/throughput/peers/mod.rs"]
mod peers;
mod place_gang;
mod processes;
mod replay;
#[allow(dead_code, reason = "the program reports of gangs one after another too")]
#[path = "../../examples/throughput/report.rs"]
mod report;
#[allow(dead_code, reason = "the plot is drawn by the program")]
#[path = "../../examples/fgd/run.rs"]
mod run;
#[allow(dead_code, reason = "the program has other scenes too")]
#[path = "../../examples/throughput/scene.rs"]
mod scene;
mod simulate;
mod throughput;
#[allow(dead_code, reason = "files are read by the program")]
#[path = "../../examples/fgd/trace.rs"]
mod trace;
#[path = "../../examples/throughput/workload.rs"]
mod workload;
