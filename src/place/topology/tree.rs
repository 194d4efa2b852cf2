//! All nodes, and the domains that keys make of them, until a node changes.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::partition::{Path, path_keys};
use crate::base::hash::FixedMap;
use crate::state::journal::NodeChange;
use crate::state::{Cluster, LabelKey, LabelValue, NodeView, Row};

/// No domain.
pub(crate) const NONE: u32 = u32::MAX;

/// The nodes of a cluster in the order of ties, and the domains of the keys asked for so far.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The row of each node.
    pub(crate) rows: Arc<[Row]>,
    /// The numbers of all nodes.
    pub(crate) nodes: Arc<[u32]>,
    keys: Vec<(LabelKey, Partition)>,
}

/// The domains of one key, in order of the names on their paths.
#[derive(Debug)]
pub(crate) struct Partition {
    /// The domain of each row; [`NONE`] where there is none.
    pub(crate) of_row: Vec<u32>,
    pub(crate) domains: Vec<TreeDomain>,
}

/// One domain.
#[derive(Debug)]
pub(crate) struct TreeDomain {
    pub(crate) path: Path,
    pub(crate) nodes: Arc<[u32]>,
    pub(crate) rows: Arc<[Row]>,
}

impl Tree {
    /// The nodes of a cluster. O(nodes).
    pub(crate) fn new(cluster: &Cluster) -> Tree {
        let rows: Arc<[Row]> = cluster.nodes().map(NodeView::row).collect();
        let nodes = (0..rows.len() as u32).collect();
        Tree { rows, nodes, keys: Vec::new() }
    }

    /// The place of a key's partition, which is made where it is not there yet.
    /// O(nodes · levels) then.
    pub(crate) fn key(&mut self, cluster: &Cluster, key: LabelKey) -> usize {
        if let Some(place) = self.keys.iter().position(|(known, _)| *known == key) {
            return place;
        }
        let partition = Partition::new(cluster, &self.rows, key);
        self.keys.push((key, partition));
        self.keys.len() - 1
    }

    /// Whether a node that has changed, but for its place in the order of ties, may be in another
    /// domain of a key asked for.
    pub(crate) fn is_changed_by(&self, cluster: &Cluster, change: NodeChange) -> bool {
        let levels = || cluster.levels.iter().any(|level| change.label(*level));
        self.keys.iter().any(|(key, _)| change.label(*key)) || !self.keys.is_empty() && levels()
    }

    pub(crate) fn partition(&self, place: usize) -> &Partition {
        &self.keys[place].1
    }

    /// What a key makes of a domain of another; nothing is known unless both are levels.
    pub(crate) fn within(
        &self,
        cluster: &Cluster,
        (outer, domain): (usize, usize),
        inner: usize,
    ) -> Option<Within> {
        let level = |key: usize| {
            let key = self.keys[key].0;
            cluster.levels.iter().position(|level| *level == key)
        };
        let path = &self.keys[outer].1.domains[domain].path;
        let (outer, finer) = (level(outer)?, level(inner)?);
        if finer <= outer {
            let own = path[finer].map(|_| path[..=finer].into());
            return Some(Within::Itself(own));
        }
        let domains = &self.keys[inner].1.domains;
        let order = |other: &TreeDomain| {
            let other = names(cluster, &other.path).take(path.len());
            other.cmp(names(cluster, path))
        };
        let first = domains.partition_point(|other| order(other).is_lt());
        let end = domains.partition_point(|other| order(other).is_le());
        Some(Within::Domains(first..end))
    }
}

/// What a level makes of a domain of another.
pub(crate) enum Within {
    /// The finer level: these of its domains.
    Domains(Range<usize>),
    /// The same or a coarser level: the domain as a whole, by this path, if its nodes have the
    /// level.
    Itself(Option<Path>),
}

impl Partition {
    fn new(cluster: &Cluster, rows: &[Row], key: LabelKey) -> Partition {
        let keys = match path_keys(cluster, key) {
            [] => core::slice::from_ref(&key),
            keys => keys,
        };
        // Paths are numbered level by level: a number stands for the values so far.
        let mut numbers = vec![0_u32; rows.len()];
        let mut paths = vec![Path::new()];
        for level in keys {
            let mut known: FixedMap<(u32, Option<LabelValue>), u32> = FixedMap::default();
            let mut next: Vec<Path> = Vec::new();
            for (number, &row) in numbers.iter_mut().zip(rows) {
                let value = cluster.view(row).and_then(|node| node.label_value(*level));
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
        let mut place = vec![NONE; paths.len()];
        for (at, &number) in order.iter().enumerate() {
            place[number as usize] = at as u32;
        }
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); order.len()];
        let mut of_row = vec![NONE; cluster.rows()];
        for (node, (&number, &row)) in numbers.iter().zip(rows).enumerate() {
            let place = place[number as usize];
            if place != NONE {
                of_row[row] = place;
                members[place as usize].push(node as u32);
            }
        }
        let domains = order.into_iter().zip(members).map(|(number, nodes)| TreeDomain {
            path: paths[number as usize].clone(),
            rows: nodes.iter().map(|&node| rows[node as usize]).collect(),
            nodes: nodes.into(),
        });
        Partition { domains: domains.collect(), of_row }
    }
}

fn names<'a>(cluster: &'a Cluster, path: &'a Path) -> impl Iterator<Item = Option<&'a str>> {
    path.iter().map(|value| value.map(|value| cluster.label_text(value)))
}
