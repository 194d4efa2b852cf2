//! Plugins prepared for one pod shape: the only place where a [`Preparation`] is interpreted.

use alloc::vec::Vec;

use super::block::Block;
use super::builder::Framework;
use super::context::{Context, Prepared};
use super::counters::Counter;
use super::declaration::Declaration;
use super::traits::{Preparation, Score, Verdict};
use crate::base::RowSet;
use crate::base::chunks::CHUNK;
use crate::model::PodShape;
use crate::state::{NodeView, Row};

/// The largest capacity of a node: pods of one shape are counted no further.
pub(crate) const MANY: i64 = 1 << 30;

/// A filter or a score, by its index in the framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    Filter(usize),
    Score(usize),
}

/// What a plugin's preparation means for all nodes.
#[derive(Debug)]
pub(crate) enum Resolved {
    /// The plugin has nothing to say about the pod.
    Skipped,
    /// Every node has this raw score.
    Constant(i64),
    /// The filter rejects every node.
    Rejected(Verdict),
    /// Nodes are evaluated one by one; a filter rejects those outside the rows, if any are given.
    Prepared(Prepared, Option<RowSet>),
}

/// A plugin that evaluates nodes for one pod shape.
#[derive(Debug)]
pub(crate) struct PreparedPlugin {
    /// Its index among the framework's filters, or among its scores.
    pub(crate) index: usize,
    pub(crate) prepared: Prepared,
    pub(crate) counters: Vec<Counter>,
}

/// The rows that the preparation of filters leaves.
#[derive(Debug, Default)]
pub(crate) struct AdmittedRows {
    /// `None` if no filter has narrowed them.
    only: Option<RowSet>,
    /// The last filter that rejected every node while preparing, by its index.
    rejected: Option<(usize, Verdict)>,
}

/// Filters of a framework that are prepared for one pod shape.
#[derive(Debug, Default)]
pub(crate) struct PreparedFilters {
    /// The filters that evaluate nodes.
    pub(crate) filters: Vec<PreparedPlugin>,
    pub(crate) rows: AdmittedRows,
}

impl Plugin {
    /// Every filter and score of a framework: filters first, each kind in order.
    pub(crate) fn all(framework: &Framework) -> impl Iterator<Item = Plugin> {
        let filters = (0..framework.filters().len()).map(Plugin::Filter);
        filters.chain((0..framework.scores().len()).map(Plugin::Score))
    }

    pub(crate) fn declare(self, framework: &Framework, shape: &PodShape) -> Declaration {
        match self {
            Plugin::Filter(index) => framework.filters()[index].declare(shape),
            Plugin::Score(index) => framework.scores()[index].1.declare(shape),
        }
    }

    /// The weight and the trait object of a score; `None` for a filter.
    #[inline]
    pub(crate) fn score(self, framework: &Framework) -> Option<(i64, &dyn Score)> {
        match self {
            Plugin::Filter(_) => None,
            Plugin::Score(index) => {
                let (weight, score) = &framework.scores()[index];
                Some((*weight, &**score))
            }
        }
    }

    /// Prepares the plugin for the pod of a context.
    pub(crate) fn prepare(self, framework: &Framework, cx: &Context<'_>) -> Resolved {
        match self {
            Plugin::Filter(index) => Resolved::of_filter(framework.filters()[index].prepare(cx)),
            Plugin::Score(index) => Resolved::of_score(framework.scores()[index].1.prepare(cx)),
        }
    }

    /// Whether the plugin skips the pod of a context.
    pub(crate) fn skips(self, framework: &Framework, cx: &Context<'_>) -> bool {
        matches!(self.prepare(framework, cx), Resolved::Skipped)
    }
}

impl Resolved {
    /// The meaning of a filter's preparation. A constant, which is for scores, means nothing.
    pub(crate) fn of_filter(preparation: Preparation) -> Resolved {
        match preparation {
            Preparation::Skip | Preparation::Constant(_) => Resolved::Skipped,
            Preparation::Ready(prepared) => Resolved::Prepared(prepared, None),
            Preparation::Narrow(prepared, rows) => Resolved::Prepared(prepared, Some(rows)),
            Preparation::Reject(verdict) => Resolved::Rejected(verdict),
        }
    }

    /// The meaning of a score's preparation. A score can neither reject nodes nor narrow them.
    pub(crate) fn of_score(preparation: Preparation) -> Resolved {
        match preparation {
            Preparation::Skip | Preparation::Reject(_) => Resolved::Skipped,
            Preparation::Constant(raw) => Resolved::Constant(raw),
            Preparation::Ready(prepared) | Preparation::Narrow(prepared, _) => {
                Resolved::Prepared(prepared, None)
            }
        }
    }
}

impl PreparedPlugin {
    /// A context in which the plugin finds what it prepared.
    #[inline]
    pub(crate) fn context<'b>(&'b self, cx: Context<'b>) -> Context<'b> {
        Context { prepared: &self.prepared, counters: &self.counters, ..cx }
    }
}

impl AdmittedRows {
    /// Adds what the preparation of a filter means. Returns what it prepared if it evaluates nodes.
    pub(crate) fn add(&mut self, filter: usize, resolved: Resolved) -> Option<Prepared> {
        match resolved {
            Resolved::Skipped | Resolved::Constant(_) => None,
            Resolved::Rejected(verdict) => {
                self.rejected = Some((filter, verdict));
                None
            }
            Resolved::Prepared(prepared, rows) => {
                match (&mut self.only, rows) {
                    (_, None) => {}
                    (Some(only), Some(rows)) => only.intersect(&rows),
                    (only, rows) => *only = rows,
                }
                Some(prepared)
            }
        }
    }

    /// The filter that rejects every node, if one does.
    #[inline]
    pub(crate) fn rejected(&self) -> Option<(usize, Verdict)> {
        self.rejected
    }

    /// Whether no filter has left a row out by narrowing.
    #[inline]
    pub(crate) fn includes(&self, row: Row) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(row))
    }

    /// Whether preparation leaves a row.
    #[inline]
    pub(crate) fn admits(&self, row: Row) -> bool {
        self.rejected.is_none() && self.includes(row)
    }
}

impl PreparedFilters {
    /// Prepares the filters whose declarations for the pod `suits` accepts, in order.
    ///
    /// A filter that rejects the pod for good is the last one prepared.
    pub(crate) fn new(
        framework: &Framework,
        cx: &Context<'_>,
        suits: impl Fn(&Declaration) -> bool,
    ) -> PreparedFilters {
        let mut all = PreparedFilters::default();
        for (index, filter) in framework.filters().iter().enumerate() {
            let declaration = filter.declare(cx.pod);
            if suits(&declaration) {
                all.add(framework, index, &declaration, cx);
            }
        }
        all
    }

    /// Prepares one more filter. Returns whether it evaluates nodes.
    pub(crate) fn add(
        &mut self,
        framework: &Framework,
        index: usize,
        declaration: &Declaration,
        cx: &Context<'_>,
    ) -> bool {
        if matches!(self.rows.rejected, Some((_, Verdict::Unresolvable))) {
            return false;
        }
        let counters = Counter::of_declaration(declaration, cx.cluster, cx.pod);
        let cx = Context { counters: &counters, ..*cx };
        let Some(prepared) = self.rows.add(index, Plugin::Filter(index).prepare(framework, &cx))
        else {
            return false;
        };
        self.filters.push(PreparedPlugin { index, prepared, counters });
        true
    }

    /// Whether a node passes all filters. `calls` grows by the filters that evaluate it.
    #[inline]
    pub(crate) fn passes(
        &self,
        framework: &Framework,
        cx: Context<'_>,
        node: NodeView<'_>,
        calls: &mut u64,
    ) -> bool {
        self.rows.admits(node.row())
            && self.filters.iter().all(|filter| {
                *calls += 1;
                framework.filters()[filter.index].filter(&filter.context(cx), node).passes()
            })
    }

    /// Makes the verdicts of a block negative where a filter rejects the row, or the row is not in
    /// use.
    pub(crate) fn filter_block(
        &self,
        framework: &Framework,
        cx: Context<'_>,
        block: &Block<'_>,
        verdicts: &mut [i64],
    ) {
        if self.rows.rejected.is_some() {
            verdicts.fill(-1);
        }
        if cx.cluster.node_count() != cx.cluster.rows() {
            reject_unless(verdicts, |at| block.node(at).is_some());
        }
        if let Some(only) = &self.rows.only {
            reject_unless(verdicts, |at| only.contains(block.row(at)));
        }
        for filter in &self.filters {
            framework.filters()[filter.index].filter_block(&filter.context(cx), block, verdicts);
        }
    }

    /// An upper bound on how many pods of the shape a node takes if it passes, at most [`MANY`].
    #[inline]
    pub(crate) fn room(&self, framework: &Framework, cx: Context<'_>, node: NodeView<'_>) -> i64 {
        self.filters.iter().fold(MANY, |room, filter| {
            room.min(framework.filters()[filter.index].room(&filter.context(cx), node))
        })
    }

    /// [`PreparedFilters::room`] of a block of rows.
    pub(crate) fn room_block(
        &self,
        framework: &Framework,
        cx: Context<'_>,
        block: &Block<'_>,
        room: &mut [i64],
    ) {
        room.fill(MANY);
        for filter in &self.filters {
            framework.filters()[filter.index].room_block(&filter.context(cx), block, room);
        }
    }

    /// How many pods of the shape a node takes that gets nothing else, as far as these filters say:
    /// 0 if it does not pass, else from 1 to [`MANY`].
    pub(crate) fn capacity(
        &self,
        framework: &Framework,
        cx: Context<'_>,
        node: NodeView<'_>,
    ) -> i64 {
        // A node that passes takes one pod, whatever the bound says.
        let passes = self.passes(framework, cx, node, &mut 0);
        if passes { self.room(framework, cx, node).max(1) } else { 0 }
    }

    /// Lowers the capacities of a block of rows to [`PreparedFilters::capacity`]. Rows that have
    /// none stay so without being evaluated.
    pub(crate) fn lower_capacity_block(
        &self,
        framework: &Framework,
        cx: Context<'_>,
        block: &Block<'_>,
        capacities: &mut [i64],
    ) {
        let mut verdicts = [0_i64; CHUNK];
        let verdicts = &mut verdicts[..block.len()];
        reject_unless(verdicts, |at| capacities[at] > 0);
        self.filter_block(framework, cx, block, verdicts);
        let mut room = [0_i64; CHUNK];
        let room = &mut room[..block.len()];
        self.room_block(framework, cx, block, room);
        for ((capacity, verdict), room) in capacities.iter_mut().zip(verdicts).zip(room) {
            *capacity = if *verdict < 0 { 0 } else { (*capacity).min((*room).max(1)) };
        }
    }
}

fn reject_unless(verdicts: &mut [i64], stays: impl Fn(usize) -> bool) {
    for (at, verdict) in verdicts.iter_mut().enumerate() {
        if !stays(at) {
            *verdict = -1;
        }
    }
}
