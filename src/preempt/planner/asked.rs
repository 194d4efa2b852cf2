//! A request before anything is tried: what needs no transaction.

use alloc::boxed::Box;

use crate::framework::Framework;
use crate::place::{Certificate, Outcome, PlaceError, Request};
use crate::preempt::answer::{NoVictims, NoVictimsHelp, Preemption};
use crate::preempt::policy::Preemptor;
use crate::preempt::request::{Lifted, PreemptionRequest};
use crate::preempt::running::RunningWork;
use crate::state::{Cluster, Plan, StateError};

/// A request, and the state that it is about.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) framework: &'a Framework,
    pub(super) running: &'a RunningWork,
    pub(super) ask: &'a PreemptionRequest<'a>,
    pub(super) request: &'a Request<'a>,
}

/// The end of the chain.
pub(super) enum Stop {
    Answer(Box<Preemption>),
    Fault(PlaceError),
}

pub(super) type Step<T> = Result<T, Stop>;

impl Stop {
    /// The answer, or the fault.
    pub(super) fn end(self) -> Result<Preemption, PlaceError> {
        match self {
            Stop::Answer(answer) => Ok(*answer),
            Stop::Fault(error) => Err(error),
        }
    }
}

impl From<Preemption> for Stop {
    fn from(answer: Preemption) -> Stop {
        Stop::Answer(Box::new(answer))
    }
}

impl From<PlaceError> for Stop {
    fn from(error: PlaceError) -> Stop {
        Stop::Fault(error)
    }
}

impl From<StateError> for Stop {
    fn from(error: StateError) -> Stop {
        Stop::Fault(error.into())
    }
}

impl Asked<'_> {
    /// The group fits as it is, or a permit has the last word; else the certificate that it does not.
    pub(super) fn fits(&self, outcome: Outcome) -> Step<Option<Certificate>> {
        match outcome {
            Outcome::Placed(plan) if self.is_enough() => {
                Err(Preemption::Placed(self.based(plan)).into())
            }
            Outcome::Placed(_) => Ok(None),
            Outcome::Held { plan, until, by } => {
                let plan = self.based(plan);
                Err(Preemption::Permit(Outcome::Held { plan, until, by }).into())
            }
            denied @ Outcome::Denied { .. } => Err(Preemption::Permit(denied).into()),
            Outcome::Unplaced(unplaced) => Ok(unplaced.certificate),
        }
    }

    /// The ceiling of the policy, unless the group may preempt nothing.
    pub(super) fn may_preempt(&self, certificate: &mut Option<Certificate>) -> Step<Option<i32>> {
        let group = self.request.group();
        if group.never_preempts() {
            let reason = NoVictims::PreemptionPolicyNever;
            return Err(self.refusal(reason, certificate.take()).into());
        }
        let preemptor = Preemptor { group, now: self.request.now, runs: true };
        let ceiling = self.ask.policy.ceiling(&preemptor);
        let ceiling = ceiling.filter(|_| self.ask.lifted != Lifted::Policy);
        let pods = self.cluster.lowest_priority();
        let lowest = pods.into_iter().chain(self.running.lowest_priority()).min();
        let too_high = ceiling.is_some_and(|ceiling| lowest.is_none_or(|lowest| lowest >= ceiling));
        if too_high && !self.cluster.has_deleting_pods() && self.ask.consolidation.is_none() {
            return Err(self.refusal(NoVictims::NoUnits, certificate.take()).into());
        }
        Ok(ceiling)
    }

    /// Whether nothing but room is short.
    pub(super) fn is_enough(&self) -> bool {
        self.ask.yielding.is_none_or(|rule| rule.lacks().is_empty())
    }

    /// A plan made on another copy, as one of the cluster.
    pub(super) fn based(&self, mut plan: Plan) -> Plan {
        plan.basis = self.cluster.moment();
        plan
    }

    pub(super) fn refusal(
        &self,
        reason: NoVictims,
        certificate: Option<Certificate>,
    ) -> Preemption {
        let group = self.request.group().full_name();
        Preemption::NoVictimsHelp(NoVictimsHelp { group, reason, certificate, together: None })
    }
}
