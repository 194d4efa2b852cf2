//! The example programs, run as a user runs them.
//!
//! A program of its own: the modules of the examples name each other from the root of a program.
#![allow(clippy::duplicate_mod, reason = "two examples read one trace")]

#[path = "../../examples/common/mod.rs"]
mod common;
mod fgd;
mod place_gang;
mod replay;
#[allow(dead_code, reason = "the plot is drawn by the program")]
#[path = "../../examples/fgd/run.rs"]
mod run;
mod simulate;
#[allow(dead_code, reason = "files are read by the program")]
#[path = "../../examples/fgd/trace.rs"]
mod trace;
