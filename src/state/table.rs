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
mod tests {
    use core::cell::Cell;
    use std::collections::BTreeMap;
    use std::format;

    use proptest::prelude::*;

    use super::*;
    use crate::Cluster;
    use crate::model::{Node, Pod};

    std::thread_local! {
        static TOUCHED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn touch(cells: usize) {
        TOUCHED.set(TOUCHED.get() + cells);
    }

    proptest! {
        #[test]
        fn a_table_is_a_plain_map(
            steps in prop::collection::vec((0_u8..8, 0_usize..40, 0_usize..9, -2_i64..3), 1..200),
        ) {
            let mut table = Table::default();
            let mut plain = BTreeMap::<(usize, usize), i64>::new();
            table.push_row(2, 0);
            let mut before = (table.clone(), plain.clone());
            for (step, column, at, amount) in steps {
                let at = at % table.rows;
                match step {
                    0 => table.push_row(column, 0),
                    1 => {
                        table.clear_row(at);
                        plain.retain(|(_, row), _| *row != at);
                    }
                    2 => before = (table.clone(), plain.clone()),
                    _ => {
                        let sum = plain.entry((column, at)).or_default();
                        *sum += amount;
                        prop_assert_eq!(table.add(column, at, amount), *sum);
                    }
                }
            }
            for (table, plain) in [(&table, &plain), (&before.0, &before.1)] {
                let of = |column, at| plain.get(&(column, at)).copied().unwrap_or(0);
                for column in 0..45 {
                    let expected: Vec<i64> = (0..table.rows).map(|at| of(column, at)).collect();
                    let got: Vec<i64> = (0..table.rows).map(|at| table.get(column, at)).collect();
                    prop_assert_eq!(&got, &expected);
                    let is_zero = expected.iter().all(|amount| *amount == 0);
                    match table.column(column) {
                        Some(amounts) => prop_assert_eq!(amounts, &expected[..]),
                        None => prop_assert!(is_zero && (column >= DENSE || column >= table.columns)),
                    }
                    prop_assert!(is_zero || column < table.end());
                    // A rare column is stored exactly if it has an amount.
                    let stored = table.rare.iter().any(|(own, _)| *own == column);
                    prop_assert_eq!(stored, column >= DENSE && !is_zero);
                }
                for at in 0..table.rows {
                    let row: Vec<_> = table.row(at).collect();
                    let expected: Vec<_> = (0..45).map(|column| (column, of(column, at))).collect();
                    prop_assert_eq!(row, expected.into_iter().filter(|(_, a)| *a != 0).collect::<Vec<_>>());
                }
            }
        }
    }

    /// The cells touched while so many nodes come, each with a resource and a pod that takes some of
    /// it; and while they are changed and go.
    fn touched(count: usize, own: impl Fn(usize) -> usize) -> usize {
        TOUCHED.set(0);
        let mut cluster = Cluster::new();
        let node = |n: usize, amount: i64| {
            let node = Node::new(format!("n{n}")).capacity("cpu", 4);
            node.capacity(&format!("example.com/r{}", own(n)), amount)
        };
        for n in 0..count {
            cluster.add_node(node(n, 4)).unwrap();
            let pod = Pod::new().name(format!("p{n}")).on(format!("n{n}"));
            cluster.add_pod(pod.request(&format!("example.com/r{}", own(n)), 3)).unwrap();
        }
        for n in 0..count {
            let resource = cluster.resource(&format!("example.com/r{}", own(n))).unwrap();
            let view = cluster.node(&format!("n{n}")).unwrap();
            assert_eq!((view.allocatable(resource), view.used(resource)), (4, 3));
            assert_eq!(view.to_node(), node(n, 4));
            cluster.update_node(&node(n, 5)).unwrap();
        }
        for n in 0..count {
            cluster.remove_pod("default", &format!("p{n}")).unwrap();
            cluster.remove_node(&format!("n{n}")).unwrap();
        }
        TOUCHED.get()
    }

    /// Each chunk has up to 256 columns more; a row reads them a few times.
    #[test]
    fn resources_of_single_nodes_cost_in_proportion_to_the_nodes() {
        let (few, many) = (touched(512, |n| n), touched(4_096, |n| n));
        assert!(few > 512 * CHUNK && many <= 9 * few, "{few} for 512 nodes, {many} for 4,096");
        let common = touched(4_096, |n| n % 10);
        assert!(common < 4_096 * 400, "{common} for resources that many have");
    }
}
