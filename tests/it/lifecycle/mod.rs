//! The queue: pods and groups from arrival to the end, by rules and by random events.

mod bookings;
mod defects_backfill;
mod defects_claims;
mod defects_growth;
mod defects_rules;
mod defects_state;
mod defects_sync;
mod edges;
mod failures;
mod growth;
mod model;
mod moves;
mod needs;
mod nominations;
mod orphans;
mod pairs;
mod preemption;
mod reservations;
mod results;
mod rules;
mod run_times;
mod sharing;
mod starvation;
mod steps;
pub(crate) mod world;
mod zone_moves;
