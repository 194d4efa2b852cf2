//! The front door: one call that places a group, by preemption where nothing else helps.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::answer::{EvictedPod, NoVictims, NoVictimsHelp, Preempt, Preemption, Victim};
use super::branch::{Best, Search};
use super::cost::Cost;
use super::moves::{
    self, Consolidation, Defragmentation, MoveClaim, MoveCost, Moved, Repack, Room,
};
use super::need::Need;
use super::policy::{Preemptor, never_preempts};
use super::request::{Lifted, PreemptionRequest};
use super::running::RunningWork;
use super::search::{self, Claim};
use super::trial::Trial;
use super::unit::Units;
use super::yielding::Rule;
use crate::framework::Framework;
use crate::model::PodGroup;
use crate::place::{Outcome, PlaceError, Planner, Unplaced};
use crate::state::journal::Moment;
use crate::state::{Cluster, NodeView, Txn};

/// A planner that preempts: answers requests, with what it keeps between them.
///
/// It tries sets of victims in one transaction that it rolls back; what it knows of the cluster is
/// not lost by that. Give each thread its own. What it keeps never changes an answer.
///
/// ```
/// use phalanx::preempt::{PreemptingPlanner, Preemption, RunningWork};
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup};
///
/// let mut cluster = Cluster::new();
/// for name in ["n1", "n2"] {
///     cluster.add_node(Node::new(name).capacity("gpu", 8))?;
///     cluster.add_pod(Pod::new().name(format!("old-{name}")).in_group("old").request("gpu", 6).on(name))?;
/// }
/// let mut running = RunningWork::new();
/// running.add_group(&PodGroup::gang("old", 2).evicted_whole())?;
///
/// let gang = PodGroup::gang("new", 1).pods(1, Pod::new().request("gpu", 4)).priority(1);
/// let mut planner = PreemptingPlanner::new();
/// let answer = planner.place(&cluster, &Framework::default(), &running, &gang)?;
/// let Preemption::Preempt(preempt) = answer else { panic!("the cluster is full") };
/// // The pods of a gang go together, or not at all.
/// assert_eq!((preempt.cost.units, preempt.cost.pods), (1, 2));
/// assert_eq!(preempt.victims[0].name, "default/old");
/// assert!(preempt.is_least());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct PreemptingPlanner {
    planner: Planner,
    /// The units of the cluster at a moment, with the groups and budgets of a stamp.
    units: Option<(Moment, usize, Units)>,
    /// The moment that a transaction is a copy of, and the transaction, without changes.
    base: Option<(Moment, Txn)>,
    trials: u64,
}

impl PreemptingPlanner {
    /// A planner that knows nothing yet.
    pub fn new() -> PreemptingPlanner {
        PreemptingPlanner::default()
    }

    /// The planner that sets of victims are tried with; see [`Planner::threads`].
    #[must_use]
    pub fn with_planner(planner: Planner) -> PreemptingPlanner {
        PreemptingPlanner { planner, ..PreemptingPlanner::default() }
    }

    /// How often a plugin was evaluated on a node so far.
    pub fn plugin_calls(&self) -> u64 {
        self.planner.plugin_calls()
    }

    /// How many sets of victims the planner has judged so far.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// Places a group whole; if it does not fit, finds the least set of units that must go for it.
    ///
    /// The least set is that of least [`Cost`] among all sets of units that the policy allows. The
    /// answer names the set and a lower bound; where they are equal the set is proved to be least.
    ///
    /// # Errors
    /// As [`place_gang`](crate::place_gang).
    pub fn place<'a>(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        running: &RunningWork,
        request: impl Into<PreemptionRequest<'a>>,
    ) -> Result<Preemption, PlaceError> {
        let ask = request.into();
        ask.request.refuse_bound(cluster)?;
        let gang = ask.request.gang()?;
        let request = ask.request.for_gang(&gang);
        let mut txn = self.copy_of(cluster);
        let answer = self.answer(cluster, &mut txn, framework, running, &ask, &request);
        txn.rollback_to(0)?;
        self.base = Some((cluster.moment(), txn));
        answer
    }

    /// Finds the fewest moves that free a domain for a gang, or the cluster if the gang asks for none,
    /// and the room that is won. Nothing is evicted; the gang need not come.
    ///
    /// Units move by the rules of the request, or by [`Consolidation::default`].
    ///
    /// ```
    /// use phalanx::preempt::{Consolidation, PreemptingPlanner, PreemptionRequest, RunningWork};
    /// use phalanx::{Cluster, Framework, Node, Pod, PodGroup};
    ///
    /// // Two nodes, each half full.
    /// let mut cluster = Cluster::new();
    /// for name in ["n1", "n2"] {
    ///     cluster.add_node(Node::new(name).capacity("gpu", 8))?;
    ///     cluster.add_pod(Pod::new().name(format!("old-{name}")).request("gpu", 4).on(name))?;
    /// }
    /// let shape = PodGroup::gang("whole-node", 1).pods(1, Pod::new().request("gpu", 8));
    /// let request = PreemptionRequest::new(&shape).consolidation(Consolidation::new(1));
    /// let mut planner = PreemptingPlanner::new();
    /// let freed =
    ///     planner.defragment(&cluster, &Framework::default(), &RunningWork::new(), request)?;
    /// assert_eq!(freed.answer.preempt().unwrap().moves.len(), 1);
    /// assert_eq!((freed.room[0].before, freed.room[0].after), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`place_gang`](crate::place_gang).
    pub fn defragment<'a>(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        running: &RunningWork,
        request: impl Into<PreemptionRequest<'a>>,
    ) -> Result<Defragmentation, PlaceError> {
        let mut ask = request.into();
        let settings = ask.consolidation.unwrap_or_default();
        ask.consolidation = Some(Consolidation { evict: false, ..settings });
        let answer = self.place(cluster, framework, running, ask.clone())?;
        let (mut nodes, mut room) = (Vec::new(), Vec::new());
        if let Some(preempt) = answer.preempt().filter(|preempt| !preempt.moves.is_empty()) {
            let mut txn = cluster.txn();
            for pod in cluster.pods().filter(|pod| pod.deleting() && pod.node().is_some()) {
                txn.evict_pod(pod.id())?;
            }
            let before = Cluster::clone(&txn);
            moves::make(&mut txn, &preempt.moves)?;
            let (group, now) = (ask.request.group(), ask.request.now);
            let need = Need::new(&before, framework, group, now, ask.request.rows(&before));
            let rows = moves::domain_rows(&need, &before, &preempt.plan);
            nodes = rows.iter().filter_map(|&row| before.view(row)).map(name_of).collect();
            nodes.sort();
            let counts = moves::room(&need, &before, &rows).into_iter();
            let counts = counts.zip(moves::room(&need, &txn, &rows)).zip(&need.kinds);
            room = counts
                .map(|((before, after), kind)| Room {
                    need: kind.count.max(0) as u64,
                    before,
                    after,
                })
                .collect();
        }
        Ok(Defragmentation { answer, nodes, room })
    }

    /// A transaction that is equal to the cluster.
    fn copy_of(&mut self, cluster: &Cluster) -> Txn {
        if let Some((moment, txn)) = self.base.take() {
            if moment == cluster.moment() {
                return txn;
            }
            // The transaction is what the cluster was then, and what is known of the one holds for
            // the other.
            self.planner.rebase(&txn, moment);
        }
        cluster.txn()
    }

    fn answer(
        &mut self,
        cluster: &Cluster,
        txn: &mut Txn,
        framework: &Framework,
        running: &RunningWork,
        ask: &PreemptionRequest<'_>,
        request: &crate::place::Request<'_>,
    ) -> Result<Preemption, PlaceError> {
        // Whether all that is short is room.
        let is_enough = ask.yielding.is_none_or(|rule| rule.lacks().is_empty());
        let mut certificate = match self.planner.place(txn, framework, request.clone())? {
            Outcome::Placed(mut plan) if is_enough => {
                plan.basis = cluster.moment();
                return Ok(Preemption::Placed(plan));
            }
            Outcome::Placed(_) => None,
            Outcome::Held { mut plan, until, by } => {
                plan.basis = cluster.moment();
                return Ok(Preemption::Permit(Outcome::Held { plan, until, by }));
            }
            denied @ Outcome::Denied { .. } => return Ok(Preemption::Permit(denied)),
            Outcome::Unplaced(unplaced) => unplaced.certificate,
        };
        let group = request.group();
        let mut preemptor = Preemptor { group, now: request.now, runs: true };
        let refuse = |reason, certificate| {
            let group = group.full_name();
            let help = NoVictimsHelp { group, reason, certificate, together: None };
            Ok(Preemption::NoVictimsHelp(help))
        };
        if never_preempts(group) {
            return refuse(NoVictims::PreemptionPolicyNever, certificate);
        }
        let ceiling = ask.policy.ceiling(&preemptor).filter(|_| ask.lifted != Lifted::Policy);
        let lowest = cluster.lowest_priority().into_iter().chain(running.lowest_priority()).min();
        let too_high = ceiling.is_some_and(|ceiling| lowest.is_none_or(|lowest| lowest >= ceiling));
        if too_high && !cluster.has_deleting_pods() && ask.consolidation.is_none() {
            return refuse(NoVictims::NoUnits, certificate);
        }
        let stamps = (cluster.moment(), running.stamp());
        if self.units.as_ref().is_none_or(|(moment, stamp, _)| (*moment, *stamp) != stamps) {
            self.units = Some((stamps.0, stamps.1, Units::new(cluster, running)));
        }
        let Some((_, _, units)) = &self.units else {
            return refuse(NoVictims::NoUnits, certificate);
        };
        let mut unbudgeted;
        let units = if ask.lifted == Lifted::Budgets {
            unbudgeted = units.clone();
            unbudgeted.allowed.fill(u64::MAX);
            &unbudgeted
        } else {
            units
        };
        if !units.going.is_empty() {
            for &pod in &units.going {
                txn.evict_pod(pod)?;
            }
            match self.planner.place(txn, framework, request.clone())? {
                Outcome::Placed(plan) if is_enough => {
                    let best = Best { cost: Cost::NOTHING, atoms: Vec::new(), plan };
                    return Ok(preempt(cluster, units, &[], best, (Cost::NOTHING, 0)));
                }
                Outcome::Unplaced(later) => certificate = later.certificate,
                _ => certificate = None,
            }
        }
        let copy;
        let now: &Cluster = if units.going.is_empty() {
            cluster
        } else {
            copy = Cluster::clone(txn);
            &copy
        };
        preemptor.runs = units.may_run(now, group);
        let need = Need::new(now, framework, group, request.now, request.rows(now));
        let mut movable = Vec::new();
        let mut moves_at_a_price = None;
        // Moves give back room alone.
        let consolidation = ask.consolidation.as_ref().filter(|_| is_enough);
        if let Some(settings) = consolidation {
            movable = moves::movable(now, (units, running), (ask, settings), &preemptor);
            let repack = Repack::new(
                (cluster, units, &movable),
                running,
                (framework, request),
                (&mut self.planner, txn),
            );
            let found = moves::consolidate(repack, (&need, now), settings, ask.budget)?;
            self.trials += found.trials;
            let evict = settings.evict;
            match found.moved {
                Moved::Placed(mut plan) => {
                    plan.basis = cluster.moment();
                    return Ok(Preemption::Placed(plan));
                }
                Moved::Moves(best, claim) => {
                    let broken = best.cost.budgets_broken;
                    let answer = moved((cluster, units), best, claim, ask.budget - found.steps);
                    if !evict || broken == 0 {
                        return Ok(answer);
                    }
                    // Victims may break fewer.
                    moves_at_a_price = Some((broken, answer));
                }
                Moved::Never(proof) if !evict => {
                    let group = group.full_name();
                    let (together, certificate) =
                        proof.map(|proof| (Box::new(proof.tree), proof.certificate)).unzip();
                    let reason = NoVictims::NoMoves;
                    let help = NoVictimsHelp { group, reason, certificate, together };
                    return Ok(Preemption::NoVictimsHelp(help));
                }
                Moved::Exhausted if !evict => {
                    return Ok(Preemption::Exhausted { lower_bound: Cost::NOTHING });
                }
                Moved::Never(_) | Moved::Exhausted => {}
            }
        }
        let trial = Trial { planner: &mut self.planner, txn, framework, request, count: 0 };
        let work = alloc::vec![None; units.atoms.len()];
        let rule = ask.yielding.map(|rule| Rule::new(rule, units.holders(now, rule)));
        let mut search = Search::new(&need, units, work, trial, ask.budget);
        search.rule = rule.as_ref();
        let admit = |work: &mut Vec<Option<u64>>, priority: i32| {
            if ceiling.is_some_and(|ceiling| priority >= ceiling) {
                return;
            }
            let class = units.classes.get(&priority).map_or(&[][..], Vec::as_slice);
            let at = class.iter().map(|&atom| atom as usize);
            for at in at.filter(|&at| rule.as_ref().is_none_or(|rule| rule.admits(at))) {
                work[at] = units.work_if_free(now, ask, &preemptor, at);
            }
        };
        let result = search::run(&mut search, now, &admit);
        let spent = ask.budget - search.steps;
        let Search { best, mut trial, work, .. } = search;
        self.trials += trial.count;
        let Claim { lower_bound } = result?;
        if let Some((broken, answer)) = moves_at_a_price
            && best.as_ref().is_none_or(|best| best.cost.budgets_broken >= broken)
        {
            return Ok(answer);
        }
        if let Some(best) = best {
            if let Some(settings) = consolidation {
                let repack = Repack::new(
                    (cluster, units, &movable),
                    running,
                    (framework, request),
                    (trial.planner, trial.txn),
                );
                let known = (units, &work[..], rule.as_ref());
                return exchanged(repack, known, best, settings, ask.budget);
            }
            let least = lower_bound.map_or(best.cost, |least| least.min(best.cost));
            return Ok(preempt(cluster, units, &work, best, (least, spent)));
        }
        let all = units.in_sets(|atom| work[atom as usize].is_some());
        if all.is_empty() {
            return refuse(NoVictims::NoUnits, certificate);
        }
        if let Some(lower_bound) = lower_bound {
            return Ok(Preemption::Exhausted { lower_bound });
        }
        let (mut reason, mut certificate) = (NoVictims::DoesNotFit, None);
        if need.monotone {
            self.trials += 1;
            match trial.outcome(units, &all, None)? {
                Ok(_) if rule.is_some() => reason = NoVictims::NotEntitled,
                Err(Some(Unplaced { certificate: proof, .. })) => certificate = proof,
                _ => {}
            }
        }
        refuse(reason, certificate)
    }
}

fn name_of(node: NodeView<'_>) -> String {
    String::from(node.name())
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

/// The answer for victims; as many of them as possible move instead.
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
    victims.sort_by(|a, b| (b.priority, &a.name).cmp(&(a.priority, &b.name)));
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
    let first = pods.first().map(|pod| alloc::format!("{}/{}", pod.namespace, pod.name));
    let name = if own.whole { group.as_ref().map(ToString::to_string) } else { first };
    Victim {
        name: name.unwrap_or_default(),
        whole: own.whole,
        group,
        priority: own.priority,
        work_lost,
        pods,
    }
}
