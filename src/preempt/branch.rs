//! Branch and bound: the least set of units in one domain.
//!
//! A set is built unit by unit, those that give most for their work first, each taken or left.
//! Counting tells what cannot suffice; what may is judged by the planner. A branch is cut where no
//! set in it can cost less than the best one known: the work lost of a set is at least what it
//! would be if units could be taken in parts.

use alloc::vec;
use alloc::vec::Vec;

use super::arena::{Arena, Counts};
use super::cost::Cost;
use super::need::Need;
use super::trial::Trial;
use super::unit::Units;
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
    pub(crate) best: Option<Best>,
    pub(crate) steps: u64,
    /// The state of each atom; all [`State::Outside`] between two domains.
    states: Vec<State>,
    /// Atoms in no order that were taken along with others.
    along: Vec<u32>,
    /// A buffer of [`Units::closure`].
    marks: Vec<bool>,
}

/// Which sets are looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    /// No unit of a higher priority.
    pub(crate) ceiling: i32,
    /// No budget broken.
    pub(crate) strict: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not to be taken here.
    Outside,
    Open,
    Taken,
    Left,
}

/// Steps that a verdict of the planner counts for.
const TRIAL_STEPS: u64 = 32;

/// One domain under search.
struct Branching<'s> {
    arena: &'s Arena,
    level: Level,
    /// The atoms, best first, with their place in the arena.
    order: Vec<(u32, Option<usize>)>,
    /// What each is counted to give, in that order.
    gain: Vec<i128>,
    measure: Measure,
    /// With what is taken gone.
    now: Counts,
    /// With what is open gone too.
    most: Counts,
    taken: Vec<u32>,
    charged: Vec<u64>,
    work: u64,
    pods: u64,
}

/// The amount that a domain lacks most.
#[derive(Debug, Clone, Copy)]
enum Measure {
    Amount(usize),
    Members(usize),
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
        let each = atoms.iter().map(|&atom| (atom as usize, self.work[atom as usize].unwrap_or(0)));
        self.units.cost(each)
    }

    /// The lowest priority up to which the atoms of a domain suffice by counting, and a bound on
    /// the work that is lost then. `None` if all of them do not.
    pub(crate) fn bound(&self, arena: &Arena, level: Level) -> Option<(i32, u64)> {
        let mut order: Vec<(i32, u32, usize)> = Vec::with_capacity(arena.atoms.len());
        for (place, &atom) in arena.atoms.iter().enumerate() {
            if self.admits(level, atom) {
                order.push((self.units.atoms[atom as usize].priority, atom, place));
            }
        }
        order.sort_unstable();
        let mut most = Counts::new(arena, self.need);
        let mut end = 0;
        while !most.suffices(self.need) {
            let priority = order.get(end)?.0;
            while let Some(&(_, _, place)) = order.get(end).filter(|next| next.0 == priority) {
                most.apply(arena, self.need, place, 1);
                end += 1;
            }
        }
        let ceiling = end.checked_sub(1).map_or(i32::MIN, |last| order[last].0);
        let branching = self.branching(arena, Level { ceiling, ..level }, &[]);
        Some((ceiling, self.work_left(&branching, 0, true).unwrap_or(0)))
    }

    /// Searches one domain. `extra` are atoms outside that may matter too. Returns whether the
    /// search is complete: nothing better than the best is in the domain at this level.
    pub(crate) fn solve(
        &mut self,
        arena: &Arena,
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

    fn branching<'s>(&self, arena: &'s Arena, level: Level, extra: &[u32]) -> Branching<'s> {
        let need = self.need;
        let now = Counts::new(arena, need);
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
        let mut ranked: Vec<(u128, i128, u32, Option<usize>)> = order
            .into_iter()
            .map(|(atom, place)| {
                let gain = gain_of(place);
                let work = u128::from(self.work[atom as usize].unwrap_or(0));
                // Work for each unit of gain, in 2⁻³² of it.
                let rate = if gain > 0 { (work << 32) / gain as u128 } else { u128::MAX };
                (rate, gain, atom, place)
            })
            .collect();
        ranked.sort_unstable_by(|a, b| {
            (a.0, core::cmp::Reverse(a.1), a.2).cmp(&(b.0, core::cmp::Reverse(b.1), b.2))
        });
        Branching {
            arena,
            level,
            gain: ranked.iter().map(|ranked| ranked.1).collect(),
            order: ranked.into_iter().map(|(_, _, atom, place)| (atom, place)).collect(),
            measure,
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
    fn work_left(&self, branching: &Branching<'_>, from: usize, all: bool) -> Option<u64> {
        let mut lacking = match branching.measure {
            Measure::Amount(dimension) => branching.now.lacking_amount(self.need, dimension),
            Measure::Members(kind) => i128::from(branching.now.lacking(self.need, kind)),
        };
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

    fn explore(&mut self, b: &mut Branching<'_>, quota: u64) -> Result<bool, PlaceError> {
        if !self.first_sets(b)? {
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
            let mut open = self.is_open(b, at);
            if open && fresh && b.now.suffices(self.need) {
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
    fn is_open(&self, b: &Branching<'_>, at: usize) -> bool {
        let Some(more) = self.work_left(b, at, false) else { return false };
        let broken = self.broken(b);
        if b.level.strict && broken > 0 {
            return false;
        }
        let Some(best) = &self.best else { return true };
        let highest = b.taken.iter().map(|&atom| self.units.atoms[atom as usize].priority).max();
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
            let lacking = match b.measure {
                Measure::Amount(dimension) => b.now.lacking_amount(self.need, dimension),
                Measure::Members(kind) => i128::from(b.now.lacking(self.need, kind)),
            };
            let most = b.gain.iter().copied().max().unwrap_or(0).max(1);
            // So many atoms more; of a group that falls whole, all but one may count for nothing.
            let guarded = b.order.iter().any(|(atom, _)| self.units.has_guard(*atom as usize));
            let more = if guarded { 0 } else { ((lacking + most - 1) / most).max(0) as u64 };
            least.units = self.cost(&taken).units + more;
            least.pods += more;
        }
        least < best.cost
    }

    fn broken(&self, b: &Branching<'_>) -> u64 {
        let beyond = b.charged.iter().zip(&self.units.allowed);
        beyond.map(|(count, allowed)| count.saturating_sub(*allowed)).sum()
    }

    /// Takes an atom and what goes with it. False if something of that may not go; what was taken
    /// stays so until [`Search::untake`].
    fn take(&mut self, b: &mut Branching<'_>, atom: u32) -> bool {
        self.take_one(b, atom);
        if !self.units.has_guard(atom as usize) {
            return true;
        }
        let all = self.units.closure(&b.taken, &mut self.marks);
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

    fn take_one(&mut self, b: &mut Branching<'_>, atom: u32) {
        self.states[atom as usize] = State::Taken;
        if let Some(place) = b.arena.place_of(atom) {
            b.now.apply(b.arena, self.need, place, 1);
        }
        b.taken.push(atom);
        self.count(b, atom, true);
    }

    fn count(&self, b: &mut Branching<'_>, atom: u32, more: bool) {
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
    fn untake(&mut self, b: &mut Branching<'_>, mark: usize) {
        while b.taken.len() > mark {
            let Some(atom) = b.taken.pop() else { break };
            // Atoms from outside the domain stay open afterwards: they are in no order, and are
            // taken with others only.
            self.states[atom as usize] = State::Open;
            if let Some(place) = b.arena.place_of(atom) {
                b.now.apply(b.arena, self.need, place, -1);
            }
            self.count(b, atom, false);
        }
    }

    fn leave(&mut self, b: &mut Branching<'_>, place: usize, atom: u32) {
        self.states[atom as usize] = State::Left;
        if let Some(place) = b.order[place].1 {
            b.most.apply(b.arena, self.need, place, -1);
        }
    }

    fn unleave(&mut self, b: &mut Branching<'_>, place: usize, atom: u32) {
        self.states[atom as usize] = State::Open;
        if let Some(place) = b.order[place].1 {
            b.most.apply(b.arena, self.need, place, 1);
        }
    }

    /// Judges what is taken. Returns whether the group fits; then it is the best set if it costs
    /// less.
    fn judge(&mut self, b: &Branching<'_>) -> Result<bool, PlaceError> {
        let mut atoms = b.taken.clone();
        atoms.sort_unstable();
        self.judge_set(atoms, b.level)
    }

    fn judge_set(&mut self, atoms: Vec<u32>, level: Level) -> Result<bool, PlaceError> {
        let cost = self.cost(&atoms);
        if level.strict && cost.budgets_broken > 0 {
            return Ok(false);
        }
        // A set that costs no less is of no use, whether it fits or not.
        if self.best.as_ref().is_some_and(|best| best.cost <= cost) {
            return Ok(true);
        }
        let Some(plan) = self.trial.fits(self.units, &atoms, self.only)? else { return Ok(false) };
        self.best = Some(Best { cost, atoms, plan });
        Ok(true)
    }

    /// Sets found without branching, as bounds for it. False if the group does not fit even if
    /// everything in the domain goes that may.
    fn first_sets(&mut self, b: &Branching<'_>) -> Result<bool, PlaceError> {
        let all: Vec<u32> = b.order.iter().map(|(atom, _)| *atom).collect();
        let mut helped = false;
        // All nodes, the worst units put back first; then the nodes that cost least to clear.
        let mut sets = vec![self.put_back(b, &all)];
        if let Some(set) = self.clear_nodes(b) {
            sets.push(self.put_back(b, &set));
        }
        for set in sets.into_iter().flatten() {
            if self.cost(&set) == Cost::NOTHING && set.is_empty() {
                continue;
            }
            helped |= self.judge_set(set, b.level)?;
        }
        if helped || !self.need.monotone {
            return Ok(true);
        }
        // By counting it fits, by the filters not: is there any hope?
        let closed = self.units.closure(&all, &mut self.marks);
        if closed.iter().any(|&atom| self.work[atom as usize].is_none()) {
            return Ok(true);
        }
        self.steps = self.steps.saturating_sub(TRIAL_STEPS);
        let Some(plan) = self.trial.fits(self.units, &closed, self.only)? else { return Ok(false) };
        let cost = self.cost(&closed);
        if !(b.level.strict && cost.budgets_broken > 0)
            && self.best.as_ref().is_none_or(|best| cost < best.cost)
        {
            self.best = Some(Best { cost, atoms: closed, plan });
        }
        self.put_back_by_trial(b)?;
        Ok(true)
    }

    /// A set that suffices by counting, and does no longer if one unit of it is put back; of a set
    /// that suffices. `None` if it cannot be closed.
    fn put_back(&mut self, b: &Branching<'_>, set: &[u32]) -> Option<Vec<u32>> {
        let whole = self.units.closure(set, &mut self.marks);
        let mut set = if whole.iter().all(|&atom| self.admits(b.level, atom)) {
            whole
        } else {
            self.closed_part(b, set)
        };
        let mut counts = b.now.clone();
        for &atom in &set {
            if let Some(place) = b.arena.place_of(atom) {
                counts.apply(b.arena, self.need, place, 1);
            }
        }
        if !counts.suffices(self.need) {
            return None;
        }
        let mut charged = vec![0_u64; self.units.allowed.len()];
        for &atom in &set {
            for &(budget, count) in self.units.charges(atom as usize) {
                charged[budget as usize] += u64::from(count);
            }
        }
        let mut order: Vec<(u64, i32, usize, u32)> = Vec::with_capacity(set.len());
        let mut ranks: Vec<(u32, usize)> =
            b.order.iter().enumerate().map(|(rank, (atom, _))| (*atom, rank)).collect();
        ranks.sort_unstable();
        for &atom in &set {
            let over = |&(budget, _): &(u32, u32)| {
                charged[budget as usize] > self.units.allowed[budget as usize]
            };
            let breaks = self.units.charges(atom as usize).iter().filter(|c| over(c)).count();
            let rank = ranks.binary_search_by_key(&atom, |(atom, _)| *atom);
            let rank = rank.map_or(usize::MAX, |at| ranks[at].1);
            order.push((breaks as u64, self.units.atoms[atom as usize].priority, rank, atom));
        }
        order.sort_unstable();
        let mut kept: Vec<bool> = vec![false; self.units.atoms.len()];
        for &atom in &set {
            kept[atom as usize] = true;
        }
        for &(_, _, _, atom) in order.iter().rev() {
            if !kept[atom as usize] {
                continue;
            }
            // What goes back: the unit, or the group that it fell with.
            kept[atom as usize] = false;
            let back = if self.units.has_guard(atom as usize) {
                let rest: Vec<u32> =
                    set.iter().copied().filter(|&atom| kept[atom as usize]).collect();
                let closed = self.units.closure(&rest, &mut self.marks);
                if closed.binary_search(&atom).is_ok() {
                    let siblings = self.units.fallen_with(atom, &kept);
                    for &sibling in &siblings {
                        kept[sibling as usize] = false;
                    }
                    siblings
                } else {
                    vec![atom]
                }
            } else {
                vec![atom]
            };
            for &atom in &back {
                if let Some(place) = b.arena.place_of(atom) {
                    counts.apply(b.arena, self.need, place, -1);
                }
            }
            if !counts.suffices(self.need) {
                for &atom in &back {
                    kept[atom as usize] = true;
                    if let Some(place) = b.arena.place_of(atom) {
                        counts.apply(b.arena, self.need, place, 1);
                    }
                }
            }
        }
        set.retain(|&atom| kept[atom as usize]);
        Some(self.units.closure(&set, &mut self.marks))
    }

    /// As much of a set as can go without taking along what may not, the best first.
    fn closed_part(&mut self, b: &Branching<'_>, set: &[u32]) -> Vec<u32> {
        let mut part: Vec<u32> = Vec::new();
        for &(atom, _) in b.order.iter().filter(|(atom, _)| set.contains(atom)) {
            if part.binary_search(&atom).is_ok() {
                continue;
            }
            let mut more = part.clone();
            more.push(atom);
            let closed = self.units.closure(&more, &mut self.marks);
            if closed.iter().all(|&atom| self.admits(b.level, atom)) {
                part = closed;
            }
        }
        part
    }

    /// The atoms on the nodes that cost least to clear, as many nodes as suffice.
    fn clear_nodes(&self, b: &Branching<'_>) -> Option<Vec<u32>> {
        let mut on_node: Vec<(u64, usize, Vec<u32>)> =
            (0..b.arena.rows.len()).map(|place| (0, place, Vec::new())).collect();
        for &(atom, place) in &b.order {
            let Some(place) = place else { continue };
            let nodes = b.arena.places_of(place).count().max(1) as u64;
            for node in b.arena.places_of(place) {
                let (work, _, atoms) = &mut on_node[node];
                *work = work.saturating_add(self.work[atom as usize].unwrap_or(0) / nodes);
                atoms.push(atom);
            }
        }
        on_node.sort_unstable_by_key(|(work, place, _)| (*work, *place));
        let mut counts = b.now.clone();
        let mut taken = Vec::new();
        for (_, _, atoms) in on_node {
            for atom in atoms {
                if taken.contains(&atom) {
                    continue;
                }
                taken.push(atom);
                if let Some(place) = b.arena.place_of(atom) {
                    counts.apply(b.arena, self.need, place, 1);
                }
            }
            if counts.suffices(self.need) {
                return Some(taken);
            }
        }
        None
    }

    /// Puts units of the best set back, one after another, as long as the group fits by the
    /// planner's word.
    fn put_back_by_trial(&mut self, b: &Branching<'_>) -> Result<(), PlaceError> {
        let Some(best) = &self.best else { return Ok(()) };
        let mut order: Vec<(i32, u64, u32)> = best
            .atoms
            .iter()
            .map(|&atom| {
                let work = self.work[atom as usize].unwrap_or(0);
                (self.units.atoms[atom as usize].priority, work, atom)
            })
            .collect();
        order.sort_unstable();
        for (_, _, atom) in order.into_iter().rev() {
            if self.steps < TRIAL_STEPS {
                break;
            }
            let Some(best) = &self.best else { break };
            let rest: Vec<u32> =
                best.atoms.iter().copied().filter(|&other| other != atom).collect();
            let closed = self.units.closure(&rest, &mut self.marks);
            if closed.binary_search(&atom).is_ok() || closed.is_empty() {
                continue;
            }
            self.steps -= TRIAL_STEPS;
            self.judge_set(closed, b.level)?;
        }
        Ok(())
    }
}

/// What lacks most, of amounts by share of what is needed; of members if no amount lacks.
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
    let kinds = 0..need.kinds.len();
    let worst = kinds.max_by_key(|&kind| (now.lacking(need, kind), core::cmp::Reverse(kind)));
    worst.map_or(Measure::Amount(0), Measure::Members)
}
