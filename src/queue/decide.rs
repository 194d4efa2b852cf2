//! Who is tried next, and what comes of it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::observe::{Gate, GroupChange, Lacks, ReservationEnd};
use super::queued_group::{Key, Phase, UnitId, full_name};
use super::scheduler::{Decision, Scheduler, Timer};
use super::settings::HeadOfLine;
use super::shortage::{lack, loosely};
use super::wake::hints::Watched;
use crate::base::Time;
use crate::model::{GroupPolicy, PodGroup};
use crate::place::{Outcome, PlaceError, UnplacedKind};
use crate::state::Plan;

/// What came of trying.
pub(crate) enum Found {
    Plan(Plan, Option<(Time, String)>),
    Nothing(Lacks, Watched),
    Trouble(PlaceError),
}

impl Scheduler {
    /// What is to be done next; `None` if nothing is until something happens or
    /// [`Scheduler::next_wake`] has come.
    ///
    /// Groups are tried in the order of the queue, one after the other, until one is placed. Each
    /// costs one request of the planner, unless counting alone shows that it cannot be placed.
    pub fn poll_decision(&mut self, now: Time) -> Option<Decision> {
        self.expire(now, true);
        loop {
            if let Some(mut decision) = self.outbox.pop_front() {
                if let Decision::Bind { ticket, plan, .. } = &mut decision
                    && let Some(flight) = self.flights.get(ticket)
                {
                    // Members may have gone since it was decided.
                    plan.clone_from(&flight.plan);
                }
                return Some(decision);
            }
            self.wake();
            if core::mem::take(&mut self.stirred) {
                self.claim();
                continue;
            }
            let ready = self.next_ready();
            if let Some(id) = self.watches.next(&self.cluster, &self.framework, ready.as_ref()) {
                // What it lacked is there: no reason to back off.
                self.counters.woken += 1;
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
                continue;
            }
            self.attempt(ready?.unit);
        }
    }

    /// Takes in what has changed, and wakes whoever cannot tell whether it helps. Who lacks room
    /// is woken when it is its turn, so that no more are woken than there is room for.
    fn wake(&mut self) {
        if self.moved.is_empty() {
            return;
        }
        let moved = core::mem::take(&mut self.moved);
        for id in self.watches.wake(&self.cluster, &self.framework, &moved) {
            let Some(unit) = self.units.get(&id) else { continue };
            if !matches!(unit.phase, Phase::Sleeping(_)) {
                continue;
            }
            let until = unit.not_before;
            self.counters.woken_loosely += 1;
            if until > self.now {
                self.set_phase(id, Phase::BackingOff(until));
                self.emit(id, GroupChange::BackedOff { until });
            } else {
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
            }
        }
    }

    /// The first group that may be tried.
    fn next_ready(&self) -> Option<Key> {
        let heads = self.lanes.iter().filter_map(|(queue, lane)| -> Option<&Key> {
            let first = lane.ready.first()?;
            match self.settings.rule(queue) {
                HeadOfLine::BestEffort => Some(first),
                HeadOfLine::StrictFifo => (lane.waiting.first() == Some(first)).then_some(first),
            }
        });
        heads.min().cloned()
    }

    /// Tries a unit, and those that start together with it.
    fn attempt(&mut self, id: UnitId) {
        if self.reserving.contains(&id) {
            // Others that reserve may make use of what changed.
            self.stirred |= self.refresh(id);
            return;
        }
        let cohort = match self.cohort(id) {
            Ok(cohort) => cohort,
            Err(gate) => {
                self.set_phase(id, Phase::Gated(gate.clone()));
                self.emit(id, GroupChange::Gated(gate));
                return;
            }
        };
        let Some(tree) = self.joint_tree(&cohort) else {
            self.set_phase(id, Phase::Idle);
            return;
        };
        match self.find(id, &cohort, &tree, true) {
            Found::Plan(plan, held) => self.launch(cohort, plan, held),
            Found::Nothing(lacks, watched) => self.sleep(&cohort, &lacks, &watched),
            Found::Trouble(error) => self.fail(&cohort, &error),
        }
    }

    /// Units cannot be asked for as they are.
    pub(crate) fn fail(&mut self, units: &[UnitId], error: &PlaceError) {
        let reason = error.to_string();
        for &id in units {
            self.set_phase(id, Phase::Failed(reason.clone()));
            self.end_reservation(id, ReservationEnd::Outranked);
            self.emit(id, GroupChange::Failed { reason: reason.clone() });
        }
    }

    /// The members that wait, of one or several units, as one tree; `None` if there are none.
    pub(crate) fn joint_tree(&self, units: &[UnitId]) -> Option<PodGroup> {
        let mut trees: Vec<PodGroup> = units
            .iter()
            .filter_map(|id| self.units.get(id))
            .filter(|unit| unit.pending() > 0)
            .map(|unit| unit.tree(&unit.tallies(&self.cluster)))
            .collect();
        if trees.len() <= 1 {
            return trees.pop();
        }
        let first = trees.first()?;
        let all = u32::try_from(trees.len()).unwrap_or(u32::MAX);
        let name = format!("{}+{}", first.name, trees.len() - 1);
        let mut joint = PodGroup::gang(name, all).in_namespace(first.namespace.clone());
        joint.policy = GroupPolicy::Gang { min_count: all };
        joint.groups = trees;
        Some(joint)
    }

    /// Looks for a plan, and puts it into the cluster if there is one. `in_step` says that nothing
    /// has moved since [`Scheduler::wake`].
    pub(crate) fn find(
        &mut self,
        id: UnitId,
        cohort: &[UnitId],
        tree: &PodGroup,
        in_step: bool,
    ) -> Found {
        self.counters.attempts += 1;
        if let Some(plan) = self.nominated(id, cohort) {
            self.counters.placed += 1;
            return Found::Plan(plan, None);
        }
        if let Some((lacks, watched)) =
            lack(&self.cluster, &self.framework, &mut self.watches, tree, in_step)
        {
            self.counters.short_of_room += 1;
            return Found::Nothing(lacks, watched);
        }
        let strategy = self.units.get(&id).and_then(|unit| unit.strategy);
        let request = self.request(tree, strategy, self.now);
        let outcome = match self.planner.place(&self.cluster, &self.framework, request) {
            Ok(outcome) => outcome,
            Err(error @ PlaceError::Scattered { .. }) => {
                self.counters.no_arrangement += 1;
                let lacks = Lacks::Arrangement { claim: error.to_string() };
                return Found::Nothing(lacks, Watched::Anything);
            }
            Err(error) => return Found::Trouble(error),
        };
        let (plan, held) = match outcome {
            Outcome::Placed(plan) => (plan, None),
            Outcome::Held { plan, until, by } => (plan, Some((until, by))),
            Outcome::Denied { by, reason } => {
                self.counters.denied += 1;
                return Found::Nothing(Lacks::Consent { by, reason }, Watched::Anything);
            }
            Outcome::Unplaced(unplaced) => {
                self.counters.no_arrangement += 1;
                let claim = match unplaced.kind {
                    UnplacedKind::Exhausted => "exhausted",
                    UnplacedKind::Greedy => "greedy",
                    _ => "infeasible",
                };
                let lacks = Lacks::Arrangement { claim: String::from(claim) };
                return Found::Nothing(lacks, loosely(&self.framework, tree));
            }
        };
        if plan.is_empty() {
            // Its minimum runs, and nobody who waits can join.
            self.counters.no_arrangement += 1;
            let lacks = Lacks::Arrangement { claim: String::from("nobody can join") };
            return Found::Nothing(lacks, loosely(&self.framework, tree));
        }
        match self.cluster.commit(&self.framework, &plan) {
            Ok(()) => {
                self.counters.placed += 1;
                Found::Plan(plan, held)
            }
            Err(error) => {
                let lacks = Lacks::Arrangement { claim: error.to_string() };
                Found::Nothing(lacks, Watched::Anything)
            }
        }
    }

    /// The nominated plan of a unit, taken up, if it holds now.
    fn nominated(&mut self, id: UnitId, cohort: &[UnitId]) -> Option<Plan> {
        if cohort.len() != 1 {
            return None;
        }
        let unit = self.units.get_mut(&id)?;
        let plan = unit.nominated.as_ref()?;
        let waits = |name: &String| {
            let member = self.pods.get(name).and_then(|(_, seq)| unit.members.get(seq));
            member.is_some_and(|member| member.place == super::queued_group::Place::Pending)
        };
        if !plan.assignments().all(|assignment| waits(&full_name(assignment.pod()))) {
            unit.nominated = None;
            return None;
        }
        let plan = plan.clone();
        self.cluster.commit(&self.framework, &plan).ok()?;
        Some(plan)
    }

    /// Units were tried in vain.
    pub(crate) fn sleep(&mut self, units: &[UnitId], lacks: &Lacks, watched: &Watched) {
        let counted = matches!(watched, Watched::Room { .. });
        for &id in units {
            self.count_failure(id);
            if let Some(unit) = self.units.get_mut(&id) {
                unit.lacks = Some(lacks.clone());
            }
            let retry = (!counted).then(|| self.now.after(self.settings.floor));
            self.set_phase(id, Phase::Sleeping(retry));
            self.sleep_on(id, watched.clone());
            self.emit(id, GroupChange::Slept(lacks.clone()));
            self.consider_reservation(id);
        }
    }

    /// Sees to it that a unit that may reserve later is looked at then.
    fn consider_reservation(&mut self, id: UnitId) {
        let Some(policy) = self.settings.reservation else { return };
        let Some(unit) = self.units.get(&id) else { return };
        let Some(ready) = unit.ready_since.filter(|_| unit.reservation.is_none()) else { return };
        let when = ready.after(policy.after).max(unit.no_reservation_before);
        if when > self.now {
            self.timers.insert((when, Timer::Reservation(id)));
        } else if unit.hopeless_at != Some(self.epoch) && self.reserving.len() < policy.at_most {
            self.stirred = true;
        }
    }
}

impl Gate {
    /// The group that is short, or the partner waited for.
    pub fn group(&self) -> Option<&str> {
        match self {
            Gate::Members { group, .. } | Gate::Partner { group } => Some(group),
            Gate::Evicting => None,
        }
    }
}
