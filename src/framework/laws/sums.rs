//! The law of pods: a plugin that declares to read a node's sums reads no more than the sums, and
//! reads them of the node it is shown.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::law::{Law, LawError};
use super::subject::{Answer, Question, Ready, Subject, put, rows, sample};
use crate::framework::block::{Block, Gathered};
use crate::framework::declaration::Declaration;
use crate::model::{Pod, PodShape};
use crate::state::{Cluster, Row, Takes};

/// How many placements stand at once.
const DEPTH: usize = 3;

/// Checks one shape of a filter or a score.
pub(super) fn check_sums(
    subject: &Subject,
    cluster: &Cluster,
    shapes: &[PodShape],
    index: usize,
) -> Result<(), LawError> {
    let declaration = subject.declare(&shapes[index]);
    if !declaration.is_node_local() || declaration.reads_pods || declaration.reads_feasible {
        return Ok(());
    }
    let rows = rows(cluster);
    let question = Question::new(&shapes[index], &rows);
    let touched = sample(&rows);
    let trial = Trial { subject, cluster, index, declaration, question };
    trial.ahead(&touched)?;
    for &row in &touched {
        shapes.iter().try_for_each(|other| trial.alike(row, other))?;
    }
    Ok(())
}

struct Trial<'a> {
    subject: &'a Subject,
    cluster: &'a Cluster,
    index: usize,
    declaration: Declaration,
    question: Question<'a>,
}

impl Trial<'_> {
    /// Pods of a shape change the answer for their node as pods do that only take the same.
    fn alike(&self, row: Row, other: &PodShape) -> Result<(), LawError> {
        let mut bare = PodShape::default();
        bare.requests.clone_from(&other.requests);
        bare.incoming_requests.clone_from(&other.incoming_requests);
        bare.existing_requests = other.existing_requests;
        bare.devices.clone_from(&other.devices);
        let (mut full, mut sums) = (self.cluster.txn(), self.cluster.txn());
        for number in 0..DEPTH {
            let pod = |shape: &PodShape| {
                Pod::of_shape(shape.clone().into()).name(format!("law-pod-{number}"))
            };
            if put(&mut full, &pod(other), row).is_err()
                || put(&mut sums, &pod(&bare), row).is_err()
            {
                break;
            }
            if !alike(self.answer(&full, row), self.answer(&sums, row)) {
                let detail = "tells pods apart that take the same".to_owned();
                return Err(self.broken(Law::Pods, row, detail));
            }
        }
        Ok(())
    }

    /// Placement that looks ahead shows a pod more on a node before the cluster has it. The answer
    /// is as if the cluster had it.
    fn ahead(&self, touched: &[Row]) -> Result<(), LawError> {
        let pod = Pod::of_shape(self.question.pod.clone().into());
        let mut txn = self.cluster.txn();
        let rows: Vec<Row> = touched
            .iter()
            .copied()
            .filter(|row| {
                put(&mut txn, &pod.clone().name(format!("law-pod-{}", row.index())), *row).is_ok()
            })
            .collect();
        let ready = self.ready(self.cluster);
        if !ready.is_prepared()
            || !self.question.pod.devices.is_empty()
            || !self.question.pod.zones.is_empty()
        {
            return Ok(());
        }
        let takes = Takes::of(self.question.pod, self.cluster);
        let cx = ready.context(self.cluster, self.question);
        for rows in rows.chunks(Block::MOST) {
            let mut gathered = Gathered::default();
            gathered.ahead(self.cluster, &takes, rows.iter().map(|&row| row.as_u32()), 1..2);
            let block = Block::gathered(self.cluster, &gathered, None);
            let agrees = ready.block_agrees(&cx, &block);
            for (at, &row) in rows.iter().enumerate() {
                let Some(node) = block.node(at) else { continue };
                if !agrees[at] {
                    let detail = "the answer for a block of rows with a pod more is another than \
                                  that for the node";
                    return Err(self.broken(Law::Block, row, detail.to_owned()));
                }
                let (shown, there) = (ready.answer_shown(&cx, node), self.answer(&txn, row));
                if !alike(shown, there) && ready.may_pass(row) {
                    let detail = format!(
                        "{shown:?} with a pod more shown on the node, {there:?} with it in the cluster"
                    );
                    return Err(self.broken(Law::Block, row, detail));
                }
            }
        }
        Ok(())
    }

    fn ready(&self, cluster: &Cluster) -> Ready {
        Ready::new(self.subject, &self.declaration, cluster, self.question)
    }

    fn answer(&self, cluster: &Cluster, row: Row) -> Answer {
        let at = Question { rows: &[row], ..self.question };
        self.ready(cluster).answers(cluster, at, false)[0]
    }

    fn broken(&self, law: Law, row: Row, detail: String) -> LawError {
        LawError {
            plugin: self.subject.name().to_owned(),
            law,
            node: self.cluster.view(row).map_or("", |node| node.name()).to_owned(),
            shape: self.index,
            detail,
        }
    }
}

/// Whether two answers come to the same: of two that say no, the reason does not count, and
/// nothing is held against a plugin that skips the pod.
fn alike(one: Answer, other: Answer) -> bool {
    match (one, other) {
        (Answer::Score(one), Answer::Score(other)) => one == other,
        _ => one.is_no() == other.is_no(),
    }
}
