//! Shares in whole numbers.

use crate::quota::books::Books;
use crate::quota::books::cells::{Cells, NONE};
use crate::quota::books::share::{ShareValue, each_beyond};
use crate::quota::books::tree::{QueueId, QueueTree};
use crate::quota::model::amount::minus;
use crate::quota::model::claim::FlavorResource;

/// Binary places of a share's ratio.
pub(super) const PLACES: u32 = 22;
/// The largest share: integers up to it are floats without rounding.
const LARGEST: u128 = (1 << 53) - 1;

/// The dominant share of what a queue draws beyond its guarantees, over what its tree has for its
/// siblings and itself, over its weight. It is an integer, in units of 2⁻²² of a queue of weight 1. What is
/// borrowed at all has a share of at least 1.
pub(super) fn whole_share(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
) -> ShareValue {
    let beyond = |add: &mut dyn FnMut(u32, i64)| {
        each_beyond(&tree.slots[at as usize], cells, more, add);
    };
    share_beyond(tree, cells, at, beyond)
}

/// [`whole_share`] of what a queue has used beyond its guarantees on the average of its past.
pub(super) fn past_share(books: &Books, cells: &Cells, queue: QueueId) -> ShareValue {
    let tree = &books.tree;
    let slot = &tree.slots[queue.slot as usize];
    let beyond = |add: &mut dyn FnMut(u32, i64)| {
        for &(pair, cell) in &slot.cells {
            let (of, cell) = (FlavorResource(pair), &cells[cell]);
            let used = books.past.average(queue, of, cell.used);
            // The cast saturates, and takes the whole part.
            add(pair, minus(used as i64, cell.subtree));
        }
    };
    share_beyond(tree, cells, queue.slot, beyond)
}

/// The dominant share of some amounts of a queue.
fn share_beyond(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    each: impl FnOnce(&mut dyn FnMut(u32, i64)),
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
    let mut add = |pair: u32, beyond: i64| {
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
    each(&mut add);
    share.ratio = largest as f64;
    share
}
