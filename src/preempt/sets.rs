//! Sets that are judged: those of branching, and those found without it.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::arena::Counts;
use super::branch::{Best, Branching, Search, TRIAL_STEPS};
use super::cost::Cost;
use crate::place::PlaceError;

impl Search<'_, '_> {
    /// Judges what is taken. Returns whether the group fits; then it is the best set if it costs
    /// less.
    pub(super) fn judge(&mut self, b: &Branching<'_>) -> Result<bool, PlaceError> {
        let mut atoms = b.taken.clone();
        atoms.sort_unstable();
        self.judge_set(atoms, b.level.strict)
    }

    pub(super) fn judge_set(&mut self, atoms: Vec<u32>, strict: bool) -> Result<bool, PlaceError> {
        let cost = self.cost(&atoms);
        if strict && cost.budgets_broken > 0 {
            return Ok(false);
        }
        // A set that costs no less is of no use, whether it fits or not.
        if self.best.as_ref().is_some_and(|best| best.cost <= cost) {
            return Ok(true);
        }
        if !self.permits(&atoms) {
            return Ok(false);
        }
        let Some(plan) = self.trial.fits(self.units, &atoms, self.only)? else { return Ok(false) };
        self.best = Some(Best { cost, atoms, plan });
        Ok(true)
    }

    /// Sets found without branching, as bounds for it. False if the group does not fit even if
    /// everything in the domain goes that may.
    pub(super) fn first_sets(&mut self, b: &Branching<'_>) -> Result<bool, PlaceError> {
        let all: Vec<u32> = b.order.iter().map(|(atom, _)| *atom).collect();
        let mut helped = false;
        // All nodes, the worst units put back first; then the nodes that cost least to clear. Of one
        // node both are the same.
        let mut sets = vec![self.put_back(b, &all)];
        if self.only.is_none()
            && let Some(set) = self.clear_nodes(b)
        {
            sets.push(self.put_back(b, &set));
        }
        for set in sets.into_iter().flatten() {
            if self.cost(&set) == Cost::NOTHING && set.is_empty() {
                continue;
            }
            helped |= self.judge_set(set, b.level.strict)?;
        }
        if helped || !self.need.monotone {
            return Ok(true);
        }
        // By counting it fits, by the filters not: is there any hope?
        let closed = self.closure(&all);
        if closed.iter().any(|&atom| self.work[atom as usize].is_none()) {
            return Ok(true);
        }
        self.steps = self.steps.saturating_sub(TRIAL_STEPS);
        let Some(plan) = self.trial.fits(self.units, &closed, self.only)? else { return Ok(false) };
        let cost = self.cost(&closed);
        if !(b.level.strict && cost.budgets_broken > 0)
            && self.permits(&closed)
            && self.best.as_ref().is_none_or(|best| cost < best.cost)
        {
            self.best = Some(Best { cost, atoms: closed, plan });
        }
        self.put_back_by_trial()?;
        Ok(true)
    }

    /// A set that suffices by counting, and does no longer if one unit of it is put back; of a set
    /// that suffices. `None` if it cannot be closed.
    fn put_back(&mut self, b: &Branching<'_>, set: &[u32]) -> Option<Vec<u32>> {
        let whole = self.closure(set);
        let is_admitted = whole.iter().all(|&atom| self.admits(b.level, atom));
        let mut set =
            if is_admitted && self.may_begin(&whole) { whole } else { self.closed_part(b, set) };
        let mut counts = b.now.clone();
        for &atom in &set {
            counts.apply_atom(b.arena, self.need, atom, 1);
        }
        let is_enough =
            |atoms: &[u32]| self.rule.is_none_or(|rule| rule.suffices(atoms.iter().copied()));
        if !counts.suffices(self.need) || !is_enough(&set) {
            return None;
        }
        let charged = self.units.charged(&set);
        let mut order: Vec<(usize, i32, usize, u32)> = Vec::with_capacity(set.len());
        let mut ranks: Vec<(u32, usize)> =
            b.order.iter().enumerate().map(|(rank, (atom, _))| (*atom, rank)).collect();
        ranks.sort_unstable();
        for &atom in &set {
            let breaks = self.units.broken_by(atom as usize, &charged).count();
            let rank = ranks.binary_search_by_key(&atom, |(atom, _)| *atom);
            let rank = rank.map_or(usize::MAX, |at| ranks[at].1);
            order.push((breaks, self.units.atoms[atom as usize].priority, rank, atom));
        }
        order.sort_unstable();
        let mut kept: Vec<bool> = vec![false; self.units.atoms.len()];
        for &atom in &set {
            kept[atom as usize] = true;
        }
        let order: Vec<u32> = order.into_iter().rev().map(|own| own.3).collect();
        let rule = self.rule.filter(|rule| rule.has_lacks());
        let first = if rule.is_some() { 1 } else { order.len() };
        // More units that go never leave too little: if a stretch may go back, so may each of it.
        by_stretches(order.len(), first, |stretch| {
            let before = rule.map(|_| (kept.clone(), counts.clone()));
            for &atom in &order[stretch] {
                self.put_back_one(b, (atom, &set), &mut kept, &mut counts);
            }
            let left = set.iter().copied().filter(|&atom| kept[atom as usize]);
            let is_short = rule.is_some_and(|rule| !rule.suffices(left));
            if let Some(before) = before.filter(|_| is_short) {
                (kept, counts) = before;
            }
            !is_short
        });
        set.retain(|&atom| kept[atom as usize]);
        Some(self.closure(&set))
    }

    /// Puts a unit of a set back, or the group that it fell with, unless too little room is left.
    fn put_back_one(
        &mut self,
        b: &Branching<'_>,
        (atom, set): (u32, &[u32]),
        kept: &mut [bool],
        counts: &mut Counts,
    ) {
        if !core::mem::replace(&mut kept[atom as usize], false) {
            return;
        }
        let together = self.rule.and_then(|rule| rule.together(atom));
        let back = if let Some(all) = together {
            let back: Vec<u32> =
                all.iter().copied().filter(|&own| own == atom || kept[own as usize]).collect();
            for &own in &back {
                kept[own as usize] = false;
            }
            back
        } else if self.units.has_guard(atom as usize) {
            let rest: Vec<u32> = set.iter().copied().filter(|&atom| kept[atom as usize]).collect();
            let closed = self.closure(&rest);
            if closed.binary_search(&atom).is_ok() {
                let siblings = self.units.fallen_with(atom, kept);
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
            counts.apply_atom(b.arena, self.need, atom, -1);
        }
        if !counts.suffices(self.need) {
            for &atom in &back {
                kept[atom as usize] = true;
                counts.apply_atom(b.arena, self.need, atom, 1);
            }
        }
    }

    /// As much of a set as can go without taking along what may not, the best first.
    fn closed_part(&mut self, b: &Branching<'_>, set: &[u32]) -> Vec<u32> {
        let mut of_set = set.to_vec();
        of_set.sort_unstable();
        let order = b.order.iter().map(|(atom, _)| *atom);
        let order: Vec<u32> = order.filter(|atom| of_set.binary_search(atom).is_ok()).collect();
        let mut part: Vec<u32> = Vec::new();
        // Each part of a set that may yield may yield: if a stretch can go, so can each of it.
        by_stretches(order.len(), 1, |stretch| {
            let is_new = |atom: &&u32| part.binary_search(atom).is_err();
            let mut more = part.clone();
            more.extend(order[stretch].iter().filter(is_new));
            let closed = self.closure(&more);
            let is_admitted = closed.iter().all(|&atom| self.admits(b.level, atom));
            let can_go = is_admitted && self.may_begin(&closed);
            if can_go {
                part = closed;
            }
            can_go
        });
        part
    }

    /// The atoms on the nodes that cost least to clear, as many nodes as suffice.
    fn clear_nodes(&self, b: &Branching<'_>) -> Option<Vec<u32>> {
        let mut on_node: Vec<(u64, usize, Vec<u32>)> =
            (0..b.arena.ground.rows.len()).map(|place| (0, place, Vec::new())).collect();
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
        // A node that frees nothing is the first of those that cost nothing to clear, or changes nothing.
        let free = on_node.first().filter(|own| own.0 == 0).map(|own| own.1);
        if b.now.suffices(self.need) && b.arena.ground.begins_elsewhere(free) {
            return Some(Vec::new());
        }
        let mut counts = b.now.clone();
        let mut taken = Vec::new();
        for (_, _, atoms) in on_node {
            for atom in atoms {
                if taken.contains(&atom) {
                    continue;
                }
                taken.push(atom);
                counts.apply_atom(b.arena, self.need, atom, 1);
            }
            if counts.suffices(self.need) {
                return Some(taken);
            }
        }
        None
    }

    /// Puts units of the best set back, one after another, as long as the group fits by the
    /// planner's word: first what breaks budgets, then the highest priorities. No unit of what is
    /// left can stay alone.
    pub(super) fn put_back_by_trial(&mut self) -> Result<(), PlaceError> {
        let Some(best) = &self.best else { return Ok(()) };
        let cost = self.cost(&best.atoms);
        let mut order: Vec<(u64, i32, u64, u32)> = Vec::with_capacity(best.atoms.len());
        for &atom in &best.atoms {
            let work = self.work[atom as usize].unwrap_or(0);
            let without: Vec<u32> =
                best.atoms.iter().copied().filter(|&other| other != atom).collect();
            let breaks = cost.budgets_broken.saturating_sub(self.cost(&without).budgets_broken);
            order.push((breaks, self.units.atoms[atom as usize].priority, work, atom));
        }
        order.sort_unstable();
        for (_, _, _, atom) in order.into_iter().rev() {
            let Some(best) = &self.best else { break };
            let together = self.rule.and_then(|rule| rule.together(atom));
            let back = together.unwrap_or(core::slice::from_ref(&atom));
            let rest: Vec<u32> =
                best.atoms.iter().copied().filter(|other| !back.contains(other)).collect();
            let strict = self.cost(&best.atoms).budgets_broken == 0;
            let closed = self.closure(&rest);
            if closed.binary_search(&atom).is_ok() || closed.is_empty() {
                continue;
            }
            self.judge_set(closed, strict)?;
        }
        Ok(())
    }
}

/// Goes through places from the first to the last in stretches that are taken as a whole. A stretch
/// that is not taken is halved, down to one place, which is passed over; after one that is taken the
/// next is twice as long. O(refused · log places) calls.
fn by_stretches(count: usize, first: usize, mut takes: impl FnMut(Range<usize>) -> bool) {
    let (mut at, mut length) = (0, first.max(1));
    while at < count {
        let end = at.saturating_add(length).min(count);
        if takes(at..end) {
            (at, length) = (end, length.saturating_mul(2));
        } else {
            at += usize::from(end - at == 1);
            length = ((end - at) / 2).max(1);
        }
    }
}
