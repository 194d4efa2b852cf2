//! Sums per value of a node label.

use alloc::vec::Vec;

use crate::state::{LabelKey, LabelValue, NodeView};

/// A sum for each value of a node label: O(1) to add to, O(log labels) to read for a node.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// `None` if no node has the label.
    pub(super) key: Option<LabelKey>,
    /// By number of value.
    sums: Vec<i64>,
    /// How many of them are not 0.
    others: usize,
}

impl Tally {
    pub(super) fn new(key: Option<LabelKey>) -> Tally {
        Tally { key, sums: Vec::new(), others: 0 }
    }

    /// The sum of a node's domain; `None` if the node is in none.
    #[inline]
    pub(super) fn of(&self, node: NodeView<'_>) -> Option<i64> {
        Some(self.at(node.label_value(self.key?)?))
    }

    #[inline]
    pub(super) fn at(&self, value: LabelValue) -> i64 {
        self.sums.get(value.index()).copied().unwrap_or(0)
    }

    /// Every value with its sum.
    pub(super) fn values(&self) -> impl Iterator<Item = (LabelValue, i64)> + '_ {
        (0..).map(LabelValue).zip(self.sums.iter().copied())
    }

    /// Whether every sum is 0. O(1).
    #[inline]
    pub(super) fn is_zero(&self) -> bool {
        self.others == 0
    }

    /// Adds to the sum of a node's domain. Returns whether the node is in one.
    pub(super) fn add(&mut self, node: NodeView<'_>, amount: i64) -> bool {
        let value = self.key.and_then(|key| node.label_value(key));
        value.map(|value| self.add_at(value, amount)).is_some()
    }

    pub(super) fn add_at(&mut self, value: LabelValue, amount: i64) {
        if self.sums.len() <= value.index() {
            // Zeros in one piece cost less than one by one.
            let mut sums = alloc::vec![0; (value.index() + 1).next_power_of_two()];
            sums[..self.sums.len()].copy_from_slice(&self.sums);
            self.sums = sums;
        }
        let sum = &mut self.sums[value.index()];
        let was_zero = *sum == 0;
        *sum = sum.saturating_add(amount);
        match (was_zero, *sum == 0) {
            (true, false) => self.others += 1,
            (false, true) => self.others -= 1,
            _ => {}
        }
    }
}
