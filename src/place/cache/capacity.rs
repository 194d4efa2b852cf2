//! Capacity columns: free amounts and room for pods, by node and by domain, between requests.
//!
//! A column is one number a node: its free amount of a resource, or how many pods of a shape fit.
//! Its sums over domains are kept beside it. The rows that the cluster's journal names are read
//! again, and sums move by the difference. So a request costs in proportion to the pods and nodes
//! that changed.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::fits::{Asker, Fits};
use crate::base::hash::{FixedMap, hash_of};
use crate::framework::prepared::MANY;
use crate::framework::{Block, Framework};
use crate::model::PodShape;
use crate::place::topology::tree::{NONE, Tree};
use crate::state::journal::{Change, Moment, NodeChange};
use crate::state::{Cluster, ResourceId, Row};

/// Columns kept at most, and at most so many rows in all of them together.
const COLUMNS: usize = 1_024;
const COLUMN_ROWS: usize = 8_000_000;

/// A plain amount of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    /// How many pods it may still get.
    Pods,
    /// Free amount of a resource, never negative.
    Free(ResourceId),
    /// Amount of a resource that may be used.
    Allocatable(ResourceId),
    /// Used amount of it, where there is any.
    Used(ResourceId),
    /// Amount of CPU (0) or memory (1) that scores count as used, where there is any of the
    /// resource.
    Scored(ResourceId, usize),
}

#[derive(Debug)]
enum What {
    Amount(Amount),
    /// How many pods of a shape fit that get nothing else.
    Fits(Fits),
}

#[derive(Debug)]
struct Column {
    what: What,
    /// By row.
    values: Vec<i64>,
    total: i128,
    /// Sums by partition of the tree and by domain; empty before their first use.
    sums: Vec<Vec<i128>>,
    /// As of when the values are.
    moment: Moment,
    /// As of which tree the sums are.
    tree: u64,
}

/// Columns, and the tree their sums go by.
#[derive(Debug, Default)]
pub(crate) struct Capacity {
    framework: Option<Framework>,
    /// As of when the tree is.
    moment: Moment,
    pub(crate) tree: Tree,
    /// Trees made so far.
    trees: u64,
    columns: Vec<Column>,
    by_shape: FixedMap<u64, Vec<u32>>,
    /// Columns beyond these hold for one request alone.
    kept: usize,
}

/// A set of nodes that sums are kept of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All nodes.
    Whole,
    /// A domain of the tree: its key's place, and its own.
    Domain(usize, usize),
}

impl Capacity {
    /// An update by the changes since the last request.
    pub(crate) fn sync(&mut self, cluster: &Cluster, framework: &Framework) {
        let same = self.framework.as_ref().is_some_and(|known| known.same(framework));
        if !same || !self.is_same_tree(cluster) {
            self.tree = Tree::new(cluster);
            self.trees += 1;
        }
        let most = (COLUMN_ROWS / cluster.rows().max(1)).clamp(16, COLUMNS);
        if !same || self.kept > most {
            self.framework = Some(framework.clone());
            self.kept = 0;
            self.by_shape.clear();
        }
        self.columns.truncate(self.kept);
        self.moment = cluster.moment();
    }

    /// Takes in what has changed in a cluster that was visited, and takes it for what it was at
    /// another moment, which it is equal to.
    pub(crate) fn rebase(&mut self, visited: &Cluster, moment: Moment) {
        self.columns.truncate(self.kept);
        let is_same = self.is_same_tree(visited);
        for place in 0..self.columns.len() {
            let column = &mut self.columns[place];
            if column.moment.is_of(visited.moment()) {
                if !is_same {
                    // No request has read the tree of that cluster: its domains are not known.
                    column.sums.clear();
                }
                self.refresh(visited, place);
                self.columns[place].moment = moment;
            }
        }
        if is_same && self.moment.is_of(visited.moment()) {
            self.moment = moment;
        }
    }

    /// Whether nodes, their order and their domains are what they were.
    fn is_same_tree(&self, cluster: &Cluster) -> bool {
        let Some(mut changes) = cluster.journal.since(self.moment) else { return false };
        changes.all(|change| match change {
            Change::Pods { .. }
            | Change::Namespaces
            | Change::Storage
            | Change::Claims
            | Change::Parked => true,
            Change::Node { change, .. } => {
                let moves = NodeChange::ADDED.and(NodeChange::REMOVED, true);
                !change.has(moves.and(NodeChange::TIE_RANK, true))
                    && !self.tree.is_changed_by(cluster, change)
            }
        })
    }

    /// The column of an amount, up to date.
    pub(crate) fn amount(&mut self, cluster: &Cluster, amount: Amount) -> usize {
        let is = |column: &Column| matches!(column.what, What::Amount(known) if known == amount);
        match self.columns.iter().position(is) {
            Some(place) => {
                self.refresh(cluster, place);
                place
            }
            None => self.add(cluster, What::Amount(amount), None, true),
        }
    }

    /// The column of how many pods of a shape fit, up to date. It is kept unless a filter reads
    /// more than the shape.
    pub(crate) fn fits(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        asker: Asker<'_>,
    ) -> usize {
        if !Fits::lasts(framework, shape) {
            let fits = Fits::new(cluster, framework, shape, Some(asker));
            return self.add(cluster, What::Fits(fits), Some(asker), false);
        }
        let hash = hash_of(&**shape);
        let is = |&place: &u32| match &self.columns[place as usize].what {
            What::Fits(fits) => fits.shape == *shape,
            What::Amount(_) => false,
        };
        let known = self.by_shape.get(&hash).and_then(|places| places.iter().copied().find(is));
        if let Some(place) = known {
            self.refresh(cluster, place as usize);
            return place as usize;
        }
        let fits = Fits::new(cluster, framework, shape, Some(asker));
        let place = self.add(cluster, What::Fits(fits), Some(asker), true);
        if place < self.kept {
            self.by_shape.entry(hash).or_default().push(place as u32);
        }
        place
    }

    fn add(
        &mut self,
        cluster: &Cluster,
        what: What,
        asker: Option<Asker<'_>>,
        keep: bool,
    ) -> usize {
        let mut values = vec![0; cluster.rows()];
        for (block, values) in Block::all(cluster).zip(values.chunks_mut(Block::MOST)) {
            match (&what, asker) {
                (What::Amount(amount), _) => amount.read(&block, values),
                (What::Fits(fits), Some(asker)) => fits.read(cluster, asker, &block, values),
                (What::Fits(_), None) => {}
            }
        }
        let total = values.iter().map(|&value| i128::from(value)).sum();
        let (moment, tree) = (cluster.moment(), self.trees);
        let column = Column { what, values, total, sums: Vec::new(), moment, tree };
        // Columns after the column of one request go with it.
        let keep = keep && self.kept == self.columns.len();
        self.columns.push(column);
        if keep {
            self.kept = self.columns.len();
        }
        self.columns.len() - 1
    }

    fn refresh(&mut self, cluster: &Cluster, place: usize) {
        let Capacity { framework, tree, trees, columns, .. } = self;
        let (Some(framework), Some(column)) = (framework.as_ref(), columns.get_mut(place)) else {
            return;
        };
        if core::mem::replace(&mut column.tree, *trees) != *trees {
            column.sums.clear();
        }
        let then = core::mem::replace(&mut column.moment, cluster.moment());
        if then == column.moment {
            return;
        }
        let mut nodes = false;
        let mut rows: Vec<u32> = Vec::new();
        if let Some(changes) = cluster.journal.since(then) {
            for change in changes {
                match change {
                    Change::Pods { row, .. } if rows.last() == Some(&row) => {}
                    Change::Pods { row, .. } => rows.push(row),
                    Change::Node { row, .. } => {
                        nodes = true;
                        rows.push(row);
                    }
                    Change::Namespaces | Change::Storage | Change::Claims | Change::Parked => {}
                }
            }
        } else {
            nodes = true;
            rows.extend(0..cluster.rows() as u32);
            // There may be fewer rows now, and then the sums would keep those that are gone.
            column.values.clear();
            column.sums.clear();
            column.total = 0;
        }
        column.values.resize(cluster.rows(), 0);
        if nodes
            && let What::Fits(fits) = &mut column.what
            && fits.follow_nodes(cluster, framework)
        {
            rows.clear();
            rows.extend(0..cluster.rows() as u32);
        }
        for row in rows {
            let row = Row::from(row);
            let now = match &column.what {
                What::Amount(amount) => amount.of(cluster, row),
                What::Fits(fits) => fits.count(cluster, None, row),
            };
            let grown = i128::from(now) - i128::from(column.values[row]);
            column.values[row] = now;
            column.total += grown;
            for (key, sums) in column.sums.iter_mut().enumerate() {
                let domain = tree.partition(key).of_row[row];
                if let Some(sum) = sums.get_mut(domain as usize) {
                    *sum += grown;
                }
            }
        }
    }

    /// The value of a row in a column.
    #[inline]
    pub(crate) fn value(&self, column: usize, row: Row) -> i64 {
        self.columns[column].values[row]
    }

    /// The values of a column, by row.
    pub(crate) fn values(&self, column: usize) -> &[i64] {
        &self.columns[column].values
    }

    /// The sum of a column over some nodes. O(nodes) the first time for a column and a key.
    pub(crate) fn sum(&mut self, column: usize, extent: Extent) -> i64 {
        let Capacity { tree, columns, .. } = self;
        let column = &mut columns[column];
        let sum = match extent {
            Extent::Whole => column.total,
            Extent::Domain(key, domain) => {
                if column.sums.len() <= key {
                    column.sums.resize(key + 1, Vec::new());
                }
                let partition = tree.partition(key);
                let sums = &mut column.sums[key];
                if sums.is_empty() {
                    sums.resize(partition.domains.len(), 0);
                    for (&of, &value) in partition.of_row.iter().zip(&column.values) {
                        if of != NONE {
                            sums[of as usize] += i128::from(value);
                        }
                    }
                }
                sums[domain]
            }
        };
        sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

impl Amount {
    fn of(self, cluster: &Cluster, row: Row) -> i64 {
        let Some(node) = cluster.view(row) else { return 0 };
        let has = |resource: ResourceId| node.allocatable(resource) > 0;
        match self {
            Amount::Pods => node.free_pods().clamp(0, MANY),
            Amount::Free(resource) => node.free(resource).max(0),
            Amount::Allocatable(resource) => node.allocatable(resource).max(0),
            Amount::Used(resource) if has(resource) => node.used(resource),
            Amount::Scored(resource, at) if has(resource) => node.scored_used()[at],
            Amount::Used(_) | Amount::Scored(..) => 0,
        }
    }

    /// The same for a block of rows. Rows that are not in use have nothing.
    fn read(self, block: &Block<'_>, out: &mut [i64]) {
        let pairs = |a: &'_ [i64], b: &'_ [i64], out: &mut [i64], of: fn(i64, i64) -> i64| {
            for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                *out = of(*a, *b);
            }
        };
        let present: fn(i64, i64) -> i64 = |all, used| if all > 0 { used } else { 0 };
        match self {
            Amount::Pods => pairs(block.pod_limit(), block.pod_count(), out, |limit, count| {
                limit.saturating_sub(count).clamp(0, MANY)
            }),
            Amount::Free(resource) => {
                pairs(block.allocatable(resource), block.used(resource), out, |all, used| {
                    all.saturating_sub(used).max(0)
                });
            }
            Amount::Allocatable(resource) => {
                let all = block.allocatable(resource);
                pairs(all, all, out, |all, _| all.max(0));
            }
            Amount::Used(resource) => {
                pairs(block.allocatable(resource), block.used(resource), out, present);
            }
            Amount::Scored(resource, at) => {
                let scored = if at == 0 { block.scored_cpu() } else { block.scored_memory() };
                pairs(block.allocatable(resource), scored, out, present);
            }
        }
    }
}

#[cfg(test)]
mod tests;
