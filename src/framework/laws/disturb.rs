//! Disturbances of a cluster, with answers compared before and after.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::law::{Law, LawError};
use super::subject::{Answer, Question, Ready, Subject, put, rows, sample};
use crate::base::Time;
use crate::framework::declaration::{Declaration, Reach};
use crate::model::{Effect, Node, Pod, PodGroup, PodShape, Taint};
use crate::state::{Cluster, NodeView, Row};

/// How many placements stand at once.
const DEPTH: usize = 4;

/// One plugin, one shape.
pub(super) struct Trial<'a> {
    subject: &'a Subject,
    cluster: &'a Cluster,
    shapes: &'a [PodShape],
    index: usize,
    pod: &'a PodShape,
    declaration: Declaration,
    rows: Vec<Row>,
    /// The rows that are disturbed.
    touched: Vec<Row>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        subject: &'a Subject,
        cluster: &'a Cluster,
        shapes: &'a [PodShape],
        index: usize,
    ) -> Trial<'a> {
        let rows = rows(cluster);
        let touched = sample(&rows);
        let pod = &shapes[index];
        let declaration = subject.declare(pod);
        Trial { subject, cluster, shapes, index, pod, declaration, rows, touched }
    }

    pub(super) fn run(&self) -> Result<(), LawError> {
        self.name()?;
        self.repeatable()?;
        self.block(self.cluster)?;
        self.group_and_time()?;
        self.placements()?;
        self.evictions()?;
        self.nodes()
    }

    fn name(&self) -> Result<(), LawError> {
        let (first, second) = (self.subject.name().to_owned(), self.subject.name());
        if first.is_empty() || first != second {
            return Err(self.broken(Law::Name, None, format!("{first:?}, then {second:?}")));
        }
        Ok(())
    }

    fn repeatable(&self) -> Result<(), LawError> {
        let again = self.subject.declare(self.pod);
        if again != self.declaration {
            let detail = format!("declares {:?}, then {again:?}", self.declaration);
            return Err(self.broken(Law::Repeatable, None, detail));
        }
        let question = self.question();
        let first = self.ready(self.cluster, question);
        let expected = first.answers(self.cluster, question, false);
        let reversed = first.answers(self.cluster, question, true);
        self.same(Law::Repeatable, &expected, &reversed, "when asked in the opposite order")?;
        // The feasible nodes come in no particular order.
        let backwards: Vec<Row> = self.rows.iter().rev().copied().collect();
        let question = Question::new(self.pod, &backwards);
        let mut anew = self.fresh(self.cluster, question);
        anew.reverse();
        self.same(Law::Repeatable, &expected, &anew, "when prepared anew")
    }

    fn block(&self, cluster: &Cluster) -> Result<(), LawError> {
        let question = self.question();
        let ready = self.ready(cluster, question);
        match ready.disagreeing(cluster, question).first() {
            None => Ok(()),
            Some(&row) => {
                let detail = "the answer for the block is another than that for the node";
                Err(self.broken(Law::Block, Some(row), detail.to_owned()))
            }
        }
    }

    fn group_and_time(&self) -> Result<(), LawError> {
        let question = self.question();
        let expected = self.fresh(self.cluster, question);
        if !self.declaration.reads_group {
            let leaf = PodGroup::basic("law-leaf").pod(Pod::new().name("law-pod"));
            let gang = PodGroup::gang("law-gang", 7).require("law-level").priority(9);
            for group in [&leaf, &gang] {
                let given = self.fresh(self.cluster, Question { group: Some(group), ..question });
                let what = format!("with group {} in place of none", group.name);
                self.same(Law::Group, &expected, &given, &what)?;
            }
        }
        if !self.declaration.reads_time {
            for now in [Time::from_nanos(1), Time::from_secs(1_000_000), Time::MAX] {
                let given = self.fresh(self.cluster, Question { now, ..question });
                self.same(Law::Time, &expected, &given, "at another time")?;
            }
        }
        Ok(())
    }

    /// Pods come, up to [`DEPTH`] at once, and are taken back.
    fn placements(&self) -> Result<(), LawError> {
        let question = self.question();
        let total = self.shapes.len() * self.touched.len();
        let mut txn = self.cluster.txn();
        let mut step = 0;
        while step < total {
            let mut kept = self.ready(&txn, question);
            let incremental = match self.declaration.reach {
                Reach::Static | Reach::Node => true,
                Reach::Domain(_) => kept.is_incremental(),
                // Laid down by the law of grain.
                Reach::Cluster => false,
            };
            let mut before = kept.answers(&txn, question, false);
            let mut skipped = kept.skips();
            let mut stack = Vec::new();
            while stack.len() < DEPTH && step < total {
                let placed = &self.shapes[step % self.shapes.len()];
                let row = self.touched[(step / self.shapes.len() * 7 + step) % self.touched.len()];
                let pod = Pod::of_shape(placed.clone().into()).name(format!("law-pod-{step}"));
                step += 1;
                let point = txn.checkpoint();
                // A pod that the sums have no room for disturbs nothing.
                if put(&mut txn, &pod, row).is_err() {
                    continue;
                }
                let fresh = self.ready(&txn, question);
                let after = fresh.answers(&txn, question, false);
                let what = format!("after a pod of shape {} came to {}", pod_index(step, self), {
                    self.node_name(row)
                });
                if !skipped && !fresh.skips() {
                    self.within_reach(&txn, row, &before, &after, &what)?;
                }
                if self.declaration.monotone {
                    self.monotone(&before, &after, &what)?;
                }
                kept.change(&txn, question, placed, row, true);
                if incremental && !skipped {
                    let have = kept.answers(&txn, question, false);
                    self.same(Law::Incremental, &after, &have, &format!("taken in {what}"))?;
                }
                skipped |= fresh.skips();
                stack.push((point, placed, row, core::mem::replace(&mut before, after)));
            }
            self.block(&txn)?;
            while let Some((point, placed, row, expected)) = stack.pop() {
                if txn.rollback(point).is_err() {
                    break;
                }
                kept.change(&txn, question, placed, row, false);
                if incremental && !skipped {
                    let have = kept.answers(&txn, question, false);
                    self.same(Law::Incremental, &expected, &have, "after a pod was taken back")?;
                }
            }
        }
        Ok(())
    }

    fn evictions(&self) -> Result<(), LawError> {
        let question = self.question();
        let before = self.ready(self.cluster, question);
        let expected = before.answers(self.cluster, question, false);
        for &row in &self.touched {
            let pods = self.cluster.view(row).into_iter().flat_map(NodeView::pods);
            for pod in pods.take(2) {
                let mut txn = self.cluster.txn();
                if txn.evict_pod(pod.id()).is_err() {
                    continue;
                }
                let fresh = self.ready(&txn, question);
                let after = fresh.answers(&txn, question, false);
                if !before.skips() && !fresh.skips() {
                    let what = format!("after pod {} left {}", pod.name(), self.node_name(row));
                    self.within_reach(&txn, row, &expected, &after, &what)?;
                }
            }
        }
        Ok(())
    }

    /// Other nodes come, go and change.
    fn nodes(&self) -> Result<(), LawError> {
        if self.declaration.reads_nodes || self.declaration.reach == Reach::Cluster {
            return Ok(());
        }
        for &row in &self.touched {
            let Some(node) = self.cluster.view(row) else { continue };
            let name = node.name();
            // Its pods leave first: that pods matter is another law.
            let mut txn = self.cluster.txn();
            for pod in node.pods() {
                let _ = txn.evict_pod(pod.id());
            }
            let empty = txn.into_cluster();
            let others: Vec<Row> =
                self.rows.iter().copied().filter(|&other| other != row).collect();
            let question = Question::new(self.pod, &others);
            let before = self.ready(&empty, question);
            let expected = before.answers(&empty, question, false);
            for (what, changed) in changes(&empty, row) {
                let fresh = self.ready(&changed, question);
                let after = fresh.answers(&changed, question, false);
                if !before.skips() && !fresh.skips() {
                    let what = format!("after node {name} {what}");
                    self.compare(Law::Nodes, &others, &expected, &after, &what, |_| false)?;
                }
            }
        }
        Ok(())
    }

    fn within_reach(
        &self,
        cluster: &Cluster,
        on: Row,
        before: &[Answer],
        after: &[Answer],
        what: &str,
    ) -> Result<(), LawError> {
        let shares = |row: Row, keys: &[String]| {
            let (Some(one), Some(other)) = (cluster.view(on), cluster.view(row)) else {
                return false;
            };
            keys.iter().any(|key| one.label(key).is_some_and(|value| other.has_label(key, value)))
        };
        let may_change = |row: Row| match &self.declaration.reach {
            Reach::Static => false,
            Reach::Node => row == on,
            Reach::Domain(keys) => row == on || shares(row, keys),
            Reach::Cluster => true,
        };
        self.compare(Law::Reach, &self.rows, before, after, what, may_change)
    }

    fn monotone(&self, before: &[Answer], after: &[Answer], what: &str) -> Result<(), LawError> {
        for (at, (before, after)) in before.iter().zip(after).enumerate() {
            if before.is_no() && !after.is_no() {
                let detail = format!("{before:?} became {after:?} {what}");
                return Err(self.broken(Law::Monotone, Some(self.rows[at]), detail));
            }
        }
        Ok(())
    }

    fn same(
        &self,
        law: Law,
        expected: &[Answer],
        given: &[Answer],
        what: &str,
    ) -> Result<(), LawError> {
        self.compare(law, &self.rows, expected, given, what, |_| false)
    }

    fn compare(
        &self,
        law: Law,
        rows: &[Row],
        expected: &[Answer],
        given: &[Answer],
        what: &str,
        may_differ: impl Fn(Row) -> bool,
    ) -> Result<(), LawError> {
        for ((&row, expected), given) in rows.iter().zip(expected).zip(given) {
            if expected != given && !may_differ(row) {
                let detail = format!("{expected:?} became {given:?} {what}");
                return Err(self.broken(law, Some(row), detail));
            }
        }
        Ok(())
    }

    fn broken(&self, law: Law, row: Option<Row>, detail: String) -> LawError {
        LawError {
            plugin: self.subject.name().to_owned(),
            law,
            node: row.map_or_else(String::new, |row| self.node_name(row).to_owned()),
            shape: self.index,
            detail,
        }
    }

    fn node_name(&self, row: Row) -> &str {
        self.cluster.view(row).map_or("", |node| node.name())
    }

    fn question(&self) -> Question<'_> {
        Question::new(self.pod, &self.rows)
    }

    fn ready(&self, cluster: &Cluster, question: Question<'_>) -> Ready {
        Ready::new(self.subject, &self.declaration, cluster, question)
    }

    fn fresh(&self, cluster: &Cluster, question: Question<'_>) -> Vec<Answer> {
        self.ready(cluster, question).answers(cluster, question, false)
    }
}

/// The shape placed in the step before.
fn pod_index(step: usize, trial: &Trial<'_>) -> usize {
    (step - 1) % trial.shapes.len()
}

/// The cluster with the node of a row gone, changed, and with others beside it.
fn changes(cluster: &Cluster, row: Row) -> Vec<(&'static str, Cluster)> {
    let Some(view) = cluster.view(row) else { return Vec::new() };
    let node = view.to_node();
    let mut changes = Vec::new();
    let mut change = |what, edit: &mut dyn FnMut(&mut Cluster) -> bool| {
        let mut changed = cluster.clone();
        if edit(&mut changed) {
            changes.push((what, changed));
        }
    };
    change("went", &mut |cluster| cluster.remove_node(&node.name).is_ok());
    change("got a twin", &mut |cluster| {
        let mut twin = node.clone();
        twin.name = format!("{}-law-twin", node.name);
        cluster.add_node(twin).is_ok()
    });
    change("got an empty neighbour", &mut |cluster| {
        cluster.add_node(Node::new(format!("{}-law-blank", node.name))).is_ok()
    });
    change("changed its labels, taints and images", &mut |cluster| {
        let mut other = node.clone();
        for value in other.labels.values_mut() {
            value.push_str("-law");
        }
        other.taints = vec![Taint::new("law", "", Effect::NoSchedule)];
        other.images.clear();
        cluster.update_node(&other).is_ok()
    });
    change("became unschedulable and lost what it had", &mut |cluster| {
        let mut bare = Node::new(node.name.clone()).unschedulable();
        bare.labels.clone_from(&node.labels);
        cluster.update_node(&bare).is_ok()
    });
    changes
}
