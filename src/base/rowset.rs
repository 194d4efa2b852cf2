//! A bit set of small dense numbers.

use alloc::vec;
use alloc::vec::Vec;

use super::Row;

/// A set of node rows, one bit each.
///
/// Iteration is in ascending order of rows. All operations are O(1) but `new`, `clear`, `len`
/// and iteration, which are O(capacity / 64).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RowSet {
    words: Vec<u64>,
}

impl RowSet {
    /// An empty set with room for rows below `capacity`.
    pub fn new(capacity: usize) -> RowSet {
        RowSet { words: vec![0; capacity.div_ceil(64)] }
    }

    /// The set of all rows below `capacity`.
    pub fn full(capacity: usize) -> RowSet {
        let mut set = RowSet { words: vec![u64::MAX; capacity.div_ceil(64)] };
        let spare = capacity % 64;
        if spare != 0
            && let Some(last) = set.words.last_mut()
        {
            *last = (1 << spare) - 1;
        }
        set
    }

    /// Adds a row, growing as needed. Returns whether it was absent.
    pub fn insert(&mut self, row: Row) -> bool {
        let word = row.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (row.index() % 64);
        let absent = self.words[word] & bit == 0;
        self.words[word] |= bit;
        absent
    }

    /// Takes a row out. Returns whether it was present.
    pub fn remove(&mut self, row: Row) -> bool {
        let bit = 1 << (row.index() % 64);
        match self.words.get_mut(row.index() / 64) {
            Some(word) if *word & bit != 0 => {
                *word &= !bit;
                true
            }
            _ => false,
        }
    }

    /// Whether a row is in the set.
    #[inline]
    pub fn contains(&self, row: Row) -> bool {
        self.words.get(row.index() / 64).is_some_and(|word| word >> (row.index() % 64) & 1 == 1)
    }

    /// How many rows are in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Takes every row out; keeps the memory.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Keeps only the rows that are in `other` too.
    pub fn intersect(&mut self, other: &RowSet) {
        for (i, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(i).copied().unwrap_or(0);
        }
    }

    /// Whether some row is in both sets.
    pub fn intersects(&self, other: &RowSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        self.words.iter().enumerate().flat_map(|(i, word)| bits(i * 64, *word))
    }
}

/// The rows of a word whose first bit stands for the row `first`, ascending.
fn bits(first: usize, word: u64) -> impl Iterator<Item = Row> {
    let mut rest = word;
    core::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let bit = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(Row::new(first + bit))
    })
}

impl RowSet {
    /// Adds a row or takes it out.
    pub(crate) fn set(&mut self, row: Row, present: bool) {
        if present {
            self.insert(row);
        } else {
            self.remove(row);
        }
    }

    /// The rows from `start`, a multiple of 64, to before `end`, ascending: O(rows + (end - start) ÷
    /// 64).
    pub(crate) fn between(&self, start: usize, end: usize) -> impl Iterator<Item = Row> + '_ {
        let words = self.words.iter().take(end.div_ceil(64)).skip(start / 64);
        let firsts = (start / 64..).map(|word| word * 64);
        let rows = firsts.zip(words).flat_map(|(first, word)| bits(first, *word));
        rows.take_while(move |row| row.index() < end)
    }

    /// Each of these rows, which are below `end`, once and in ascending order: O(rows + end ÷ 64),
    /// or O(rows · log rows) where they are few. What was in the set is lost.
    pub(crate) fn sort(&mut self, rows: &[u32], end: usize, into: &mut Vec<u32>) {
        const FEW: usize = 16;
        into.clear();
        if rows.len() < FEW || 8 * rows.len() < end.div_ceil(64) {
            into.extend_from_slice(rows);
            into.sort_unstable();
            into.dedup();
            return;
        }
        self.clear();
        for &row in rows {
            self.insert(Row::from(row));
        }
        into.extend(self.iter().map(Row::as_u32));
    }
}

impl FromIterator<Row> for RowSet {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> RowSet {
        let mut set = RowSet::default();
        for row in rows {
            set.insert(row);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_ends_at_its_capacity() {
        for capacity in [0, 1, 63, 64, 65, 130] {
            let set = RowSet::full(capacity);
            assert_eq!(set.len(), capacity);
            assert!(!set.contains(Row::new(capacity)));
            assert!(set.iter().eq(Row::all(capacity)));
        }
    }

    #[test]
    fn rows_are_sorted_each_once() {
        let mut set = RowSet::default();
        let mut sorted = Vec::new();
        for (count, end) in [(0, 1), (3, 70), (40, 70), (500, 1_000), (20, 100_000)] {
            let rows: Vec<u32> = (0..count).map(|i| i * 7_919 % end).collect();
            set.sort(&rows, end as usize, &mut sorted);
            let mut expected = rows;
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn rows_of_a_part_are_those_of_all_in_it() {
        let rows: RowSet =
            [0, 1, 63, 64, 200, 255, 256, 400, 511].map(Row::new).into_iter().collect();
        for (start, end) in
            [(0, 0), (0, 1), (0, 256), (64, 256), (256, 300), (256, 512), (512, 768)]
        {
            let expected = rows.iter().filter(|row| (start..end).contains(&row.index()));
            assert!(rows.between(start, end).eq(expected), "from {start} to {end}");
        }
    }

    #[test]
    fn insert_and_remove_report_change() {
        let mut set = RowSet::new(10);
        let [near, far, absent] = [3, 700, 9_999].map(Row::new);
        assert!(set.insert(near) && !set.insert(near) && set.insert(far));
        assert!(set.remove(near) && !set.remove(near) && !set.remove(absent));
        assert_eq!(set.iter().collect::<Vec<_>>(), [far]);
    }
}
