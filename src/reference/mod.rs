//! Executable definitions, independent checks and counts of work: slow, plain, and there to compare
//! with.
//!
//! [`is_sound`] reads a plan and the request it answers, and says which promises the plan breaks.
//! It shares no code with the planners, with commit or with the check of certificates. So an error
//! that they have in common is found too. [`place_by_definition`] is the definition that the planners are
//! held to. [`kueue`] is Kueue's algorithm on Kueue's own types.

#[cfg(feature = "laws")]
mod broken;
#[cfg(feature = "laws")]
mod claims;
#[cfg(feature = "laws")]
mod devices;
#[cfg(feature = "laws")]
mod domains;
#[cfg(feature = "peers")]
pub mod kueue;
#[cfg(feature = "laws")]
mod members;
#[cfg(feature = "laws")]
mod soundness;
#[cfg(feature = "laws")]
mod volumes;

#[cfg(feature = "laws")]
pub use broken::{Broken, Unsound};
#[cfg(feature = "laws")]
pub use soundness::is_sound;

#[cfg(feature = "laws")]
pub use crate::place::sequential::trials::{DomainTrial, trials};

#[cfg(feature = "laws")]
use crate::framework::Framework;
#[cfg(feature = "laws")]
use crate::place::{Outcome, PlaceError, Planner, Request};
#[cfg(feature = "laws")]
use crate::state::Cluster;

/// Places a group as [`place_gang`](crate::place_gang) does, by the definition of the request's strategy, without caches:
/// slow, and what the planner is tested against.
///
/// Under [`Strategy::Kubernetes`](crate::Strategy::Kubernetes) it is the plain loop, every
/// candidate domain tried in full, and the plan is the planner's. Under
/// [`Strategy::Kueue`](crate::Strategy::Kueue) it is the planner's own code. Under
/// [`Strategy::Search`](crate::Strategy::Search) it is brute force in a canonical order,
/// exponential in the number of members. It then agrees with the planner on whether there is a
/// plan; for which plan it is, see the guide `docs/topology.md`. It has no budget, and an
/// infeasible group comes without a certificate. Groups that the search leaves to the sequential
/// strategy (islands, a minimum of pods beside one of groups) are placed by the reference of that.
///
/// # Errors
/// As [`place_gang`](crate::place_gang). Under [`Strategy::Search`](crate::Strategy::Search) also
/// [`TooManyMembers`](PlaceError::TooManyMembers) for a group of more than 10 pending members,
/// and [`Unsupported`](PlaceError::Unsupported) for more than 64 groups and slices.
#[cfg(feature = "laws")]
pub fn place_by_definition<'a>(
    cluster: &Cluster,
    framework: &Framework,
    request: impl Into<Request<'a>>,
) -> Result<Outcome, PlaceError> {
    Planner::place_reference(cluster, framework, request)
}

/// A planner that tries every candidate domain in full, even where counting shows that it cannot
/// do. The answers are those of [`Planner::new`].
#[cfg(feature = "laws")]
pub fn unpruned() -> Planner {
    Planner::unpruned()
}

/// How often a planner has evaluated a plugin on a node so far: its work, for tests that assert how
/// much of what it knew was of use.
#[cfg(feature = "laws")]
pub fn plugin_calls(planner: &Planner) -> u64 {
    planner.plugin_calls()
}
