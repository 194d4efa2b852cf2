//! Sorting row numbers of which there are many.

use alloc::vec::Vec;

/// A bit for each row, all of them clear between uses.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    words: Vec<u64>,
}

impl Marks {
    /// Each of these rows, which are below `end`, once and in ascending order: O(rows + end ÷ 64),
    /// or O(rows · log rows) where they are few.
    pub(crate) fn sort(&mut self, rows: &[u32], end: usize, into: &mut Vec<u32>) {
        const FEW: usize = 16;
        into.clear();
        let words = end.div_ceil(64);
        if rows.len() < FEW || 8 * rows.len() < words {
            into.extend_from_slice(rows);
            into.sort_unstable();
            into.dedup();
            return;
        }
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        for &row in rows {
            self.words[row as usize / 64] |= 1 << (row % 64);
        }
        for (at, word) in self.words[..words].iter_mut().enumerate() {
            while *word != 0 {
                into.push(at as u32 * 64 + word.trailing_zeros());
                *word &= *word - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_once_and_in_order() {
        let mut marks = Marks::default();
        let mut sorted = Vec::new();
        for (count, end) in [(0, 1), (3, 70), (40, 70), (500, 1_000), (20, 100_000)] {
            let rows: Vec<u32> = (0..count).map(|i| i * 7_919 % end).collect();
            marks.sort(&rows, end as usize, &mut sorted);
            let mut expected = rows;
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(sorted, expected);
        }
    }
}
