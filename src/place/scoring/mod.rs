//! Verdicts and scores of all nodes for one pod shape.

pub(crate) mod changes;
pub(crate) mod classes;
pub(crate) mod prepared;
pub(crate) mod ranking;
pub(crate) mod scratch;
pub(crate) mod table;
pub(crate) mod tie_order;
pub(crate) mod top_k;
pub(crate) mod view;
