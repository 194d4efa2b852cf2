//! Branch and bound: the least set of units in one domain.
//!
//! A set is built unit by unit, the unit that frees most for its work first, each taken or left.
//! Counting tells which sets cannot suffice; the planner judges the others. A branch is cut where
//! no set in it can cost less than the best one known. The work lost of a set is at least what it
//! would be if units could be taken in parts.

use alloc::vec;
use alloc::vec::Vec;

use super::arena::{Arena, Counts};
use super::bound::Shares;
use super::cost::Cost;
use super::need::Need;
use super::trial::Trial;
use super::unit::Units;
use super::yielding::Rule;
use crate::place::PlaceError;
use crate::state::{Plan, Row};

/// The best set so far.
#[derive(Debug)]
pub(crate) struct Best {
    pub(crate) cost: Cost,
    /// The atoms, ascending.
    pub(crate) atoms: Vec<u32>,
    pub(crate) plan: Plan,
}

/// A search for the least set, over several domains.
#[derive(Debug)]
pub(crate) struct Search<'a, 't> {
    pub(crate) need: &'a Need<'a>,
    pub(crate) units: &'a Units,
    pub(crate) trial: Trial<'t>,
    /// The work lost with each atom that may be taken.
    pub(crate) work: Vec<Option<u64>>,
    /// The row that is searched alone.
    pub(crate) only: Option<Row>,
    /// The rule over sets, if there is one.
    pub(crate) rule: Option<&'a Rule<'a>>,
    pub(crate) best: Option<Best>,
    pub(crate) steps: u64,
    /// The state of each atom; all [`State::Outside`] between two domains.
    pub(super) states: Vec<State>,
    /// Atoms in no order that were taken along with others.
    pub(super) along: Vec<u32>,
    /// A buffer of [`Units::closure`].
    pub(super) marks: Vec<bool>,
}

/// Limits on the sets that are looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    /// No unit of a higher priority.
    pub(crate) ceiling: i32,
    /// No budget broken.
    pub(crate) strict: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not to be taken here.
    Outside,
    Open,
    Taken,
    Left,
}

/// Steps that a verdict of the planner counts for.
pub(super) const TRIAL_STEPS: u64 = 32;

/// One domain under search.
pub(super) struct Branching<'s> {
    pub(super) arena: &'s Arena<'s>,
    pub(super) level: Level,
    /// The atoms, best first, with their place in the arena.
    pub(super) order: Vec<(u32, Option<usize>)>,
    /// Amounts that each is counted to free, in that order.
    pub(super) gain: Vec<i128>,
    pub(super) measure: Measure,
    pub(super) shares: Option<Shares>,
    /// The lowest priority in the order.
    lowest: Option<i32>,
    /// Whether each unit of the order counts as one: no two are of one group, and no group is in one.
    apart: bool,
    /// With what is taken gone.
    pub(super) now: Counts,
    /// With what is open gone too.
    pub(super) most: Counts,
    pub(super) taken: Vec<u32>,
    pub(super) charged: Vec<u64>,
    pub(super) work: u64,
    pub(super) pods: u64,
}

/// The amount that a domain lacks most.
#[derive(Debug, Clone, Copy)]
pub(super) enum Measure {
    Amount(usize),
    Members(usize),
}

impl Branching<'_> {
    /// The lacking part of the amount that the domain lacked most.
    fn lacking(&self, need: &Need<'_>) -> i128 {
        match self.measure {
            Measure::Amount(dimension) => self.now.lacking_amount(need, dimension),
            Measure::Members(kind) => i128::from(self.now.lacking(need, kind)),
        }
    }
}

impl<'a, 't> Search<'a, 't> {
    pub(crate) fn new(
        need: &'a Need<'a>,
        units: &'a Units,
        work: Vec<Option<u64>>,
        trial: Trial<'t>,
        steps: u64,
    ) -> Search<'a, 't> {
        let atoms = units.atoms.len();
        let (states, marks) = (vec![State::Outside; atoms], vec![false; atoms]);
        Search {
            need,
            units,
            trial,
            work,
            only: None,
            rule: None,
            best: None,
            steps,
            states,
            along: Vec::new(),
            marks,
        }
    }

    /// Whether an atom may be taken at a level, looked at alone.
    pub(crate) fn admits(&self, level: Level, atom: u32) -> bool {
        let atom = atom as usize;
        let breaks =
            |&(budget, count): &(u32, u32)| u64::from(count) > self.units.allowed[budget as usize];
        self.work[atom].is_some()
            && self.units.atoms[atom].priority <= level.ceiling
            && !(level.strict && self.units.charges(atom).iter().any(breaks))
    }

    /// The cost of a closed set in ascending order.
    pub(crate) fn cost(&self, atoms: &[u32]) -> Cost {
        self.units.cost(atoms, |atom| self.work[atom as usize].unwrap_or(0))
    }

    /// A bound on the work that is lost in a domain; `None` if it does not suffice by counting.
    pub(crate) fn bound(&self, arena: &Arena<'_>, level: Level) -> Option<u64> {
        let mut branching = self.branching(arena, level, &[]);
        if !branching.most.suffices(self.need) {
            return None;
        }
        let by_amount = self.work_left(&branching, 0, true)?;
        Some(by_amount.max(self.work_of_members(&mut branching, true)?))
    }

    /// Whether a closed set in ascending order may yield, and gives what is short beside room.
    pub(super) fn permits(&self, atoms: &[u32]) -> bool {
        self.rule.is_none_or(|rule| rule.permits(atoms))
    }

    /// The atoms that go if these go: what minima take along, and the rest of holders that yield
    /// whole. Ascending.
    pub(super) fn closure(&mut self, atoms: &[u32]) -> Vec<u32> {
        let mut all = self.units.closure(atoms, &mut self.marks);
        let Some(rule) = self.rule else { return all };
        loop {
            let count = all.len();
            let along = all.iter().filter_map(|&atom| rule.together(atom)).flatten().copied();
            let along: Vec<u32> = along.collect();
            all.extend(along);
            all.sort_unstable();
            all.dedup();
            if all.len() == count {
                return all;
            }
            all = self.units.closure(&all, &mut self.marks);
        }
    }

    /// Whether atoms are part of a set that may yield.
    pub(super) fn may_begin(&self, atoms: &[u32]) -> bool {
        self.rule.is_none_or(|rule| rule.may_begin(atoms))
    }

    /// The least work that open atoms must add for what is short beside room; `None` if they do not
    /// suffice.
    fn work_of_rule(&self, b: &Branching<'_>, from: usize) -> Option<u64> {
        let Some(rule) = self.rule else { return Some(0) };
        let atoms = b.order.iter().skip(from).map(|(atom, _)| *atom);
        let open = atoms.filter(|&atom| self.states[atom as usize] == State::Open);
        let all = open.chain(self.along.iter().copied());
        rule.least_work(&b.taken, all.map(|atom| (atom, self.work[atom as usize].unwrap_or(0))))
    }

    /// Sets of a domain that are found without branching; the best of them is noted.
    pub(crate) fn first(&mut self, arena: &Arena<'_>, level: Level) -> Result<(), PlaceError> {
        let branching = self.branching(arena, level, &[]);
        if branching.most.suffices(self.need) {
            self.first_sets(&branching)?;
        }
        Ok(())
    }

    /// Searches one domain. `extra` are atoms outside that may matter too. Returns whether the
    /// search is complete: nothing better than the best is in the domain at this level.
    pub(crate) fn solve(
        &mut self,
        arena: &Arena<'_>,
        level: Level,
        extra: &[u32],
        quota: u64,
    ) -> Result<bool, PlaceError> {
        let mut branching = self.branching(arena, level, extra);
        if !branching.most.suffices(self.need) {
            return Ok(true);
        }
        for &(atom, _) in &branching.order {
            self.states[atom as usize] = State::Open;
        }
        let result = self.explore(&mut branching, quota);
        for &(atom, _) in &branching.order {
            self.states[atom as usize] = State::Outside;
        }
        for atom in core::mem::take(&mut self.along) {
            self.states[atom as usize] = State::Outside;
        }
        result
    }

    pub(super) fn branching<'s>(
        &self,
        arena: &'s Arena<'s>,
        level: Level,
        extra: &[u32],
    ) -> Branching<'s> {
        let need = self.need;
        let now = Counts::new(arena.ground, need);
        let mut most = now.clone();
        let mut order: Vec<(u32, Option<usize>)> = Vec::with_capacity(arena.atoms.len());
        for (place, &atom) in arena.atoms.iter().enumerate() {
            if self.admits(level, atom) {
                most.apply(arena, need, place, 1);
                order.push((atom, Some(place)));
            }
        }
        let outside = extra
            .iter()
            .filter(|&&atom| arena.place_of(atom).is_none() && self.admits(level, atom));
        order.extend(outside.map(|&atom| (atom, None)));
        let measure = measure(need, &now);
        let gain_of = |place: Option<usize>| match (measure, place) {
            (_, None) => 0,
            (Measure::Amount(dimension), Some(place)) => {
                arena.sums[place * need.width() + dimension]
            }
            (Measure::Members(kind), Some(place)) => {
                i128::from(arena.most_members(need, kind, place))
            }
        };
        type Ranked = (u128, i128, u128, u32, Option<usize>);
        let mut ranked: Vec<Ranked> = order
            .into_iter()
            .map(|(atom, place)| {
                let gain = gain_of(place);
                let work = self.work[atom as usize].unwrap_or(0);
                // Work for each unit of gain, in 2⁻³² of it.
                let rate =
                    if gain > 0 { (u128::from(work) << 32) / gain as u128 } else { u128::MAX };
                let other = self.rule.filter(|_| gain <= 0).map_or(0, |rule| rule.rate(atom, work));
                (rate, gain, other, atom, place)
            })
            .collect();
        let placed = ranked.iter().filter_map(|&(_, _, _, atom, place)| {
            Some((place?, self.work[atom as usize].unwrap_or(0)))
        });
        let shares = Shares::new(need, arena, (&now, &most), placed);
        ranked.sort_unstable_by(|a, b| {
            let key = |own: &Ranked| (own.0, core::cmp::Reverse(own.1), own.2, own.3);
            key(a).cmp(&key(b))
        });
        let lowest = ranked.iter().map(|own| self.units.atoms[own.3 as usize].priority).min();
        let apart = self.units.are_apart(ranked.iter().map(|own| own.3));
        Branching {
            arena,
            level,
            lowest,
            apart,
            gain: ranked.iter().map(|ranked| ranked.1).collect(),
            order: ranked.into_iter().map(|(_, _, _, atom, place)| (atom, place)).collect(),
            measure,
            shares,
            now,
            most,
            taken: Vec::new(),
            charged: vec![0; self.units.allowed.len()],
            work: 0,
            pods: 0,
        }
    }

    /// The least work that what is open from a place in the order on must add, if units could be
    /// taken in parts; `None` if it does not suffice.
    pub(super) fn work_left(
        &self,
        branching: &Branching<'_>,
        from: usize,
        all: bool,
    ) -> Option<u64> {
        let mut lacking = branching.lacking(self.need);
        let mut work = 0_u64;
        for (&(atom, _), &gain) in branching.order.iter().zip(&branching.gain).skip(from) {
            if lacking <= 0 {
                break;
            }
            if gain <= 0 || !all && self.states[atom as usize] != State::Open {
                continue;
            }
            let own = self.work[atom as usize].unwrap_or(0);
            let part = gain.min(lacking);
            let share = (u128::from(own) * part as u128 / gain as u128) as u64;
            work = work.saturating_add(share);
            lacking -= part;
        }
        (lacking <= 0).then_some(work)
    }

    /// The same by members; 0 where that is not looked at.
    fn work_of_members(&self, b: &mut Branching<'_>, all: bool) -> Option<u64> {
        let Some(shares) = &mut b.shares else { return Some(0) };
        let open = |atom: u32| all || self.states[atom as usize] == State::Open;
        shares.least(self.need, b.arena, (&b.now, &b.most), open)
    }

    pub(super) fn explore(
        &mut self,
        b: &mut Branching<'_>,
        quota: u64,
    ) -> Result<bool, PlaceError> {
        let is_over = self.best.is_some() && !self.is_open(b, 0);
        if is_over || !self.first_sets(b)? {
            return Ok(true);
        }
        let mut left = quota.min(self.steps);
        let before = left;
        // Decisions: the place in the order, how many were taken before, whether it was taken.
        let mut decisions: Vec<(usize, usize, bool)> = Vec::new();
        let mut at = 0;
        let mut fresh = true;
        let complete = loop {
            if left == 0 {
                break false;
            }
            left -= 1;
            let mut open = (!fresh || self.may_begin(&b.taken)) && self.is_open(b, at);
            if open && fresh && b.now.suffices(self.need) && self.permits(&b.taken) {
                left = left.saturating_sub(TRIAL_STEPS);
                open = !self.judge(b)?;
            }
            if open {
                while b
                    .order
                    .get(at)
                    .is_some_and(|(atom, _)| self.states[*atom as usize] != State::Open)
                {
                    at += 1;
                }
                if at < b.order.len() && b.most.suffices(self.need) {
                    let mark = b.taken.len();
                    let taken = self.take(b, b.order[at].0);
                    decisions.push((at, mark, true));
                    fresh = taken;
                    at += 1;
                    if taken {
                        continue;
                    }
                }
            }
            // Back to the last unit that was taken, which is left now.
            let mut found = false;
            while let Some((place, mark, taken)) = decisions.pop() {
                let atom = b.order[place].0;
                if taken {
                    self.untake(b, mark);
                    self.leave(b, place, atom);
                    decisions.push((place, mark, false));
                    at = place + 1;
                    fresh = false;
                    found = true;
                    break;
                }
                self.unleave(b, place, atom);
            }
            if !found {
                break true;
            }
        };
        while let Some((place, mark, taken)) = decisions.pop() {
            if taken {
                self.untake(b, mark);
            } else {
                self.unleave(b, place, b.order[place].0);
            }
        }
        self.steps = self.steps.saturating_sub(before - left);
        Ok(complete)
    }

    /// Whether a branch may hold a set that costs less than the best.
    pub(super) fn is_open(&self, b: &mut Branching<'_>, at: usize) -> bool {
        let Some(by_amount) = self.work_left(b, at, false) else { return false };
        if !self.may_be_better(b, by_amount) {
            return false;
        }
        let Some(by_member) = self.work_of_members(b, false) else { return false };
        let Some(by_rule) = self.work_of_rule(b, at) else { return false };
        let most = by_member.max(by_rule);
        most <= by_amount || self.may_be_better(b, most)
    }

    /// Whether a set may cost less than the best if so much more work is lost.
    fn may_be_better(&self, b: &Branching<'_>, more: u64) -> bool {
        let broken = self.units.broken(&b.charged);
        if b.level.strict && broken > 0 {
            return false;
        }
        let Some(best) = &self.best else { return true };
        let taken = b.taken.iter().map(|&atom| self.units.atoms[atom as usize].priority).max();
        // Some unit of the order is taken where the room does not suffice yet.
        let highest = taken.or_else(|| b.lowest.filter(|_| !b.now.suffices(self.need)));
        let mut least = Cost {
            budgets_broken: broken,
            highest_priority: highest,
            work_lost: b.work.saturating_add(more),
            units: 0,
            pods: b.pods,
        };
        let lead = |cost: &Cost| (cost.budgets_broken, cost.highest_priority, cost.work_lost);
        if lead(&least) == lead(&best.cost) {
            let mut taken = b.taken.clone();
            taken.sort_unstable();
            let lacking = b.lacking(self.need);
            let most = b.gain.iter().copied().max().unwrap_or(0).max(1);
            // So many atoms more; of a group that falls whole, all but one may count for nothing.
            let more = ((lacking + most - 1) / most).max(0) as u64;
            least.units = self.cost(&taken).units + if b.apart { more } else { 0 };
            least.pods += more;
        }
        least < best.cost
    }

    /// Takes an atom and what goes with it. False if something of that may not go; what was taken
    /// stays so until [`Search::untake`].
    pub(super) fn take(&mut self, b: &mut Branching<'_>, atom: u32) -> bool {
        self.take_one(b, atom);
        let is_alone = self.rule.is_none_or(|rule| rule.together(atom).is_none());
        if is_alone && !self.units.has_guard(atom as usize) {
            return true;
        }
        let all = self.closure(&b.taken.clone());
        for atom in all {
            match self.states[atom as usize] {
                State::Taken => {}
                State::Open => self.take_one(b, atom),
                State::Outside if self.admits(b.level, atom) => {
                    self.along.push(atom);
                    self.take_one(b, atom);
                }
                State::Outside | State::Left => return false,
            }
        }
        true
    }

    pub(super) fn take_one(&mut self, b: &mut Branching<'_>, atom: u32) {
        self.states[atom as usize] = State::Taken;
        b.now.apply_atom(b.arena, self.need, atom, 1);
        b.taken.push(atom);
        self.count(b, atom, true);
    }

    pub(super) fn count(&self, b: &mut Branching<'_>, atom: u32, more: bool) {
        let atom = atom as usize;
        let (work, pods) = (self.work[atom].unwrap_or(0), u64::from(self.units.size(atom)));
        if more {
            b.work = b.work.saturating_add(work);
            b.pods += pods;
        } else {
            b.work = b.work.saturating_sub(work);
            b.pods -= pods;
        }
        for &(budget, count) in self.units.charges(atom) {
            let charged = &mut b.charged[budget as usize];
            *charged = if more { *charged + u64::from(count) } else { *charged - u64::from(count) };
        }
    }

    /// Takes back what was taken after so many.
    pub(super) fn untake(&mut self, b: &mut Branching<'_>, mark: usize) {
        while b.taken.len() > mark {
            let Some(atom) = b.taken.pop() else { break };
            // Atoms from outside the domain stay open afterwards: they are in no order, and are
            // taken with others only.
            self.states[atom as usize] = State::Open;
            b.now.apply_atom(b.arena, self.need, atom, -1);
            self.count(b, atom, false);
        }
    }

    pub(super) fn leave(&mut self, b: &mut Branching<'_>, place: usize, atom: u32) {
        self.states[atom as usize] = State::Left;
        if let Some(place) = b.order[place].1 {
            b.most.apply(b.arena, self.need, place, -1);
        }
    }

    pub(super) fn unleave(&mut self, b: &mut Branching<'_>, place: usize, atom: u32) {
        self.states[atom as usize] = State::Open;
        if let Some(place) = b.order[place].1 {
            b.most.apply(b.arena, self.need, place, 1);
        }
    }
}

/// The amount that is lacking most, by share of the needed amount; members if no amount is lacking.
fn measure(need: &Need<'_>, now: &Counts) -> Measure {
    let mut worst: Option<(u128, usize)> = None;
    for dimension in 0..need.width() {
        let lacking = now.lacking_amount(need, dimension);
        let least = i128::from(need.least[dimension]).max(1);
        if lacking > 0 {
            let share = (lacking as u128) * 1_000_000 / least as u128;
            if worst.is_none_or(|(most, _)| share > most) {
                worst = Some((share, dimension));
            }
        }
    }
    if let Some((_, dimension)) = worst {
        return Measure::Amount(dimension);
    }
    now.most_lacking(need).map_or(Measure::Amount(0), Measure::Members)
}
