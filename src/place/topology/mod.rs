//! Which domains a group may go to.

pub(crate) mod candidates;
pub(crate) mod partition;
pub(crate) mod requirement;
pub(crate) mod totals;
pub(crate) mod tree;
