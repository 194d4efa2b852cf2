//! Consecutive rows, as slices of columns.

use alloc::vec::Vec;
use core::cell::OnceCell;
use core::ops::Range;

use crate::base::chunks::CHUNK;
use crate::state::{Cluster, NodeView, ResourceId, Row, RowUsage, Takes};

/// Up to 256 consecutive rows of a cluster, column by column.
///
/// All slices have [`Block::len`] elements. Rows that are not in use read as nodes without
/// anything, and [`Block::node`] is `None` for them.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    cluster: &'a Cluster,
    chunk: usize,
    /// The place of the first row in its chunk.
    start: usize,
    len: usize,
    /// What the rows would take with more pods.
    ahead: Option<&'a Ahead>,
}

/// The columns of a block as they would be with some more pods of a shape on every row.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    pod_count: Vec<i64>,
    scored: [Vec<i64>; 2],
    /// By number of resource; empty for those of which the pod takes nothing.
    used: Vec<Vec<i64>>,
    /// For plugins that look at nodes one by one.
    usages: Vec<OnceCell<RowUsage>>,
}

impl Ahead {
    /// Looks ahead in a block, so many pods on each row. Sums must not overflow.
    pub(crate) fn fill(&mut self, block: &Block<'_>, takes: &Takes, pods: i64) {
        let copy = |into: &mut Vec<i64>, from: &[i64], each: i64| {
            let more = each * pods;
            into.clear();
            into.extend(from.iter().map(|amount| amount + more));
        };
        copy(&mut self.pod_count, block.pod_count(), 1);
        copy(&mut self.scored[0], block.scored_cpu(), takes.scored[0]);
        copy(&mut self.scored[1], block.scored_memory(), takes.scored[1]);
        self.used.iter_mut().for_each(Vec::clear);
        for &(resource, amount) in &takes.requests {
            if self.used.len() <= resource.index() {
                self.used.resize_with(resource.index() + 1, Vec::new);
            }
            copy(&mut self.used[resource.index()], block.used(resource), amount);
        }
        if self.usages.iter().any(|usage| usage.get().is_some()) {
            self.usages.clear();
        }
        self.usages.resize_with(block.len().max(self.usages.len()), OnceCell::new);
    }
}

impl<'a> Block<'a> {
    /// The most rows a block has.
    pub const MOST: usize = CHUNK;

    /// The blocks of a cluster, in order of rows.
    pub fn all(cluster: &'a Cluster) -> impl Iterator<Item = Block<'a>> {
        let rows = cluster.rows();
        let chunks = (0..rows).step_by(CHUNK);
        chunks.map(move |first| Block::of(cluster, first..rows.min(first + CHUNK)))
    }

    /// Consecutive rows that are in the same chunk, such as those of a block or some of them.
    pub(crate) fn of(cluster: &'a Cluster, rows: Range<Row>) -> Block<'a> {
        let (chunk, start) = (rows.start / CHUNK, rows.start % CHUNK);
        Block { cluster, chunk, start, len: rows.len(), ahead: None }
    }

    /// The block as it would be with what was looked ahead to.
    pub(crate) fn with(self, ahead: &'a Ahead) -> Block<'a> {
        Block { ahead: Some(ahead), ..self }
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rows.
    pub fn rows(&self) -> Range<Row> {
        let first = self.chunk * CHUNK + self.start;
        first..first + self.len
    }

    /// One node of the block.
    #[inline]
    pub fn node(&self, at: usize) -> Option<NodeView<'a>> {
        let row = self.rows().start + at;
        let mut node = self.cluster.view(row)?;
        if let Some(ahead) = self.ahead {
            node.usage = Some(ahead.usages.get(at)?.get_or_init(|| {
                let used = |(resource, now): (usize, i64)| {
                    ahead.used.get(resource).and_then(|used| used.get(at)).copied().unwrap_or(now)
                };
                let now = self.cluster.columns.sums(row).used();
                RowUsage {
                    pod_count: ahead.pod_count[at],
                    scored: [ahead.scored[0][at], ahead.scored[1][at]],
                    used: now.enumerate().map(used).collect(),
                }
            }));
        }
        Some(node)
    }

    /// What `of` says of each node; 0 for rows that are not in use.
    pub(crate) fn each(&self, out: &mut [i64], of: impl Fn(NodeView<'a>) -> i64) {
        for (at, out) in out.iter_mut().enumerate() {
            *out = self.node(at).map_or(0, &of);
        }
    }

    /// Whether every amount in the columns is below 2^61, so that sums and differences of a few
    /// cannot overflow.
    #[inline]
    pub fn is_narrow(&self) -> bool {
        self.cluster.columns.is_narrow()
    }

    /// What pods may use of a resource.
    pub fn allocatable(&self, resource: ResourceId) -> &'a [i64] {
        let len = self.start + self.len;
        self.part(self.cluster.columns.allocatable_chunk(resource, self.chunk, len))
    }

    /// What pods take of a resource.
    pub fn used(&self, resource: ResourceId) -> &'a [i64] {
        match self.ahead.and_then(|ahead| ahead.used.get(resource.index())) {
            Some(used) if !used.is_empty() => used,
            _ => {
                let len = self.start + self.len;
                self.part(self.cluster.columns.used_chunk(resource, self.chunk, len))
            }
        }
    }

    /// CPU that scores count as used.
    pub fn scored_cpu(&self) -> &'a [i64] {
        self.scored(0)
    }

    /// Memory that scores count as used.
    pub fn scored_memory(&self) -> &'a [i64] {
        self.scored(1)
    }

    fn scored(&self, at: usize) -> &'a [i64] {
        match self.ahead {
            Some(ahead) => &ahead.scored[at],
            None => self.part(self.cluster.columns.scored_chunks(self.chunk)[at]),
        }
    }

    /// How many pods there are.
    pub fn pod_count(&self) -> &'a [i64] {
        match self.ahead {
            Some(ahead) => &ahead.pod_count,
            None => self.part(self.cluster.columns.pod_count_chunk(self.chunk)),
        }
    }

    /// How many pods there may be; `i64::MAX` where no limit is stated.
    pub fn pod_limit(&self) -> &'a [i64] {
        self.part(self.cluster.columns.pod_limit.chunk(self.chunk).unwrap_or(&[]))
    }

    /// The places in the order of ties.
    pub(crate) fn rank(&self) -> &'a [u32] {
        self.part(self.cluster.columns.rank.chunk(self.chunk).unwrap_or(&[]))
    }

    /// The rows of the block in a column's chunk.
    #[inline]
    fn part<T>(&self, chunk: &'a [T]) -> &'a [T] {
        chunk.get(self.start..self.start + self.len).unwrap_or(&[])
    }
}
