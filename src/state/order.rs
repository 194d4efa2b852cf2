//! The total order of nodes among equals: by tie rank, then by name.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Rows in a block before it is split.
const BLOCK: usize = 512;

/// All rows in their order, in blocks, so that one more costs O(√n).
#[derive(Debug, Clone)]
pub(crate) struct NodeOrder {
    blocks: Vec<Arc<Vec<u32>>>,
    /// Whether it is known to be the order of rows.
    pub(crate) in_row_order: bool,
}

impl Default for NodeOrder {
    fn default() -> NodeOrder {
        NodeOrder { blocks: Vec::new(), in_row_order: true }
    }
}

/// Where a row was put: its neighbours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Neighbours {
    pub(crate) before: Option<u32>,
    pub(crate) after: Option<u32>,
}

impl NodeOrder {
    /// The rows in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().flat_map(|block| block.iter().copied())
    }

    /// Puts a row in. `compare` orders a present row against the new one, and is never `Equal`.
    pub(crate) fn insert(
        &mut self,
        row: u32,
        mut compare: impl FnMut(u32) -> Ordering,
    ) -> Neighbours {
        if self.blocks.is_empty() {
            self.blocks.push(Arc::new(Vec::new()));
        }
        let (block, at) = self.place(&mut compare);
        let before = match at.checked_sub(1) {
            Some(previous) => Some(self.blocks[block][previous]),
            None => block.checked_sub(1).and_then(|b| self.blocks[b].last().copied()),
        };
        let after = self.blocks[block]
            .get(at)
            .or_else(|| self.blocks.get(block + 1).and_then(|next| next.first()))
            .copied();
        let rows = Arc::make_mut(&mut self.blocks[block]);
        if rows.len() < BLOCK {
            rows.insert(at, row);
            return Neighbours { before, after };
        }
        // At the very end, where sorted input arrives, blocks are left full.
        let keep = if after.is_none() { BLOCK } else { BLOCK / 2 };
        let mut rest = rows.split_off(keep);
        match at.checked_sub(keep) {
            Some(at) => rest.insert(at, row),
            None => rows.insert(at, row),
        }
        self.blocks.insert(block + 1, Arc::new(rest));
        Neighbours { before, after }
    }

    /// Takes a row out.
    pub(crate) fn remove(&mut self, mut compare: impl FnMut(u32) -> Ordering) {
        if self.blocks.is_empty() {
            return;
        }
        let (block, at) = self.place(&mut compare);
        let rows = Arc::make_mut(&mut self.blocks[block]);
        if at < rows.len() {
            rows.remove(at);
        }
        if rows.is_empty() {
            self.blocks.remove(block);
        }
    }

    /// The block and the place in it of the first row that is not less.
    fn place(&self, compare: &mut impl FnMut(u32) -> Ordering) -> (usize, usize) {
        let block = self
            .blocks
            .partition_point(|rows| rows.last().is_some_and(|&last| compare(last).is_lt()))
            .min(self.blocks.len() - 1);
        (block, self.blocks[block].partition_point(|&row| compare(row).is_lt()))
    }
}

/// Steps between ranks at either end, where sorted input arrives.
const STEP: u32 = 4_096;

/// A rank between two, if there is one: in the middle, but at either end near what is there.
pub(crate) fn rank_between(before: Option<u32>, after: Option<u32>) -> Option<u32> {
    match (before, after) {
        (None, None) => Some(1 << 31),
        (Some(before), None) => {
            let room = u32::MAX - before;
            (room > 0).then(|| before + room.div_ceil(2).min(STEP))
        }
        (None, Some(after)) => (after > 0).then(|| after - after.div_ceil(2).min(STEP)),
        (Some(before), Some(after)) => {
            let middle = before + after.saturating_sub(before) / 2;
            (middle > before).then_some(middle)
        }
    }
}

/// Ranks for so many rows, when there is no room where one is wanted: evenly over the middle half of all
/// numbers. The rest is for sorted input, which goes on at an end.
pub(crate) fn fresh_ranks(count: usize) -> impl Iterator<Item = u32> {
    let step = ((1_u64 << 31) / (count as u64 + 1)).max(1);
    (1..=count as u64).map(move |place| ((1 << 30) + place * step) as u32)
}

#[cfg(test)]
mod tests;
