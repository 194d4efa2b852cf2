//! The scheduler against a stand-in for an API server, where no real one of the release can be had,
//! or where it must fail at chosen moments. See `server.rs` for what it is and is not.
//!
//! `PHALANX_SOAK` runs 64 pods and ten kills.

mod claims;
mod ends;
mod inspector;
mod live;
mod operator;
mod packaging;
mod perf;
mod releases;
mod roles;
mod server;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;
mod wire;
mod world;

use support::program;
