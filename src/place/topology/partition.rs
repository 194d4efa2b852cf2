//! Splitting nodes into the domains of a key.

use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::base::hash::FixedMap;
use crate::state::{Cluster, LabelKey, LabelValue, Row};

/// The values of a domain's level and of all levels above it; of its key alone where that is no
/// level.
pub(crate) type Path = SmallVec<[Option<LabelValue>; 4]>;

/// One domain: the nodes that share a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) path: Path,
    /// The places of its nodes in the list that was split, ascending.
    pub(crate) nodes: Vec<u32>,
}

/// The keys that a domain of a key is told apart by: for a declared level, it and those above.
pub(crate) fn path_keys(cluster: &Cluster, key: LabelKey) -> &[LabelKey] {
    match cluster.levels.iter().position(|level| *level == key) {
        Some(level) => &cluster.levels[..=level],
        None => &[],
    }
}

/// The path of a row; `None` if it lacks the key. Levels above may be missing.
pub(crate) fn path_of(cluster: &Cluster, row: Row, key: LabelKey) -> Option<Path> {
    let node = cluster.view(row)?;
    let own = node.label_value(key)?;
    let keys = path_keys(cluster, key);
    Some(match keys.split_last() {
        Some((_, above)) => {
            let mut path: Path = above.iter().map(|key| node.label_value(*key)).collect();
            path.push(Some(own));
            path
        }
        None => SmallVec::from_slice(&[Some(own)]),
    })
}

/// The domains that a key makes of some nodes, in order of the names on their paths. Nodes without
/// the key are in none. O(nodes · levels).
pub(crate) fn split(cluster: &Cluster, rows: &[Row], nodes: &[u32], key: LabelKey) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut places: FixedMap<Path, usize> = FixedMap::default();
    for &node in nodes {
        let Some(path) = rows.get(node as usize).and_then(|&row| path_of(cluster, row, key)) else {
            continue;
        };
        let place = *places.entry(path).or_insert_with_key(|path| {
            parts.push(Part { path: path.clone(), nodes: Vec::new() });
            parts.len() - 1
        });
        parts[place].nodes.push(node);
    }
    parts.sort_by(|a, b| names(cluster, &a.path).cmp(names(cluster, &b.path)));
    parts
}

fn names<'a>(cluster: &'a Cluster, path: &'a Path) -> impl Iterator<Item = Option<&'a str>> {
    path.iter().map(|value| value.map(|value| cluster.label_text(value)))
}
