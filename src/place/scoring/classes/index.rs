//! Rows grouped into units; every row of a unit has the same verdict and score from all plugins
//! with domain reach.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::partition::Partitions;
use super::plugin::{ClassedPlugin, PASS};
use super::plugins::ClassedPlugins;
use super::ranking::ClassRanking;
use crate::framework::prepared::Plugin;
use crate::framework::{MAX_SCORE, Normalization};
use crate::place::scoring::ranking::{Normalized, RawScores};
use crate::place::scoring::tie_order::Ranks;
use crate::place::scoring::view::View;
use crate::state::Row;

/// No place, no unit.
const NONE: u32 = u32::MAX;
/// The local total of a row that node-local filters reject.
const OUT: i64 = i64::MIN;

/// Some rows, in units of those that the coarse stages do not tell apart.
///
/// A row's total is that of its leaf (from node-local plugins and fine stages) and that of its unit
/// (from coarse stages). So the best row of a unit is its best leaf, and a placement costs a
/// few leaves and a pass over the units.
#[derive(Debug, Default)]
pub(crate) struct ClassIndex {
    /// The number of the index among those of its plugins; 0 if it is not made.
    stamp: u64,
    layout: u64,
    /// The end of the planner's log that it accounts for.
    pub(crate) cursor: u64,
    /// By position, the row's number as the caller has it.
    places: Vec<u32>,
    /// By place.
    rows: Vec<u32>,
    unit_of: Vec<u32>,
    local: Vec<i64>,
    local_raws: Vec<Vec<i64>>,
    alive: Vec<bool>,
    leaves: ClassRanking,
    /// The first place of each unit, and the end.
    starts: Vec<u32>,
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

impl ClassIndex {
    /// Whether it is made for the plugins as they are.
    pub(crate) fn is_made(&self, plugins: &ClassedPlugins) -> bool {
        self.stamp != 0 && self.layout == plugins.layout
    }

    /// Starts over with rows by position.
    pub(crate) fn make(
        &mut self,
        plugins: &mut ClassedPlugins,
        view: View<'_>,
        partitions: &mut Partitions,
        positions: impl Iterator<Item = Row> + Clone,
        local_raws: usize,
    ) {
        plugins.indices += 1;
        self.stamp = plugins.indices;
        self.layout = plugins.layout;
        let column = partitions.of_grain(view.cluster, &plugins.grain());
        let mut units = alloc::vec![NONE; column.classes()];
        self.starts.clear();
        self.starts.push(0);
        let used = |row: &Row| view.cluster.view(*row).is_some();
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
            self.rows[place] = row.as_u32();
            self.unit_of[place] = unit as u32;
            self.places.push(place as u32);
        }
        reset(&mut self.local, count, OUT);
        self.local_raws.resize(local_raws, Vec::new());
        for column in &mut self.local_raws {
            reset(column, count, 0);
        }
        reset(&mut self.alive, count, false);
        let units = self.starts.len() - 1;
        reset(&mut self.counts, units, 0);
        reset(&mut self.passes, units, false);
        self.classes.clear();
        for stage in &plugins.stages {
            let first =
                |&start: &u32| stage.column.class(Row::from(self.rows[start as usize])) as u32;
            let coarse = !stage.is_fine();
            let classes = self.starts[..units].iter().filter(|_| coarse).map(first);
            self.classes.push(classes.collect());
        }
        self.seen.clear();
        self.seen.resize(plugins.stages.len(), (0, 0));
        self.dirty.clear();
        self.all_dirty = true;
    }

    /// Sets the raw scores of the row at a position by node-local plugins; `None` if they reject it.
    pub(crate) fn judge(&mut self, position: usize, judgement: Option<&RawScores>) {
        let place = self.places[position];
        if place == NONE {
            return;
        }
        let at = place as usize;
        self.local[at] = judgement.map_or(OUT, |judgement| judgement.plain);
        if let Some(judgement) = judgement {
            for (column, raw) in self.local_raws.iter_mut().zip(&judgement.raws) {
                column[at] = *raw;
            }
        }
        if !self.all_dirty {
            self.dirty.push(place);
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
        self.find_alive(plugins, view);
        self.find_passing(plugins, view);
        self.observe_feasible(plugins, view);
        self.see_fine(plugins, &position_of);
        self.compose(plugins, view, local, ranks);
        let unit = self.best_unit(plugins, view)?;
        self.leaves.forest.best(unit).map(|place| Row::from(self.rows[place]))
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
                let places =
                    rows.filter_map(|&row| Some(self.places[position_of(Row::from(row))?]));
                self.dirty.extend(places);
            }
            *seen = (stage.version, stage.stale.len());
        }
        if self.all_dirty {
            self.dirty.clear();
            self.dirty.extend(0..self.rows.len() as u32);
        }
    }

    /// Finds the marked leaves that node-local plugins and fine filters admit.
    fn find_alive(&mut self, plugins: &mut ClassedPlugins, view: View<'_>) {
        let ClassedPlugins { stages, rows, .. } = plugins;
        let fine = stages.iter_mut().filter(|stage| is_fine_filter(stage));
        let mut fine: SmallVec<[&mut ClassedPlugin; 2]> = fine.collect();
        for &place in &self.dirty {
            let place = place as usize;
            let row = Row::from(self.rows[place]);
            let mut alive = self.local[place] != OUT && rows.includes(row);
            for stage in &mut fine {
                alive = alive && stage.answer(view, stage.column.class(row)) == PASS;
            }
            if alive != self.alive[place] {
                self.alive[place] = alive;
                self.feasible += 1;
                let count = &mut self.counts[self.unit_of[place] as usize];
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
                let places = units.flat_map(|unit| self.starts[unit]..self.starts[unit + 1]);
                let alive = places.filter(|&place| self.alive[place as usize]);
                let rows = alive.map(|place| Row::from(self.rows[place as usize]));
                stage.observe_feasible(view, &rows.collect::<Vec<Row>>(), &[]);
            } else {
                let first = |unit: usize| Row::from(self.rows[self.starts[unit] as usize]);
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
            self.leaves.reset(&self.starts, parts.len());
        }
        for &place in &self.dirty {
            let place = place as usize;
            let unit = self.unit_of[place] as usize;
            if !self.alive[place] {
                self.leaves.set(unit, place, None, &parts);
                continue;
            }
            let row = Row::from(self.rows[place]);
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
        let rank = |place: usize| ranks.of(view.cluster, Row::from(self.rows[place]));
        self.leaves.settle(&parts, &self.passes, &self.unit_of, &self.dirty, self.all_dirty, rank);
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
