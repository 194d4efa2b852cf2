//! The law of grain: a plugin tells nodes apart no finer than it promises.

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::law::{Law, LawError};
use super::subject::{Answer, Question, Ready, Subject, put, rows, sample};
use crate::framework::declaration::Declaration;
use crate::framework::grain::Grain;
use crate::model::{Pod, PodShape};
use crate::state::{Cluster, LabelKey, LabelValue, NodeView, Row};

/// How many placements stand at once.
const DEPTH: usize = 6;

/// Lets pods come and go, as in a planner, and compares what is kept with what is
/// prepared anew.
pub(super) fn check_grain(
    subject: &Subject,
    cluster: &Cluster,
    shapes: &[PodShape],
    index: usize,
) -> Result<(), LawError> {
    let rows = rows(cluster);
    let declaration = subject.declare(&shapes[index]);
    if !declaration.grained || rows.is_empty() {
        return Ok(());
    }
    let anew = Question::new(&shapes[index], &rows);
    let question = Question { kept: true, ..anew };
    let trial = Trial { subject, cluster, index, question };
    let touched = sample(&rows);
    let fresh = |cluster: &Cluster| {
        let ready = Ready::new(subject, &declaration, cluster, anew);
        ready.answers(cluster, anew, false)
    };
    trial.deleting(&declaration, shapes, &touched)?;
    trial.leaving(&declaration, &touched)?;
    for round in 0..(shapes.len() * touched.len()).div_ceil(DEPTH) {
        let mut txn = cluster.txn();
        let mut kept = Ready::new(subject, &declaration, &txn, question);
        let mut before = trial.look(&mut kept, &txn)?;
        let mut stack = VecDeque::new();
        for depth in 0..DEPTH {
            let number = round * DEPTH + depth;
            let placed = &shapes[number % shapes.len()];
            // Some pods come close to each other, others far apart.
            let row = touched[(number / shapes.len() * 5 + depth / 2) % touched.len()];
            let pod = Pod::of_shape(placed.clone().into()).name(format!("law-pod-{number}"));
            let point = txn.checkpoint();
            let Ok(id) = put(&mut txn, &pod, row) else { continue };
            kept.change(&txn, question, placed, row, true);
            let after = trial.look(&mut kept, &txn)?;
            trial.within(&before, &after, row, "came to")?;
            trial.same(&fresh(&txn), &after.answers, "after pods came")?;
            if declaration.reads_feasible {
                trial.considers_classes(&mut kept, &txn, &after)?;
            }
            before = after;
            stack.push_back((point, id, placed, row));
        }
        // Pods leave in the order in which they came, or last first as placements are taken back.
        let in_order = round % 2 == 1;
        while let Some((point, id, placed, row)) =
            if in_order { stack.pop_front() } else { stack.pop_back() }
        {
            let left =
                if in_order { txn.evict_pod(id).is_ok() } else { txn.rollback(point).is_ok() };
            if !left {
                break;
            }
            kept.change(&txn, question, placed, row, false);
            let after = trial.look(&mut kept, &txn)?;
            trial.within(&before, &after, row, "left")?;
            trial.same(&fresh(&txn), &after.answers, "after pods left")?;
            before = after;
        }
    }
    Ok(())
}

struct Trial<'a> {
    subject: &'a Subject,
    cluster: &'a Cluster,
    index: usize,
    question: Question<'a>,
}

/// The answers of a plugin at one moment.
struct Look {
    grain: Option<Grain>,
    answers: Vec<Answer>,
}

impl Trial<'_> {
    /// Whether pods that are being deleted count as declared.
    fn deleting(
        &self,
        declaration: &Declaration,
        shapes: &[PodShape],
        touched: &[Row],
    ) -> Result<(), LawError> {
        let anew = Question { kept: false, ..self.question };
        for (number, placed) in shapes.iter().enumerate() {
            let row = touched[number % touched.len()];
            let mut pod = Pod::of_shape(placed.clone().into()).name("law-pod").on(self.name(row));
            pod.deleting = true;
            let mut cluster = self.cluster.clone();
            if cluster.add_pod(pod).is_err() {
                continue;
            }
            let mut kept = Ready::new(self.subject, declaration, self.cluster, self.question);
            if !declaration.ignores_deleting {
                kept.change(&cluster, self.question, placed, row, true);
            }
            let fresh = Ready::new(self.subject, declaration, &cluster, anew);
            let fresh = fresh.answers(&cluster, anew, false);
            let given = kept.answers(&cluster, self.question, false);
            self.same(&fresh, &given, "after a pod came that is being deleted")?;
        }
        Ok(())
    }

    /// Pods that were there when the plugin prepared leave.
    fn leaving(&self, declaration: &Declaration, touched: &[Row]) -> Result<(), LawError> {
        let anew = Question { kept: false, ..self.question };
        let mut txn = self.cluster.txn();
        let mut kept = Ready::new(self.subject, declaration, &txn, self.question);
        for &row in touched {
            let pods = self.cluster.view(row).into_iter().flat_map(NodeView::pods);
            for pod in pods.filter(|pod| !(pod.deleting() && declaration.ignores_deleting)).take(2)
            {
                if txn.evict_pod(pod.id()).is_err() {
                    continue;
                }
                kept.change(&txn, self.question, pod.shape(), row, false);
                let fresh = Ready::new(self.subject, declaration, &txn, anew);
                let fresh = fresh.answers(&txn, anew, false);
                let given = kept.answers(&txn, self.question, false);
                self.same(&fresh, &given, "after a pod left that was there before")?;
            }
        }
        Ok(())
    }

    /// Asks about every node, and holds those of a class to the same answer.
    fn look(&self, kept: &mut Ready, cluster: &Cluster) -> Result<Look, LawError> {
        let answers = kept.answers(cluster, self.question, false);
        if !kept.is_prepared() {
            return Ok(Look { grain: None, answers });
        }
        let Some(grain) = kept.classes(cluster, self.question) else {
            return Err(self.broken(None, "what is prepared is not incremental".to_owned()));
        };
        if !grain.each {
            let mut classes: Vec<(Vec<Option<LabelValue>>, usize)> = Vec::new();
            for (at, &row) in self.question.rows.iter().enumerate() {
                let class = self.class(&grain, row);
                let Some((_, first)) = classes.iter().find(|(known, _)| *known == class) else {
                    classes.push((class, at));
                    continue;
                };
                if answers[*first] != answers[at] {
                    let other = self.name(self.question.rows[*first]);
                    let detail = format!("{:?}, but {:?} for its like {other}", answers[at], {
                        answers[*first]
                    });
                    return Err(self.broken(Some(row), detail));
                }
            }
        }
        if let Some(values) = kept.rejects(cluster, self.question) {
            for (&answer, &row) in answers.iter().zip(self.question.rows) {
                let has = |(key, value): &(LabelKey, LabelValue)| {
                    cluster.view(row).and_then(|node| node.label_value(*key)) == Some(*value)
                };
                if answer.is_no() && !values.iter().any(has) {
                    let detail = format!("{answer:?}, and it has no value that the filter rejects");
                    return Err(self.broken(Some(row), detail));
                }
            }
        }
        Ok(Look { grain: Some(grain), answers })
    }

    /// Whether only those answers have changed that may.
    fn within(&self, before: &Look, after: &Look, on: Row, what: &str) -> Result<(), LawError> {
        let (Some(old), Some(new)) = (&before.grain, &after.grain) else { return Ok(()) };
        if old != new {
            return Ok(());
        }
        let values = self.class(new, on);
        for (at, &row) in self.question.rows.iter().enumerate() {
            let own = self.class(new, row);
            let shares = own.iter().zip(&values).any(|(own, value)| own.is_some() && own == value);
            let may_change = shares || new.each && row == on;
            if before.answers[at] != after.answers[at] && !may_change {
                let (old, new) = (before.answers[at], after.answers[at]);
                let detail = format!(
                    "{old:?} became {new:?} after a pod {what} {}, which shares no \
                     value with it",
                    self.name(on)
                );
                return Err(self.broken(Some(row), detail));
            }
        }
        Ok(())
    }

    /// Whether what is kept comes to what is prepared anew.
    fn same(&self, fresh: &[Answer], kept: &[Answer], what: &str) -> Result<(), LawError> {
        let (expected, given) = (self.subject.outcomes(fresh), self.subject.outcomes(kept));
        for (at, &row) in self.question.rows.iter().enumerate() {
            let raw = fresh[at] == kept[at]
                || [fresh[at], kept[at]].contains(&Answer::Absent)
                || fresh[at].is_no() && kept[at].is_no();
            if expected[at] != given[at] || !raw {
                let detail = format!("kept {:?}, prepared anew {:?}, {what}", kept[at], fresh[at]);
                return Err(self.broken(Some(row), detail));
            }
        }
        Ok(())
    }

    /// Whether one feasible node may stand for its class.
    fn considers_classes(
        &self,
        kept: &mut Ready,
        cluster: &Cluster,
        look: &Look,
    ) -> Result<(), LawError> {
        let Some(grain) = look.grain.as_ref().filter(|grain| !grain.each) else { return Ok(()) };
        let mut classes: Vec<(Vec<Option<LabelValue>>, Row, u32)> = Vec::new();
        for &row in self.question.rows {
            let class = self.class(grain, row);
            match classes.iter_mut().find(|(known, _, _)| *known == class) {
                Some((_, _, count)) => *count += 1,
                None => classes.push((class, row, 1)),
            }
        }
        let rows: Vec<Row> = classes.iter().map(|(_, row, _)| *row).collect();
        let counts: Vec<u32> = classes.iter().map(|(_, _, count)| *count).collect();
        kept.observe_feasible(cluster, self.question, &rows, &counts);
        let given = kept.answers(cluster, self.question, false);
        self.same(&look.answers, &given, "with feasible nodes told one for a class")
    }

    fn class(&self, grain: &Grain, row: Row) -> Vec<Option<LabelValue>> {
        let node = self.cluster.view(row);
        grain.keys.iter().map(|key| node.and_then(|node| node.label_value(*key))).collect()
    }

    fn name(&self, row: Row) -> &str {
        self.cluster.view(row).map_or("", |node| node.name())
    }

    fn broken(&self, row: Option<Row>, detail: String) -> LawError {
        LawError {
            plugin: self.subject.name().to_owned(),
            law: Law::Grain,
            node: row.map_or_else(String::new, |row| self.name(row).to_owned()),
            shape: self.index,
            detail,
        }
    }
}
