//! The keys of rows within their units.

use alloc::vec::Vec;

use super::max_trees::MaxTrees;
use crate::place::scoring::ranking::{Extremes, Normalized, RawScores, key};

/// The best of the leaves of each unit, and what it takes to keep normalised scores exact.
#[derive(Debug, Default)]
pub(crate) struct ClassRanking {
    pub(crate) forest: MaxTrees,
    leaves: Leaves,
    starts: Vec<u32>,
    /// By normalised score, then by unit.
    extremes: Vec<Vec<Extremes>>,
    /// Units whose extremes must be looked for, by normalised score.
    lost: Vec<(usize, usize)>,
    /// By normalised score: the extremes of units that pass.
    scale: Vec<(i64, i64)>,
    /// Grows when the scale moves.
    version: u64,
    /// By unit: the version of the scale that its keys are made with; 0 if they are not made. Of
    /// units that do not pass, raw scores may be beyond the extremes.
    made: Vec<u64>,
}

/// Judgements of rows, by place.
#[derive(Debug, Default)]
struct Leaves {
    plain: Vec<i64>,
    alive: Vec<bool>,
    /// By normalised score, then by place; empty without normalised scores.
    raws: Vec<Vec<i64>>,
}

impl ClassRanking {
    /// Starts over with leaves of which none is alive.
    pub(crate) fn reset(&mut self, starts: &[u32], normalized: usize) {
        let places = starts.last().map_or(0, |&end| end as usize);
        self.starts.clear();
        self.starts.extend_from_slice(starts);
        self.leaves.plain.clear();
        self.leaves.plain.resize(places, 0);
        self.leaves.alive.clear();
        self.leaves.alive.resize(places, false);
        self.leaves.raws.clear();
        self.leaves.raws.resize(normalized, alloc::vec![0; places]);
        self.extremes.clear();
        self.extremes.resize(normalized, alloc::vec![Extremes::NONE; starts.len() - 1]);
        self.lost.clear();
        self.scale.clear();
        self.made.clear();
        self.made.resize(starts.len() - 1, 0);
    }

    /// Sets the raw scores of a leaf; its key is made by [`ClassRanking::settle`].
    pub(crate) fn set(
        &mut self,
        unit: usize,
        place: usize,
        judgement: Option<RawScores>,
        parts: &[Normalized<'_>],
    ) {
        for (index, part) in parts.iter().enumerate() {
            let old = self.leaves.raws[index][place];
            let extremes = &mut self.extremes[index][unit];
            if self.leaves.alive[place] && part.counts(old) && !extremes.remove(old) {
                self.lost.push((index, unit));
            }
            if let Some(judgement) = &judgement {
                let new = judgement.raws[index];
                self.leaves.raws[index][place] = new;
                if part.counts(new) {
                    extremes.add(new);
                }
            }
        }
        self.leaves.alive[place] = judgement.is_some();
        if let Some(judgement) = judgement {
            self.leaves.plain[place] = judgement.plain;
        }
    }

    /// Makes the keys of changed leaves of units that pass, or of all where an extreme of those has
    /// moved. Units that do not pass have no root to go by.
    pub(crate) fn settle(
        &mut self,
        parts: &[Normalized<'_>],
        passes: &[bool],
        unit_of: &[u32],
        changed: &[u32],
        all: bool,
        rank: impl Fn(usize) -> u32,
    ) {
        for (index, unit) in self.lost.drain(..) {
            let mut extremes = Extremes::NONE;
            for place in self.starts[unit] as usize..self.starts[unit + 1] as usize {
                let raw = self.leaves.raws[index][place];
                if self.leaves.alive[place] && parts[index].counts(raw) {
                    extremes.add(raw);
                }
            }
            self.extremes[index][unit] = extremes;
        }
        let combined = |column: &Vec<Extremes>| {
            let passing = column.iter().zip(passes).filter(|(_, passes)| **passes);
            passing.fold((i64::MAX, i64::MIN), |(low, high), (extremes, _)| {
                let (lowest, highest) = extremes.ends();
                (low.min(lowest), high.max(highest))
            })
        };
        let moved = self.extremes.len() != self.scale.len()
            || self
                .extremes
                .iter()
                .zip(&self.scale)
                .any(|(column, scale)| combined(column) != *scale);
        if moved || self.version == 0 {
            self.scale = self.extremes.iter().map(combined).collect();
            self.version += 1;
        }
        let ClassRanking { forest, leaves, starts, made, scale, version, .. } = self;
        if all {
            forest.rebuild(starts, |keys| keys.resize(leaves.alive.len(), 0));
        }
        for &place in if all { &[] } else { changed } {
            let (place, unit) = (place as usize, unit_of[place as usize] as usize);
            let safe =
                passes[unit] || !leaves.alive[place] || leaves.is_within(place, parts, scale);
            if made[unit] == *version && safe {
                forest.set(unit, place, leaves.key_of(place, parts, scale, &rank));
            } else {
                made[unit] = 0;
            }
        }
        for unit in (0..passes.len()).filter(|&unit| passes[unit] || parts.is_empty()) {
            if made[unit] != *version {
                made[unit] = *version;
                forest.refill(unit, |place| leaves.key_of(place, parts, scale, &rank));
            }
        }
    }
}

impl Leaves {
    /// Whether the raw scores of a leaf are within the scale.
    fn is_within(&self, place: usize, parts: &[Normalized<'_>], scale: &[(i64, i64)]) -> bool {
        let mut columns = parts.iter().zip(&self.raws).zip(scale);
        columns.all(|((part, column), (low, high))| {
            let raw = column[place];
            !part.counts(raw) || (*low..=*high).contains(&raw)
        })
    }

    #[inline]
    fn key_of(
        &self,
        place: usize,
        parts: &[Normalized<'_>],
        scale: &[(i64, i64)],
        rank: &impl Fn(usize) -> u32,
    ) -> u64 {
        if !self.alive[place] {
            return 0;
        }
        let mut total = self.plain[place];
        for ((part, column), (low, high)) in parts.iter().zip(&self.raws).zip(scale) {
            let normalization = part.score.normalization();
            total += part.weight * normalization.apply(part.score, column[place], *low, *high);
        }
        key(total, rank(place))
    }
}
