//! Kueue's semantics: cohorts that lend and borrow, flavors, preemption, fair sharing.

mod assign;
mod candidates;
mod classical;
mod fair;
pub(super) mod heads;
mod partial;
pub(super) mod trial;

pub use assign::Outlook;
pub(super) use assign::{assign, decide, simulate_levels, victims};
pub use partial::reduced_counts;

use super::claim::Usage;
use super::queue::Preemption;
use crate::Time;

/// Who wants victims, and for what.
pub(super) struct Preemptor<'a> {
    pub(super) leaf: u32,
    pub(super) priority: i64,
    pub(super) created: Time,
    pub(super) policy: Preemption,
    /// Everything that it would use.
    pub(super) usage: &'a Usage,
    /// What of it does not fit yet: resources in flavors.
    pub(super) pairs: &'a [u32],
    pub(super) strategies: &'a [FairStrategy],
}

/// When a fair share allows a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FairStrategy {
    /// The preemptor's side has no more than the victim's will have without the victim.
    LessThanOrEqualToFinalShare,
    /// The preemptor's side has less than the victim's has with the victim.
    LessThanInitialShare,
}
