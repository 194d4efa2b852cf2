//! The scheduler against a stand-in for an API server, where no real one of the release can be had,
//! or where it must fail at chosen moments. See `server.rs` for what it is and is not.
//!
//! `PHALANX_SOAK` runs 64 pods and ten kills.

mod claims;
mod ends;
mod live;
mod operator;
mod packaging;
mod perf;
#[path = "../support/program.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod program;
mod releases;
mod server;
mod wire;
mod world;
