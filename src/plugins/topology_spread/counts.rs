//! Counts of running pods per constraint.

use alloc::vec::Vec;

use super::super::node_rules::NodeRules;
use super::super::taint_toleration::tolerated;
use super::constraints::Constraint;
use crate::framework::Context;
use crate::state::{LabelKey, NodeView, Row, RowSet};

/// For each constraint, the rows whose pods count. They are the rows with every key of `keys` (if
/// all are asked for) that the pod could use as far as the constraint honours that. Calls
/// `visit(constraint, node)`, by the number of the constraint, for at least one of the rows that
/// share a value of its key.
pub(super) fn counted_rows(
    cx: &Context<'_>,
    constraints: &[Constraint],
    keys: Option<&[Option<LabelKey>]>,
    mut visit: impl FnMut(usize, NodeView<'_>),
) -> Vec<RowSet> {
    let (cluster, pod) = (cx.cluster(), cx.pod());
    let rules = NodeRules::new(cluster, pod);
    let affinity = !rules.ask_nothing() && constraints.iter().any(|c| c.honours_affinity);
    let taints = cluster.tainted_nodes() > 0 && constraints.iter().any(|c| c.honours_taints);
    let tainted = cluster.tainted_rows();
    let is_clean =
        |node: NodeView<'_>| !taints || !tainted.contains(node.row()) || tolerated(node, pod);
    let mut rows = alloc::vec![RowSet::new(cluster.rows()); constraints.len()];
    // The cluster knows the rows of each value of a declared level.
    if let ([rows], Some([Some(key)]), false) = (&mut rows[..], keys, affinity)
        && let Some(parts) = cluster.level_parts.parts(*key)
    {
        for part in parts {
            let mut first = None;
            for &row in &*part.rows {
                let Some(node) = cluster.view(row).filter(|node| is_clean(*node)) else { continue };
                rows.insert(row);
                first.get_or_insert(node);
            }
            if let Some(node) = first {
                visit(0, node);
            }
        }
        return alloc::vec![core::mem::take(rows)];
    }
    for node in Row::all(cluster.rows()).filter_map(|row| cluster.view(row)) {
        if !keys.is_none_or(|keys| has_all(node, keys)) {
            continue;
        }
        let wanted = !affinity || rules.matches(node);
        let clean = is_clean(node);
        for (number, (constraint, rows)) in constraints.iter().zip(&mut rows).enumerate() {
            if (wanted || !constraint.honours_affinity) && (clean || !constraint.honours_taints) {
                rows.insert(node.row());
                visit(number, node);
            }
        }
    }
    rows
}

/// Whether a node has all of the keys. A key that no node has is `None`.
pub(super) fn has_all(node: NodeView<'_>, keys: &[Option<LabelKey>]) -> bool {
    keys.iter().all(|key| key.is_some_and(|key| node.label_value(key).is_some()))
}

/// Calls `count(constraint, node)` for each pod that runs and that a constraint counts, by the
/// number of the constraint; which nodes count is the caller's to say.
pub(super) fn count_pods<'a>(
    cx: &Context<'a>,
    constraints: &[Constraint],
    mut count: impl FnMut(usize, NodeView<'a>),
) {
    let cluster = cx.cluster();
    // By number of shape: which constraints count its pods.
    let mut counting: Vec<Vec<usize>> = Vec::new();
    for (id, shape) in cluster.shapes_of_namespace(&cx.pod().namespace) {
        let numbers: Vec<usize> = constraints
            .iter()
            .enumerate()
            .filter(|(_, constraint)| constraint.counts(shape, cx.pod()))
            .map(|(number, _)| number)
            .collect();
        if !numbers.is_empty() {
            if counting.len() <= id.index() {
                counting.resize(id.index() + 1, Vec::new());
            }
            counting[id.index()] = numbers;
        }
    }
    if counting.is_empty() {
        return;
    }
    cluster.placed().for_each(|(shape, row, deleting)| {
        if !deleting
            && let Some(numbers) = counting.get(shape.index())
            && let Some(node) = cluster.view(row)
        {
            for number in numbers {
                count(*number, node);
            }
        }
    });
}
