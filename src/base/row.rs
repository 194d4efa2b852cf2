//! Rows: places of nodes in the columns of a cluster.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// A place of a node in the columns of a cluster; dense, below [`Cluster::rows`].
///
/// A row indexes slices and vectors: a column of one's own is
/// `vec![0; cluster.rows()]` and is read as `column[node.row()]`. Rows of nodes that are gone are
/// used again: what outlives an event is kept by [`NodeId`].
///
/// ```
/// use phalanx::state::Row;
///
/// let column = [10, 20, 30];
/// assert_eq!(column[Row::new(1)], 20);
/// assert_eq!(Row::all(column.len()).map(Row::index).collect::<Vec<_>>(), [0, 1, 2]);
/// ```
///
/// [`Cluster::rows`]: crate::state::Cluster::rows
/// [`NodeId`]: crate::state::NodeId
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Row(usize);

impl Row {
    /// The row at an index of a column.
    #[inline]
    pub const fn new(index: usize) -> Row {
        Row(index)
    }

    /// The index into a column.
    #[inline]
    pub const fn index(self) -> usize {
        self.0
    }

    /// The row as columns of rows keep it; a cluster has fewer than `u32::MAX` rows.
    #[inline]
    pub(crate) const fn as_u32(self) -> u32 {
        self.0 as u32
    }

    /// The rows below `rows`, ascending.
    #[inline]
    pub fn all(rows: usize) -> impl DoubleEndedIterator<Item = Row> + ExactSizeIterator + Clone {
        (0..rows).map(Row)
    }
}

impl From<u32> for Row {
    #[inline]
    fn from(number: u32) -> Row {
        Row(number as usize)
    }
}

impl<T> Index<Row> for [T] {
    type Output = T;

    #[inline]
    fn index(&self, row: Row) -> &T {
        &self[row.0]
    }
}

impl<T> IndexMut<Row> for [T] {
    #[inline]
    fn index_mut(&mut self, row: Row) -> &mut T {
        &mut self[row.0]
    }
}

impl<T> Index<Row> for Vec<T> {
    type Output = T;

    #[inline]
    fn index(&self, row: Row) -> &T {
        &self[row.0]
    }
}

impl<T> IndexMut<Row> for Vec<T> {
    #[inline]
    fn index_mut(&mut self, row: Row) -> &mut T {
        &mut self[row.0]
    }
}
