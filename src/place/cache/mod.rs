//! Caches that a planner keeps between requests.

pub(crate) mod capacity;
pub(crate) mod domains;
pub(crate) mod fits;
pub(crate) mod negative;
pub(crate) mod offers;
pub(crate) mod tables;

use crate::state::Cluster;
use crate::state::journal::Moment;

/// The caches of a planner.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// Score tables, of the sequential strategy.
    pub(crate) tables: tables::PlannerCache,
    /// Devices that nodes offer to claims, of the sequential strategy.
    pub(crate) offers: offers::Offers,
    /// Capacity columns and their sums by domain, of the search.
    pub(crate) capacity: capacity::Capacity,
}

impl Caches {
    /// Takes a cluster for what it was at another moment; see
    /// [`Planner::rebase`](super::planner::Planner::rebase).
    pub(crate) fn rebase(&mut self, visited: &Cluster, moment: Moment) {
        self.tables.rebase(visited, moment);
        self.capacity.rebase(visited, moment);
    }
}
