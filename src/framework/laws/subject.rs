//! Filters and scores under test, behind one type.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::base::{RowSet, Time};
use crate::framework::block::Block;
use crate::framework::context::{Context, Feasible};
use crate::framework::counters::Counter;
use crate::framework::declaration::Declaration;
use crate::framework::device_choice::TightestFit;
use crate::framework::device_fit::choose_devices;
use crate::framework::grain::Grain;
use crate::framework::plugin::{
    Capacity, FilterPlugin, FilterPreparation, ScorePlugin, ScorePreparation,
};
use crate::framework::prepared::AnyPrepared;
use crate::framework::traits::{Normalization, Verdict};
use crate::model::{Pod, PodGroup, PodShape};
use crate::state::{
    Cluster, DeviceNeed, LabelKey, LabelValue, NodeView, PlacedPods, PodId, Row, StateError, Txn,
};

/// How many nodes are disturbed, at most.
const NODES: usize = 32;

/// Places a pod, on devices of the node if they serve it, else without any.
pub(super) fn put(txn: &mut Txn, pod: &Pod, row: Row) -> Result<PodId, StateError> {
    let shape = pod.shape();
    let needs = DeviceNeed::of(txn, shape);
    let chosen = choose_devices(&TightestFit, txn, shape, txn.view(row), &needs);
    txn.place_with(pod, row, chosen.unwrap_or(None))
}

/// The answer of a plugin for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing: it skips the pod.
    Absent,
    Verdict(Verdict),
    Score(i64),
}

impl Answer {
    pub(super) fn is_no(self) -> bool {
        matches!(self, Answer::Verdict(verdict) if !verdict.passes())
    }
}

/// A filter or a score.
pub(super) enum Subject {
    Filter(Arc<dyn FilterPlugin>),
    Score(Arc<dyn ScorePlugin>),
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        match self {
            Subject::Filter(filter) => (**filter).name(),
            Subject::Score(score) => (**score).name(),
        }
    }

    pub(super) fn declare(&self, pod: &PodShape) -> Declaration {
        match self {
            Subject::Filter(filter) => (**filter).declare(pod),
            Subject::Score(score) => (**score).declare(pod),
        }
    }

    fn prepare(&self, cx: &Context<'_>) -> Resolved {
        match self {
            Subject::Filter(filter) => match Arc::clone(filter).prepare(cx) {
                FilterPreparation::Skip => Resolved::Skipped,
                FilterPreparation::Reject(verdict) => Resolved::Rejected(verdict),
                FilterPreparation::Ready(filter) => {
                    Resolved::Prepared(AnyPrepared::Filter(filter), None)
                }
                FilterPreparation::Narrow(filter, rows) => {
                    Resolved::Prepared(AnyPrepared::Filter(filter), Some(rows))
                }
            },
            Subject::Score(score) => match Arc::clone(score).prepare(cx) {
                ScorePreparation::Skip => Resolved::Skipped,
                ScorePreparation::Constant(raw) => Resolved::Constant(raw),
                ScorePreparation::Ready(score) => {
                    Resolved::Prepared(AnyPrepared::Score(score), None)
                }
            },
        }
    }

    /// Normalised answers: 1 for a node that is let in.
    pub(super) fn outcomes(&self, answers: &[Answer]) -> Vec<i64> {
        let Subject::Score(score) = self else {
            return answers.iter().map(|answer| i64::from(!answer.is_no())).collect();
        };
        let normalization = (**score).normalization();
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for answer in answers {
            if let Answer::Score(raw) = *answer
                && (normalization != Normalization::Extremes || raw != Normalization::IGNORED)
            {
                (low, high) = (low.min(raw), high.max(raw));
            }
        }
        let outcome = |answer: &Answer| match *answer {
            Answer::Score(raw) => normalization.apply(&**score, raw, low, high),
            _ => 0,
        };
        answers.iter().map(outcome).collect()
    }
}

/// The meaning of a preparation for all nodes.
enum Resolved {
    /// The plugin has nothing to say about the pod.
    Skipped,
    /// Every node has this raw score.
    Constant(i64),
    /// The filter rejects every node.
    Rejected(Verdict),
    /// Nodes are judged one by one; a filter rejects those outside the rows, if any are given.
    Prepared(AnyPrepared, Option<RowSet>),
}

/// The answer for one node.
fn answer(prepared: &AnyPrepared, cx: &Context<'_>, node: NodeView<'_>) -> Answer {
    match prepared {
        AnyPrepared::Filter(filter) => Answer::Verdict(filter.filter(cx, node)),
        AnyPrepared::Score(score) => Answer::Score(score.score(cx, node)),
    }
}

/// Whether the answer for a block agrees with the answer for one of its nodes: one flag a row.
fn block_agrees(prepared: &AnyPrepared, cx: &Context<'_>, block: &Block<'_>) -> Vec<bool> {
    match prepared {
        AnyPrepared::Filter(filter) => {
            let one =
                |at| block.node(at).map(|node: NodeView<'_>| filter.filter(cx, node).passes());
            let ask = |before: i64| {
                let mut verdicts = vec![before; block.len()];
                filter.filter_block(cx, block, &mut verdicts);
                verdicts
            };
            // A row that failed before must stay so.
            let (fresh, failed) = (ask(0), ask(-1));
            let agrees = |at: usize| one(at).is_none_or(|passes| passes == (fresh[at] >= 0));
            (0..block.len()).map(|at| failed[at] < 0 && agrees(at)).collect()
        }
        AnyPrepared::Score(score) => {
            let mut scores = vec![i64::MIN + 1; block.len()];
            score.score_block(cx, block, &mut scores);
            let agrees = |(at, given): (usize, &i64)| {
                block.node(at).is_none_or(|node| score.score(cx, node) == *given)
            };
            scores.iter().enumerate().map(agrees).collect()
        }
    }
}

/// The question to a plugin, beside the cluster.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) pod: &'a PodShape,
    pub(super) group: Option<&'a PodGroup>,
    pub(super) now: Time,
    /// The rows in question; they also stand for the feasible nodes.
    pub(super) rows: &'a [Row],
    /// Whether what is prepared is to be kept.
    pub(super) kept: bool,
}

impl<'a> Question<'a> {
    pub(super) fn new(pod: &'a PodShape, rows: &'a [Row]) -> Question<'a> {
        Question { pod, group: None, now: Time::ZERO, rows, kept: false }
    }

    pub(super) fn context(self, cluster: &'a Cluster) -> Context<'a> {
        let (group, now, kept) = (self.group, self.now, self.kept.then_some(PlacedPods::NONE));
        Context { group, now, kept, ..Context::new(cluster, self.pod) }
    }
}

/// A plugin prepared for a pod.
pub(super) struct Ready {
    resolved: Resolved,
    counters: Vec<Counter>,
    reads_feasible: bool,
    /// No pod that comes or goes is shown to the plugin, as none changes what it prepared.
    lasting: bool,
}

impl Ready {
    pub(super) fn new(
        subject: &Subject,
        declaration: &Declaration,
        cluster: &Cluster,
        question: Question<'_>,
    ) -> Ready {
        let counters = Counter::of_declaration(declaration, cluster, question.pod);
        let cx = Context { counters: &counters, ..question.context(cluster) };
        let resolved = subject.prepare(&cx);
        let reads_feasible = declaration.reads_feasible;
        let lasting = declaration.is_pod_local();
        let mut ready = Ready { resolved, counters, reads_feasible, lasting };
        if reads_feasible {
            ready.observe_feasible(cluster, question, question.rows, &[]);
        }
        ready
    }

    /// Whether the plugin evaluates nodes at all.
    pub(super) fn is_prepared(&self) -> bool {
        matches!(self.resolved, Resolved::Prepared(..))
    }

    /// Whether preparation left the row in.
    pub(super) fn may_pass(&self, row: Row) -> bool {
        !matches!(&self.resolved, Resolved::Prepared(_, Some(only)) if !only.contains(row))
    }

    /// Whether the plugin skipped the pod.
    pub(super) fn skips(&self) -> bool {
        matches!(self.resolved, Resolved::Skipped)
    }

    /// Whether what is prepared can be brought up to date.
    pub(super) fn is_incremental(&mut self) -> bool {
        match &mut self.resolved {
            Resolved::Prepared(prepared, _) => prepared.incremental().is_some(),
            _ => false,
        }
    }

    /// The bounds on how many pods fit, if the plugin is a filter that sets some.
    pub(super) fn capacity(&self) -> Option<&dyn Capacity> {
        match &self.resolved {
            Resolved::Prepared(AnyPrepared::Filter(filter), _) => filter.capacity(),
            _ => None,
        }
    }

    /// How nodes are told apart, if what is prepared can be brought up to date.
    pub(super) fn classes(&mut self, cluster: &Cluster, question: Question<'_>) -> Option<Grain> {
        let cx = Context { counters: &self.counters, ..question.context(cluster) };
        let Resolved::Prepared(prepared, _) = &mut self.resolved else { return None };
        Some(prepared.incremental()?.classes(&cx))
    }

    /// The label values of nodes that a filter may reject, if it knows them.
    pub(super) fn rejects(
        &mut self,
        cluster: &Cluster,
        question: Question<'_>,
    ) -> Option<Vec<(LabelKey, LabelValue)>> {
        let cx = Context { counters: &self.counters, ..question.context(cluster) };
        let Resolved::Prepared(prepared, _) = &mut self.resolved else { return None };
        let mut values = Vec::new();
        let known =
            prepared.incremental()?.rejects(&cx, &mut |key, value| values.push((key, value)));
        known.then_some(values)
    }

    /// The answers for the rows in question, worked out last row first if `reversed`, but in order.
    pub(super) fn answers(
        &self,
        cluster: &Cluster,
        question: Question<'_>,
        reversed: bool,
    ) -> Vec<Answer> {
        let mut answers = vec![Answer::Absent; question.rows.len()];
        for step in 0..answers.len() {
            let at = if reversed { answers.len() - 1 - step } else { step };
            answers[at] = self.answer(cluster, question, question.rows[at]);
        }
        answers
    }

    fn answer(&self, cluster: &Cluster, question: Question<'_>, row: Row) -> Answer {
        match &self.resolved {
            Resolved::Skipped => Answer::Absent,
            Resolved::Constant(raw) => Answer::Score(*raw),
            Resolved::Rejected(verdict) => Answer::Verdict(*verdict),
            Resolved::Prepared(_, Some(only)) if !only.contains(row) => {
                Answer::Verdict(Verdict::Unschedulable)
            }
            Resolved::Prepared(prepared, _) => {
                let cx = self.context(cluster, question);
                cluster.view(row).map_or(Answer::Absent, |node| answer(prepared, &cx, node))
            }
        }
    }

    /// The answer for a node as it is shown; nothing where the plugin evaluates no nodes.
    pub(super) fn answer_shown(&self, cx: &Context<'_>, node: NodeView<'_>) -> Answer {
        match &self.resolved {
            Resolved::Prepared(prepared, _) => answer(prepared, cx, node),
            _ => Answer::Absent,
        }
    }

    /// Whether the answer for a block agrees with the answer for one of its nodes: one flag a row.
    pub(super) fn block_agrees(&self, cx: &Context<'_>, block: &Block<'_>) -> Vec<bool> {
        match &self.resolved {
            Resolved::Prepared(prepared, _) => block_agrees(prepared, cx, block),
            _ => vec![true; block.len()],
        }
    }

    /// The rows for which the answer of a block is another than that of the row.
    pub(super) fn disagreeing(&self, cluster: &Cluster, question: Question<'_>) -> Vec<Row> {
        let cx = self.context(cluster, question);
        let mut rows = Vec::new();
        for block in Block::all(cluster) {
            let agrees = self.block_agrees(&cx, &block);
            rows.extend(block.rows().zip(agrees).filter(|(_, agrees)| !agrees).map(|(row, _)| row));
        }
        rows
    }

    /// Brings what was prepared up to date: a pod came to a row, or it left.
    pub(super) fn change(
        &mut self,
        cluster: &Cluster,
        question: Question<'_>,
        placed: &PodShape,
        row: Row,
        came: bool,
    ) {
        let Some(node) = cluster.view(row) else { return };
        let sign = if came { 1 } else { -1 };
        for counter in &mut self.counters {
            counter.change(placed, node, question.pod, sign);
        }
        let cx = Context { counters: &self.counters, ..question.context(cluster) };
        if let Resolved::Prepared(prepared, _) = &mut self.resolved
            && let Some(incremental) = prepared.incremental().filter(|_| !self.lasting)
            && (!self.counters.is_empty() || incremental.concerned_by(&cx, placed))
        {
            if came {
                incremental.pod_added(&cx, placed, node);
            } else {
                incremental.pod_removed(&cx, placed, node);
            }
        }
        // A kept preparation observes the feasible nodes only when they have changed.
        if self.reads_feasible && !question.kept {
            self.observe_feasible(cluster, question, question.rows, &[]);
        }
    }

    /// Shows a score which nodes are feasible, each row for as many as `counts` says.
    pub(super) fn observe_feasible(
        &mut self,
        cluster: &Cluster,
        question: Question<'_>,
        rows: &[Row],
        counts: &[u32],
    ) {
        let cx = Context { counters: &self.counters, ..question.context(cluster) };
        if let Resolved::Prepared(AnyPrepared::Score(score), _) = &mut self.resolved {
            score.observe_feasible(&cx, &Feasible::classes(cluster, rows, counts));
        }
    }

    /// The context that the plugin is shown.
    pub(super) fn context<'a>(
        &'a self,
        cluster: &'a Cluster,
        question: Question<'a>,
    ) -> Context<'a> {
        Context { counters: &self.counters, ..question.context(cluster) }
    }
}

/// All rows in use, in the order of ties.
pub(super) fn rows(cluster: &Cluster) -> Vec<Row> {
    cluster.nodes().map(NodeView::row).collect()
}

/// The rows that are disturbed: all of them up to [`NODES`], else that many, evenly spaced.
pub(super) fn sample(rows: &[Row]) -> Vec<Row> {
    let step = rows.len().div_ceil(NODES).max(1);
    rows.iter().copied().step_by(step).collect()
}
