//! Simulation, backfill, and recordings.

mod job_model;
mod promises;
mod recordings;
mod restored;
mod runs;
mod shared_nodes;
mod world;
