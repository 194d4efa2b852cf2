//! Rows in units: within a unit, what reads beyond the node says the same of every row.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::partition::Partitions;
use super::plugin::{ClassedPlugin, PASS, Plugin, View};
use super::plugins::ClassedPlugins;
use super::ranking::ClassRanking;
use crate::framework::{MAX_SCORE, Normalization};
use crate::place::scoring::ranking::{Normalized, RawScores};
use crate::state::Row;

/// No place, no unit.
const NONE: u32 = u32::MAX;
/// The near total of a row that near filters reject.
const OUT: i64 = i64::MIN;

/// Some rows, in units of those that the coarse stages do not tell apart.
///
/// A row's total is that of its leaf (what near plugins and fine stages say) and that of its unit
/// (what coarse stages say). So the best row of a unit is its best leaf, and a placement costs a
/// few leaves and a pass over the units.
#[derive(Debug, Default)]
pub(crate) struct ClassIndex {
    /// Which field of its company it is; 0 if it is not made.
    stamp: u64,
    layout: u64,
    /// Up to where of the planner's log of rows it is.
    pub(crate) cursor: u64,
    /// By position, the row's number as the caller has it.
    places: Vec<u32>,
    /// By place.
    rows: Vec<u32>,
    unit_of: Vec<u32>,
    near: Vec<i64>,
    near_raws: Vec<Vec<i64>>,
    alive: Vec<bool>,
    leaves: ClassRanking,
    /// The first place of each unit, and the end.
    starts: Vec<u32>,
    /// By unit: how many rows are alive, and whether coarse filters let them in.
    counts: Vec<u32>,
    passes: Vec<bool>,
    /// By stage, then by unit: the class of a coarse stage.
    classes: Vec<Vec<u32>>,
    /// By stage: what was seen of a fine stage's answers.
    seen: Vec<(u64, usize)>,
    /// Places to look at again.
    dirty: Vec<u32>,
    all_dirty: bool,
    /// Grows when other rows are feasible.
    feasible: u64,
    totals: Vec<i64>,
    raws: Vec<i64>,
}

impl ClassIndex {
    /// Whether it is made for the company as it is.
    pub(crate) fn is_made(&self, company: &ClassedPlugins) -> bool {
        self.stamp != 0 && self.layout == company.layout
    }

    /// Starts over with rows by position.
    pub(crate) fn make(
        &mut self,
        company: &mut ClassedPlugins,
        sight: View<'_>,
        columns: &mut Partitions,
        positions: impl Iterator<Item = Row> + Clone,
        near_raws: usize,
    ) {
        company.fields += 1;
        self.stamp = company.fields;
        self.layout = company.layout;
        let column = columns.of_grain(sight.cluster, &company.grain());
        let mut units = alloc::vec![NONE; column.classes()];
        self.starts.clear();
        self.starts.push(0);
        let used = |row: &Row| sight.cluster.view(*row).is_some();
        for row in positions.clone().filter(used) {
            let unit = &mut units[column.class(row)];
            if *unit == NONE {
                *unit = self.starts.len() as u32 - 1;
                self.starts.push(0);
            }
            self.starts[*unit as usize + 1] += 1;
        }
        for unit in 1..self.starts.len() {
            self.starts[unit] += self.starts[unit - 1];
        }
        let count = self.starts.last().map_or(0, |&end| end as usize);
        let mut next = self.starts.clone();
        reset(&mut self.rows, count, 0);
        reset(&mut self.unit_of, count, 0);
        self.places.clear();
        for row in positions {
            if !used(&row) {
                self.places.push(NONE);
                continue;
            }
            let unit = units[column.class(row)] as usize;
            let place = next[unit] as usize;
            next[unit] += 1;
            self.rows[place] = row as u32;
            self.unit_of[place] = unit as u32;
            self.places.push(place as u32);
        }
        reset(&mut self.near, count, OUT);
        self.near_raws.resize(near_raws, Vec::new());
        for column in &mut self.near_raws {
            reset(column, count, 0);
        }
        reset(&mut self.alive, count, false);
        let units = self.starts.len() - 1;
        reset(&mut self.counts, units, 0);
        reset(&mut self.passes, units, false);
        self.classes.clear();
        for stage in &company.stages {
            let first = |&start: &u32| stage.column.class(self.rows[start as usize] as Row) as u32;
            let coarse = !stage.is_fine();
            let classes = self.starts[..units].iter().filter(|_| coarse).map(first);
            self.classes.push(classes.collect());
        }
        self.seen.clear();
        self.seen.resize(company.stages.len(), (0, 0));
        self.dirty.clear();
        self.all_dirty = true;
    }

    /// Gives the row of a position another judgement by near plugins; `None` if they reject it.
    pub(crate) fn judge(&mut self, position: usize, judgement: Option<&RawScores>) {
        let place = self.places[position];
        if place == NONE {
            return;
        }
        let at = place as usize;
        self.near[at] = judgement.map_or(OUT, |judgement| judgement.plain);
        if let Some(judgement) = judgement {
            for (column, raw) in self.near_raws.iter_mut().zip(&judgement.raws) {
                column[at] = *raw;
            }
        }
        if !self.all_dirty {
            self.dirty.push(place);
        }
    }

    /// The row of the best total, first in the order of ties, with everything taken in that the
    /// company has. `seat_of` tells the position of a row.
    pub(crate) fn best(
        &mut self,
        company: &mut ClassedPlugins,
        sight: View<'_>,
        near: &[Normalized<'_>],
        seat_of: impl Fn(Row) -> Option<usize>,
    ) -> Option<Row> {
        if company.refused {
            return None;
        }
        self.see_fine(company, &seat_of);
        self.find_alive(company, sight);
        self.find_passing(company, sight);
        self.consider(company, sight);
        self.see_fine(company, &seat_of);
        self.compose(company, sight, near);
        let unit = self.best_unit(company, sight)?;
        self.leaves.forest.best(unit).map(|place| self.rows[place] as Row)
    }

    /// Marks the leaves that fine stages have changed.
    fn see_fine(&mut self, company: &ClassedPlugins, seat_of: &impl Fn(Row) -> Option<usize>) {
        for (stage, seen) in company.stages.iter().zip(&mut self.seen) {
            if !stage.is_fine() {
                continue;
            }
            if seen.0 != stage.version {
                self.all_dirty = true;
            } else if !self.all_dirty {
                let classes = stage.stale[seen.1..].iter();
                let rows = classes.flat_map(|&class| stage.column.rows(class as usize));
                let places = rows.filter_map(|&row| Some(self.places[seat_of(row as Row)?]));
                self.dirty.extend(places);
            }
            *seen = (stage.version, stage.stale.len());
        }
        if self.all_dirty {
            self.dirty.clear();
            self.dirty.extend(0..self.rows.len() as u32);
        }
    }

    /// Which of the marked leaves near plugins and fine filters let in.
    fn find_alive(&mut self, company: &mut ClassedPlugins, sight: View<'_>) {
        let ClassedPlugins { stages, only, .. } = company;
        for &place in &self.dirty {
            let place = place as usize;
            let row = self.rows[place] as Row;
            let passes =
                |stage: &mut ClassedPlugin| stage.answer(sight, stage.column.class(row)) == PASS;
            let alive = self.near[place] != OUT
                && only.as_ref().is_none_or(|only| only.contains(row))
                && stages.iter_mut().filter(|stage| is_fine_filter(stage)).all(passes);
            if alive != self.alive[place] {
                self.alive[place] = alive;
                self.feasible += 1;
                let count = &mut self.counts[self.unit_of[place] as usize];
                *count = if alive { *count + 1 } else { *count - 1 };
            }
        }
    }

    /// Which units coarse filters let in.
    fn find_passing(&mut self, company: &mut ClassedPlugins, sight: View<'_>) {
        for unit in 0..self.counts.len() {
            let mut stages = company.stages.iter_mut().zip(&self.classes);
            let passes = self.counts[unit] > 0
                && stages.all(|(stage, classes)| {
                    let fine = classes.is_empty();
                    let score = matches!(stage.plugin, Plugin::Score(_));
                    fine || score || stage.answer(sight, classes[unit] as usize) == PASS
                });
            self.feasible += u64::from(passes != self.passes[unit]);
            self.passes[unit] = passes;
        }
    }

    /// Tells scores that read them which rows are feasible, if those have changed.
    fn consider(&self, company: &mut ClassedPlugins, sight: View<'_>) {
        for (at, stage) in company.stages.iter_mut().enumerate() {
            if !stage.reads_feasible || stage.considered == (self.stamp, self.feasible) {
                continue;
            }
            stage.considered = (self.stamp, self.feasible);
            let units = (0..self.counts.len()).filter(|&unit| self.passes[unit]);
            if stage.is_fine() {
                let places = units.flat_map(|unit| self.starts[unit]..self.starts[unit + 1]);
                let alive = places.filter(|&place| self.alive[place as usize]);
                let rows = alive.map(|place| self.rows[place as usize] as Row);
                stage.consider(sight, &rows.collect::<Vec<Row>>(), &[]);
            } else {
                let first = |unit: usize| self.rows[self.starts[unit] as usize] as Row;
                debug_assert!(!self.classes[at].is_empty() || self.counts.is_empty());
                let rows: SmallVec<[Row; 16]> = units.clone().map(first).collect();
                let counts: SmallVec<[u32; 16]> = units.map(|unit| self.counts[unit]).collect();
                stage.consider(sight, &rows, &counts);
            }
        }
    }

    /// Makes the keys of marked leaves.
    fn compose(&mut self, company: &mut ClassedPlugins, sight: View<'_>, near: &[Normalized<'_>]) {
        let mut parts: SmallVec<[Normalized<'_>; 4]> = SmallVec::from_slice(near);
        for stage in company.stages.iter().filter(|stage| stage.is_fine()) {
            if let Some((weight, score)) = ClassedPlugin::score(sight.framework, stage.plugin)
                && score.normalization() != Normalization::None
            {
                parts.push(Normalized { weight, score });
            }
        }
        if self.all_dirty {
            self.leaves.reset(&self.starts, parts.len());
        }
        for &place in &self.dirty {
            let place = place as usize;
            let unit = self.unit_of[place] as usize;
            if !self.alive[place] {
                self.leaves.set(unit, place, None, &parts);
                continue;
            }
            let row = self.rows[place] as Row;
            let raws = self.near_raws.iter().map(|column| column[place]).collect();
            let mut leaf = RawScores { plain: self.near[place], raws };
            for stage in company.stages.iter_mut().filter(|stage| stage.is_fine()) {
                let Some((weight, score)) = ClassedPlugin::score(sight.framework, stage.plugin)
                else {
                    continue;
                };
                let raw = stage.answer(sight, stage.column.class(row));
                if score.normalization() == Normalization::None {
                    leaf.plain += weight * raw.clamp(0, MAX_SCORE);
                } else {
                    leaf.raws.push(raw);
                }
            }
            self.leaves.set(unit, place, Some(leaf), &parts);
        }
        let columns = &sight.cluster.columns;
        let rank = |place: usize| columns.rank[self.rows[place] as Row];
        self.leaves.settle(&parts, &self.passes, &self.unit_of, &self.dirty, self.all_dirty, rank);
        self.dirty.clear();
        self.all_dirty = false;
    }

    /// The unit with the best row.
    fn best_unit(&mut self, company: &mut ClassedPlugins, sight: View<'_>) -> Option<usize> {
        let units = self.counts.len();
        reset(&mut self.totals, units, 0);
        for (stage, classes) in company.stages.iter_mut().zip(&self.classes) {
            let Some((weight, score)) = ClassedPlugin::score(sight.framework, stage.plugin) else {
                continue;
            };
            if classes.is_empty() {
                continue;
            }
            reset(&mut self.raws, units, 0);
            let part = Normalized { weight, score };
            let (mut low, mut high) = (i64::MAX, i64::MIN);
            for (unit, &class) in classes.iter().enumerate() {
                if self.passes[unit] {
                    let raw = stage.answer(sight, class as usize);
                    self.raws[unit] = raw;
                    if part.counts(raw) {
                        (low, high) = (low.min(raw), high.max(raw));
                    }
                }
            }
            let normalization = score.normalization();
            for unit in (0..units).filter(|&unit| self.passes[unit]) {
                let share = normalization.apply(score, self.raws[unit], low, high);
                self.totals[unit] += weight * share;
            }
        }
        let mut best = (0, None);
        for unit in 0..units {
            if self.passes[unit] {
                let key = self.leaves.forest.root(unit) + ((self.totals[unit] as u64) << 32);
                if key > best.0 {
                    best = (key, Some(unit));
                }
            }
        }
        best.1
    }
}

fn is_fine_filter(stage: &ClassedPlugin) -> bool {
    matches!(stage.plugin, Plugin::Filter(_)) && stage.is_fine()
}

fn reset<T: Clone>(list: &mut Vec<T>, len: usize, value: T) {
    list.clear();
    list.resize(len, value);
}
