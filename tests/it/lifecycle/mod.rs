//! The queue: pods and groups from arrival to the end, by rules and by random events.

mod bookings;
#[cfg(not(soak))]
mod defects_backfill;
#[cfg(not(soak))]
mod defects_claims;
#[cfg(not(soak))]
mod defects_growth;
#[cfg(not(soak))]
mod defects_rules;
#[cfg(not(soak))]
mod defects_state;
#[cfg(not(soak))]
mod defects_streams;
#[cfg(not(soak))]
mod defects_sync;
mod edges;
#[cfg(not(soak))]
mod effort;
mod elastic;
#[cfg(not(soak))]
mod failures;
#[cfg(not(soak))]
mod growth;
#[cfg(not(soak))]
mod growth_of_inputs;
#[cfg(not(soak))]
mod growth_of_removals;
mod model;
mod moves;
#[cfg(not(soak))]
mod needs;
#[cfg(not(soak))]
mod nominations;
#[cfg(not(soak))]
mod orphans;
#[cfg(not(soak))]
mod pairs;
#[cfg(not(soak))]
mod preemption;
#[cfg(not(soak))]
mod rare_inputs;
mod repair;
#[cfg(not(soak))]
mod reservations;
#[cfg(not(soak))]
mod results;
#[cfg(not(soak))]
mod rules;
mod run_times;
mod sharing;
#[cfg(not(soak))]
mod spares;
#[cfg(not(soak))]
mod starvation;
mod steps;
pub(crate) mod world;
#[cfg(not(soak))]
mod zone_moves;
