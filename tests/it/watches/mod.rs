//! Watches: nothing is forgotten and nothing remembered that has gone.

mod composites;
mod lives;
mod order;
mod relist;
mod truth;
mod upgrade;
