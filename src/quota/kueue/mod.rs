//! Kueue's semantics: cohorts that lend and borrow, flavors, preemption, fair sharing.

mod assign;
mod candidates;
mod classical;
mod fair;
pub(super) mod head_rules;
pub(super) mod heads;
mod partial;
pub(super) mod trial;
mod yields;

pub use assign::Outlook;
pub(super) use assign::{Prefer, assign, decide, flavor_order, simulate_levels, victims};
pub(super) use fair::target_order;
pub(super) use partial::decide_reduced;
pub use partial::reduced_counts;
pub(super) use yields::Guarantees;

use super::claim::Usage;
use super::queue::{QueuePreemption, QueuePreemptionPolicy};
use crate::Time;

/// Who wants victims, and for what.
pub(super) struct Preemptor<'a> {
    pub(super) leaf: u32,
    pub(super) priority: i64,
    pub(super) created: Time,
    pub(super) policy: QueuePreemption,
    /// Everything that it would use.
    pub(super) usage: &'a Usage,
    /// The part that does not fit yet: resources in flavors.
    pub(super) pairs: &'a [u32],
    pub(super) strategies: &'a [FairStrategy],
    /// Whether one that borrows leaves others what they are guaranteed, of each resource.
    pub(super) keeps_guarantees: bool,
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

/// A priority with what an annotation adds to it: a decimal integer; anything else adds nothing.
///
/// Source: Kueue's `kueue.x-k8s.io/priority-boost`.
///
/// ```
/// use phalanx::quota::effective_priority;
///
/// assert_eq!(effective_priority(50, Some("200")), 250);
/// assert_eq!(effective_priority(50, Some("much")), 50);
/// ```
pub fn effective_priority(priority: i32, boost: Option<&str>) -> i64 {
    let boost = boost.and_then(|boost| boost.parse::<i32>().ok()).unwrap_or(0);
    i64::from(priority) + i64::from(boost)
}

/// Whether a policy makes a holder a candidate for a claim, by priority and age.
pub fn is_candidate(
    policy: QueuePreemptionPolicy,
    claim: (i64, Time),
    holder: (i64, Time),
) -> bool {
    let lower = holder.0 < claim.0;
    match policy {
        QueuePreemptionPolicy::Never => false,
        QueuePreemptionPolicy::LowerPriority => lower,
        QueuePreemptionPolicy::LowerOrNewerEqualPriority => {
            lower || (holder.0 == claim.0 && holder.1 > claim.1)
        }
        QueuePreemptionPolicy::Any => true,
    }
}
