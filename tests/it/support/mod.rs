//! Support that the topics share.

pub(crate) mod budget;
pub(crate) mod dice;
pub(crate) mod held;
pub(crate) mod levels;
pub(crate) mod worlds;
