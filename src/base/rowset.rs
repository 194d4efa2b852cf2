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
mod tests;
