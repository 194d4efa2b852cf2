//! The search for the fewest moves: which units leave their nodes.
//!
//! A set is built unit by unit, each taken or left, units on the nodes that are cheapest to clear
//! first. Counting tells which sets cannot make room, and how many pods are lacking at least. A set
//! that may make room is laid out anew together with the group, and its moves are put in order.
//! Units outside the domain come last: they make room for those that leave it.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::prices::Prices;
use super::repack::{Joint, Place, Repack, pods_of};
use super::sequence::Layout;
use super::stops::{Schedule, schedule};
use crate::place::PlaceError;
use crate::preempt::arena::{Arena, Counts, Ground, Sizes};
use crate::preempt::branch::TRIAL_STEPS;
use crate::preempt::cost::{MoveClaim, MoveCost};
use crate::preempt::need::Need;
use crate::state::{Cluster, Plan};

/// The best moves so far.
#[derive(Debug)]
pub(crate) struct Best {
    pub(crate) cost: MoveCost,
    /// The atoms, ascending.
    pub(crate) atoms: Vec<u32>,
    pub(crate) moves: Vec<(Place, bool)>,
    pub(crate) plan: Plan,
}

/// A search for moves.
#[derive(Debug)]
pub(crate) struct MoveSearch<'a, 't> {
    pub(crate) need: &'a Need<'a>,
    pub(crate) repack: Repack<'t>,
    /// The most units that move.
    pub(crate) limit: u64,
    pub(crate) steps: u64,
    /// Steps left for sets that move as many pods as the best.
    ties: u64,
    pub(crate) best: Option<Best>,
    /// Whether sets were passed over that might cost less in budgets or pods, and in anything else.
    open: (bool, bool),
    /// The state of each atom.
    states: Vec<State>,
    marks: Vec<bool>,
    /// Sets for which no layout was found: other domains and the search beyond budgets meet them again.
    failed: BTreeSet<Vec<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It may not move.
    Kept,
    Open,
    Taken,
    Left,
}

/// A domain under search.
struct Domain<'d> {
    arena: &'d Arena<'d>,
    prices: Prices,
    /// Atoms in the order in which they are tried, with their place in the arena.
    order: Vec<(u32, Option<usize>)>,
    /// No budget is broken.
    strict: bool,
}

/// A set of units under construction.
struct Set {
    atoms: Vec<u32>,
    now: Counts,
    pods: u64,
    broken: u64,
}

impl<'a, 't> MoveSearch<'a, 't> {
    pub(crate) fn new(
        need: &'a Need<'a>,
        repack: Repack<'t>,
        limit: u32,
        steps: u64,
    ) -> MoveSearch<'a, 't> {
        let kept = |work: &Option<u64>| if work.is_some() { State::Open } else { State::Kept };
        let states = repack.work.iter().map(kept).collect();
        let marks = vec![false; repack.units.atoms.len()];
        let (limit, ties) = (u64::from(limit), steps / 8);
        MoveSearch {
            need,
            repack,
            limit,
            steps,
            ties,
            best: None,
            open: (false, false),
            states,
            marks,
            failed: BTreeSet::new(),
        }
    }

    /// Looks for the best moves: first among those that break no budget.
    pub(crate) fn run(&mut self, cluster: &Cluster) -> Result<(), PlaceError> {
        let domains = self.need.domains(cluster).into_iter();
        let grounds: Vec<Ground> =
            domains.map(|rows| Ground::new(cluster, self.need, rows)).collect();
        let mut sizes = Sizes::default();
        for strict in [true, false] {
            if !strict && (self.best.is_some() || self.repack.units.allowed.is_empty()) {
                break;
            }
            let mut ranked = Vec::new();
            for ground in &grounds {
                let arena = self.arena(cluster, ground, &mut sizes);
                let now = Counts::new(ground, self.need);
                let pods: Vec<u64> = arena.atoms.iter().map(|&atom| self.pods_of(atom)).collect();
                let prices = Prices::new(&arena, self.need, &now, &pods);
                let Some(least) = prices.least(self.need, &now, &|_| true) else { continue };
                ranked.push((least, arena, now, prices));
            }
            ranked.sort_by_key(|ranked| ranked.0);
            let count = ranked.len();
            for (number, (least, arena, now, prices)) in ranked.into_iter().enumerate() {
                // What is left goes to this domain and the others, none of which starves.
                let share = (count - number).min(4) as u64;
                let quota = (self.steps / share).max(self.steps.min(TRIAL_STEPS));
                let spare = self.steps - quota;
                self.steps = quota;
                let lead = (0, least.max(1));
                if self.is_open(lead) {
                    let mut domain = self.domain(&arena, prices, strict);
                    let set = Set { atoms: Vec::new(), now, pods: 0, broken: 0 };
                    self.extend(&mut domain, 0, &set)?;
                } else {
                    self.pass_over(lead);
                }
                self.steps += spare;
            }
        }
        Ok(())
    }

    /// The claim on the best set.
    pub(crate) fn claim(&self) -> MoveClaim {
        match self.open {
            (true, _) => MoveClaim::Found,
            (false, true) => MoveClaim::Fewest,
            (false, false) => MoveClaim::Least,
        }
    }

    /// Whether every set was looked at, or ruled out by a bound.
    pub(crate) fn is_complete(&self) -> bool {
        !self.open.0
    }

    fn arena<'g>(&self, cluster: &Cluster, ground: &'g Ground, sizes: &mut Sizes) -> Arena<'g> {
        let passes = |atom: u32| self.repack.work[atom as usize].is_some();
        Arena::on_nodes(cluster, (self.need, self.repack.units), ground, sizes, &passes)
    }

    fn pods_of(&self, atom: u32) -> u64 {
        u64::from(self.repack.units.size(atom as usize))
    }

    fn domain<'d>(&self, arena: &'d Arena<'d>, prices: Prices, strict: bool) -> Domain<'d> {
        let units = self.repack.units;
        let ask = prices.kind().map_or(&self.need.least, |kind| &self.need.kinds[kind].ask);
        let all = 0..units.atoms.len() as u32;
        let mut ranked: Vec<_> = all
            .filter(|&atom| self.states[atom as usize] == State::Open)
            .map(|atom| {
                let place = arena.place_of(atom);
                let nodes = place.into_iter().flat_map(|place| arena.places_of(place));
                let price = nodes.filter_map(|node| prices.of_node(node).map(|p| (p, node))).min();
                let first = (place.is_none(), price.is_none(), price);
                let rate = place.map(|place| {
                    let sums = arena.sums[place * self.need.width()..].iter().zip(ask);
                    let asked = sums.filter(|(_, ask)| **ask > 0);
                    // In thousandths of what one member takes.
                    let gain: i128 = asked.map(|(sum, ask)| sum * 1_000 / i128::from(*ask)).sum();
                    core::cmp::Reverse(gain / i128::from(self.pods_of(atom).max(1)))
                });
                let own = &units.atoms[atom as usize];
                let work = self.repack.work[atom as usize];
                (first, rate, (self.pods_of(atom), own.priority, work, atom), place)
            })
            .collect();
        ranked.sort_unstable();
        let order = ranked.into_iter().map(|(_, _, (.., atom), place)| (atom, place)).collect();
        Domain { arena, prices, order, strict }
    }

    /// Whether a set that breaks so much of budgets and moves so many pods may be the best.
    fn is_open(&self, lead: (u64, u64)) -> bool {
        let Some(best) = &self.best else { return true };
        lead < best.cost.lead() || lead == best.cost.lead() && self.ties > 0
    }

    fn is_tie(&self, lead: (u64, u64)) -> bool {
        self.best.as_ref().is_some_and(|best| best.cost.lead() == lead)
    }

    /// Notes sets that are not looked at any more, for want of steps where they may be as good.
    fn pass_over(&mut self, lead: (u64, u64)) {
        self.open.1 |= self.is_tie(lead);
    }

    /// Takes or leaves what comes from a place in the order on.
    fn extend(&mut self, d: &mut Domain<'_>, from: usize, set: &Set) -> Result<(), PlaceError> {
        let mut left = from;
        for at in from..d.order.len() {
            if self.steps == 0 {
                self.open.0 = true;
                break;
            }
            self.steps -= 1;
            let open = |states: &[State], place: usize| {
                states[d.arena.atoms[place] as usize] == State::Open
            };
            let Some(more) = d.prices.least(self.need, &set.now, &|p| open(&self.states, p)) else {
                break;
            };
            let lead = (set.broken, set.pods + more.max(1));
            if !self.is_open(lead) {
                self.pass_over(lead);
                break;
            }
            if self.is_tie(lead) {
                self.ties = self.ties.saturating_sub(1);
            }
            let (atom, place) = d.order[at];
            left = at + 1;
            if self.states[atom as usize] != State::Open {
                continue;
            }
            if let Some(longer) = self.with(d, set, atom)? {
                self.extend(d, at + 1, &longer)?;
                self.take_back(d, set, &longer);
            }
            self.states[atom as usize] = State::Left;
            self.update(d, &set.now, place);
        }
        for at in from..left {
            let (atom, place) = d.order[at];
            if self.states[atom as usize] == State::Left {
                self.states[atom as usize] = State::Open;
                self.update(d, &set.now, place);
            }
        }
        Ok(())
    }

    /// A set with one atom more and what goes with it, if that is allowed and does not make room
    /// yet. If it does make room, sets with more are of no use.
    fn with(
        &mut self,
        d: &mut Domain<'_>,
        set: &Set,
        atom: u32,
    ) -> Result<Option<Set>, PlaceError> {
        let units = self.repack.units;
        let mut atoms = set.atoms.clone();
        atoms.push(atom);
        let atoms = units.closure(&atoms, &mut self.marks);
        let may = |atom: &u32| matches!(self.states[*atom as usize], State::Open | State::Taken);
        if !atoms.iter().all(may) {
            return Ok(None);
        }
        let cost = self.repack.cost(&atoms);
        if cost.units > self.limit || d.strict && cost.budgets_broken > 0 {
            return Ok(None);
        }
        let mut now = set.now.clone();
        let mut longer = Vec::new();
        for &atom in &atoms {
            if self.states[atom as usize] == State::Open {
                longer.push(atom);
                now.apply_atom(d.arena, self.need, atom, 1);
            }
        }
        if now.suffices(self.need) && self.judge(&atoms)? {
            return Ok(None);
        }
        for &atom in &longer {
            self.states[atom as usize] = State::Taken;
        }
        for &atom in &longer {
            self.update(d, &now, d.arena.place_of(atom));
        }
        Ok(Some(Set { atoms, now, pods: cost.pods, broken: cost.budgets_broken }))
    }

    fn take_back(&mut self, d: &mut Domain<'_>, set: &Set, longer: &Set) {
        let more = || longer.atoms.iter().filter(|atom| set.atoms.binary_search(atom).is_err());
        for &atom in more() {
            self.states[atom as usize] = State::Open;
        }
        for &atom in more() {
            self.update(d, &set.now, d.arena.place_of(atom));
        }
    }

    /// Prices the nodes of an atom anew.
    fn update(&mut self, d: &mut Domain<'_>, now: &Counts, place: Option<usize>) {
        let Some(place) = place else { return };
        let states = &self.states;
        let open = |place: usize| states[d.arena.atoms[place] as usize] == State::Open;
        for node in d.arena.places_of(place) {
            d.prices.update(d.arena, self.need, now, node, &open);
        }
    }

    /// Lays out a set together with the group. Returns whether sets with more than it are of no use.
    fn judge(&mut self, atoms: &[u32]) -> Result<bool, PlaceError> {
        let cost = move_cost(&self.repack, atoms);
        if !self.is_open(cost.lead()) {
            self.pass_over(cost.lead());
            return Ok(true);
        }
        if self.failed.contains(atoms) {
            return Ok(false);
        }
        if self.steps < TRIAL_STEPS {
            (self.open.0, self.steps) = (true, 0);
            return Ok(false);
        }
        self.steps -= TRIAL_STEPS;
        if self.is_tie(cost.lead()) {
            self.ties = self.ties.saturating_sub(TRIAL_STEPS);
        }
        let repack = &mut self.repack;
        let blocks = repack.blocks(atoms);
        let places = match repack.joint_anew(&pods_of(&blocks))? {
            Joint::Fits(places) => places,
            verdict => {
                if matches!(verdict, Joint::Unknown) {
                    self.open = (true, true);
                }
                self.failed.insert(atoms.to_vec());
                return Ok(false);
            }
        };
        let layout = Layout::new(blocks, &places);
        // Blocks that stay where they are need not be of the set.
        let moving = layout.blocks.iter().zip(&layout.places);
        let moving = moving.filter(|(_, places)| !places.iter().all(|place| repack.stays(place)));
        let mut fewer: Vec<u32> = moving.flat_map(|(block, _)| block.atoms.clone()).collect();
        fewer.sort_unstable();
        if fewer.len() < atoms.len()
            && !fewer.is_empty()
            && repack.units.closure(&fewer, &mut self.marks) == fewer
        {
            return self.judge(&fewer);
        }
        let schedule = schedule(repack, &layout, &mut self.steps)?;
        self.settle(atoms, schedule)
    }

    /// Takes up moves that cost less than the best, if the group has a plan with them.
    fn settle(&mut self, atoms: &[u32], schedule: Schedule) -> Result<bool, PlaceError> {
        let mut cost = move_cost(&self.repack, atoms);
        cost.stopped = schedule.stopped;
        self.open.1 |= !schedule.least;
        if self.best.as_ref().is_some_and(|best| (best.cost, &best.atoms[..]) <= (cost, atoms)) {
            return Ok(true);
        }
        let Some(plan) = plan_after(&mut self.repack, &schedule.moves)? else {
            self.open = (true, true);
            return Ok(false);
        };
        self.best = Some(Best { cost, atoms: atoms.to_vec(), moves: schedule.moves, plan });
        Ok(true)
    }
}

/// Cost of moving a set, without the units that have to stop.
pub(crate) fn move_cost(repack: &Repack<'_>, atoms: &[u32]) -> MoveCost {
    let cost = repack.cost(atoms);
    MoveCost {
        budgets_broken: cost.budgets_broken,
        pods: cost.pods,
        units: cost.units,
        highest_priority: cost.highest_priority,
        work_lost: cost.work_lost,
        ..MoveCost::NOTHING
    }
}

/// The plan of the group once moves are made; the transaction is left as it was.
pub(crate) fn plan_after(
    repack: &mut Repack<'_>,
    moves: &[(Place, bool)],
) -> Result<Option<Plan>, PlaceError> {
    let before = repack.txn.changes();
    let pods: Vec<_> = moves.iter().map(|(place, _)| place.pod).collect();
    repack.evict(&pods)?;
    for (place, _) in moves {
        repack.put(place)?;
    }
    let plan = if repack.is_together(&pods) { repack.gang()? } else { None };
    repack.txn.rollback_to(before)?;
    Ok(plan)
}
