//! Watches: nothing is forgotten and nothing remembered that has gone.

mod cards;
mod composites;
mod follows;
mod layout;
mod lives;
mod order;
mod peers;
mod profiles;
mod queues;
pub(crate) mod relist;
mod spread;
pub(crate) mod truth;
mod upgrade;
