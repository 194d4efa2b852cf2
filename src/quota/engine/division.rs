//! Division of an amount of one resource among siblings.
//!
//! No part is given more than it wants. Floors are given even where their sum exceeds the amount, and
//! an amount that nobody wants stays undivided. The order of the parts changes nothing.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::quota::books::tree::{QueueId, QueueTree};
use crate::quota::model::amount::UNLIMITED;
use crate::quota::model::claim::FlavorResource;
use crate::quota::model::queue::Weight;

/// One of the queues among which an amount of one resource is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::quota) struct Part<'a> {
    /// Decides the last ties.
    pub(in crate::quota) name: &'a str,
    /// Its least part, as far as it wants it.
    pub(in crate::quota) floor: i64,
    /// Its wish: usage and waiting requests, within its limit.
    pub(in crate::quota) wants: i64,
    /// Its weight in the division of the rest.
    pub(in crate::quota) weight: Weight,
}

impl<'a> Part<'a> {
    /// A queue that wants so much, without a floor.
    pub(in crate::quota) fn new(name: &'a str, wants: i64, weight: Weight) -> Part<'a> {
        Part { name, floor: 0, wants, weight }
    }

    fn granted(&self) -> i64 {
        self.floor.min(self.wants).max(0)
    }
}

/// Everyone's floor first; the rest by weight, one unit at a time being the measure: rounds of
/// `⌊weight · rest / weights⌋`, and what rounding leaves by the largest remainders, then by name. What
/// one does not want goes to the others in the next round.
///
/// The integer form of Koordinator's division; O(n² log n) at worst, for as many rounds as there are
/// parts that are satisfied.
pub(in crate::quota) fn largest_remainder(total: i64, parts: &[Part<'_>]) -> Vec<i64> {
    let mut shares: Vec<i64> = parts.iter().map(Part::granted).collect();
    let mut rest = left(total, &shares);
    let wanting = |shares: &[i64], at: &usize| {
        parts[*at].weight > Weight::ZERO && shares[*at] < parts[*at].wants
    };
    loop {
        let open: Vec<usize> = (0..parts.len()).filter(|at| wanting(&shares, at)).collect();
        let weights: u128 = open.iter().map(|at| u128::from(parts[*at].weight.as_nanos())).sum();
        if rest <= 0 || open.is_empty() {
            return shares;
        }
        let quotient = |at: usize| {
            let product = u128::from(parts[at].weight.as_nanos()) * rest as u128;
            (product / weights, product % weights)
        };
        let mut given: Vec<(usize, i64, u128)> = open
            .iter()
            .map(|&at| (at, i64::try_from(quotient(at).0).unwrap_or(i64::MAX), quotient(at).1))
            .collect();
        let spare = rest - given.iter().map(|(_, whole, _)| *whole).sum::<i64>();
        given.sort_by_key(|&(at, _, remainder)| (Reverse(remainder), parts[at].name));
        for (place, (at, whole, _)) in given.into_iter().enumerate() {
            let whole = whole + i64::from((place as i64) < spare);
            let taken = whole.min(parts[at].wants - shares[at]);
            shares[at] += taken;
            rest -= taken;
        }
    }
}

/// Everyone's floor first. Then the water rises in all at a speed by weight, until each has its
/// wish or all is given. No part can get more but at the cost of one whose share over weight is no
/// larger. Rounded down to whole units; the rest of rounding stays undivided.
///
/// The exact form of Volcano's weighted water filling. O(n log n).
pub(in crate::quota) fn water_filling(total: i64, parts: &[Part<'_>]) -> Vec<i64> {
    let mut shares: Vec<i64> = parts.iter().map(Part::granted).collect();
    let mut rest = left(total, &shares).max(0) as u128;
    let weight = |at: usize| u128::from(parts[at].weight.as_nanos());
    let missing = |shares: &[i64], at: usize| (parts[at].wants - shares[at]).max(0) as u128;
    let mut open: Vec<usize> =
        (0..parts.len()).filter(|&at| weight(at) > 0 && missing(&shares, at) > 0).collect();
    // The one that is full first: the least of what is missing over the weight.
    open.sort_by(|&a, &b| {
        let (one, other) = (missing(&shares, a), missing(&shares, b));
        (one * weight(b)).cmp(&(other * weight(a))).then(parts[a].name.cmp(parts[b].name))
    });
    let mut weights: u128 = open.iter().map(|&at| weight(at)).sum();
    for &at in &open {
        let part = (rest * weight(at) / weights).min(missing(&shares, at));
        shares[at] += part as i64;
        weights -= weight(at);
        // The parts behind are no fuller at the same height, so that rounding here is theirs.
        rest -= part;
    }
    shares
}

/// Amount that a queue would have of a resource in a flavor if all claims were of one unit. The tree's
/// guarantees are divided from the root down by water filling among the queues that use and want
/// some: guarantees first, the rest by weight. O(queues below those on the path).
pub(in crate::quota) fn deserved(tree: &QueueTree, queue: QueueId, of: FlavorResource) -> i64 {
    let mut path: Vec<QueueId> = tree.path(queue).collect();
    let Some(root) = path.pop() else { return 0 };
    let wants = |queue: QueueId| {
        let limit = tree.quota(queue, of).and_then(|quota| quota.limit);
        tree.sums(queue, of).requested().min(limit.unwrap_or(UNLIMITED))
    };
    let mut total = tree.sums(root, of).subtree.min(wants(root));
    let mut parent = root;
    while let Some(next) = path.pop() {
        let children: Vec<QueueId> = tree.children(parent).collect();
        let part = |&child: &QueueId| {
            let spec = tree.spec(child);
            Part {
                name: spec.map_or("", |spec| &spec.name),
                floor: tree.sums(child, of).subtree,
                wants: wants(child),
                weight: spec.map_or_else(Default::default, |spec| spec.weight),
            }
        };
        let parts: Vec<Part<'_>> = children.iter().map(part).collect();
        let shares = water_filling(total, &parts);
        let at = children.iter().position(|&child| child == next);
        total = at.and_then(|at| shares.get(at).copied()).unwrap_or(0);
        parent = next;
    }
    total
}

/// The rest of an amount; not below the range of integers.
fn left(total: i64, shares: &[i64]) -> i64 {
    shares.iter().fold(total, |rest, share| rest.saturating_sub(*share))
}

#[cfg(test)]
mod tests;
