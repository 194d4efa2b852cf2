//! Caches that a planner keeps between requests.

pub(crate) mod capacity;
pub(crate) mod fits;
pub(crate) mod negative;
pub(crate) mod tables;

/// The caches of a planner.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// Score tables, of the sequential strategy.
    pub(crate) tables: tables::PlannerCache,
    /// Capacity columns and their sums by domain, of the search.
    pub(crate) capacity: capacity::Capacity,
}
