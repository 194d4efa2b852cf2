//! Requests that may preempt, with the leave to move units.

use super::policy::{Candidate, LowerPriority, Policy, Preemptor};
use super::yielding::Yielding;
use crate::place::Request;

/// A request for a group, and what may be taken for it.
///
/// ```
/// use phalanx::preempt::{LowerPriority, PreemptionRequest, SameQueue};
/// use phalanx::{Pod, PodGroup};
///
/// let gang = PodGroup::of("trainer", 2, Pod::new()).priority(10);
/// let request = PreemptionRequest::new(&gang).policy(&(LowerPriority, SameQueue)).budget(10_000);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct PreemptionRequest<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) policy: &'a dyn Policy,
    pub(crate) budget: u64,
    /// The rules that are left out, to learn what they keep.
    pub(crate) lifted: Lifted,
    pub(crate) consolidation: Option<Consolidation<'a>>,
    pub(crate) yielding: Option<&'a dyn Yielding>,
}

/// Rules that an explanation leaves out, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifted {
    Nothing,
    Budgets,
    /// Groups that are not to be preempted, and minimum run times.
    Protection,
    Policy,
}

impl<'a> PreemptionRequest<'a> {
    /// Steps that a search for victims may take unless the request says otherwise.
    pub const DEFAULT_BUDGET: u64 = 50_000;

    /// A request that may take units of strictly lower priority.
    pub fn new(request: impl Into<Request<'a>>) -> PreemptionRequest<'a> {
        let request = request.into();
        PreemptionRequest {
            request,
            policy: &LowerPriority,
            budget: PreemptionRequest::DEFAULT_BUDGET,
            lifted: Lifted::Nothing,
            consolidation: None,
            yielding: None,
        }
    }

    /// Sets what may be taken.
    pub fn policy(mut self, policy: &'a dyn Policy) -> PreemptionRequest<'a> {
        self.policy = policy;
        self
    }

    /// Sets a rule over sets of units, beside the policy that looks at single ones: quota, say. The
    /// group is placed only if the rule has enough for it. Moves give nothing back but room: where
    /// something else is short, nothing moves.
    pub fn yielding(mut self, rule: &'a dyn Yielding) -> PreemptionRequest<'a> {
        self.yielding = Some(rule);
        self
    }

    /// Lets running units move to other nodes, in place of being evicted or before any is.
    pub fn consolidation(mut self, settings: Consolidation<'a>) -> PreemptionRequest<'a> {
        self.consolidation = Some(settings);
        self
    }

    /// Sets how many steps the search for victims may take: a unit taken or left is one, a set
    /// judged by the planner 32. [`Request::budget`] holds for each of those.
    pub fn budget(mut self, steps: u64) -> PreemptionRequest<'a> {
        self.budget = steps;
        self
    }
}

impl<'a, R: Into<Request<'a>>> From<R> for PreemptionRequest<'a> {
    fn from(request: R) -> PreemptionRequest<'a> {
        PreemptionRequest::new(request)
    }
}

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
/// let gang = PodGroup::of("trainer", 2, Pod::new());
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
