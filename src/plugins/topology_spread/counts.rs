//! Counts of running pods per constraint.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::super::node_rules::NodeRules;
use super::super::taint_toleration::tolerated;
use super::constraints::Constraint;
use crate::framework::Context;
use crate::model::PodShape;
use crate::state::{LabelKey, NodeView, Row, RowSet};

/// Rows whose pods count for a constraint.
pub(super) enum CountedRows {
    Only(RowSet),
    /// All but these.
    Except(RowSet),
}

impl CountedRows {
    pub(super) fn contain(&self, row: Row) -> bool {
        match self {
            CountedRows::Only(rows) => rows.contains(row),
            CountedRows::Except(rows) => !rows.contains(row),
        }
    }
}

/// For each constraint, which of the rows with its key have pods that count. They are the rows with
/// every key of `keys` (if all are asked for) that the pod could use as far as the constraint honours
/// that. Calls
/// `visit(constraint, node)`, by the number of the constraint, for at least one of the rows that
/// share a value of its key.
pub(super) fn counted_rows(
    cx: &Context<'_>,
    constraints: &[Constraint],
    keys: Option<&[Option<LabelKey>]>,
    mut visit: impl FnMut(usize, NodeView<'_>),
) -> Vec<CountedRows> {
    let (cluster, pod) = (cx.cluster(), cx.pod());
    let rules = NodeRules::new(cluster, pod);
    let affinity = !rules.ask_nothing() && constraints.iter().any(|c| c.honours_affinity);
    let taints = cluster.tainted_nodes() > 0 && constraints.iter().any(|c| c.honours_taints);
    let tainted = cluster.tainted_rows();
    let is_clean =
        |node: NodeView<'_>| !taints || !tainted.contains(node.row()) || tolerated(node, pod);
    // The cluster knows the rows of each value of a declared level.
    if let ([_], Some([Some(key)]), false) = (constraints, keys, affinity)
        && let Some(parts) = cluster.level_parts.parts(*key)
    {
        let unclean = |row: &Row| cluster.view(*row).is_none_or(|node| !is_clean(node));
        for part in parts {
            let node = part.rows.iter().find(|row| !unclean(row));
            if let Some(node) = node.and_then(|row| cluster.view(*row)) {
                visit(0, node);
            }
        }
        let unclean = tainted.iter().filter(|row| taints && unclean(row));
        return alloc::vec![CountedRows::Except(unclean.collect())];
    }
    let mut rows = alloc::vec![RowSet::new(cluster.rows()); constraints.len()];
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
    rows.into_iter().map(CountedRows::Only).collect()
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
    let numbers_of = |shape: &PodShape| -> SmallVec<[usize; 2]> {
        let counts = |number: &usize| constraints[*number].counts(shape, cx.pod());
        (0..constraints.len()).filter(counts).collect()
    };
    let shapes = cx.cluster().shapes_of_namespace(&cx.pod().namespace);
    let counted = shapes.map(|(id, shape)| (id, numbers_of(shape)));
    let counted = counted.filter(|(_, numbers)| !numbers.is_empty()).collect();
    cx.visit_pods(counted, |numbers, node, deleting| {
        if !deleting {
            numbers.iter().for_each(|number| count(*number, node));
        }
    });
}
