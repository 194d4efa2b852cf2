//! The claim for which victims are sought.

use super::settings::FairStrategy;
use crate::Time;
use crate::quota::model::claim::Usage;
use crate::quota::model::queue::QueuePreemption;

/// A claim that seeks victims.
#[derive(Clone, Copy)]
pub(in crate::quota) struct Preemptor<'a> {
    pub(in crate::quota) leaf: u32,
    pub(in crate::quota) priority: i64,
    pub(in crate::quota) created: Time,
    pub(in crate::quota) policy: QueuePreemption,
    /// Everything that it would use.
    pub(in crate::quota) usage: &'a Usage,
    /// The part that does not fit yet: resources in flavors.
    pub(in crate::quota) pairs: &'a [u32],
    pub(in crate::quota) strategies: &'a [FairStrategy],
    /// Whether one that borrows leaves others what they are guaranteed, of each resource.
    pub(in crate::quota) keeps_guarantees: bool,
}
