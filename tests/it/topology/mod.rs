//! Topology: levels and domains, and the strategy of Kueue.

mod cases;
mod commit_promises;
mod domains;
mod kueue;
mod kueue_hosts;
mod kueue_properties;
mod kueue_strategy;
