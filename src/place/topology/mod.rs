//! The topology: domains of levels and of flat partitions.

pub(crate) mod ask;
pub(crate) mod split;
pub(crate) mod tree;
