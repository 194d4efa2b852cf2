//! Rows grouped into units; every row of a unit has the same verdict and score from all plugins
//! with domain reach.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::partition::Partitions;
use super::plugin::{ClassedPlugin, PASS};
use super::plugins::ClassedPlugins;
use super::ranking::ClassRanking;
use super::units::{NONE, Units};
use crate::framework::prepared::Plugin;
use crate::framework::{MAX_SCORE, Normalization};
use crate::place::scoring::ranking::{Normalized, Ranking, RawScores};
use crate::place::scoring::tie_order::Ranks;
use crate::place::scoring::view::View;
use crate::state::Row;

/// The local total of a row that node-local filters reject.
const OUT: i64 = i64::MIN;

/// Some rows, in units of those that the coarse stages do not tell apart.
///
/// A row's total is that of its leaf (from node-local plugins and fine stages) and that of its unit
/// (from coarse stages). So the best row of a unit is its best leaf, and a placement costs a
/// few leaves and a pass over the units.
///
/// It is plain if no score of rows is normalised and no fine stage scores. Then the key of a leaf is
/// that of the shape's ranking, or 0 where a fine filter rejects the row.
#[derive(Debug, Default)]
pub(crate) struct ClassIndex {
    /// The number of the index among those of its plugins; 0 if it is not made.
    stamp: u64,
    layout: u64,
    /// The end of the planner's log that it accounts for.
    pub(crate) cursor: u64,
    units: Arc<Units>,
    plain: bool,
    /// By place, if it is plain: keys of node-local plugins.
    keys: Vec<u64>,
    /// By place, if it is not.
    local: Vec<i64>,
    local_raws: Vec<Vec<i64>>,
    alive: Vec<bool>,
    leaves: ClassRanking,
    /// By unit: how many rows are alive, and whether coarse filters admit them.
    counts: Vec<u32>,
    passes: Vec<bool>,
    /// By stage, then by unit: the class of a coarse stage.
    classes: Vec<Vec<u32>>,
    /// By stage: the version and the stale classes of a fine stage that are accounted for.
    seen: Vec<(u64, usize)>,
    /// Places to evaluate again.
    dirty: Vec<u32>,
    all_dirty: bool,
    /// Grows when other rows are feasible.
    feasible: u64,
    totals: Vec<i64>,
    raws: Vec<i64>,
}

/// The answer of node-local plugins for a row: its key, or its raw scores, `None` if one rejects it.
pub(crate) enum Said {
    Key(u64),
    Scores(Option<RawScores>),
}

impl ClassIndex {
    /// Whether it is made for the plugins as they are.
    pub(crate) fn is_made(&self, plugins: &ClassedPlugins) -> bool {
        self.stamp != 0 && self.layout == plugins.layout
    }

    /// Makes it void, and keeps the memory.
    pub(crate) fn forget(&mut self) {
        self.stamp = 0;
    }

    /// Starts over with some rows (`None`: all) by position, as a ranking has them.
    pub(crate) fn make(
        &mut self,
        plugins: &mut ClassedPlugins,
        view: View<'_>,
        partitions: &mut Partitions,
        (rows, ranking): (Option<&[Row]>, &Ranking),
        normalized: usize,
    ) {
        plugins.indices += 1;
        self.stamp = plugins.indices;
        self.layout = plugins.layout;
        self.plain = normalized == 0 && !plugins.has_fine_scores();
        let column = partitions.of_grain(view.cluster, &plugins.grain());
        match rows {
            None => self.units = Arc::clone(&column.units),
            Some(rows) => column.part(rows, Arc::make_mut(&mut self.units)),
        }
        let (count, units) = (self.units.rows.len(), self.units.len());
        if !self.plain {
            reset(&mut self.local, count, OUT);
            self.local_raws.resize(normalized, Vec::new());
            for column in &mut self.local_raws {
                reset(column, count, 0);
            }
            reset(&mut self.alive, count, false);
        }
        reset(&mut self.counts, units, 0);
        reset(&mut self.passes, units, false);
        self.classes.clear();
        for stage in &plugins.stages {
            let first = |unit| {
                let place = self.units.places(unit).next()?;
                Some(stage.column.class(Row::from(self.units.rows[place])) as u32)
            };
            let units = if stage.is_fine() { 0 } else { units };
            self.classes.push((0..units).map(|unit| first(unit).unwrap_or(0)).collect());
        }
        self.seen.clear();
        self.seen.resize(plugins.stages.len(), (0, 0));
        self.take_all(ranking);
    }

    /// Takes over what a ranking says of all rows.
    fn take_all(&mut self, ranking: &Ranking) {
        let units = Arc::clone(&self.units);
        let rows = units.rows.iter().map(|&row| row as usize);
        if self.plain {
            self.keys.clear();
            self.keys.extend(rows.map(|row| ranking.key(row)));
        } else {
            rows.enumerate().for_each(|(at, row)| self.set(at, ranking.judgement(row).as_ref()));
        }
        self.dirty.clear();
        self.all_dirty = true;
    }

    /// Takes over what a ranking of all rows says of those that have changed.
    pub(crate) fn take(&mut self, ranking: &Ranking, changed: &[u32]) {
        // A place costs less among its neighbours.
        if self.plain && 8 * changed.len() > self.keys.len() {
            self.take_all(ranking);
            return;
        }
        for &row in changed {
            let row = row as usize;
            self.judge(row, |plain| {
                if plain {
                    Said::Key(ranking.key(row))
                } else {
                    Said::Scores(ranking.judgement(row))
                }
            });
        }
    }

    /// Sets what node-local plugins say of the row at a position: a key if the index is plain, which
    /// `said` is told.
    pub(crate) fn judge(&mut self, position: usize, said: impl FnOnce(bool) -> Said) {
        let place = self.units.places[position];
        if place == NONE {
            return;
        }
        match said(self.plain) {
            Said::Key(key) => self.keys[place as usize] = key,
            Said::Scores(scores) => self.set(place as usize, scores.as_ref()),
        }
        if !self.all_dirty {
            self.dirty.push(place);
        }
    }

    fn set(&mut self, place: usize, judgement: Option<&RawScores>) {
        self.local[place] = judgement.map_or(OUT, |judgement| judgement.plain);
        if let Some(judgement) = judgement {
            for (column, raw) in self.local_raws.iter_mut().zip(&judgement.raws) {
                column[place] = *raw;
            }
        }
    }

    /// The row of the best total, first in the order of ties, by the plugins' latest answers.
    /// `position_of` gives the position of a row.
    pub(crate) fn best(
        &mut self,
        plugins: &mut ClassedPlugins,
        view: View<'_>,
        local: &[Normalized<'_>],
        ranks: &Ranks,
        position_of: impl Fn(Row) -> Option<usize>,
    ) -> Option<Row> {
        if plugins.rows.rejected().is_some() {
            return None;
        }
        self.see_fine(plugins, &position_of);
        if self.plain {
            self.find_leaves(plugins, view, &position_of);
        } else {
            self.find_alive(plugins, view);
        }
        self.find_passing(plugins, view);
        self.observe_feasible(plugins, view);
        if !self.plain {
            self.see_fine(plugins, &position_of);
            self.compose(plugins, view, local, ranks);
        }
        let unit = self.best_unit(plugins, view)?;
        self.leaves.forest.best(unit).map(|place| Row::from(self.units.rows[place]))
    }

    /// Marks the leaves that fine stages have changed.
    fn see_fine(&mut self, plugins: &ClassedPlugins, position_of: &impl Fn(Row) -> Option<usize>) {
        for (stage, seen) in plugins.stages.iter().zip(&mut self.seen) {
            if !stage.is_fine() {
                continue;
            }
            if seen.0 != stage.version {
                self.all_dirty = true;
            } else if !self.all_dirty {
                let classes = stage.stale[seen.1..].iter();
                let rows = classes.flat_map(|&class| stage.column.rows(class as usize));
                let places = &self.units.places;
                self.dirty
                    .extend(rows.filter_map(|&row| Some(places[position_of(Row::from(row))?])));
            }
            *seen = (stage.version, stage.stale.len());
        }
        if self.all_dirty && !self.plain {
            self.dirty.clear();
            self.dirty.extend(0..self.units.rows.len() as u32);
        }
    }

    /// Sets the keys of marked leaves if the index is plain: those that fine filters admit keep
    /// theirs.
    fn find_leaves(
        &mut self,
        plugins: &mut ClassedPlugins,
        view: View<'_>,
        position_of: &impl Fn(Row) -> Option<usize>,
    ) {
        let ClassIndex { units, keys, leaves, counts, dirty, feasible, .. } = self;
        let ClassedPlugins { stages, rows: admitted, .. } = plugins;
        let fine = stages.iter_mut().filter(|stage| stage.is_fine());
        let mut fine: SmallVec<[&mut ClassedPlugin; 2]> = fine.collect();
        let all = core::mem::take(&mut self.all_dirty);
        if all {
            // Rows that a fine filter may reject; mostly they are few.
            dirty.clear();
            let few = !admitted.are_narrowed()
                && fine.iter_mut().all(|stage| {
                    stage.rejects(view, |row| {
                        dirty.extend(position_of(row).map(|position| units.places[position]));
                    })
                });
            if !few {
                dirty.clear();
                dirty.extend(0..keys.len() as u32);
            }
        }
        let mut key_of = |place: usize| {
            let row = Row::from(units.rows[place]);
            let admits = keys[place] != 0
                && admitted.includes(row)
                && fine.iter_mut().all(|stage| stage.answer(view, stage.column.class(row)) == PASS);
            if admits { keys[place] } else { 0 }
        };
        let forest = &mut leaves.forest;
        if all {
            forest.rebuild(&units.starts, |all| {
                all.extend_from_slice(keys);
                dirty.drain(..).for_each(|place| all[place as usize] = key_of(place as usize));
            });
            for (unit, count) in counts.iter_mut().enumerate() {
                let alive = forest.keys(unit).iter().map(|key| u32::from(*key != 0));
                *count = alive.sum();
            }
            *feasible += 1;
        }
        for place in dirty.drain(..) {
            let (place, unit) = (place as usize, units.unit_of[place as usize] as usize);
            let (old, new) = (forest.key(place), key_of(place));
            counts[unit] = counts[unit] + u32::from(new != 0) - u32::from(old != 0);
            *feasible += u64::from((new != 0) != (old != 0));
            forest.set(unit, place, new);
        }
    }

    /// Finds the marked leaves that node-local plugins and fine filters admit.
    fn find_alive(&mut self, plugins: &mut ClassedPlugins, view: View<'_>) {
        let ClassedPlugins { stages, rows, .. } = plugins;
        let fine = stages.iter_mut().filter(|stage| is_fine_filter(stage));
        let mut fine: SmallVec<[&mut ClassedPlugin; 2]> = fine.collect();
        for &place in &self.dirty {
            let place = place as usize;
            let row = Row::from(self.units.rows[place]);
            let mut alive = self.local[place] != OUT && rows.includes(row);
            for stage in &mut fine {
                alive = alive && stage.answer(view, stage.column.class(row)) == PASS;
            }
            if alive != self.alive[place] {
                self.alive[place] = alive;
                self.feasible += 1;
                let count = &mut self.counts[self.units.unit_of[place] as usize];
                *count = if alive { *count + 1 } else { *count - 1 };
            }
        }
    }

    /// Finds the units that coarse filters admit.
    fn find_passing(&mut self, plugins: &mut ClassedPlugins, view: View<'_>) {
        for unit in 0..self.counts.len() {
            let mut stages = plugins.stages.iter_mut().zip(&self.classes);
            let passes = self.counts[unit] > 0
                && stages.all(|(stage, classes)| {
                    let fine = classes.is_empty();
                    let score = matches!(stage.plugin, Plugin::Score(_));
                    fine || score || stage.answer(view, classes[unit] as usize) == PASS
                });
            self.feasible += u64::from(passes != self.passes[unit]);
            self.passes[unit] = passes;
        }
    }

    /// Shows scores that read them which rows are feasible, if those have changed.
    fn observe_feasible(&self, plugins: &mut ClassedPlugins, view: View<'_>) {
        for (at, stage) in plugins.stages.iter_mut().enumerate() {
            if !stage.reads_feasible || stage.observed == (self.stamp, self.feasible) {
                continue;
            }
            stage.observed = (self.stamp, self.feasible);
            let units = (0..self.counts.len()).filter(|&unit| self.passes[unit]);
            if stage.is_fine() {
                let alive = units
                    .flat_map(|unit| self.units.places(unit))
                    .filter(|&place| self.alive[place]);
                let rows = alive.map(|place| Row::from(self.units.rows[place]));
                stage.observe_feasible(view, &rows.collect::<Vec<Row>>(), &[]);
            } else {
                let first =
                    |unit: usize| Row::from(self.units.rows[self.units.starts[unit] as usize]);
                debug_assert!(!self.classes[at].is_empty() || self.counts.is_empty());
                let rows: SmallVec<[Row; 16]> = units.clone().map(first).collect();
                let counts: SmallVec<[u32; 16]> = units.map(|unit| self.counts[unit]).collect();
                stage.observe_feasible(view, &rows, &counts);
            }
        }
    }

    /// Makes the keys of marked leaves.
    fn compose(
        &mut self,
        plugins: &mut ClassedPlugins,
        view: View<'_>,
        local: &[Normalized<'_>],
        ranks: &Ranks,
    ) {
        let mut parts: SmallVec<[Normalized<'_>; 4]> = SmallVec::from_slice(local);
        let mut fine: SmallVec<[(&mut ClassedPlugin, Normalized<'_>); 2]> = SmallVec::new();
        for stage in plugins.stages.iter_mut().filter(|stage| stage.is_fine()) {
            if let Some((weight, score)) = stage.plugin.score(view.framework) {
                let part = Normalized { weight, score };
                fine.push((stage, part));
                if score.normalization() != Normalization::None {
                    parts.push(part);
                }
            }
        }
        if self.all_dirty {
            self.leaves.reset(&self.units.starts, parts.len());
        }
        for &place in &self.dirty {
            let place = place as usize;
            let unit = self.units.unit_of[place] as usize;
            if !self.alive[place] {
                self.leaves.set(unit, place, None, &parts);
                continue;
            }
            let row = Row::from(self.units.rows[place]);
            let raws = self.local_raws.iter().map(|column| column[place]).collect();
            let mut leaf = RawScores { plain: self.local[place], raws };
            for (stage, Normalized { weight, score }) in &mut fine {
                let raw = stage.answer(view, stage.column.class(row));
                if score.normalization() == Normalization::None {
                    leaf.plain += *weight * raw.clamp(0, MAX_SCORE);
                } else {
                    leaf.raws.push(raw);
                }
            }
            self.leaves.set(unit, place, Some(leaf), &parts);
        }
        let units = &*self.units;
        let rank = |place: usize| ranks.of(view.cluster, Row::from(units.rows[place]));
        self.leaves.settle(&parts, &self.passes, &units.unit_of, &self.dirty, self.all_dirty, rank);
        self.dirty.clear();
        self.all_dirty = false;
    }

    /// The unit with the best row.
    fn best_unit(&mut self, plugins: &mut ClassedPlugins, view: View<'_>) -> Option<usize> {
        let units = self.counts.len();
        reset(&mut self.totals, units, 0);
        for (stage, classes) in plugins.stages.iter_mut().zip(&self.classes) {
            let Some((weight, score)) = stage.plugin.score(view.framework) else {
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
                    let raw = stage.answer(view, class as usize);
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
