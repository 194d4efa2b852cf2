//! Topology: levels and domains, and the strategy of Kueue.

mod cases;
mod kueue;
mod kueue_properties;
mod kueue_strategy;
