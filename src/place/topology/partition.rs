//! Nodes by domain, and candidates made of them.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::tiers::Path;
use crate::base::hash::FixedMap;
use crate::state::{Cluster, DeviceTerm, LabelKey, LabelValue, NodeView, Row};

/// One domain: the nodes that share a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) path: Path,
    /// The places of its nodes in the list that was split, ascending.
    pub(crate) places: Vec<u32>,
}

/// One candidate: rows to place a group on, and an island that its devices stay within.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The values of the domain; empty where the group is not confined further, or to an island.
    pub(crate) path: Vec<Option<LabelValue>>,
    /// The island, of the only row.
    pub(crate) island: Option<DeviceTerm>,
    /// `None` where the group is not confined further.
    rows: Option<Arc<Vec<Row>>>,
}

impl Candidate {
    /// All nodes.
    pub(crate) const fn whole() -> Candidate {
        Candidate { path: Vec::new(), island: None, rows: None }
    }

    /// An island of a row.
    pub(crate) fn island(row: Row, island: DeviceTerm) -> Candidate {
        Candidate { path: Vec::new(), island: Some(island), rows: Some(Arc::new(vec![row])) }
    }

    /// The value of the domain's own key.
    pub(crate) fn value(&self) -> Option<LabelValue> {
        self.path.last().copied().flatten()
    }

    /// The rows of the candidate, within those of its parent; `None` means all.
    pub(crate) fn rows<'a>(&'a self, parent: Option<&'a [Row]>) -> Option<&'a [Row]> {
        self.rows.as_ref().map_or(parent, |rows| Some(rows))
    }
}

/// All rows that are nodes, in the order of ties.
pub(crate) fn all_rows(cluster: &Cluster) -> Vec<Row> {
    cluster.nodes().map(NodeView::row).collect()
}

/// The values of a node; `None` if it lacks the last key. Others may be missing.
pub(crate) fn path_of(node: NodeView<'_>, keys: &[LabelKey]) -> Option<Path> {
    let path: Path = keys.iter().map(|key| node.label_value(*key)).collect();
    path.last()?.is_some().then_some(path)
}

/// The domains that keys make of some rows, in order of the names on their paths. Nodes without the
/// last key are in none. O(rows · keys).
pub(crate) fn split(cluster: &Cluster, rows: &[Row], keys: &[LabelKey]) -> Vec<Part> {
    // Paths are numbered key by key: a number stands for the values so far.
    let mut numbers = vec![0_u32; rows.len()];
    let mut paths = vec![Path::new()];
    for key in keys {
        let mut known: FixedMap<(u32, Option<LabelValue>), u32> = FixedMap::default();
        let mut next: Vec<Path> = Vec::new();
        for (number, &row) in numbers.iter_mut().zip(rows) {
            let value = cluster.view(row).and_then(|node| node.label_value(*key));
            *number = *known.entry((*number, value)).or_insert_with(|| {
                let mut path = paths[*number as usize].clone();
                path.push(value);
                next.push(path);
                next.len() as u32 - 1
            });
        }
        paths = next;
    }
    let mut order: Vec<u32> = (0..paths.len() as u32)
        .filter(|&number| paths[number as usize].last().is_some_and(Option::is_some))
        .collect();
    order.sort_by(|&a, &b| {
        let names = |number: u32| names(cluster, &paths[number as usize]);
        names(a).cmp(names(b))
    });
    let mut at = vec![None; paths.len()];
    let mut parts = Vec::with_capacity(order.len());
    for number in order {
        at[number as usize] = Some(parts.len());
        let path = core::mem::take(&mut paths[number as usize]);
        parts.push(Part { path, places: Vec::new() });
    }
    for (place, number) in numbers.into_iter().enumerate() {
        if let Some(part) = at[number as usize] {
            parts[part].places.push(place as u32);
        }
    }
    parts
}

/// The names on a path, by which domains are ordered.
pub(crate) fn names<'a>(
    cluster: &'a Cluster,
    path: &'a [Option<LabelValue>],
) -> impl Iterator<Item = Option<&'a str>> {
    path.iter().map(|value| value.map(|value| cluster.label_text(value)))
}

/// The domains that keys make of some rows, as candidates in order of name.
pub(crate) fn partition(cluster: &Cluster, rows: &[Row], keys: &[LabelKey]) -> Arc<[Candidate]> {
    let candidate = |part: Part| Candidate {
        path: part.path.into_vec(),
        island: None,
        rows: Some(Arc::new(part.places.iter().map(|&place| rows[place as usize]).collect())),
    };
    split(cluster, rows, keys).into_iter().map(candidate).collect()
}

/// The same of all nodes. Rows of a declared level's values, which the cluster keeps, are in no
/// particular order.
pub(crate) fn partition_all(cluster: &Cluster, keys: &[LabelKey]) -> Arc<[Candidate]> {
    if let [key] = keys
        && let Some(parts) = cluster.level_parts.parts(*key)
    {
        let candidate = |part: &crate::state::parts::Part| Candidate {
            path: vec![Some(part.value)],
            island: None,
            rows: Some(Arc::clone(&part.rows)),
        };
        return parts.iter().map(candidate).collect();
    }
    partition(cluster, &all_rows(cluster), keys)
}
