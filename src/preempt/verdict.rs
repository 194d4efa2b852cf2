//! Verdicts: units that may be taken, and the work lost with each.

use core::fmt;

use super::policy::{Candidate, Preemptor};
use super::request::{Lifted, PreemptionRequest};
use super::running::RunningWork;
use super::unit::{Atom, Units};
use super::yielding::Yielding;
use crate::base::{ObjectName, Time};
use crate::model::PodGroup;
use crate::state::{Cluster, PodView};

/// Why a unit may not be taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", rename_all_fields = "camelCase"))]
#[non_exhaustive]
pub enum KeptBy {
    /// It belongs to the group that room is made for.
    OwnMember,
    /// Its group is not to be preempted.
    NonPreemptible,
    /// It has not run for as long as it is promised.
    MinRunTime {
        /// When that is over.
        until: Time,
    },
    /// Its priority is not below that from which on the policy allows nothing.
    Priority,
    /// The policy of the request does not allow it, for another reason than its priority.
    Policy,
    /// A budget covers it that would be broken.
    Budget {
        /// The full name of the budget.
        budget: ObjectName,
        /// How many disruptions it allows now.
        allowed: u64,
    },
}

impl fmt::Display for KeptBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptBy::OwnMember => f.write_str("it is a member of the group itself"),
            KeptBy::NonPreemptible => f.write_str("its group is not to be preempted"),
            KeptBy::MinRunTime { until } => write!(f, "its minimum run time ends at {until} s"),
            KeptBy::Priority => f.write_str("its priority is not low enough"),
            KeptBy::Policy => f.write_str("the policy does not allow it"),
            KeptBy::Budget { budget, allowed } => {
                write!(f, "budget {budget} allows {allowed} disruptions now")
            }
        }
    }
}

impl Units {
    /// Why an atom is kept, if it is. What a minimum takes along is judged with a whole set, by
    /// [`Units::closure`].
    pub(crate) fn kept_by(
        &self,
        cluster: &Cluster,
        ask: &PreemptionRequest<'_>,
        preemptor: &Preemptor<'_>,
        atom: usize,
    ) -> Option<KeptBy> {
        let rule = self.kept_by_rule(cluster, ask, preemptor, atom);
        let allowed = |unit: &Candidate<'_>| ask.policy.allows(preemptor, unit);
        if rule.is_some()
            || ask.lifted == Lifted::Policy
            || self.with_candidate(cluster, atom, allowed)
        {
            return rule;
        }
        let ceiling = ask.policy.ceiling(preemptor);
        let too_high = ceiling.is_some_and(|ceiling| self.atoms[atom].priority >= ceiling);
        Some(if too_high { KeptBy::Priority } else { KeptBy::Policy })
    }

    /// The first budget that keeps an atom, when so much is charged to each.
    pub(crate) fn kept_by_budget(
        &self,
        running: &RunningWork,
        atom: usize,
        charged: &[u64],
    ) -> Option<KeptBy> {
        let number = self.broken_by(atom, charged).next()?;
        let (budget, allowed) = (running.budgets().nth(number)?, self.allowed[number]);
        Some(KeptBy::Budget { budget: ObjectName::new(&budget.namespace, &budget.name), allowed })
    }

    /// Why an atom is kept whatever the policy says.
    fn kept_by_rule(
        &self,
        cluster: &Cluster,
        ask: &PreemptionRequest<'_>,
        preemptor: &Preemptor<'_>,
        atom: usize,
    ) -> Option<KeptBy> {
        let own = &self.atoms[atom];
        if preemptor.runs && self.is_own(cluster, preemptor.group, atom) {
            return Some(KeptBy::OwnMember);
        }
        let is_protected = own.protected && ask.lifted != Lifted::Protection;
        if let Some(group) = self.group_of(atom).filter(|_| is_protected) {
            if group.non_preemptible {
                return Some(KeptBy::NonPreemptible);
            }
            if let Some(least) = group.min_run_time {
                // A pod of which the start is not known has started now.
                let known = own.started == self.size(atom);
                let latest = if known { own.latest } else { own.latest.max(preemptor.now) };
                let until = latest.after(least);
                if preemptor.now < until {
                    return Some(KeptBy::MinRunTime { until });
                }
            }
        }
        None
    }

    /// Whether an atom is of running members of a group, or of one inside.
    fn is_own(&self, cluster: &Cluster, group: &PodGroup, atom: usize) -> bool {
        if let Some(known) = self.group_of(atom) {
            let is =
                |own: &PodGroup| (&own.name, &own.namespace) == (&known.name, &known.namespace);
            return group.any(&is);
        }
        let first = self.pods_of(cluster, atom).next();
        first.is_some_and(|pod| is_member(group, pod))
    }

    /// The work lost with an atom that may be taken; `None` for one that is kept.
    pub(crate) fn work_if_free(
        &self,
        cluster: &Cluster,
        ask: &PreemptionRequest<'_>,
        preemptor: &Preemptor<'_>,
        atom: usize,
    ) -> Option<u64> {
        // Most units are neither protected nor the preemptor's own.
        let in_question = preemptor.runs || self.atoms[atom].protected;
        if in_question && self.kept_by_rule(cluster, ask, preemptor, atom).is_some() {
            return None;
        }
        let run = self.run(cluster, atom, preemptor.now);
        self.with_candidate(cluster, atom, |unit| {
            let allowed = ask.lifted == Lifted::Policy || ask.policy.allows(preemptor, unit);
            allowed.then(|| ask.policy.work_lost(preemptor, unit, run))
        })
    }

    /// The holder of each atom, by a rule over sets.
    pub(crate) fn holders<'s>(
        &'s self,
        cluster: &'s Cluster,
        rule: &'s dyn Yielding,
    ) -> impl Iterator<Item = Option<u32>> + 's {
        let of = |atom| self.with_candidate(cluster, atom, |unit| rule.holder_of(unit));
        (0..self.atoms.len()).map(of)
    }

    /// The work lost with an atom.
    pub(crate) fn work_lost(
        &self,
        cluster: &Cluster,
        ask: &PreemptionRequest<'_>,
        preemptor: &Preemptor<'_>,
        atom: usize,
    ) -> u64 {
        let run = self.run(cluster, atom, preemptor.now);
        self.with_candidate(cluster, atom, |unit| ask.policy.work_lost(preemptor, unit, run))
    }

    /// An atom as policies see it.
    fn with_candidate<T>(
        &self,
        cluster: &Cluster,
        atom: usize,
        ask: impl FnOnce(&Candidate<'_>) -> T,
    ) -> T {
        let find = || self.pods_of(cluster, atom).next();
        let (priority, group) = (self.atoms[atom].priority, self.group_of(atom));
        ask(&Candidate { priority, group, pods: self.size(atom) as usize, find: &find })
    }

    /// The time that the pods of an atom have run, summed, in milliseconds.
    fn run(&self, cluster: &Cluster, atom: usize, now: Time) -> u64 {
        let Atom { starts, started, latest, .. } = self.atoms[atom];
        let (sum, wrapped) = now.as_millis().overflowing_mul(u64::from(started));
        // Without starts that lie ahead the sum is what the sums say.
        if !wrapped && starts <= sum && latest <= now {
            return sum - starts;
        }
        let starts = self.pods_of(cluster, atom).filter_map(PodView::start);
        starts.fold(0, |sum, start| {
            sum.saturating_add(now.as_millis().saturating_sub(start.as_millis()))
        })
    }
}

/// Whether a pod runs for a group or one inside.
fn is_member(group: &PodGroup, pod: PodView<'_>) -> bool {
    let Some(name) = pod.group() else { return false };
    let is = |group: &PodGroup| {
        pod.namespace() == group.namespace
            && name.len() == group.namespace.len() + 1 + group.name.len()
            && name.ends_with(group.name.as_str())
    };
    group.any(&is)
}
