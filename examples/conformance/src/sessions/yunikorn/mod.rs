//! YuniKorn's search for victims: allocations that are taken so that an ask gets what its queue is
//! guaranteed.
//!
//! A scheduler of this crate decides on whole gangs, by quota first, and needs none of this. It is here
//! to be compared with what YuniKorn does; ties that YuniKorn leaves to the order of a map end on names.
//!
//! YuniKorn surprises a reader in these points:
//!
//! - On a node the first victim that would take the queue that asks beyond its guarantee ends the
//!   search there, though a smaller one behind it might do.
//! - Queues are sorted with the fair maxima of the places that they are moved through, not with their
//!   own ([`sort_queues`]).
//! - The solution on a node is judged by the first of its candidates in order, be they among the
//!   victims or not; a node without candidates is the worst of all.
//!
//! Source: `pkg/scheduler/objects` of YuniKorn core at be3bb48 (July 2026), Apache-2.0.

mod attempt;
mod candidates;
mod input;
mod sort;

pub use input::{Allocation, Ask, Attempt, AttemptOutcome, NodeInput, Predicates, ShimPreemption};
pub use sort::{sort_applications, sort_queues};
