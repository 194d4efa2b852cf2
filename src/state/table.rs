//! The amounts of one chunk of rows, column after column, without columns of nothing but zeros.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::base::chunks::CHUNK;

/// Columns below this number are dense. Those from it on are rare: a chunk has them only while one
/// of its rows has an amount there.
///
/// Numbers are given in order of first sight, so the columns of what all nodes have are dense. Were
/// there no bound, n nodes with a resource of their own each would make n columns of n rows.
pub(super) const DENSE: usize = 20;

/// Amounts of up to [`CHUNK`] rows by column. An amount that is not stored is 0.
///
/// A dense column is a slice of one vector: reading it costs the bounds check alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// Dense columns one after another, as far as any has been written to.
    dense: Vec<i64>,
    /// How many dense columns there are, and the places of each.
    columns: usize,
    stride: usize,
    rows: usize,
    /// Rare columns by number, in order. All dense columns are there if there is one.
    rare: Vec<(usize, Arc<Vec<i64>>)>,
}

impl Table {
    /// The rows there is room for.
    pub(super) fn room(&self) -> usize {
        self.stride
    }

    /// Adds a row of zeros. `columns` are expected to be written to, in `room` rows at once.
    pub(super) fn push_row(&mut self, columns: usize, room: usize) {
        let len = self.rows;
        if len == self.stride {
            let stride = room.max(4 * len).clamp(4, CHUNK);
            let columns = self.columns.max(columns.min(DENSE));
            let mut wider = vec![0; columns * stride];
            for column in 0..self.columns {
                wider[column * stride..][..len].copy_from_slice(&self.dense[column * len..][..len]);
            }
            touch(wider.len());
            (self.dense, self.columns, self.stride) = (wider, columns, stride);
        }
        self.rows += 1;
    }

    /// The amount of a row in a column.
    #[inline]
    pub(super) fn get(&self, column: usize, at: usize) -> i64 {
        match self.dense.get(column * self.stride + at) {
            Some(amount) => *amount,
            None => self.rare_column(column).map_or(0, |amounts| amounts[at]),
        }
    }

    /// A column; `None` if it is all zeros and not stored.
    #[inline]
    pub(super) fn column(&self, column: usize) -> Option<&[i64]> {
        let first = column * self.stride;
        match self.dense.get(first..first + self.rows) {
            Some(amounts) => Some(amounts),
            None => self.rare_column(column)?.get(..self.rows),
        }
    }

    #[cold]
    fn rare_column(&self, column: usize) -> Option<&[i64]> {
        let at = self.rare.binary_search_by_key(&column, |(column, _)| *column).ok()?;
        Some(&self.rare[at].1)
    }

    /// Columns from this number on are zeros.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.rare.last().map_or(self.columns, |(column, _)| column + 1)
    }

    /// The amounts of a row that are not 0, by column.
    pub(super) fn row(&self, at: usize) -> impl Iterator<Item = (usize, i64)> + '_ {
        touch(self.columns + self.rare.len());
        let dense = (0..self.columns).map(move |column| (column, self.get(column, at)));
        let rare = self.rare.iter().map(move |(column, amounts)| (*column, amounts[at]));
        dense.chain(rare).filter(|(_, amount)| *amount != 0)
    }

    /// Adds to the amount of a row in a column, and returns it.
    #[inline]
    pub(super) fn add(&mut self, column: usize, at: usize, amount: i64) -> i64 {
        let place = column * self.stride + at;
        if let Some(sum) = self.dense.get_mut(place) {
            *sum += amount;
            return *sum;
        }
        self.add_beyond(column, at, amount)
    }

    /// [`Table::add`] in a column that is rare, or that no row had an amount in.
    #[cold]
    fn add_beyond(&mut self, column: usize, at: usize, amount: i64) -> i64 {
        let dense = DENSE.min(column + 1);
        if self.columns < dense {
            touch((dense - self.columns) * self.stride);
            self.columns = dense;
            self.dense.reserve_exact(dense * self.stride - self.dense.len());
            self.dense.resize(dense * self.stride, 0);
        }
        if column < DENSE {
            return self.add(column, at, amount);
        }
        let found = self.rare.binary_search_by_key(&column, |(column, _)| *column);
        let found = found.unwrap_or_else(|found| {
            touch(CHUNK + self.rare.len() - found);
            self.rare.insert(found, (column, Arc::new(vec![0; CHUNK])));
            found
        });
        let amounts = Arc::make_mut(&mut self.rare[found].1);
        amounts[at] += amount;
        let sum = amounts[at];
        if sum == 0 {
            self.drop_if_zero(found);
        }
        sum
    }

    /// Sets all amounts of a row to 0.
    pub(super) fn clear_row(&mut self, at: usize) {
        touch(self.columns + self.rare.len());
        for column in 0..self.columns {
            self.dense[column * self.stride + at] = 0;
        }
        for found in (0..self.rare.len()).rev() {
            if self.rare[found].1[at] != 0 {
                Arc::make_mut(&mut self.rare[found].1)[at] = 0;
                self.drop_if_zero(found);
            }
        }
    }

    /// Drops a rare column in which no row has an amount.
    fn drop_if_zero(&mut self, found: usize) {
        touch(CHUNK + self.rare.len() - found);
        if self.rare[found].1.iter().all(|amount| *amount == 0) {
            self.rare.remove(found);
        }
    }
}

/// Counts cells of columns that are copied, filled, compared or moved, for the tests of growth.
#[cfg(not(test))]
#[inline]
fn touch(_: usize) {}

#[cfg(test)]
use tests::touch;

#[cfg(test)]
mod tests;
