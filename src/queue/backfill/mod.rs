//! Backfill: groups that pass the first of the line, where run times are estimated.
//!
//! The line is all groups that wait, over all queues, in queue order. A *promise* is a place and a
//! time: the plan that a group starts with, found in a working copy of the cluster from which
//! running groups were released in the order of their ends. Every filter, the topology and devices
//! are judged there as they are anywhere else.
//!
//! - `state`: the line, the running groups, promises.
//! - `demand`: sums of requests, which tell cheaply that a place cannot be found.
//! - `releases`: when running groups end, and the cluster at a later time.
//! - `easy`: one promise, to the first of the line.
//! - `conservative`, `profile`: a promise to each.

mod conservative;
pub(super) mod demand;
mod easy;
mod pass;
mod profile;
pub(super) mod promise;
mod releases;
pub(super) mod settings;
pub(super) mod state;
