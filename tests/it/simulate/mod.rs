//! Simulation, backfill, and recordings.

mod promises;
mod recordings;
mod restored;
mod runs;
mod shared_nodes;
mod world;
