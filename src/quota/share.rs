//! Shares: how much of what it might have a queue has.

use core::cmp::Ordering;

use smallvec::SmallVec;

use super::amount::{UNLIMITED, minus, plus};
use super::cells::{Cells, NONE};
use super::peer_share::PeerShare;
use super::tree::{FlavorResource, QueueTree, Slot};

/// A share, in total order.
///
/// It is a quotient of floats: each is the result of one multiplication and two divisions as IEEE 754
/// rounds them, which is the same on every machine. Kueue compares the same floats.
#[derive(Debug, Clone, Copy)]
pub struct ShareValue {
    /// The dominant ratio, in thousandths; before the weight.
    pub ratio: f64,
    /// The weight.
    pub weight: f64,
    /// Whether anything is borrowed, however little the ratio.
    pub borrowing: bool,
    /// The number of the dominant resource.
    pub(super) dominant: u32,
}

impl ShareValue {
    /// A share of nothing.
    pub const NONE: ShareValue =
        ShareValue { ratio: 0.0, weight: 1.0, borrowing: false, dominant: NONE };

    /// A share that is a ratio in thousandths, of a queue of some weight.
    pub fn new(ratio: f64, weight: f64) -> ShareValue {
        ShareValue { ratio, weight, borrowing: ratio > 0.0, dominant: NONE }
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

/// Calls `add` for each resource in a flavor of a queue with what the queue would draw beyond its own
/// quota, with more: below zero where it would not.
fn each_beyond(
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

/// Kueue's dominant resource share, with sums that may stand apart. For each resource, the borrowed
/// amount of the queue is divided by the amount that the tree can lend to its siblings and itself.
/// The largest ratio counts, weighted. A root has none. O(resources and flavors of the queue ·
/// depth).
///
/// Source: Kueue's `fair_sharing.go`.
pub(super) fn borrowed_share(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
) -> ShareValue {
    if tree.whole_shares {
        return whole_share(tree, cells, at, more);
    }
    if let Some(of) = tree.peer_share {
        return peer_share(tree, cells, at, more, of);
    }
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
    each_beyond(slot, cells, more, add);
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
pub(super) fn borrows_any(
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

/// Binary places of a share's ratio.
pub(super) const PLACES: u32 = 22;
/// The largest share: integers up to it are floats without rounding.
const LARGEST: u128 = (1 << 53) - 1;

/// The dominant share: the amount that a queue draws beyond its guarantees, over the amount that
/// its tree has for its siblings and itself, over its weight. It is an integer, in units of 2⁻²² of
/// a queue of weight 1. A borrowed amount has a share of at least 1.
fn whole_share(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
) -> ShareValue {
    let slot = &tree.slots[at as usize];
    let mut share = ShareValue::NONE;
    if slot.parent == NONE {
        return share;
    }
    let weight = u128::from(slot.spec.weight.as_nanos());
    if weight == 0 {
        share.weight = 0.0;
    }
    let mut largest = 0;
    let add = |pair: u32, beyond: i64| {
        if beyond <= 0 {
            return;
        }
        share.borrowing = true;
        let above = tree.cell_above(slot.parent, pair);
        let whole = above.map_or(0, |cell| cells.potential(cell)).max(1);
        let ratio =
            (u128::from(beyond.unsigned_abs()) << PLACES) / u128::from(whole.unsigned_abs());
        // The product is below 2^63 · 2^22 · 2^30.
        let ratio = ratio * 1_000_000_000 / weight.max(1);
        let ratio = ratio.clamp(1, LARGEST);
        if ratio > largest {
            (largest, share.dominant) = (ratio, tree.resource_of(pair));
        }
    };
    each_beyond(slot, cells, more, add);
    share.ratio = largest as f64;
    share
}

/// The share of a queue in the dialect of another scheduler, with sums that may stand apart.
fn peer_share(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
    of: PeerShare,
) -> ShareValue {
    let slot = &tree.slots[at as usize];
    let weight = if of == PeerShare::Whole { slot.spec.weight.as_f64() } else { 1.0 };
    let mut share = ShareValue { weight, ..ShareValue::NONE };
    if slot.parent == NONE {
        return share;
    }
    let (id, root) = (tree.id(at), &tree.slots[tree.root_of(at) as usize]);
    let whole = |pair| root.cell(pair).map_or(0, |cell| cells[cell].nominal);
    let mut deserves = false;
    for &(pair, cell) in &slot.cells {
        let more = more.iter().find(|(of, _)| of.0 == pair).map_or(0, |(_, amount)| *amount);
        let used = cells[cell].used.saturating_add(more);
        let denominator = match of {
            PeerShare::Whole => whole(pair),
            PeerShare::Deserved => {
                let quota = tree.quota(id, FlavorResource(pair));
                let deserved = quota.and_then(|quota| quota.deserved).unwrap_or(0);
                deserves |= deserved > 0;
                deserved.max(cells[cell].nominal)
            }
            PeerShare::Guarantee if cells[cell].nominal > 0 => cells[cell].nominal,
            PeerShare::Guarantee => {
                let limits = tree.path(id).filter_map(|at| {
                    tree.quota(at, FlavorResource(pair)).and_then(|quota| quota.limit)
                });
                limits.min().unwrap_or(UNLIMITED).min(whole(pair))
            }
        };
        let ratio = match (denominator, used) {
            (_, ..=0) => 0.0,
            (..=0, _) => 1000.0,
            (whole, used) => used as f64 * 1000.0 / whole as f64,
        };
        if ratio > share.ratio {
            (share.ratio, share.dominant) = (ratio, tree.resource_of(pair));
        }
    }
    if of == PeerShare::Deserved && !deserves {
        share.ratio = share.ratio.max(1000.0);
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_zero_come_last_and_are_compared_among_themselves() {
        let share = ShareValue::new;
        assert!(share(1.0, 0.0) > share(1e9, 1e-9));
        assert!(share(2.0, 0.0) > share(1.0, 0.0));
        assert_eq!(share(0.0, 0.0), share(0.0, 5.0));
        assert!(share(300.0, 3.0) < share(150.0, 1.0));
        assert_eq!(share(1.0, 0.0).rounded(), i64::MAX);
        assert_eq!(share(400.1, 2.0).rounded(), 201);
    }
}
