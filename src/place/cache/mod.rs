//! What a planner keeps between requests.

pub(crate) mod capacity;
pub(crate) mod fits;
pub(crate) mod negative;
pub(crate) mod tables;
