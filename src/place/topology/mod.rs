//! The topology: domains of levels and of flat partitions.

pub(crate) mod split;
