//! Feasible rows in order of total score, kept while single rows change.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::top_k::class_of;
use crate::base::tournament::Tournament;
use crate::framework::{Normalization, ScorePlugin};

/// The judgement of one feasible row: the sum of its plain scores, weighted, and the raw scores
/// that are normalised over all feasible rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawScores {
    pub(crate) plain: i64,
    pub(crate) raws: SmallVec<[i64; 4]>,
}

/// A score that is normalised over the feasible rows.
#[derive(Clone, Copy)]
pub(crate) struct Normalized<'a> {
    pub(crate) weight: i64,
    pub(crate) score: &'a dyn ScorePlugin,
}

/// Places with their keys: total score first, then the order of ties.
///
/// A place is feasible if its key is not 0. Normalisation is exact at all times: when a change
/// moves an extreme, all keys are computed again, which is O(places) without asking any plugin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranking {
    /// Lower is better; the low half of a key, reversed.
    ranks: Vec<u32>,
    /// By place; only if there are normalised scores.
    plain: Vec<i64>,
    /// By normalised score, then by place.
    raws: Vec<Vec<i64>>,
    extremes: Vec<Extremes>,
    tree: Tournament,
    census: Histogram,
    /// Whether places are in the order of ties.
    pub(crate) in_order: bool,
}

/// How many places are feasible, and how many of them have each total.
#[derive(Debug, Clone, Default)]
struct Histogram {
    feasible: usize,
    /// By the upper half of a key; empty until it is read first.
    totals: Vec<u32>,
    /// Whether a total was too large to be counted.
    is_wide: bool,
}

/// Totals below this are counted.
const TOTALS: usize = 4_096;

impl Histogram {
    fn change(&mut self, before: u64, after: u64) {
        self.feasible -= usize::from(before != 0);
        self.feasible += usize::from(after != 0);
        if !self.totals.is_empty() {
            self.count(before, u32::MAX);
            self.count(after, 1);
        }
    }

    /// Counts keys with this total in, or out if `by` is below zero, wrapped.
    fn count(&mut self, key: u64, by: u32) {
        let total = (key >> 32) as usize;
        if total >= TOTALS {
            self.is_wide = true;
            return;
        }
        if total >= self.totals.len() {
            self.totals.resize(total + 1, 0);
        }
        self.totals[total] = self.totals[total].wrapping_add(by);
    }

    /// Counts totals from now on; false if that is not possible.
    fn count_totals(&mut self, keys: &[u64]) -> bool {
        if self.totals.is_empty() && !self.is_wide {
            let high = keys.iter().fold(0, |high, key| high | key >> 32) as usize;
            if high >= TOTALS {
                self.is_wide = true;
                return false;
            }
            // In turn, so that neighbours that are alike do not wait for each other.
            let mut lanes = alloc::vec![[0_u32; 4]; high + 1];
            for keys in keys.chunks(4) {
                for (lane, key) in keys.iter().enumerate() {
                    lanes[(key >> 32) as usize][lane] += 1;
                }
            }
            self.totals.extend(lanes.iter().map(|lanes| lanes.iter().sum::<u32>()));
        }
        !self.is_wide
    }

    /// The least total among the `count` largest keys, as the upper half of a key, and how many
    /// keys with that total are among them. `None` if there are not so many.
    fn last_of(&self, count: usize) -> Option<(usize, usize)> {
        let (below, left) = class_of(self.totals.iter().skip(1).rev(), count)?;
        Some((self.totals.len() - 1 - below, left))
    }
}

/// The lowest and the highest raw score, and how many places have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extremes {
    low: i64,
    high: i64,
    at_low: u32,
    at_high: u32,
}

impl Extremes {
    pub(crate) const NONE: Extremes =
        Extremes { low: i64::MAX, high: i64::MIN, at_low: 0, at_high: 0 };

    pub(crate) fn add(&mut self, raw: i64) {
        if raw < self.low {
            (self.low, self.at_low) = (raw, 0);
        }
        if raw > self.high {
            (self.high, self.at_high) = (raw, 0);
        }
        self.at_low += u32::from(raw == self.low);
        self.at_high += u32::from(raw == self.high);
    }

    /// The lowest and the highest.
    pub(crate) fn ends(&self) -> (i64, i64) {
        (self.low, self.high)
    }

    /// Takes a value out; false if an extreme is lost and must be looked for.
    pub(crate) fn remove(&mut self, raw: i64) -> bool {
        self.at_low -= u32::from(raw == self.low && self.at_low > 0);
        self.at_high -= u32::from(raw == self.high && self.at_high > 0);
        self.at_low > 0 && self.at_high > 0
    }
}

impl Normalized<'_> {
    /// Whether a raw score takes part in the extremes.
    pub(crate) fn counts(&self, raw: i64) -> bool {
        self.score.normalization() != Normalization::Extremes || raw != Normalization::IGNORED
    }
}

/// The key of a feasible place.
#[inline]
pub(crate) fn key(total: i64, rank: u32) -> u64 {
    ((total as u64 + 1) << 32) | u64::from(!rank)
}

impl Ranking {
    /// Starts over with keys made elsewhere, for a framework without normalised scores.
    pub(crate) fn rebuild_plain(&mut self, fill: impl FnOnce(&mut Vec<u64>)) {
        self.ranks.clear();
        self.plain.clear();
        self.raws.clear();
        self.extremes.clear();
        self.tree.rebuild(fill);
        self.census = Histogram { feasible: self.tree.len_above_zero(), ..Histogram::default() };
        self.in_order = false;
    }

    /// Starts over with places of which none is feasible.
    pub(crate) fn rebuild_empty(
        &mut self,
        ranks: impl Iterator<Item = u32>,
        places: usize,
        normalized: usize,
    ) {
        self.rebuild_plain(|keys| keys.resize(places, 0));
        if normalized > 0 {
            self.ranks.extend(ranks);
            self.plain.resize(places, 0);
            self.raws.resize(normalized, alloc::vec![0; places]);
            self.extremes.resize(normalized, Extremes::NONE);
        }
    }

    /// Starts over with normalised scores. `ranks`, `plain` and each of `raws` are by place;
    /// `feasible` tells which places take part.
    pub(crate) fn rebuild_normalized(
        &mut self,
        normalized: &[Normalized<'_>],
        fill: impl FnOnce(&mut Vec<u32>, &mut Vec<i64>, &mut Vec<Vec<i64>>),
        feasible: impl Fn(usize) -> bool,
    ) {
        self.ranks.clear();
        self.plain.clear();
        self.raws.resize(normalized.len(), Vec::new());
        for column in &mut self.raws {
            column.clear();
        }
        fill(&mut self.ranks, &mut self.plain, &mut self.raws);
        let places = self.ranks.len();
        self.tree.rebuild(|keys| keys.extend((0..places).map(|place| u64::from(feasible(place)))));
        self.census = Histogram { feasible: self.tree.len_above_zero(), ..Histogram::default() };
        self.extremes.clear();
        self.extremes.resize(normalized.len(), Extremes::NONE);
        for index in 0..normalized.len() {
            self.extremes[index] = self.find_extremes(index, normalized);
        }
        self.make_keys(normalized);
    }

    /// Another ranking over some of the places, in the order given.
    pub(crate) fn subset(
        &self,
        into: &mut Ranking,
        places: impl Iterator<Item = usize> + Clone,
        normalized: &[Normalized<'_>],
    ) {
        if normalized.is_empty() {
            into.rebuild_plain(|keys| keys.extend(places.map(|place| self.tree.key(place))));
            return;
        }
        let alive: Vec<bool> = places.clone().map(|place| self.tree.key(place) != 0).collect();
        into.rebuild_normalized(
            normalized,
            |ranks, plain, raws| {
                ranks.extend(places.clone().map(|place| self.ranks[place]));
                plain.extend(places.clone().map(|place| self.plain[place]));
                for (column, own) in raws.iter_mut().zip(&self.raws) {
                    column.extend(places.clone().map(|place| own[place]));
                }
            },
            |place| alive[place],
        );
    }

    /// Adds places that are not feasible, up to so many in all.
    pub(crate) fn grow(&mut self, places: usize, rank: impl Fn(usize) -> u32) {
        self.tree.grow(places);
        if !self.raws.is_empty() {
            self.ranks.extend((self.ranks.len()..places).map(rank));
            self.plain.resize(places, 0);
            self.raws.iter_mut().for_each(|column| column.resize(places, 0));
        }
    }

    /// Gives a place another rank. Its key has to be computed again.
    pub(crate) fn set_rank(&mut self, place: usize, rank: u32) {
        if let Some(known) = self.ranks.get_mut(place) {
            *known = rank;
        }
    }

    /// Gives all places other ranks.
    pub(crate) fn set_ranks(
        &mut self,
        places: usize,
        rank: impl Fn(usize) -> u32,
        normalized: &[Normalized<'_>],
    ) {
        if !normalized.is_empty() {
            self.ranks.clear();
            self.ranks.extend((0..places).map(rank));
            self.make_keys(normalized);
            return;
        }
        let above = |key: u64, place: usize| {
            if key == 0 { 0 } else { key >> 32 << 32 | u64::from(!rank(place)) }
        };
        let keys: Vec<u64> = (0..places).map(|place| above(self.tree.key(place), place)).collect();
        self.tree.rebuild(|out| out.extend(keys));
    }

    /// The judgement of a place; `None` if it is not feasible.
    pub(crate) fn judgement(&self, place: usize) -> Option<RawScores> {
        let key = self.tree.key(place);
        if key == 0 {
            return None;
        }
        let plain = self.plain.get(place).copied().unwrap_or((key >> 32) as i64 - 1);
        Some(RawScores { plain, raws: self.raws.iter().map(|column| column[place]).collect() })
    }

    /// The place of the best total, first in the order of ties.
    #[inline]
    pub(crate) fn best(&mut self) -> Option<usize> {
        self.tree.best().map(|(place, _)| place)
    }

    /// The key of a place; 0 if it is not feasible.
    pub(crate) fn key(&self, place: usize) -> u64 {
        self.tree.key(place)
    }

    /// Whether a place is feasible.
    #[inline]
    pub(crate) fn is_feasible(&self, place: usize) -> bool {
        self.tree.key(place) != 0
    }

    /// Gives a place another judgement; `None` makes it infeasible.
    #[inline]
    pub(crate) fn set(
        &mut self,
        place: usize,
        rank: u32,
        judgement: Option<&RawScores>,
        normalized: &[Normalized<'_>],
    ) {
        if normalized.is_empty() {
            self.set_plain(place, judgement.map_or(0, |judgement| key(judgement.plain, rank)));
        } else {
            self.set_normalized(place, judgement, normalized);
        }
    }

    /// [`Ranking::set`], for a framework without normalised scores: the key, or 0.
    #[inline]
    pub(crate) fn set_plain(&mut self, place: usize, key: u64) {
        self.census.change(self.tree.key(place), key);
        self.tree.set(place, key);
    }

    /// Gives places other keys, for a framework without normalised scores.
    pub(crate) fn set_all(&mut self, changes: impl Iterator<Item = (usize, u64)>) {
        let (tree, census) = (&mut self.tree, &mut self.census);
        tree.set_all(changes, |before, after| census.change(before, after));
    }

    /// Calls `tell` with the places that have the best keys: with so many, or with all if there are
    /// not so many. Only without normalised scores. `order` has all places in the order of ties,
    /// where that is at hand and is not the order of places.
    ///
    /// With a tree O(count · log n), and with an `order` O(n) comparisons at most. With neither and
    /// places out of the order of ties, or with very large totals, some ten times O(count · log n).
    /// Without a tree O(n).
    pub(crate) fn top(
        &mut self,
        count: usize,
        spare: &mut Vec<u64>,
        order: Option<&[u32]>,
        mut tell: impl FnMut(u64, usize),
    ) {
        self.tree.ask();
        let ordered = self.in_order || order.is_some();
        let last = if ordered { self.last_of_few(count) } else { None };
        if !ordered || last.is_none() && !self.census.count_totals(self.tree.keys()) {
            let bound = self.tree.bound_of(count, spare);
            self.tree.visit(bound, |key, place| {
                tell(key, place);
                bound
            });
            return;
        }
        // Among those with the last total the first are better than the others.
        let last = last.or_else(|| self.census.last_of(count));
        let (total, mut left) = last.unwrap_or((1, usize::MAX));
        let (least, above) = ((total as u64) << 32, (total as u64 + 1) << 32);
        if let Some(order) = order {
            let keys = order.iter().map(|&place| self.tree.key(place as usize));
            let last = keys.filter(|key| key >> 32 == total as u64).take(left).last();
            let bound = last.unwrap_or(least);
            self.tree.visit(bound, |key, place| {
                tell(key, place);
                bound
            });
            return;
        }
        self.tree.visit(least, |key, place| {
            tell(key, place);
            left -= usize::from(key < above);
            if left == 0 { above } else { least }
        });
    }

    /// [`Histogram::last_of`], if few totals are above that one: found by a comparison of all keys
    /// for each, where no tree is there yet and totals are not counted.
    fn last_of_few(&self, count: usize) -> Option<(usize, usize)> {
        const FEW: usize = 6;
        if self.tree.is_built() || !self.census.totals.is_empty() {
            return None;
        }
        let high = (self.tree.largest() >> 32) as usize;
        if high >= TOTALS {
            return None;
        }
        let mut above = 0;
        for total in (1..=high).rev().take(FEW) {
            let there = self.tree.count_from((total as u64) << 32);
            if there >= count {
                return Some((total, count - above));
            }
            above = there;
        }
        None
    }

    /// How many places are feasible.
    pub(crate) fn feasible(&self) -> usize {
        self.census.feasible
    }

    fn set_normalized(
        &mut self,
        place: usize,
        judgement: Option<&RawScores>,
        normalized: &[Normalized<'_>],
    ) {
        let was_feasible = self.is_feasible(place);
        let mut moved = false;
        let mut lost = SmallVec::<[usize; 4]>::new();
        for (index, part) in normalized.iter().enumerate() {
            let before = self.extremes[index];
            let old = self.raws[index][place];
            let counted = |raw: i64| part.counts(raw);
            if was_feasible && counted(old) && !self.extremes[index].remove(old) {
                lost.push(index);
            }
            if let Some(judgement) = judgement {
                let new = judgement.raws[index];
                self.raws[index][place] = new;
                if counted(new) {
                    self.extremes[index].add(new);
                }
            }
            let after = self.extremes[index];
            moved |= (before.low, before.high) != (after.low, after.high);
        }
        if let Some(judgement) = judgement {
            self.plain[place] = judgement.plain;
        }
        self.census.change(self.tree.key(place), u64::from(judgement.is_some()));
        self.tree.set(place, u64::from(judgement.is_some()));
        for index in lost {
            let before = self.extremes[index];
            self.extremes[index] = self.find_extremes(index, normalized);
            let after = self.extremes[index];
            moved |= (before.low, before.high) != (after.low, after.high);
        }
        if moved {
            self.make_keys(normalized);
        } else if judgement.is_some() {
            self.tree.set(place, self.key_of(place, normalized));
        }
    }

    fn find_extremes(&self, index: usize, normalized: &[Normalized<'_>]) -> Extremes {
        let mut extremes = Extremes::NONE;
        for (place, &raw) in self.raws[index].iter().enumerate() {
            if self.is_feasible(place) && normalized[index].counts(raw) {
                extremes.add(raw);
            }
        }
        extremes
    }

    fn key_of(&self, place: usize, normalized: &[Normalized<'_>]) -> u64 {
        let mut total = self.plain[place];
        for (index, part) in normalized.iter().enumerate() {
            let Extremes { low, high, .. } = self.extremes[index];
            let normalization = part.score.normalization();
            total +=
                part.weight * normalization.apply(part.score, self.raws[index][place], low, high);
        }
        key(total, self.ranks[place])
    }

    fn make_keys(&mut self, normalized: &[Normalized<'_>]) {
        let keys: Vec<u64> = (0..self.ranks.len())
            .map(|place| if self.is_feasible(place) { self.key_of(place, normalized) } else { 0 })
            .collect();
        self.tree.rebuild(|out| out.extend(keys));
    }
}

#[cfg(test)]
mod tests;
