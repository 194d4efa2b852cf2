//! Prices: how many pods have to leave at least so that a domain may suffice.
//!
//! Two bounds, each on what lacks most. Of an amount: those that give most of it for each pod leave
//! first, the last of them in part. Of members: on each node those that give most, until one member
//! more fits; the cheapest nodes come first. No set of whole units has fewer pods.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use crate::preempt::arena::{Arena, Counts};
use crate::preempt::need::Need;

/// Parts of a pod that prices are counted in.
const SCALE: u128 = 1 << 20;

/// Members beyond these on one node are priced as the last of them.
const MOST_ON_NODE: i64 = 16;

/// The bounds of a domain, kept while units leave and come back.
#[derive(Debug)]
pub(crate) struct Prices {
    /// The kind that most members lack of; `None` if none is counted.
    kind: Option<usize>,
    /// By node: the atoms with pods on it, by place in the arena, and the amounts that each frees
    /// there.
    on_node: Vec<Vec<(usize, Vec<i64>)>>,
    /// By dimension: gain and pods of each atom, best rate first.
    rates: Vec<Vec<(i128, u64, usize)>>,
    /// By node: the price of a member, and for how many; absent where no member more can fit.
    price: Vec<Option<(u64, i64)>>,
    cheapest: BTreeSet<(u64, usize)>,
}

impl Prices {
    /// Prices with nothing gone. `pods` has the number of pods of each atom of the arena; 0 for those
    /// that stay.
    pub(crate) fn new(arena: &Arena<'_>, need: &Need<'_>, now: &Counts, pods: &[u64]) -> Prices {
        let kind = now.most_lacking(need);
        let mut on_node = vec![Vec::new(); arena.ground.rows.len()];
        for (atom, _) in pods.iter().enumerate().filter(|(_, pods)| **pods > 0) {
            for (place, amounts) in arena.gains(atom) {
                on_node[place].push((atom, amounts.to_vec()));
            }
        }
        let rates = (0..need.width()).map(|dimension| {
            let gain = |atom: usize| arena.sums[atom * need.width() + dimension];
            let all = pods.iter().enumerate().map(|(atom, &pods)| (gain(atom), pods, atom));
            let mut all: Vec<_> = all.filter(|(gain, pods, _)| *gain > 0 && *pods > 0).collect();
            // a / b above c / d
            all.sort_by(|a, b| {
                let (left, right) = (a.0 * i128::from(b.1), b.0 * i128::from(a.1));
                right.cmp(&left).then(a.2.cmp(&b.2))
            });
            all
        });
        let rates = rates.collect();
        let (price, cheapest) = (vec![None; arena.ground.rows.len()], BTreeSet::new());
        let mut prices = Prices { kind, on_node, rates, price, cheapest };
        for place in 0..arena.ground.rows.len() {
            prices.update(arena, need, now, place, &|atom| pods[atom] > 0);
        }
        prices
    }

    /// The kind that most members lack of.
    pub(crate) fn kind(&self) -> Option<usize> {
        self.kind
    }

    /// The price of a member on a node, if one more can fit.
    pub(crate) fn of_node(&self, place: usize) -> Option<u64> {
        self.price[place].map(|(price, _)| price)
    }

    /// Prices a node anew. `open` are the atoms, by place in the arena, that may still leave.
    pub(crate) fn update(
        &mut self,
        arena: &Arena<'_>,
        need: &Need<'_>,
        now: &Counts,
        place: usize,
        open: &dyn Fn(usize) -> bool,
    ) {
        if let Some((price, _)) = self.price[place].take() {
            self.cheapest.remove(&(price, place));
        }
        let Some(kind) = self.kind else { return };
        if !arena.ground.may_use(kind, place) {
            return;
        }
        let free = now.free(arena.ground, place);
        let fits = need.times(kind, free);
        let items: Vec<&Vec<i64>> = self.on_node[place]
            .iter()
            .filter(|(atom, _)| open(*atom))
            .map(|(_, all)| all)
            .collect();
        let mut best: Option<(u64, i64)> = None;
        for more in 1..=MOST_ON_NODE {
            let mut pods: u128 = 0;
            let mut possible = true;
            for (dimension, &ask) in
                need.kinds[kind].ask.iter().enumerate().filter(|(_, a)| **a > 0)
            {
                let wanted = i128::from(ask) * i128::from(fits.saturating_add(more));
                let lacking = wanted - i128::from(free[dimension]);
                match least_pods(&items, dimension, lacking) {
                    Some(least) => pods = pods.max(least),
                    None => possible = false,
                }
            }
            if !possible {
                break;
            }
            let each = u64::try_from(pods / more as u128).unwrap_or(u64::MAX);
            let price = best.map_or(each, |(best, _)| best.min(each));
            // The last is as good as any number.
            let many = if more == MOST_ON_NODE { i64::MAX } else { more };
            best = Some((price, many));
        }
        self.price[place] = best;
        if let Some((price, _)) = best {
            self.cheapest.insert((price, place));
        }
    }

    /// How many pods have to leave at least; `None` if what is open does not suffice.
    pub(crate) fn least(
        &self,
        need: &Need<'_>,
        now: &Counts,
        open: &dyn Fn(usize) -> bool,
    ) -> Option<u64> {
        let mut least = 0;
        for dimension in 0..need.width() {
            let mut lacking = now.lacking_amount(need, dimension);
            let mut parts: u128 = 0;
            for &(gain, pods, _) in self.rates[dimension].iter().filter(|rate| open(rate.2)) {
                if lacking <= 0 {
                    break;
                }
                let part = gain.min(lacking);
                parts += u128::from(pods) * SCALE * part as u128 / gain as u128;
                lacking -= part;
            }
            if lacking > 0 {
                return None;
            }
            least = least.max(whole(parts));
        }
        let Some(kind) = self.kind else { return Some(least) };
        let mut lacking = now.lacking(need, kind);
        let mut parts: u128 = 0;
        for &(price, place) in &self.cheapest {
            if lacking <= 0 {
                break;
            }
            let many = self.price[place].map_or(0, |(_, many)| many.min(lacking));
            parts += u128::from(price) * many as u128;
            lacking -= many;
        }
        (lacking <= 0).then_some(least.max(whole(parts)))
    }
}

/// Pods, the last of them begun counted whole, unless that is what rounding down has lost.
fn whole(parts: u128) -> u64 {
    // Each part is rounded down by less than one in 2²⁰, so the sum is a bound from below.
    u64::try_from(parts.div_ceil(SCALE)).unwrap_or(u64::MAX)
}

/// How many pods, in parts, free an amount on a node at least.
fn least_pods(items: &[&Vec<i64>], dimension: usize, lacking: i128) -> Option<u128> {
    if lacking <= 0 {
        return Some(0);
    }
    let mut rates: Vec<(i128, u128)> = items
        .iter()
        .map(|amounts| (i128::from(amounts[dimension]), amounts[0].max(1) as u128))
        .filter(|(gain, _)| *gain > 0)
        .collect();
    rates.sort_by(|a, b| (b.0 * a.1 as i128).cmp(&(a.0 * b.1 as i128)));
    let (mut lacking, mut parts) = (lacking, 0);
    for (gain, pods) in rates {
        if lacking <= 0 {
            break;
        }
        let part = gain.min(lacking);
        parts += pods * SCALE * part as u128 / gain as u128;
        lacking -= part;
    }
    (lacking <= 0).then_some(parts)
}
