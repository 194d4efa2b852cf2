//! Domains that a group may go to: one definition for every strategy, for certificates and their
//! check.

pub(crate) mod islands;
pub(crate) mod partition;
pub(crate) mod pinned;
pub(crate) mod requirement;
pub(crate) mod tiers;
pub(crate) mod totals;
pub(crate) mod tree;
