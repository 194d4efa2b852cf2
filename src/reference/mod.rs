//! Executable definitions and independent checks: slow, plain, and there to compare with.
//!
//! [`is_sound`] reads a plan and the request it answers, and says which promises the plan breaks.
//! Nothing here is used by the planners, by commit or by the check of certificates, and nothing of
//! those is used here, so an error that they have in common is found too.

mod broken;
mod devices;
mod domains;
pub mod kueue_cycle;
mod members;
mod soundness;

pub use broken::{Broken, Unsound};
pub use soundness::is_sound;
