//! One request on the way to its answer: a chain of steps, each of which answers or leaves the rest.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::asked::{Asked, Step};
use crate::base::ObjectName;
use crate::model::PodGroup;
use crate::place::{Certificate, Outcome, PlaceError, Planner, Unplaced};
use crate::preempt::answer::{EvictedPod, NoVictims, NoVictimsHelp, Preempt, Preemption, Victim};
use crate::preempt::branch::{Best, Search};
use crate::preempt::cost::Cost;
use crate::preempt::cost::{MoveClaim, MoveCost};
use crate::preempt::domains::Field;
use crate::preempt::moves::{self, Moved, Repack};
use crate::preempt::need::Need;
use crate::preempt::policy::Preemptor;
use crate::preempt::request::Consolidation;
use crate::preempt::request::Lifted;
use crate::preempt::search;
use crate::preempt::trial::Trial;
use crate::preempt::unit::Units;
use crate::preempt::yielding::Rule;
use crate::state::journal::Moment;
use crate::state::{Cluster, Txn};

/// The units of a cluster at a moment, with the groups and budgets of a stamp.
pub(super) type Known = (Moment, usize, Units);

/// A request that does not fit as it is, and the transaction on which victims are tried.
pub(super) struct Attempt<'a> {
    pub(super) planner: &'a mut Planner,
    pub(super) txn: &'a mut Txn,
    /// The domains of the last request.
    pub(super) field: &'a mut Option<Field>,
    /// The number of sets judged.
    pub(super) trials: &'a mut u64,
    pub(super) asked: Asked<'a>,
    /// Units of this priority and above are not taken.
    pub(super) ceiling: Option<i32>,
}

/// The cluster without the pods that terminate, and the units in it that may be taken.
struct Scene<'s> {
    units: &'s Units,
    now: &'s Cluster,
    need: &'s Need<'s>,
    preemptor: Preemptor<'s>,
}

/// The end of a search for victims.
struct Found {
    best: Option<Best>,
    work: Vec<Option<u64>>,
    lower_bound: Option<Cost>,
    steps: u64,
}

/// The work lost with each unit; `None` for units that may not go.
type WorkLost = Vec<Option<u64>>;

impl<'a> Attempt<'a> {
    /// Waits, moves, victims, neither: the first that holds. Units that are known of the cluster as it is
    /// are used again.
    pub(super) fn steps(
        &mut self,
        mut certificate: Option<Certificate>,
        known: &mut Option<Known>,
    ) -> Step<Preemption> {
        let Asked { cluster, framework, ask, request, .. } = self.asked;
        let unlimited;
        let units = match (self.known_units(known), ask.lifted) {
            (units, Lifted::Budgets) => {
                unlimited = without_budgets(units);
                &unlimited
            }
            (units, _) => units,
        };
        self.waits(units, &mut certificate)?;
        let left = (!units.going.is_empty()).then(|| Cluster::clone(&*self.txn));
        let now = left.as_ref().unwrap_or(cluster);
        let group = request.group();
        let need = Need::new(now, framework, request);
        let preemptor = Preemptor { group, now: request.now, runs: units.may_run(now, group) };
        let scene = Scene { units, now, need: &need, preemptor };
        let (movable, at_a_price) = self.moves(&scene)?;
        let rule = ask.yielding.map(|rule| Rule::new(rule, units.holders(now, rule)));
        let mut found = self.victims(&scene, rule.as_ref())?;
        if let Some((broken, answer)) = at_a_price
            && found.best.as_ref().is_none_or(|best| best.cost.budgets_broken >= broken)
        {
            return Ok(answer);
        }
        match found.best.take() {
            Some(best) => self.taken(&scene, rule.as_ref(), (best, &found), &movable),
            None => self.neither(&scene, rule.is_some(), &found, certificate),
        }
    }

    /// The units of the cluster as it is.
    fn known_units<'k>(&self, known: &'k mut Option<Known>) -> &'k Units {
        let (moment, stamp) = (self.asked.cluster.moment(), self.asked.running.stamp());
        if known.as_ref().is_some_and(|own| (own.0, own.1) != (moment, stamp)) {
            *known = None;
        }
        let units = || (moment, stamp, Units::new(self.asked.cluster, self.asked.running));
        &known.get_or_insert_with(units).2
    }

    /// Pods that terminate are taken off. The group fits then and waits for them; else the
    /// certificate is about the cluster without them.
    fn waits(&mut self, units: &Units, certificate: &mut Option<Certificate>) -> Step<()> {
        if units.going.is_empty() {
            return Ok(());
        }
        for &pod in &units.going {
            self.txn.evict_pod(pod)?;
        }
        *certificate = None;
        match self.planner.place(&*self.txn, self.asked.framework, self.asked.request.clone())? {
            Outcome::Placed(plan) if self.asked.is_enough() => {
                let best = Best { cost: Cost::NOTHING, atoms: Vec::new(), plan };
                return Err(
                    preempt(self.asked.cluster, units, &[], best, (Cost::NOTHING, 0)).into()
                );
            }
            Outcome::Unplaced(later) => *certificate = later.certificate,
            _ => {}
        }
        Ok(())
    }

    /// Moves that make room. Else the work lost with each unit that may move, and moves that break
    /// budgets, with the number broken: victims may break fewer.
    fn moves(&mut self, scene: &Scene<'_>) -> Step<(WorkLost, Option<(u64, Preemption)>)> {
        let Some(settings) = self.consolidation() else { return Ok((Vec::new(), None)) };
        let (units, budget) = (scene.units, self.asked.ask.budget);
        let asked = (self.asked.ask, settings);
        let movable =
            moves::movable(scene.now, (units, self.asked.running), asked, &scene.preemptor);
        let repack = self.repack(units, &movable);
        let found = moves::consolidate(repack, (scene.need, scene.now), settings, budget)?;
        *self.trials += found.trials;
        match found.moved {
            Moved::Placed(plan) => Err(Preemption::Placed(self.asked.based(plan)).into()),
            Moved::Moves(best, claim) => {
                let broken = best.cost.budgets_broken;
                let answer = moved((self.asked.cluster, units), best, claim, budget - found.steps);
                if !settings.evict || broken == 0 {
                    return Err(answer.into());
                }
                Ok((movable, Some((broken, answer))))
            }
            Moved::Never(proof) if !settings.evict => {
                let group = self.asked.request.group().full_name();
                let (together, certificate) =
                    proof.map(|proof| (Box::new(proof.tree), proof.certificate)).unzip();
                let reason = NoVictims::NoMoves;
                let help = NoVictimsHelp { group, reason, certificate, together };
                Err(Preemption::NoVictimsHelp(help).into())
            }
            Moved::Exhausted if !settings.evict => {
                Err(Preemption::Exhausted { lower_bound: Cost::NOTHING }.into())
            }
            Moved::Never(_) | Moved::Exhausted => Ok((movable, None)),
        }
    }

    /// The search for the least set of victims.
    fn victims(&mut self, scene: &Scene<'_>, rule: Option<&Rule<'_>>) -> Step<Found> {
        let Scene { units, now, need, preemptor } = scene;
        let ceiling = self.ceiling;
        let ask = self.asked.ask;
        let trial = Trial {
            planner: &mut *self.planner,
            txn: &mut *self.txn,
            framework: self.asked.framework,
            request: self.asked.request,
            count: 0,
        };
        let mut search = Search::new(need, units, vec![None; units.atoms.len()], trial, ask.budget);
        search.rule = rule;
        let admit = |work: &mut Vec<Option<u64>>, priority: i32| {
            if ceiling.is_some_and(|ceiling| priority >= ceiling) {
                return;
            }
            let class = units.classes.get(&priority).map_or(&[][..], Vec::as_slice);
            let at = class.iter().map(|&atom| atom as usize);
            for at in at.filter(|&at| rule.is_none_or(|rule| rule.admits(at))) {
                work[at] = units.work_if_free(now, ask, preemptor, at);
            }
        };
        let result = search::run(&mut search, now, self.field, &admit);
        let steps = ask.budget - search.steps;
        let Search { best, trial, work, .. } = search;
        *self.trials += trial.count;
        Ok(Found { best, work, lower_bound: result?.lower_bound, steps })
    }

    /// The answer for the least set, some of which may move instead.
    fn taken(
        &mut self,
        scene: &Scene<'_>,
        rule: Option<&Rule<'_>>,
        (best, found): (Best, &Found),
        movable: &[Option<u64>],
    ) -> Step<Preemption> {
        let (units, work) = (scene.units, &found.work[..]);
        if let Some(settings) = self.consolidation() {
            let budget = self.asked.ask.budget;
            let repack = self.repack(units, movable);
            return Ok(exchanged(repack, (units, work, rule), best, settings, budget)?);
        }
        let least = found.lower_bound.map_or(best.cost, |least| least.min(best.cost));
        Ok(preempt(self.asked.cluster, units, work, best, (least, found.steps)))
    }

    /// The answer if no set was found: why.
    fn neither(
        &mut self,
        scene: &Scene<'_>,
        is_ruled: bool,
        found: &Found,
        certificate: Option<Certificate>,
    ) -> Step<Preemption> {
        let units = scene.units;
        let all = units.in_sets(|atom| found.work[atom as usize].is_some());
        if all.is_empty() {
            return Ok(self.asked.refusal(NoVictims::NoUnits, certificate));
        }
        if let Some(lower_bound) = found.lower_bound {
            return Ok(Preemption::Exhausted { lower_bound });
        }
        let (mut reason, mut certificate) = (NoVictims::DoesNotFit, None);
        if scene.need.monotone {
            *self.trials += 1;
            let mut trial = Trial {
                planner: &mut *self.planner,
                txn: &mut *self.txn,
                framework: self.asked.framework,
                request: self.asked.request,
                count: 0,
            };
            match trial.outcome(units, &all, None)? {
                Ok(_) if is_ruled => reason = NoVictims::NotEntitled,
                Err(Some(Unplaced { certificate: proof, .. })) => certificate = proof,
                _ => {}
            }
        }
        Ok(self.asked.refusal(reason, certificate))
    }

    /// The settings of moves. They give back room alone.
    fn consolidation(&self) -> Option<&'a Consolidation<'a>> {
        self.asked.ask.consolidation.as_ref().filter(|_| self.asked.is_enough())
    }

    fn repack<'s>(&'s mut self, units: &'s Units, work: &'s [Option<u64>]) -> Repack<'s> {
        let asked = (self.asked.framework, self.asked.request);
        Repack::new(
            (self.asked.cluster, units, work),
            self.asked.running,
            asked,
            (&mut *self.planner, &mut *self.txn),
        )
    }
}

fn without_budgets(units: &Units) -> Units {
    let mut units = units.clone();
    units.allowed.fill(u64::MAX);
    units
}

/// The answer for moves alone.
fn moved(
    (cluster, units): (&Cluster, &Units),
    best: moves::Best,
    claim: MoveClaim,
    steps: u64,
) -> Preemption {
    let mut plan = best.plan;
    plan.basis = cluster.moment();
    Preemption::Preempt(Box::new(Preempt {
        victims: Vec::new(),
        moves: moves::named(cluster, (units, &best.atoms), &best.moves),
        plan,
        cost: Cost::NOTHING,
        lower_bound: Cost::NOTHING,
        move_cost: best.cost,
        move_claim: Some(claim),
        steps,
    }))
}

/// The answer for victims, as many of which move instead as can be.
fn exchanged(
    mut repack: Repack<'_>,
    (units, work, rule): (&Units, &[Option<u64>], Option<&Rule<'_>>),
    best: Best,
    settings: &Consolidation<'_>,
    budget: u64,
) -> Result<Preemption, PlaceError> {
    let (cluster, mut steps) = (repack.cluster, budget);
    let moves = moves::exchange(&mut repack, &best.atoms, work, settings, &mut steps)?;
    // Other victims may be cheaper beside other moves.
    let spent = (Cost::NOTHING, budget - steps);
    let permitted = |atoms: &[u32]| atoms.is_empty() || rule.is_none_or(|rule| rule.permits(atoms));
    let Some((atoms, cost, moves)) = moves.filter(|own| permitted(&own.0)) else {
        return Ok(preempt(cluster, units, work, best, spent));
    };
    let best = Best { cost, atoms, plan: moves.plan };
    let mut answer = preempt(cluster, units, work, best, spent);
    if let Preemption::Preempt(preempt) = &mut answer {
        preempt.moves = moves::named(cluster, (units, &moves.atoms), &moves.moves);
        preempt.move_cost = moves.cost;
    }
    Ok(answer)
}

/// The answer for a set.
fn preempt(
    cluster: &Cluster,
    units: &Units,
    work: &[Option<u64>],
    best: Best,
    (lower_bound, steps): (Cost, u64),
) -> Preemption {
    let Best { cost, atoms, mut plan } = best;
    plan.basis = cluster.moment();
    let victim = |&atom: &u32| {
        let work_lost = work.get(atom as usize).copied().flatten().unwrap_or(0);
        victim_of(cluster, units, atom as usize, work_lost)
    };
    let mut victims: Vec<Victim> = atoms.iter().map(victim).collect();
    Victim::sort(&mut victims);
    Preemption::Preempt(Box::new(Preempt {
        victims,
        moves: Vec::new(),
        plan,
        cost,
        lower_bound,
        move_cost: MoveCost::NOTHING,
        move_claim: None,
        steps,
    }))
}

/// An atom by names.
pub(crate) fn victim_of(cluster: &Cluster, units: &Units, atom: usize, work_lost: u64) -> Victim {
    let own = &units.atoms[atom];
    let mut pods: Vec<EvictedPod> = Vec::with_capacity(units.size(atom) as usize);
    pods.extend(units.pods_of(cluster, atom).map(EvictedPod::of));
    pods.sort();
    let group = units.group_of(atom).map(PodGroup::full_name);
    let first = pods.first().map(EvictedPod::full_name);
    let name = if own.whole { group.clone() } else { first };
    Victim {
        name: name.unwrap_or_else(|| ObjectName::new("", "")),
        whole: own.whole,
        group,
        priority: own.priority,
        work_lost,
        pods,
    }
}
