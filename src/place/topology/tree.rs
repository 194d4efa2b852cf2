//! All nodes, and the domains that keys make of them, until a node changes.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::partition::{Part, names, split};
use super::tiers::{Path, path_keys};
use crate::state::journal::NodeChange;
use crate::state::{Cluster, LabelKey, NodeView, Row};

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

    /// The relation of a key to a domain of another; nothing is known unless both are levels.
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

/// The relation of a level to a domain of another.
pub(crate) enum Within {
    /// The finer level: these of its domains.
    Domains(Range<usize>),
    /// The same or a coarser level: the domain as a whole, by this path, if its nodes have the
    /// level.
    Itself(Option<Path>),
}

impl Partition {
    fn new(cluster: &Cluster, rows: &[Row], key: LabelKey) -> Partition {
        let parts = split(cluster, rows, &path_keys(cluster, key));
        let mut of_row = vec![NONE; cluster.rows()];
        let domain = |(at, Part { path, places }): (usize, Part)| {
            let rows: Arc<[Row]> = places.iter().map(|&place| rows[place as usize]).collect();
            for &row in &*rows {
                of_row[row] = at as u32;
            }
            TreeDomain { path, nodes: places.into(), rows }
        };
        Partition { domains: parts.into_iter().enumerate().map(domain).collect(), of_row }
    }
}
