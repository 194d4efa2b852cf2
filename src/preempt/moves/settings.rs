//! Settings of consolidation: units that may move, and how many.

use crate::preempt::policy::{Candidate, Policy, Preemptor};

/// Every unit that may be disrupted at all, whatever its priority and queue.
///
/// Rules that hold under every [`Policy`] hold here too. Units that are not preemptible or still
/// protected by a minimum run time stay, and so does the group that room is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnyUnit;

impl Policy for AnyUnit {
    fn allows(&self, _: &Preemptor<'_>, _: &Candidate<'_>) -> bool {
        true
    }
}

/// The leave to move running units to other nodes so that a group fits.
///
/// ```
/// use phalanx::preempt::{Consolidation, PreemptionRequest, SameQueue};
/// use phalanx::{Pod, PodGroup};
///
/// let gang = PodGroup::gang("trainer", 2).pods(2, Pod::new());
/// // At most three units of the gang's own queue move, and nothing is evicted.
/// let moves = Consolidation::new(3).policy(&SameQueue);
/// let request = PreemptionRequest::new(&gang).consolidation(moves);
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Consolidation<'a> {
    pub(crate) units: u32,
    pub(crate) policy: &'a dyn Policy,
    pub(crate) evict: bool,
}

impl<'a> Consolidation<'a> {
    /// Units that may move unless the settings say otherwise.
    pub const DEFAULT_UNITS: u32 = 8;
    /// The most units that move in one answer; a higher limit counts as this.
    pub const MOST_UNITS: u32 = 64;

    /// At most so many units move, of any priority and queue, and none is evicted.
    pub fn new(units: u32) -> Consolidation<'a> {
        Consolidation {
            units: units.min(Consolidation::MOST_UNITS),
            policy: &AnyUnit,
            evict: false,
        }
    }

    /// Sets which units may move.
    pub fn policy(mut self, policy: &'a dyn Policy) -> Consolidation<'a> {
        self.policy = policy;
        self
    }

    /// Lets units be evicted, as the policy of the request allows, where moves alone do not help.
    pub fn or_evict(mut self) -> Consolidation<'a> {
        self.evict = true;
        self
    }
}

impl Default for Consolidation<'_> {
    fn default() -> Self {
        Consolidation::new(Consolidation::DEFAULT_UNITS)
    }
}
