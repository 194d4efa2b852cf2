//! Evaluation of all nodes for one pod: the plain loop that everything faster is held to.

use alloc::vec;
use alloc::vec::Vec;

use super::builder::Framework;
use super::context::{Context, Feasible, Prepared};
use super::counters::Counter;
use super::traits::{Normalization, Preparation, Score, Verdict};
use crate::base::{RowSet, Time};
use crate::model::{PodGroup, PodShape};
use crate::state::{Cluster, NodeView, Row};

/// A plugin made ready for one pod shape.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Its place in the framework.
    pub(crate) plugin: usize,
    pub(crate) prepared: Prepared,
    pub(crate) counters: Vec<Counter>,
}

/// All plugins of a framework, made ready for one pod shape on a cluster as it is.
#[derive(Debug)]
pub struct Evaluation<'a> {
    framework: &'a Framework,
    pub(crate) base: Context<'a>,
    pub(crate) filters: Vec<Stage>,
    pub(crate) scores: Vec<Stage>,
    /// The rows that preparation left, if it left out any.
    only: Option<RowSet>,
    /// The filter that refused the pod outright while preparing.
    refused: Option<(usize, Verdict)>,
}

/// Why a node is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// The scores that one plugin gave.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        let mut evaluation = Evaluation {
            framework,
            base,
            filters: Vec::new(),
            scores: Vec::new(),
            only: None,
            refused: None,
        };
        for (plugin, filter) in framework.filters().iter().enumerate() {
            let declaration = filter.declare(pod);
            let counters = Counter::of_declaration(&declaration, cluster, pod);
            match filter.prepare(&Context { counters: &counters, ..base }) {
                Preparation::Skip | Preparation::Constant(_) => {}
                Preparation::Ready(prepared) => {
                    evaluation.filters.push(Stage { plugin, prepared, counters });
                }
                Preparation::Narrow(prepared, rows) => {
                    match &mut evaluation.only {
                        Some(only) => only.intersect(&rows),
                        only => *only = Some(rows),
                    }
                    evaluation.filters.push(Stage { plugin, prepared, counters });
                }
                // A pod refused for good is refused at once; otherwise the last refusal counts.
                Preparation::Reject(verdict) => {
                    evaluation.refused = Some((plugin, verdict));
                    if verdict == Verdict::Unresolvable {
                        break;
                    }
                }
            }
        }
        evaluation
    }

    /// The filter that refused the pod outright, if one did.
    pub fn refused(&self) -> Option<(usize, Verdict)> {
        self.refused
    }

    /// Whether the pod can go to a node, or the first reason why not. A node that is not there is
    /// narrowed out.
    ///
    /// # Errors
    /// The pod cannot go there: the first reason.
    pub fn filter(&self, node: NodeView<'_>) -> Result<(), Rejection> {
        if let Some((plugin, verdict)) = self.refused {
            return Err(Rejection::Refused(plugin, verdict));
        }
        if self.only.as_ref().is_some_and(|only| !only.contains(node.row())) {
            return Err(Rejection::Narrowed);
        }
        for stage in &self.filters {
            let filter = &self.framework.filters()[stage.plugin];
            let verdict = filter.filter(&self.context(stage), node);
            if !verdict.passes() {
                return Err(Rejection::Filter(stage.plugin, verdict));
            }
        }
        Ok(())
    }

    /// Scores feasible rows: what each plugin gives each row. Plugins that have nothing to say
    /// about the pod are left out.
    pub fn score(&mut self, feasible: &[Row]) -> Vec<ScoreColumn> {
        let base = self.base;
        self.scores.clear();
        for (plugin, (_, score)) in self.framework.scores().iter().enumerate() {
            let declaration = score.declare(base.pod);
            let counters = Counter::of_declaration(&declaration, base.cluster, base.pod);
            let cx = Context { counters: &counters, ..base };
            let mut prepared = match score.prepare(&cx) {
                Preparation::Ready(prepared) | Preparation::Narrow(prepared, _) => prepared,
                Preparation::Constant(raw) => Prepared::new(Constant(raw)),
                Preparation::Skip | Preparation::Reject(_) => continue,
            };
            if declaration.reads_feasible {
                score.consider(&mut prepared, &cx, &Feasible::new(base.cluster, feasible));
            }
            self.scores.push(Stage { plugin, prepared, counters });
        }
        self.scores
            .iter()
            .map(|stage| {
                let (weight, score) = &self.framework.scores()[stage.plugin];
                let cx = self.context(stage);
                let constant = stage.prepared.value::<Constant>();
                let raw = |&row| match constant {
                    Some(Constant(raw)) => *raw,
                    None => base.cluster.view(row).map_or(0, |node| score.score(&cx, node)),
                };
                let mut scores: Vec<i64> = feasible.iter().map(raw).collect();
                normalize(&**score, &cx, &mut scores);
                for score in &mut scores {
                    *score *= weight;
                }
                ScoreColumn { plugin: stage.plugin, scores }
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

    fn context<'b>(&'b self, stage: &'b Stage) -> Context<'b> {
        Context { prepared: &stage.prepared, counters: &stage.counters, ..self.base }
    }
}

fn normalize(score: &dyn Score, cx: &Context<'_>, scores: &mut [i64]) {
    let normalization = score.normalization();
    if normalization == Normalization::Own {
        score.normalize(cx, scores);
    }
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
