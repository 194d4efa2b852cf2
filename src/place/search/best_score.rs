//! Nodes within the domains found: every member in order on the node with the best score.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::problem::Problem;
use crate::framework::prepared::Plugin;
use crate::framework::{Evaluation, Framework, Normalization};
use crate::model::PodShape;
use crate::place::error::PlaceError;
use crate::place::request::tie;
use crate::state::{Row, Txn};

/// Nodes that pass for one class in one domain, with totals.
struct Column {
    class: usize,
    domain: usize,
    nodes: Vec<(u32, i64)>,
}

/// Members and the nodes they may go to, by number of domain.
pub(crate) struct Assigning<'t> {
    /// Members in the order in which they are placed, with their domains.
    pub(crate) members: &'t [(usize, usize)],
    /// The nodes of each domain.
    pub(crate) nodes_of: &'t dyn Fn(usize) -> &'t [u32],
    pub(crate) salt: u64,
}

/// Places members in order, each on the best feasible node of its domain. Members that fit nowhere
/// are left out. The transaction keeps what was placed.
pub(crate) fn by_scores(
    model: &Problem<'_>,
    txn: &mut Txn,
    task: &Assigning<'_>,
    places: &mut [u32],
) -> Result<(), PlaceError> {
    let local: Vec<bool> =
        model.classes.iter().map(|class| is_node_local(model.framework, class.shape)).collect();
    let mut columns: Vec<Column> = Vec::new();
    for &(number, domain) in task.members {
        let class = model.members[number].class;
        let known = columns.iter().position(|c| c.class == class && c.domain == domain);
        let column = match known {
            Some(place) if local[class] => place,
            _ => {
                let nodes = judge(model, txn, class, (task.nodes_of)(domain));
                let column = Column { class, domain, nodes };
                if let Some(place) = known {
                    columns[place] = column;
                    place
                } else {
                    columns.push(column);
                    columns.len() - 1
                }
            }
        };
        let key = |&(node, total): &(u32, i64)| {
            let row = model.rows[node as usize];
            (Reverse(total), tie(txn, row, task.salt), node)
        };
        let Some(&(node, _)) = columns[column].nodes.iter().min_by_key(|entry| key(entry)) else {
            continue;
        };
        if !model.place(txn, number, node)? {
            continue;
        }
        places[number] = node;
        for column in columns.iter_mut().filter(|column| local[column.class]) {
            if let Some(place) = column.nodes.iter().position(|(other, _)| *other == node) {
                match judge(model, txn, column.class, &[node]).first() {
                    Some(&entry) => column.nodes[place] = entry,
                    None => {
                        column.nodes.swap_remove(place);
                    }
                }
            }
        }
    }
    Ok(())
}

/// The nodes that every filter passes for a class, with the sums of their scores.
fn judge(model: &Problem<'_>, txn: &Txn, class: usize, nodes: &[u32]) -> Vec<(u32, i64)> {
    let shape = model.classes[class].shape;
    let leaf = model.leaf_of(class);
    let mut evaluation = Evaluation::new(model.framework, txn, shape, Some(leaf), model.now);
    let passing: Vec<(u32, Row)> = nodes
        .iter()
        .map(|&node| (node, model.rows[node as usize]))
        .filter(|(_, row)| txn.view(*row).is_some_and(|view| evaluation.filter(view).is_ok()))
        .collect();
    let rows: Vec<Row> = passing.iter().map(|(_, row)| *row).collect();
    let totals = evaluation.totals(&rows);
    passing.into_iter().map(|(node, _)| node).zip(totals).collect()
}

/// Whether a pod that is placed changes verdicts and totals of a shape on its own node only.
fn is_node_local(framework: &Framework, shape: &PodShape) -> bool {
    Plugin::all(framework, shape).all(|plugin| {
        let (declaration, score) = (plugin.declare(framework, shape), plugin.score(framework));
        declaration.is_pod_local()
            && !declaration.reads_feasible
            && score.is_none_or(|(_, score)| score.normalization() == Normalization::None)
    })
}
