//! The law of room: verdicts and bounds compared while nodes fill up.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::law::{Law, LawError};
use super::subject::{Question, Ready, Subject, put, rows, sample};
use crate::framework::block::Block;
use crate::framework::context::Context;
use crate::framework::declaration::Declaration;
use crate::model::resources::PODS;
use crate::model::{Pod, PodShape};
use crate::state::{Cluster, NodeView, Row};

/// Pods placed one after another on a node, at most.
const STEPS: i64 = 12;
/// Pods that a node has room for once it is made small.
const LEFT: i64 = 2;

/// Checks one shape of a filter: on the cluster as it is, and with nodes made so small, by one
/// amount at a time, that a few pods fill them. Few clusters that tests are written with have a
/// node that is nearly full.
pub(super) fn check_room(
    filter: &Subject,
    cluster: &Cluster,
    shapes: &[PodShape],
    index: usize,
) -> Result<(), LawError> {
    let Some(pod) = shapes.get(index) else { return Ok(()) };
    let check = |cluster: &Cluster| {
        Filling { filter, cluster, pod, index, declaration: filter.declare(pod) }.run()
    };
    check(cluster)?;
    let requested = pod.requests.iter().filter(|(_, amount)| *amount > 0);
    [(PODS, 1)]
        .into_iter()
        .chain(requested)
        .try_for_each(|(name, amount)| check(&with_small_nodes(cluster, name, amount)))
}

/// The cluster with no node that has room for more than [`LEFT`] times an amount.
fn with_small_nodes(cluster: &Cluster, name: &str, amount: i64) -> Cluster {
    let mut small = cluster.clone();
    let left = amount.saturating_mul(LEFT + 1) - 1;
    for view in cluster.nodes() {
        let (used, allocatable) = match cluster.resource(name) {
            _ if name == PODS => (view.pod_count(), view.pod_limit()),
            Some(resource) => (view.used(resource), view.allocatable(resource)),
            None => continue,
        };
        if allocatable.saturating_sub(used) > left {
            let mut node = view.to_node();
            node.allocatable.set(name, used.saturating_add(left));
            // A node that cannot be changed stays as it is.
            let _ = small.update_node(&node);
        }
    }
    small
}

/// One shape of a filter on one cluster.
struct Filling<'a> {
    filter: &'a Subject,
    cluster: &'a Cluster,
    pod: &'a PodShape,
    index: usize,
    declaration: Declaration,
}

impl Filling<'_> {
    fn run(&self) -> Result<(), LawError> {
        let rows = rows(self.cluster);
        let question = Question::new(self.pod, &rows);
        let touched = sample(&rows);
        let ready = self.ready(self.cluster, question);
        if ready.is_prepared() {
            let blocks = Block::all(self.cluster);
            blocks
                .into_iter()
                .try_for_each(|block| self.block(self.cluster, question, &ready, &block))?;
            self.together(question, &ready, &touched)?;
        }
        touched.iter().try_for_each(|&row| self.node(question, row))
    }

    /// Nodes are filled one after the other, and hold no more than all together were said to.
    fn together(
        &self,
        question: Question<'_>,
        ready: &Ready,
        touched: &[Row],
    ) -> Result<(), LawError> {
        let cx = ready.context(self.cluster, question);
        let of_all =
            |enough| ready.capacity().map_or(i64::MAX, |capacity| capacity.of_all(&cx, enough));
        let bound = [1, STEPS, i64::MAX].map(of_all).into_iter().min().unwrap_or(i64::MAX);
        let (mut txn, mut placed) = (self.cluster.txn(), 0);
        for &row in touched {
            for _ in 0..STEPS {
                let ready = self.ready(&txn, question);
                let passes = passes(&ready, &txn, question, row);
                if !passes || put(&mut txn, &self.numbered(placed), row).is_err() {
                    break;
                }
                placed += 1;
                if placed > bound {
                    let detail = format!("all nodes together take more than {bound}");
                    return Err(self.broken(row, detail));
                }
            }
        }
        Ok(())
    }

    /// One node is filled, and judged before each pod.
    fn node(&self, question: Question<'_>, row: Row) -> Result<(), LawError> {
        let mut txn = self.cluster.txn();
        // The lowest count that a bound so far allows.
        let mut most = i64::MAX;
        for placed in 0..=STEPS {
            let ready = self.ready(&txn, question);
            let Some(node) = txn.view(row) else { break };
            let passes = passes(&ready, &txn, question, row);
            if self.declaration.room && passes != has_room(&txn, node, self.pod) {
                let detail =
                    format!("the verdict is not whether the node has room, {placed} pods later");
                return Err(self.broken(row, detail));
            }
            if ready.is_prepared() {
                let bound = of_node(&ready, &ready.context(&txn, question), node);
                most = most.min(bound.saturating_add(placed));
                if let Some(block) = Block::all(&txn).nth(row.index() / Block::MOST) {
                    self.block(&txn, question, &ready, &block)?;
                }
            }
            if passes && placed >= most {
                let detail = format!("takes more than the {most} it has room for");
                return Err(self.broken(row, detail));
            }
            if !passes || put(&mut txn, &self.numbered(placed), row).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The bounds of a block are those of its nodes.
    fn block(
        &self,
        cluster: &Cluster,
        question: Question<'_>,
        ready: &Ready,
        block: &Block<'_>,
    ) -> Result<(), LawError> {
        let cx = ready.context(cluster, question);
        for before in [i64::MAX, 1] {
            let mut bounds = vec![before; block.len()];
            if let Some(capacity) = ready.capacity() {
                capacity.of_block(&cx, block, &mut bounds);
            }
            for (row, bound) in block.rows().zip(bounds) {
                let Some(node) = cluster.view(row) else { continue };
                let expected = before.min(of_node(ready, &cx, node));
                if bound != expected {
                    let detail = format!("the block has room for {bound}, the node for {expected}");
                    return Err(self.broken(row, detail));
                }
            }
        }
        Ok(())
    }

    fn ready(&self, cluster: &Cluster, question: Question<'_>) -> Ready {
        Ready::new(self.filter, &self.declaration, cluster, question)
    }

    fn numbered(&self, number: i64) -> Pod {
        Pod::of_shape(self.pod.clone().into()).name(format!("law-pod-{number}"))
    }

    fn broken(&self, row: Row, detail: String) -> LawError {
        LawError {
            plugin: self.filter.name().to_owned(),
            law: Law::Room,
            node: self.cluster.view(row).map_or("", |node| node.name()).to_owned(),
            shape: self.index,
            detail,
        }
    }
}

/// Whether the filter lets the pod in question on a row.
fn passes(ready: &Ready, cluster: &Cluster, question: Question<'_>, row: Row) -> bool {
    let at = Question { rows: &[row], ..question };
    ready.answers(cluster, at, false).iter().all(|answer| !answer.is_no())
}

/// The bound for a node; none where the filter sets none.
fn of_node(ready: &Ready, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
    ready.capacity().map_or(i64::MAX, |capacity| capacity.of_node(cx, node))
}

/// Room as [`Fit`](crate::plugins::Fit) has it.
fn has_room(cluster: &Cluster, node: NodeView<'_>, pod: &PodShape) -> bool {
    let mut asked = pod.requests.iter().filter(|(_, amount)| *amount > 0);
    node.pod_count() < node.pod_limit()
        && asked.all(|(name, amount)| {
            cluster.resource(name).is_some_and(|resource| amount <= node.free(resource))
        })
}
