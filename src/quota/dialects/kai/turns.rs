//! Turns among queues that have something to ask for, or to give back.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::queues::{Contender, KaiQuantities, QueueShares, Reclaimer};
use crate::quota::model::amount::plus;
use crate::quota::model::claim::QuotaVictim;

/// Whether a request has room within limits, quota and what there is.
pub(super) fn has_room(
    shares: &QueueShares,
    leaf: usize,
    request: &[i64],
    preemptible: bool,
) -> bool {
    let held = |at: usize| {
        shares.children(None).fold(0, |sum, top| plus(sum, shares.share(top, at).allocated))
    };
    (request.iter().enumerate())
        .filter(|(_, amount)| **amount > 0)
        .all(|(at, amount)| plus(held(at), *amount) <= shares.totals[at])
        && shares.fits(leaf, request, preemptible).is_ok()
}

/// The victims that have no room any more once the reclaimer and all others have had
/// their turn again; `None` if the reclaimer has none.
pub(super) fn give_way(
    left: &QueueShares,
    reclaimer: &Reclaimer,
    taken: &[(usize, QuotaVictim, KaiQuantities)],
) -> Option<Vec<(usize, QuotaVictim, KaiQuantities)>> {
    let mut left = left.clone();
    // By leaf, the next last: what was taken last comes back first.
    let mut open: BTreeMap<usize, Vec<Option<usize>>> = BTreeMap::new();
    for (at, (leaf, _, _)) in taken.iter().enumerate() {
        open.entry(*leaf).or_default().push(Some(at));
    }
    open.entry(reclaimer.queue).or_default().push(None);
    let mut gone = Vec::new();
    let mut placed = false;
    loop {
        let request = |next: &Option<usize>| match next {
            Some(at) => taken[*at].2.clone(),
            None => reclaimer.request.clone(),
        };
        let heads: BTreeMap<usize, KaiQuantities> =
            open.iter().filter_map(|(leaf, list)| Some((*leaf, request(list.last()?)))).collect();
        let Some(leaf) = first_leaf(&left, &heads) else { break };
        let next = open.get_mut(&leaf).and_then(Vec::pop)?;
        let amounts = request(&next);
        let preemptible = next.is_some() || reclaimer.preemptible;
        if has_room(&left, leaf, &amounts, preemptible) {
            left.charge(leaf, &amounts, preemptible, 1);
            placed |= next.is_none();
        } else {
            gone.push(next?);
        }
    }
    gone.sort_unstable();
    placed.then(|| gone.into_iter().map(|at| taken[at].clone()).collect())
}

/// The leaf whose turn it is, of those that have a request: from the top down, the queue that goes
/// first with the request of its best leaf.
pub(super) fn first_leaf(
    shares: &QueueShares,
    requests: &BTreeMap<usize, KaiQuantities>,
) -> Option<usize> {
    extreme_leaf(shares, requests.keys().copied(), Ordering::Less, |queue, leaf| Contender {
        queue,
        request: requests.get(&leaf).cloned().unwrap_or_default(),
        ..Contender::default()
    })
}

/// From the top down, the queue that is first (or last) among its siblings, down to a leaf.
fn extreme_leaf(
    shares: &QueueShares,
    leaves: impl Iterator<Item = usize>,
    wanted: Ordering,
    side: impl Fn(usize, usize) -> Contender,
) -> Option<usize> {
    // For each queue, and the top: the leaf that won below it, and its child with that leaf.
    let mut best: BTreeMap<Option<usize>, (usize, usize)> = BTreeMap::new();
    let mut level: BTreeSet<(usize, usize)> = BTreeSet::new();
    for leaf in leaves {
        level.insert((shares.path(leaf).count(), leaf));
        best.insert(Some(leaf), (leaf, leaf));
    }
    // Deepest first, so that a queue has its leaf before it stands beside its siblings.
    while let Some((depth, queue)) = level.pop_last() {
        let (leaf, _) = *best.get(&Some(queue))?;
        let parent = shares.queues.get(queue)?.parent;
        let wins = best.get(&parent).is_none_or(|&(other_leaf, other)| {
            shares.compare(&side(queue, leaf), &side(other, other_leaf)) == wanted
        });
        if wins {
            best.insert(parent, (leaf, queue));
            if let Some(parent) = parent {
                level.insert((depth - 1, parent));
            }
        }
    }
    best.get(&None).map(|(leaf, _)| *leaf)
}

/// The leaf of the next victim: from the top down, the queue that would go last without those that
/// were taken from it and the next.
pub(super) fn best_served(
    shares: &QueueShares,
    candidates: &BTreeMap<usize, Vec<(QuotaVictim, KaiQuantities)>>,
    popped: &BTreeMap<usize, KaiQuantities>,
) -> Option<usize> {
    let taken = |leaf: usize| {
        let mut sum = candidates.get(&leaf)?.last()?.1.clone();
        for (own, amount) in sum.iter_mut().zip(popped.get(&leaf).into_iter().flatten()) {
            *own = plus(*own, *amount);
        }
        Some(sum)
    };
    extreme_leaf(shares, candidates.keys().copied(), Ordering::Greater, |queue, leaf| Contender {
        queue,
        request: KaiQuantities::new(),
        taken: taken(leaf).unwrap_or_default(),
    })
}
