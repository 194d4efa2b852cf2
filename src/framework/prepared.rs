//! Plugins prepared for one pod shape: their verdicts, capacities and scores for rows.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::block::Block;
use super::builder::Framework;
use super::context::Context;
use super::counters::Counter;
use super::declaration::Declaration;
use super::plugin::{
    FilterPreparation, Incremental, PreparedFilter, PreparedScore, ScorePlugin, ScorePreparation,
};
use super::traits::Verdict;
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

/// A filter or a score that is prepared for one pod shape.
pub(crate) struct PreparedPlugin<P: ?Sized> {
    /// Its index among the framework's filters, or among its scores.
    pub(crate) index: usize,
    pub(crate) prepared: Box<P>,
    pub(crate) counters: Vec<Counter>,
}

pub(crate) type ReadyFilter = PreparedPlugin<dyn PreparedFilter>;
pub(crate) type ReadyScore = PreparedPlugin<dyn PreparedScore>;

/// The preparation of a filter or a score.
pub(crate) enum AnyPrepared {
    Filter(Box<dyn PreparedFilter>),
    Score(Box<dyn PreparedScore>),
}

impl AnyPrepared {
    /// Its updater, if it can be kept.
    #[inline]
    pub(crate) fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        match self {
            AnyPrepared::Filter(filter) => filter.incremental(),
            AnyPrepared::Score(score) => score.incremental(),
        }
    }
}

impl fmt::Debug for AnyPrepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AnyPrepared::Filter(_) => "Filter(..)",
            AnyPrepared::Score(_) => "Score(..)",
        })
    }
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
    pub(crate) filters: Vec<ReadyFilter>,
    pub(crate) rows: AdmittedRows,
}

impl Plugin {
    /// Every filter and score of a framework that concerns a pod: filters first, each kind in order.
    pub(crate) fn all<'f>(
        framework: &'f Framework,
        pod: &PodShape,
    ) -> impl Iterator<Item = Plugin> + use<'f> {
        let filters = framework.filters_for(pod).iter().copied().map(Plugin::Filter);
        filters.chain(framework.scores_for(pod).iter().copied().map(Plugin::Score))
    }

    pub(crate) fn declare(self, framework: &Framework, shape: &PodShape) -> Declaration {
        match self {
            Plugin::Filter(index) => framework.filters()[index].declare(shape),
            Plugin::Score(index) => framework.scores()[index].1.declare(shape),
        }
    }

    /// The weight and the trait object of a score; `None` for a filter.
    #[inline]
    pub(crate) fn score(self, framework: &Framework) -> Option<(i64, &dyn ScorePlugin)> {
        match self {
            Plugin::Filter(_) => None,
            Plugin::Score(index) => {
                let (weight, score) = &framework.scores()[index];
                Some((*weight, &**score))
            }
        }
    }

    /// Whether the plugin skips the pod of a context.
    pub(crate) fn skips(self, framework: &Framework, cx: &Context<'_>) -> bool {
        match self {
            Plugin::Filter(index) => {
                matches!(framework.prepare_filter(index, cx), FilterPreparation::Skip)
            }
            Plugin::Score(index) => {
                matches!(framework.prepare_score(index, cx), ScorePreparation::Skip)
            }
        }
    }
}

impl<P: ?Sized> PreparedPlugin<P> {
    /// A context in which the plugin finds its counters.
    #[inline]
    pub(crate) fn context<'b>(&'b self, cx: Context<'b>) -> Context<'b> {
        Context { counters: &self.counters, ..cx }
    }
}

impl<P: ?Sized> fmt::Debug for PreparedPlugin<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedPlugin").field("index", &self.index).finish_non_exhaustive()
    }
}

impl AdmittedRows {
    /// Adds what the preparation of a filter means. Returns what it prepared if it evaluates nodes.
    pub(crate) fn add(
        &mut self,
        filter: usize,
        preparation: FilterPreparation,
    ) -> Option<Box<dyn PreparedFilter>> {
        match preparation {
            FilterPreparation::Skip => None,
            FilterPreparation::Reject(verdict) => {
                self.rejected = Some((filter, verdict));
                None
            }
            FilterPreparation::Ready(prepared) => Some(prepared),
            FilterPreparation::Narrow(prepared, rows) => {
                match &mut self.only {
                    Some(only) => only.intersect(&rows),
                    only @ None => *only = Some(rows),
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

    /// Whether a filter has left rows out by narrowing.
    pub(crate) fn are_narrowed(&self) -> bool {
        self.only.is_some()
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
    /// Whether no node has to be evaluated: none is ruled out.
    pub(crate) fn takes_all(&self) -> bool {
        self.filters.is_empty() && self.rows.rejected.is_none() && self.rows.only.is_none()
    }

    /// Prepares the filters whose declarations for the pod `suits` accepts, in order.
    ///
    /// A filter that rejects the pod for good is the last one prepared.
    pub(crate) fn new(
        framework: &Framework,
        cx: &Context<'_>,
        suits: impl Fn(&Declaration) -> bool,
    ) -> PreparedFilters {
        let mut all = PreparedFilters::default();
        for &index in framework.filters_for(cx.pod) {
            let declaration = framework.filters()[index].declare(cx.pod);
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
        let Some(prepared) = self.rows.add(index, framework.prepare_filter(index, &cx)) else {
            return false;
        };
        self.filters.push(PreparedPlugin { index, prepared, counters });
        true
    }

    /// Whether a node passes all filters. `calls` grows by the filters that evaluate it.
    #[inline]
    pub(crate) fn passes(&self, cx: Context<'_>, node: NodeView<'_>, calls: &mut u64) -> bool {
        self.rows.admits(node.row())
            && self.filters.iter().all(|filter| {
                *calls += 1;
                filter.prepared.filter(&filter.context(cx), node).passes()
            })
    }

    /// Makes the verdicts of a block negative where a filter rejects the row, or the row is not in
    /// use.
    pub(crate) fn filter_block(&self, cx: Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
        if self.rows.rejected.is_some() {
            verdicts.fill(-1);
        }
        block.each_unused(|at| verdicts[at] = -1);
        if let Some(only) = &self.rows.only {
            reject_unless(verdicts, |at| only.contains(block.row(at)));
        }
        for filter in &self.filters {
            filter.prepared.filter_block(&filter.context(cx), block, verdicts);
        }
    }

    /// An upper bound on how many pods of the shape a node takes if it passes, at most [`MANY`].
    #[inline]
    pub(crate) fn room(&self, cx: Context<'_>, node: NodeView<'_>) -> i64 {
        self.filters.iter().fold(MANY, |room, filter| match filter.prepared.capacity() {
            Some(capacity) => room.min(capacity.of_node(&filter.context(cx), node)),
            None => room,
        })
    }

    /// [`PreparedFilters::room`] of a block of rows, 0 for rows that are not in use.
    pub(crate) fn room_block(&self, cx: Context<'_>, block: &Block<'_>, room: &mut [i64]) {
        room.fill(MANY);
        block.each_unused(|at| room[at] = 0);
        for filter in &self.filters {
            if let Some(capacity) = filter.prepared.capacity() {
                capacity.of_block(&filter.context(cx), block, room);
            }
        }
    }

    /// How many pods of the shape a node takes that gets nothing else, as far as these filters say:
    /// 0 if it does not pass, else from 1 to [`MANY`].
    pub(crate) fn capacity(&self, cx: Context<'_>, node: NodeView<'_>) -> i64 {
        // A node that passes takes one pod, whatever the bound says.
        let passes = self.passes(cx, node, &mut 0);
        if passes { self.room(cx, node).max(1) } else { 0 }
    }

    /// Lowers the capacities of a block of rows to [`PreparedFilters::capacity`]. Rows that have
    /// none stay so without being evaluated.
    pub(crate) fn lower_capacity_block(
        &self,
        cx: Context<'_>,
        block: &Block<'_>,
        capacities: &mut [i64],
    ) {
        let mut verdicts = [0_i64; CHUNK];
        let verdicts = &mut verdicts[..block.len()];
        reject_unless(verdicts, |at| capacities[at] > 0);
        self.filter_block(cx, block, verdicts);
        let mut room = [0_i64; CHUNK];
        let room = &mut room[..block.len()];
        self.room_block(cx, block, room);
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
