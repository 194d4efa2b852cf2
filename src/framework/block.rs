//! Consecutive rows, as slices of columns.

use core::ops::Range;

use crate::base::chunks::CHUNK;
use crate::state::{Cluster, NodeView, ResourceId, Row};

/// Up to 256 consecutive rows of a cluster, column by column.
///
/// All slices have [`Block::len`] elements. Rows that are not in use read as nodes without
/// anything, and [`Block::node`] is `None` for them.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    cluster: &'a Cluster,
    chunk: usize,
    len: usize,
}

impl<'a> Block<'a> {
    /// The most rows a block has.
    pub const MOST: usize = CHUNK;

    /// The blocks of a cluster, in order of rows.
    pub fn all(cluster: &'a Cluster) -> impl Iterator<Item = Block<'a>> {
        let rows = cluster.rows();
        (0..rows.div_ceil(CHUNK)).map(move |chunk| Block {
            cluster,
            chunk,
            len: (rows - chunk * CHUNK).min(CHUNK),
        })
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
        let first = self.chunk * CHUNK;
        first..first + self.len
    }

    /// One node of the block.
    #[inline]
    pub fn node(&self, at: usize) -> Option<NodeView<'a>> {
        self.cluster.view(self.chunk * CHUNK + at)
    }

    /// Whether every amount in the columns is below 2^60, so that sums and differences of a few
    /// cannot overflow.
    #[inline]
    pub fn is_narrow(&self) -> bool {
        self.cluster.columns.is_narrow()
    }

    /// What pods may use of a resource.
    pub fn allocatable(&self, resource: ResourceId) -> &'a [i64] {
        self.cluster.columns.allocatable_chunk(resource, self.chunk, self.len)
    }

    /// What pods take of a resource.
    pub fn used(&self, resource: ResourceId) -> &'a [i64] {
        self.cluster.columns.used_chunk(resource, self.chunk, self.len)
    }

    /// CPU that scores count as used.
    pub fn scored_cpu(&self) -> &'a [i64] {
        self.cluster.columns.scored_chunks(self.chunk)[0]
    }

    /// Memory that scores count as used.
    pub fn scored_memory(&self) -> &'a [i64] {
        self.cluster.columns.scored_chunks(self.chunk)[1]
    }

    /// How many pods there are.
    pub fn pod_count(&self) -> &'a [i64] {
        self.cluster.columns.pod_count_chunk(self.chunk)
    }

    /// How many pods there may be; `i64::MAX` where no limit is stated.
    pub fn pod_limit(&self) -> &'a [i64] {
        self.cluster.columns.pod_limit.chunk(self.chunk).unwrap_or(&[])
    }

    /// The places in the order of ties.
    pub(crate) fn rank(&self) -> &'a [u32] {
        self.cluster.columns.rank.chunk(self.chunk).unwrap_or(&[])
    }
}
