//! Shares: how much of what it might have a queue has.

use core::cmp::Ordering;

use smallvec::SmallVec;

use crate::quota::books::cells::{Cells, NONE};
use crate::quota::books::tree::{QueueTree, Slot};
use crate::quota::model::amount::{minus, plus};
use crate::quota::model::claim::FlavorResource;

/// A share, in total order.
///
/// It is a quotient of floats: the result of one multiplication and two divisions, or the sum of two such.
/// IEEE 754 rounds them the same on every machine. Kueue compares the same floats.
#[derive(Debug, Clone, Copy)]
pub struct ShareValue {
    /// The dominant ratio, in thousandths; before the weight.
    pub ratio: f64,
    /// The weight.
    pub weight: f64,
    /// Whether anything is borrowed, however little the ratio.
    pub borrowing: bool,
    /// The number of the dominant resource.
    pub(in crate::quota) dominant: u32,
}

impl ShareValue {
    /// A share of nothing.
    pub const NONE: ShareValue =
        ShareValue { ratio: 0.0, weight: 1.0, borrowing: false, dominant: NONE };

    /// A share that is a ratio in thousandths, of a queue of some weight.
    pub fn new(ratio: f64, weight: f64) -> ShareValue {
        ShareValue { ratio, weight, borrowing: ratio > 0.0, dominant: NONE }
    }

    /// The sum of two shares of one queue. The weight is that of this one.
    pub(in crate::quota) fn plus(self, other: ShareValue) -> ShareValue {
        let dominant = if other.ratio > self.ratio { other.dominant } else { self.dominant };
        let borrowing = self.borrowing || other.borrowing;
        ShareValue { ratio: self.ratio + other.ratio, borrowing, dominant, ..self }
    }

    /// The ratio over the weight; infinite for a queue of weight 0 that has a share at all.
    pub fn weighted(&self) -> f64 {
        if self.ratio == 0.0 {
            0.0
        } else if self.weight == 0.0 {
            f64::INFINITY
        } else {
            self.ratio / self.weight
        }
    }

    /// The weighted share, rounded up; the largest integer where it is infinite.
    pub fn rounded(&self) -> i64 {
        let share = self.weighted();
        // The cast saturates.
        if share.is_infinite() { i64::MAX } else { libm::ceil(share) as i64 }
    }

    /// The resource that the ratio is of; `None` if it is 0.
    pub fn dominant<'a>(&self, tree: &'a QueueTree) -> Option<&'a str> {
        (self.dominant != NONE).then(|| tree.resource_name(self.dominant))
    }

    /// Whether the weight alone makes the share infinite, and what is compared.
    fn key(&self) -> (bool, f64) {
        let infinite = self.weight == 0.0 && self.ratio > 0.0;
        (infinite, if infinite { self.ratio } else { self.weighted() })
    }
}

impl Ord for ShareValue {
    fn cmp(&self, other: &ShareValue) -> Ordering {
        let (own, others) = (self.key(), other.key());
        own.0.cmp(&others.0).then(own.1.total_cmp(&others.1))
    }
}

impl PartialOrd for ShareValue {
    fn partial_cmp(&self, other: &ShareValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ShareValue {
    fn eq(&self, other: &ShareValue) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ShareValue {}

/// The share of a queue by a dialect: its place in the tree, sums that may stand apart, and usage that
/// is added to it.
pub(in crate::quota) type ShareOf =
    fn(&QueueTree, &Cells, u32, &[(FlavorResource, i64)]) -> ShareValue;

/// Calls `add` for each resource in a flavor of a queue with what the queue would draw beyond its own
/// quota, with more: below zero where it would not.
pub(in crate::quota) fn each_beyond(
    slot: &Slot,
    cells: &Cells,
    more: &[(FlavorResource, i64)],
    mut add: impl FnMut(u32, i64),
) {
    for &(pair, cell) in &slot.cells {
        let cell = &cells[cell];
        let more = more.iter().find(|(of, _)| of.0 == pair).map_or(0, |(_, amount)| *amount);
        add(pair, minus(cell.drawn.saturating_add(more), cell.subtree));
    }
    for &(of, amount) in more.iter().filter(|(of, _)| slot.cell(of.0).is_none()) {
        add(of.0, amount);
    }
}

/// Kueue's dominant resource share, with sums that may stand apart. Of each resource it is the
/// amount that a queue borrows over the amount that the tree can lend to its siblings and itself; the
/// largest counts, over the weight. A root has none. O(resources and flavors of the queue · depth).
///
/// Source: Kueue's `fair_sharing.go`.
pub(in crate::quota) fn borrowed_share(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
) -> ShareValue {
    let slot = &tree.slots[at as usize];
    let mut share = ShareValue { weight: slot.spec.weight.as_f64(), ..ShareValue::NONE };
    if slot.parent == NONE {
        return share;
    }
    let mut borrowed: SmallVec<[(u32, i64); 4]> = SmallVec::new();
    let add = |pair: u32, beyond: i64| {
        if beyond > 0 {
            let resource = tree.resource_of(pair);
            match borrowed.iter_mut().find(|(own, _)| *own == resource) {
                Some((_, sum)) => *sum = plus(*sum, beyond),
                None => borrowed.push((resource, beyond)),
            }
        }
    };
    // A flavor that neither the queue nor one below it has quota of is borrowed from nobody.
    let known: SmallVec<[(FlavorResource, i64); 4]> =
        more.iter().copied().filter(|(of, _)| slot.cell(of.0).is_some()).collect();
    each_beyond(slot, cells, &known, add);
    share.borrowing = !borrowed.is_empty();
    for (resource, amount) in borrowed {
        let lendable = tree.lendable_at(cells, slot.parent, resource);
        if lendable <= 0 {
            continue;
        }
        let ratio = amount as f64 * 1000.0 / lendable as f64;
        let before = || tree.resource_name(resource) < tree.resource_name(share.dominant);
        if ratio > share.ratio || (ratio == share.ratio && ratio > 0.0 && before()) {
            (share.ratio, share.dominant) = (ratio, resource);
        }
    }
    share
}

/// Whether a queue draws more than its subtree's guarantees of any of some amounts' resources in
/// flavors.
pub(in crate::quota) fn borrows_any(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    mut of: impl Iterator<Item = FlavorResource>,
) -> bool {
    let slot = &tree.slots[at as usize];
    slot.parent != NONE
        && of.any(|of| {
            slot.cell(of.0).is_some_and(|cell| {
                let cell = &cells[cell];
                minus(cell.drawn, cell.subtree) > 0
            })
        })
}

#[cfg(test)]
mod tests;
