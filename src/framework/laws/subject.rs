//! Filters and scores under test, behind one trait.

use alloc::vec;
use alloc::vec::Vec;

use crate::base::Time;
use crate::framework::block::Block;
use crate::framework::context::{Context, Feasible, Prepared};
use crate::framework::counters::Counter;
use crate::framework::declaration::Declaration;
use crate::framework::device_choice::TightestFit;
use crate::framework::device_fit::choose_devices;
use crate::framework::grain::Grain;
use crate::framework::prepared::Resolved;
use crate::framework::traits::{Filter, Normalization, Score, Verdict};
use crate::model::{Pod, PodGroup, PodShape};
use crate::state::{Cluster, DeviceNeed, NodeView, PodId, Row, StateError, Txn};

/// How many nodes are disturbed, at most.
const NODES: usize = 32;

/// Places a pod, on devices of the node if they serve it, else without any.
pub(super) fn put(txn: &mut Txn, pod: &Pod, row: Row) -> Result<PodId, StateError> {
    let shape = pod.shape();
    let needs = DeviceNeed::of(txn, shape);
    let chosen = choose_devices(&TightestFit, txn, shape, txn.view(row), &needs);
    txn.place_with(pod, row, chosen.unwrap_or(None))
}

/// What a plugin says of a node.
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
pub(super) trait Subject {
    fn name(&self) -> &str;
    fn declare(&self, pod: &PodShape) -> Declaration;
    fn prepare(&self, cx: &Context<'_>) -> Resolved;
    fn consider(&self, prepared: &mut Prepared, cx: &Context<'_>, feasible: &Feasible<'_>);
    fn answer(&self, cx: &Context<'_>, node: NodeView<'_>) -> Answer;
    /// Whether the answer for a block agrees with the answer for one of its nodes: one flag a row.
    fn block_agrees(&self, cx: &Context<'_>, block: &Block<'_>) -> Vec<bool>;
    fn take(&self, prepared: &mut Prepared, cx: &Context<'_>, placed: &PodShape, on: NodeView<'_>);
    fn undo(&self, prepared: &mut Prepared, cx: &Context<'_>, placed: &PodShape, on: NodeView<'_>);
    fn grain(&self, cx: &Context<'_>) -> Option<Grain>;
    /// What raw answers come to, once normalised: 1 for a node that is let in.
    fn outcomes(&self, answers: &[Answer]) -> Vec<i64>;
}

pub(super) struct FilterSubject<'a>(pub(super) &'a dyn Filter);

impl Subject for FilterSubject<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        self.0.declare(pod)
    }

    fn prepare(&self, cx: &Context<'_>) -> Resolved {
        Resolved::of_filter(self.0.prepare(cx))
    }

    fn consider(&self, _: &mut Prepared, _: &Context<'_>, _: &Feasible<'_>) {}

    fn answer(&self, cx: &Context<'_>, node: NodeView<'_>) -> Answer {
        Answer::Verdict(self.0.filter(cx, node))
    }

    fn block_agrees(&self, cx: &Context<'_>, block: &Block<'_>) -> Vec<bool> {
        let one = |at| block.node(at).map(|node: NodeView<'_>| self.0.filter(cx, node).passes());
        let ask = |before: i64| {
            let mut verdicts = vec![before; block.len()];
            self.0.filter_block(cx, block, &mut verdicts);
            verdicts
        };
        // A row that failed before must stay so.
        let (fresh, failed) = (ask(0), ask(-1));
        (0..block.len())
            .map(|at| failed[at] < 0 && one(at).is_none_or(|passes| passes == (fresh[at] >= 0)))
            .collect()
    }

    fn take(&self, prepared: &mut Prepared, cx: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        self.0.take(prepared, cx, placed, on);
    }

    fn undo(&self, prepared: &mut Prepared, cx: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        self.0.undo(prepared, cx, placed, on);
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        self.0.grain(cx)
    }

    fn outcomes(&self, answers: &[Answer]) -> Vec<i64> {
        answers.iter().map(|answer| i64::from(!answer.is_no())).collect()
    }
}

pub(super) struct ScoreSubject<'a>(pub(super) &'a dyn Score);

impl Subject for ScoreSubject<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        self.0.declare(pod)
    }

    fn prepare(&self, cx: &Context<'_>) -> Resolved {
        Resolved::of_score(self.0.prepare(cx))
    }

    fn consider(&self, prepared: &mut Prepared, cx: &Context<'_>, feasible: &Feasible<'_>) {
        self.0.consider(prepared, cx, feasible);
    }

    fn answer(&self, cx: &Context<'_>, node: NodeView<'_>) -> Answer {
        Answer::Score(self.0.score(cx, node))
    }

    fn block_agrees(&self, cx: &Context<'_>, block: &Block<'_>) -> Vec<bool> {
        let mut scores = vec![i64::MIN + 1; block.len()];
        self.0.score_block(cx, block, &mut scores);
        let agrees = |(at, score): (usize, &i64)| {
            block.node(at).is_none_or(|node| self.0.score(cx, node) == *score)
        };
        scores.iter().enumerate().map(agrees).collect()
    }

    fn take(&self, prepared: &mut Prepared, cx: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        self.0.take(prepared, cx, placed, on);
    }

    fn undo(&self, prepared: &mut Prepared, cx: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        self.0.undo(prepared, cx, placed, on);
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        self.0.grain(cx)
    }

    fn outcomes(&self, answers: &[Answer]) -> Vec<i64> {
        let normalization = self.0.normalization();
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for answer in answers {
            if let Answer::Score(raw) = *answer
                && (normalization != Normalization::Extremes || raw != Normalization::IGNORED)
            {
                (low, high) = (low.min(raw), high.max(raw));
            }
        }
        let outcome = |answer: &Answer| match *answer {
            Answer::Score(raw) => normalization.apply(self.0, raw, low, high),
            _ => 0,
        };
        answers.iter().map(outcome).collect()
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
        let (group, now, kept) = (self.group, self.now, self.kept);
        Context { group, now, kept, ..Context::new(cluster, self.pod) }
    }
}

/// A plugin prepared for a pod.
pub(super) struct Ready {
    resolved: Resolved,
    counters: Vec<Counter>,
    reads_feasible: bool,
}

impl Ready {
    pub(super) fn new(
        subject: &dyn Subject,
        declaration: &Declaration,
        cluster: &Cluster,
        question: Question<'_>,
    ) -> Ready {
        let counters = Counter::of_declaration(declaration, cluster, question.pod);
        let cx = Context { counters: &counters, ..question.context(cluster) };
        let mut resolved = subject.prepare(&cx);
        if declaration.reads_feasible
            && let Resolved::Prepared(prepared, _) = &mut resolved
        {
            subject.consider(prepared, &cx, &Feasible::new(cluster, question.rows));
        }
        Ready { resolved, counters, reads_feasible: declaration.reads_feasible }
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

    /// The answers for the rows in question, worked out last row first if `reversed`, but in order.
    pub(super) fn answers(
        &self,
        subject: &dyn Subject,
        cluster: &Cluster,
        question: Question<'_>,
        reversed: bool,
    ) -> Vec<Answer> {
        let mut answers = vec![Answer::Absent; question.rows.len()];
        for step in 0..answers.len() {
            let at = if reversed { answers.len() - 1 - step } else { step };
            answers[at] = self.answer(subject, cluster, question, question.rows[at]);
        }
        answers
    }

    fn answer(
        &self,
        subject: &dyn Subject,
        cluster: &Cluster,
        question: Question<'_>,
        row: Row,
    ) -> Answer {
        match &self.resolved {
            Resolved::Skipped => Answer::Absent,
            Resolved::Constant(raw) => Answer::Score(*raw),
            Resolved::Rejected(verdict) => Answer::Verdict(*verdict),
            Resolved::Prepared(_, Some(only)) if !only.contains(row) => {
                Answer::Verdict(Verdict::Unschedulable)
            }
            Resolved::Prepared(prepared, _) => {
                let cx = self.with(cluster, question, prepared);
                cluster.view(row).map_or(Answer::Absent, |node| subject.answer(&cx, node))
            }
        }
    }

    /// The rows for which the answer of a block is another than that of the row.
    pub(super) fn disagreeing(
        &self,
        subject: &dyn Subject,
        cluster: &Cluster,
        question: Question<'_>,
    ) -> Vec<Row> {
        let Resolved::Prepared(prepared, _) = &self.resolved else { return Vec::new() };
        let cx = self.with(cluster, question, prepared);
        let mut rows = Vec::new();
        for block in Block::all(cluster) {
            let agrees = subject.block_agrees(&cx, &block);
            rows.extend(block.rows().zip(agrees).filter(|(_, agrees)| !agrees).map(|(row, _)| row));
        }
        rows
    }

    /// Brings what was prepared up to date: a pod came to a row, or it left.
    pub(super) fn change(
        &mut self,
        subject: &dyn Subject,
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
        let Resolved::Prepared(prepared, _) = &mut self.resolved else { return };
        let cx = Context { counters: &self.counters, ..question.context(cluster) };
        if came {
            subject.take(prepared, &cx, placed, node);
        } else {
            subject.undo(prepared, &cx, placed, node);
        }
        // What is kept considers the feasible nodes only when those have changed.
        if self.reads_feasible && !question.kept {
            subject.consider(prepared, &cx, &Feasible::new(cluster, question.rows));
        }
    }

    /// Tells which nodes are feasible, each row for as many as `counts` says.
    pub(super) fn consider(
        &mut self,
        subject: &dyn Subject,
        cluster: &Cluster,
        question: Question<'_>,
        rows: &[Row],
        counts: &[u32],
    ) {
        let Resolved::Prepared(prepared, _) = &mut self.resolved else { return };
        let cx = Context { counters: &self.counters, ..question.context(cluster) };
        subject.consider(prepared, &cx, &Feasible::classes(cluster, rows, counts));
    }

    /// What the plugin is shown, with what it prepared.
    pub(super) fn context<'a>(
        &'a self,
        cluster: &'a Cluster,
        question: Question<'a>,
    ) -> Context<'a> {
        match &self.resolved {
            Resolved::Prepared(prepared, _) => self.with(cluster, question, prepared),
            _ => question.context(cluster),
        }
    }

    fn with<'a>(
        &'a self,
        cluster: &'a Cluster,
        question: Question<'a>,
        prepared: &'a Prepared,
    ) -> Context<'a> {
        Context { prepared, counters: &self.counters, ..question.context(cluster) }
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
