//! Sets that KAI lets yield.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use super::min_runtime::is_protected;
use super::queues::{KaiQuantities, QueueShares, ReclaimStrategy, Reclaimer};
use super::tables::{Kai, Tables};
use super::turns::has_room;
use crate::quota::books::Books;
use crate::quota::books::tree::QueueId;
use crate::quota::engine::sets::Sets;
use crate::quota::model::amount::{minus, plus};
use crate::quota::model::claim::{Claim, Usage};

/// The queues as they stand when a claim asks, and the holders that may go, by place: whether they
/// are of the claim's queue, the leaf, and what they give.
pub(in crate::quota) struct Standing {
    tables: Tables,
    reclaimer: Reclaimer,
    candidates: BTreeMap<u32, Candidate>,
}

#[derive(Debug, Clone)]
struct Candidate {
    is_own: bool,
    leaf: usize,
    given: KaiQuantities,
}

impl Standing {
    /// `None` if the queue stands nowhere.
    pub(in crate::quota) fn new(
        kai: &Kai,
        books: &Books,
        (queue, claim, usage): (QueueId, &Claim, &Usage),
    ) -> Option<Standing> {
        let mut tables = kai.tables(books);
        let leaf = *tables.places.get(&queue)?;
        let preemptible = kai.is_preemptible(claim.preemptible, claim.priority);
        let request = tables.quantities(usage);
        if !preemptible {
            kai.count_non_preemptible(books, &mut tables);
        }
        tables.ask(leaf, &request);
        tables.shares.divide();
        let reclaimer = Reclaimer { queue: leaf, request, preemptible };
        let may_reclaim = tables.shares.may_reclaim(&reclaimer);
        let runtimes = kai.runtimes(&tables);
        let mut candidates = BTreeMap::new();
        let mut leaving = Vec::new();
        for (&id, &place) in &tables.places {
            let is_own = place == leaf;
            let minimum = if is_own {
                runtimes.before_preempt(place)
            } else {
                runtimes.before_reclaim(leaf, place)
            };
            for holder_id in books.holders(id) {
                let Some(holder) = books.holder(holder_id) else { continue };
                let given = tables.quantities(&holder.usage);
                if holder.leaving {
                    leaving.push((place, given));
                    continue;
                }
                let is_lower = holder.priority < claim.priority;
                let is_wanted = given.iter().zip(&reclaimer.request).any(|(a, b)| *a > 0 && *b > 0);
                let run = kai.now.since(holder.reserved);
                if is_wanted
                    && kai.may_be_taken(holder)
                    && if is_own { is_lower } else { may_reclaim }
                    && !is_protected(Some(run), minimum)
                {
                    let own = Candidate { is_own, leaf: place, given };
                    candidates.insert(holder_id.at, own);
                }
            }
        }
        for (place, given) in leaving {
            tables.shares.charge(place, &given, true, -1);
        }
        Some(Standing { tables, reclaimer, candidates })
    }
}

/// The sets for one claim, in books that stand still.
pub(in crate::quota) struct KaiSets<'b> {
    books: &'b Books,
    shares: RefCell<QueueShares>,
    reclaimer: Reclaimer,
    lacks: Usage,
    holders: Vec<u32>,
    own: Vec<u32>,
    candidates: BTreeMap<u32, Candidate>,
}

impl fmt::Debug for KaiSets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KaiSets").field("lacks", &self.lacks).finish_non_exhaustive()
    }
}

impl<'b> KaiSets<'b> {
    pub(in crate::quota) fn new(
        books: &'b Books,
        standing: Standing,
        usage: &Usage,
    ) -> KaiSets<'b> {
        let Standing { tables, reclaimer, candidates } = standing;
        let holders =
            tables.places.keys().flat_map(|id| books.holders(*id)).map(|holder| holder.at);
        let holders: Vec<u32> = holders.collect();
        let own = candidates.iter().filter(|(_, own)| own.is_own).map(|(at, _)| *at).collect();
        let lacks = lacks(&tables, &reclaimer, usage);
        let shares = RefCell::new(tables.shares);
        KaiSets { books, shares, reclaimer, lacks, holders, own, candidates }
    }

    /// Holders of other queues in an order in which each may go as the sums stand at its turn; `None`
    /// if there is none. Sides of the tree do not matter to each other.
    fn order(&self, holders: &[u32]) -> Option<Vec<(usize, KaiQuantities)>> {
        let shares = self.shares.borrow();
        let mut by_side: BTreeMap<(usize, usize), Vec<&Candidate>> = BTreeMap::new();
        for own in holders.iter().filter_map(|holder| self.candidates.get(holder)) {
            by_side.entry(shares.sides(self.reclaimer.queue, own.leaf)).or_default().push(own);
        }
        let mut order = Vec::with_capacity(holders.len());
        for ((side, other), mut left) in by_side {
            let start = order.len();
            // What the side holds once all that is left has gone.
            let mut held: KaiQuantities =
                (0..shares.totals.len()).map(|at| shares.share(other, at).allocated).collect();
            for own in &left {
                change(&mut held, &own.given, minus);
            }
            while !left.is_empty() {
                let last = left.iter().position(|own| {
                    let mut before = held.clone();
                    change(&mut before, &own.given, plus);
                    let of_claim = (side, &self.reclaimer.request[..]);
                    [ReclaimStrategy::MaintainFairShare, ReclaimStrategy::GuaranteeDeserved]
                        .into_iter()
                        .any(|own| shares.strategy_allows(own, of_claim, (other, &before)))
                })?;
                let own = left.swap_remove(last);
                change(&mut held, &own.given, plus);
                order.push((own.leaf, own.given.clone()));
            }
            order[start..].reverse();
        }
        Some(order)
    }

    /// The holders of the own queue, and the others; `None` if some may never go, or both kinds are
    /// there. KAI reclaims from other queues, or preempts in the own one.
    fn kinds(&self, holders: &[u32]) -> Option<(Vec<u32>, Vec<u32>)> {
        if !holders.iter().all(|holder| self.candidates.contains_key(holder)) {
            return None;
        }
        let kinds: (Vec<u32>, Vec<u32>) =
            holders.iter().copied().partition(|holder| self.candidates[holder].is_own);
        (kinds.0.is_empty() || kinds.1.is_empty()).then_some(kinds)
    }

    fn charge(&self, holders: &[u32], sign: i64) {
        let mut shares = self.shares.borrow_mut();
        for own in holders.iter().filter_map(|holder| self.candidates.get(holder)) {
            shares.charge(own.leaf, &own.given, true, sign);
        }
    }
}

fn change(held: &mut KaiQuantities, given: &[i64], by: fn(i64, i64) -> i64) {
    for (own, amount) in held.iter_mut().zip(given) {
        *own = by(*own, *amount);
    }
}

/// The resources of which there is too little in all; if there is enough, those of which limits or
/// quota of the claim's queues leave too little.
fn lacks(tables: &Tables, reclaimer: &Reclaimer, usage: &Usage) -> Usage {
    let shares = &tables.shares;
    let short = usage.iter().map(|&(of, amount)| {
        let at = of.0 as usize;
        let held =
            shares.children(None).fold(0, |sum, top| plus(sum, shares.share(top, at).allocated));
        let total = shares.totals.get(at).copied().unwrap_or(0);
        (of, minus(plus(held, amount), total).max(0))
    });
    let lacks: Usage = short.filter(|(_, lack)| *lack > 0).collect();
    let fits = |request: &[i64]| has_room(shares, reclaimer.queue, request, reclaimer.preemptible);
    if !lacks.is_empty() || fits(&reclaimer.request) {
        return lacks;
    }
    let is_bound = |own: &&(_, i64)| !fits(&tables.quantities(&[**own].into_iter().collect()));
    usage.iter().filter(is_bound).map(|(of, _)| (*of, 1)).collect()
}

impl Sets for KaiSets<'_> {
    fn books(&self) -> &Books {
        self.books
    }

    fn lacks(&self) -> &Usage {
        &self.lacks
    }

    fn holders(&self) -> &[u32] {
        &self.holders
    }

    fn own(&self) -> &[u32] {
        &self.own
    }

    fn may_begin(&self, holders: &[u32]) -> bool {
        self.kinds(holders).is_some_and(|(_, others)| self.order(&others).is_some())
    }

    fn may_yield(&self, holders: &[u32]) -> bool {
        self.kinds(holders).is_some_and(|(_, others)| {
            let order = self.order(&others);
            order.is_some_and(|order| {
                others.is_empty() || self.shares.borrow().allows_victims(&self.reclaimer, &order)
            })
        })
    }

    fn suffices(&self, holders: &[u32]) -> bool {
        self.charge(holders, -1);
        let shares = self.shares.borrow();
        let own = &self.reclaimer;
        let fits = has_room(&shares, own.queue, &own.request, own.preemptible);
        drop(shares);
        self.charge(holders, 1);
        fits
    }

    /// The claim's side is compared with the sides that gave: it is better off with less in it.
    fn eases(&self, holder: u32) -> bool {
        let Some(own) = self.candidates.get(&holder).filter(|own| !own.is_own) else {
            return false;
        };
        let shares = self.shares.borrow();
        let above: BTreeSet<usize> = shares.path(self.reclaimer.queue).collect();
        shares.path(own.leaf).any(|at| above.contains(&at))
    }
}
