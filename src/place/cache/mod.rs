//! Caches that a planner keeps between requests.

pub(crate) mod capacity;
pub(crate) mod fits;
pub(crate) mod negative;
pub(crate) mod tables;

/// The caches of a planner, and how it uses them.
#[derive(Debug)]
pub(crate) struct Caches {
    /// Score tables, of the sequential strategy.
    pub(crate) tables: tables::PlannerCache,
    /// Capacity columns and their sums by domain, of the search.
    pub(crate) capacity: capacity::Capacity,
    /// Whether candidate domains are left out that counting shows to be too small.
    pub(crate) prune: bool,
}

impl Default for Caches {
    fn default() -> Caches {
        let (tables, capacity) = Default::default();
        Caches { tables, capacity, prune: true }
    }
}
