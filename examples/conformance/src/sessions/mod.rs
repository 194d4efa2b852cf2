//! Sessions of other schedulers, on types of their own: slow, plain, and there to be compared with.

pub mod kai;
pub mod kueue_cycle;
pub mod volcano;
pub mod yunikorn;
