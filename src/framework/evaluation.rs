//! Evaluation of all nodes for one pod: the plain loop that everything faster is held to.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::builder::Framework;
use super::context::{Context, Feasible};
use super::counters::Counter;
use super::plugin::{PreparedScore, ScorePlugin, ScorePreparation};
use super::prepared::{PreparedFilters, PreparedPlugin, ReadyScore};
use super::traits::{Normalization, Verdict};
use crate::base::Time;
use crate::model::{PodGroup, PodShape};
use crate::state::{Cluster, NodeView, Row};

/// All plugins of a framework, prepared for one pod shape on a cluster as it is.
#[derive(Debug)]
pub struct Evaluation<'a> {
    framework: &'a Framework,
    pub(crate) base: Context<'a>,
    pub(crate) filters: PreparedFilters,
    pub(crate) scores: Vec<ReadyScore>,
}

/// Why a node is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// A filter's preparation left it out.
    Narrowed,
    /// A filter, by its place in the framework, refused the pod outright while preparing.
    Refused(usize, Verdict),
    /// A filter, by its place in the framework, rejected it.
    Filter(usize, Verdict),
}

/// The raw score of every node.
struct Constant(i64);

impl PreparedScore for Constant {
    fn score(&self, _: &Context<'_>, _: NodeView<'_>) -> i64 {
        self.0
    }
}

/// The scores that one plugin gave.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScoreColumn {
    /// The plugin's place among the framework's scores.
    pub plugin: usize,
    /// Normalised and weighted, one for each row that was passed in.
    pub scores: Vec<i64>,
}

impl<'a> Evaluation<'a> {
    /// Prepares all filters for a pod. Scores are prepared by [`Evaluation::score`].
    pub fn new(
        framework: &'a Framework,
        cluster: &'a Cluster,
        pod: &'a PodShape,
        group: Option<&'a PodGroup>,
        now: Time,
    ) -> Evaluation<'a> {
        let base = Context { group, now, ..Context::new(cluster, pod) };
        let filters = PreparedFilters::new(framework, &base, |_| true);
        Evaluation { framework, base, filters, scores: Vec::new() }
    }

    /// The filter that rejected every node while preparing, if one did.
    pub fn refused(&self) -> Option<(usize, Verdict)> {
        self.filters.rows.rejected()
    }

    /// Whether the pod can go to a node, or the first reason why not. A node that is not there is
    /// narrowed out.
    ///
    /// # Errors
    /// The pod cannot go there: the first reason.
    pub fn filter(&self, node: NodeView<'_>) -> Result<(), Rejection> {
        if let Some((plugin, verdict)) = self.refused() {
            return Err(Rejection::Refused(plugin, verdict));
        }
        if !self.filters.rows.includes(node.row()) {
            return Err(Rejection::Narrowed);
        }
        for prepared in &self.filters.filters {
            let verdict = prepared.prepared.filter(&prepared.context(self.base), node);
            if !verdict.passes() {
                return Err(Rejection::Filter(prepared.index, verdict));
            }
        }
        Ok(())
    }

    /// Scores feasible rows: what each plugin gives each row. Plugins that have nothing to say
    /// about the pod are left out.
    pub fn score(&mut self, feasible: &[Row]) -> Vec<ScoreColumn> {
        let base = self.base;
        self.scores.clear();
        for &index in self.framework.scores_for(base.pod) {
            let declaration = self.framework.scores()[index].1.declare(base.pod);
            let counters = Counter::of_declaration(&declaration, base.cluster, base.pod);
            let cx = Context { counters: &counters, ..base };
            let mut prepared = match self.framework.prepare_score(index, &cx) {
                ScorePreparation::Ready(prepared) => prepared,
                ScorePreparation::Constant(raw) => Box::new(Constant(raw)),
                ScorePreparation::Skip => continue,
            };
            if declaration.reads_feasible {
                prepared.observe_feasible(&cx, &Feasible::new(base.cluster, feasible));
            }
            self.scores.push(PreparedPlugin { index, prepared, counters });
        }
        self.scores
            .iter()
            .map(|prepared| {
                let (weight, score) = &self.framework.scores()[prepared.index];
                let cx = prepared.context(base);
                let raw = |&row| {
                    let node = base.cluster.view(row);
                    node.map_or(0, |node| prepared.prepared.score(&cx, node))
                };
                let mut scores: Vec<i64> = feasible.iter().map(raw).collect();
                normalize(&**score, &mut scores);
                for score in &mut scores {
                    *score *= weight;
                }
                ScoreColumn { plugin: prepared.index, scores }
            })
            .collect()
    }

    /// The sum of all scores for each feasible row.
    pub fn totals(&mut self, feasible: &[Row]) -> Vec<i64> {
        let mut totals = vec![0; feasible.len()];
        for column in self.score(feasible) {
            for (total, score) in totals.iter_mut().zip(column.scores) {
                *total += score;
            }
        }
        totals
    }
}

fn normalize(score: &dyn ScorePlugin, scores: &mut [i64]) {
    let normalization = score.normalization();
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    for &raw in scores.iter() {
        let counts = normalization != Normalization::Extremes || raw != Normalization::IGNORED;
        if counts {
            low = low.min(raw);
            high = high.max(raw);
        }
    }
    for raw in scores {
        *raw = normalization.apply(score, *raw, low, high);
    }
}
