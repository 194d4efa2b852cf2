//! Backfill: groups that pass the first of the line, where run times are estimated.
//!
//! The line is all groups that wait, over all queues, in queue order. A *promise* is a place and a
//! time: the plan that a group starts with, found in a working copy of the cluster from which
//! running groups were released in the order of their ends. Every filter, the topology and devices
//! are judged there as they are anywhere else.
//!
//! - `state`: promises, and what the others keep.
//! - `line`: the groups that wait, by what they need.
//! - `free`, `room`: what is free in all, and how many pods of a class have room.
//! - `running`: the groups that run, by their ends.
//! - `demand`: sums of requests, which tell cheaply that a place cannot be found.
//! - `in_step`: how these follow the cluster.
//! - `releases`: when running groups end, and the cluster at a later time.
//! - `easy`: one promise, to the first of the line.
//! - `conservative`: a promise to each. Times by sums are in `profile`, and proved by `run_through`;
//!   `by_place` finds times and places by `node_profiles`, in the working copy of `availability`.

mod availability;
mod by_place;
mod conservative;
pub(super) mod demand;
mod easy;
mod free;
mod in_step;
pub(super) mod line;
mod node_profiles;
mod pass;
mod profile;
pub(super) mod promise;
mod releases;
mod room;
mod run_through;
mod running;
pub(super) mod settings;
pub(super) mod state;
