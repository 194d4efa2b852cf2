//! Sets that Volcano's plugins let yield.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use super::drf::may_take;
use super::quotas::Quotas;
use super::resources::Resources;
use super::session::{Session, amounts, shares_any};
use super::settings::VolcanoRule;
use crate::quota::books::Books;
use crate::quota::books::cells::{Cells, NONE};
use crate::quota::books::tree::QueueId;
use crate::quota::engine::sets::Sets;
use crate::quota::model::amount::minus;
use crate::quota::model::claim::{Claim, Usage};
use crate::quota::model::queue::QueueKind;

/// The sums and queues as they stand when a claim asks.
pub(in crate::quota) struct Standing {
    cells: Cells,
    /// `None`: `drf`.
    quotas: Option<Quotas>,
    name: String,
    request: Resources,
    may_reclaim: bool,
    /// The share of the claim's queue with the claim.
    taker: f64,
}

impl Standing {
    pub(in crate::quota) fn new(
        books: &Books,
        rule: VolcanoRule,
        (queue, usage): (QueueId, &Usage),
    ) -> Standing {
        let session = Session::new(books, rule, queue, usage);
        let Session { quotas, name, request, .. } = session;
        let may_reclaim = quotas.as_ref().is_none_or(|own| own.may_reclaim(&name, &request));
        let taker = books.share_with(queue, usage).weighted();
        let cells = books.tree.cells.clone();
        Standing { cells, quotas, name, request, may_reclaim, taker }
    }
}

/// The sets for one claim, in books that stand still.
pub(in crate::quota) struct VolcanoSets<'t> {
    books: &'t Books,
    /// Without those that leave anyway.
    standing: RefCell<Standing>,
    leaf: u32,
    usage: Usage,
    lacks: Usage,
    holders: Vec<u32>,
    own: Vec<u32>,
    /// The candidates, with what they give in Volcano's units; true for the claim's own queue.
    candidates: BTreeMap<u32, (bool, Resources)>,
}

impl fmt::Debug for VolcanoSets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolcanoSets").field("lacks", &self.lacks).finish_non_exhaustive()
    }
}

impl<'t> VolcanoSets<'t> {
    pub(in crate::quota) fn new(
        books: &'t Books,
        standing: Standing,
        (leaf, claim, usage): (u32, &Claim, &Usage),
    ) -> VolcanoSets<'t> {
        let tree = &books.tree;
        let leaves = tree.queues(QueueKind::Leaf);
        let all = leaves.flat_map(|queue| books.index.holders(queue.slot)).map(|key| key.holder);
        let holders: Vec<u32> = all.collect();
        let mut candidates = BTreeMap::new();
        let mut sets = VolcanoSets {
            books,
            standing: RefCell::new(standing),
            leaf,
            usage: usage.clone(),
            lacks: Usage::new(),
            holders: Vec::new(),
            own: Vec::new(),
            candidates: BTreeMap::new(),
        };
        for &at in &holders {
            let Some(holder) = books.holder_at(at) else { continue };
            let given = amounts(tree, &holder.usage);
            if holder.leaving {
                sets.charge(at, &given, -1);
                continue;
            }
            let is_own = holder.queue.slot == leaf;
            let may = if is_own {
                holder.priority < claim.priority
            } else {
                sets.standing.borrow().may_reclaim
            };
            if may && !holder.stays() && shares_any(&holder.usage, usage) {
                candidates.insert(at, (is_own, given));
                if is_own {
                    sets.own.push(at);
                }
            }
        }
        (sets.holders, sets.candidates) = (holders, candidates);
        sets.lacks = sets.count_lacks();
        sets
    }

    /// Adds to the sums of a holder's queue and of those above.
    fn charge(&self, holder: u32, given: &Resources, sign: i64) {
        let Some(own) = self.books.holder_at(holder) else { return };
        let mut standing = self.standing.borrow_mut();
        let slot = &self.books.tree.slots[own.queue.slot as usize];
        for (of, amount) in &own.usage {
            if let Some(cell) = slot.cell(of.0) {
                standing.cells.charge(cell, sign * amount);
            }
        }
        let name = &slot.spec.name;
        if let Some(quotas) = &mut standing.quotas {
            if sign < 0 { quotas.take(name, given) } else { quotas.add(name, given) }
        }
    }

    fn change(&self, holders: &[u32], sign: i64) {
        for holder in holders {
            if let Some((_, given)) = self.candidates.get(holder) {
                self.charge(*holder, given, sign);
            }
        }
    }

    /// The amount that lacks of a resource in all there is.
    fn lack(&self, pair: u32, amount: i64) -> i64 {
        let (tree, standing) = (&self.books.tree, self.standing.borrow());
        let root = tree.slots[tree.root_of(self.leaf) as usize].cell(pair);
        let free = root.map_or(0, |at| {
            let cell = &standing.cells[at];
            minus(cell.nominal, cell.used)
        });
        minus(amount, free).max(0)
    }

    /// Whether the claim's queue may have so much more.
    fn admits(&self, usage: &Usage, request: &Resources) -> bool {
        let standing = self.standing.borrow();
        if let Some(quotas) = &standing.quotas {
            return quotas.allocatable(&standing.name, request);
        }
        usage.iter().all(|&(of, amount)| {
            let mut at = self.books.tree.slots[self.leaf as usize].cell(of.0).unwrap_or(NONE);
            while at != NONE {
                let cell = &standing.cells[at];
                if cell.used.saturating_add(amount) > cell.limit {
                    return false;
                }
                at = cell.parent;
            }
            true
        })
    }

    fn count_lacks(&self) -> Usage {
        let short = self.usage.iter().map(|&(of, amount)| (of, self.lack(of.0, amount)));
        let mut lacks: Usage = short.filter(|(_, lack)| *lack > 0).collect();
        if lacks.is_empty() && !self.admits(&self.usage, &self.standing.borrow().request) {
            // The queue's own bound is in the way: something of it has to go.
            let is_bound = |own: &&(_, i64)| {
                let one: Usage = [**own].into_iter().collect();
                !self.admits(&one, &amounts(&self.books.tree, &one))
            };
            lacks = self.usage.iter().filter(is_bound).map(|(of, _)| (*of, 1)).collect();
        }
        lacks
    }

    /// Whether holders of other queues may go one after another. Whoever may go last is put back
    /// first.
    fn may_go(&self, holders: &[u32]) -> bool {
        self.change(holders, -1);
        let mut left = holders.to_vec();
        while let Some(last) = (0..left.len()).find(|&at| self.may_go_last(left[at])) {
            self.change(&[left[last]], 1);
            left.swap_remove(last);
        }
        self.change(&left, 1);
        left.is_empty()
    }

    /// Whether a holder of another queue may go when all others of a set have; it is gone before and
    /// after.
    fn may_go_last(&self, holder: u32) -> bool {
        let Some(own) = self.books.holder_at(holder) else { return false };
        let queue = own.queue.slot;
        let tree = &self.books.tree;
        if self.standing.borrow().quotas.is_none() {
            let standing = self.standing.borrow();
            let share = (self.books.share)(tree, &standing.cells, queue, &[]).weighted();
            return may_take(standing.taker, share);
        }
        let Some((_, given)) = self.candidates.get(&holder) else { return false };
        self.change(&[holder], 1);
        let standing = self.standing.borrow();
        let Some(quotas) = &standing.quotas else { return false };
        let name = tree.slots[queue as usize].spec.name.as_str();
        let may = quotas.victims(&standing.name, &standing.request, &[(name, given)]);
        drop(standing);
        self.change(&[holder], -1);
        may.first().copied().unwrap_or(false)
    }
}

impl Sets for VolcanoSets<'_> {
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
        if !holders.iter().all(|holder| self.candidates.contains_key(holder)) {
            return false;
        }
        let (own, others): (Vec<u32>, Vec<u32>) =
            holders.iter().copied().partition(|holder| self.candidates[holder].0);
        // Queues are reclaimed from, or the own queue is preempted in: not both.
        let is_one_kind = self.standing.borrow().quotas.is_none();
        (is_one_kind || own.is_empty() || others.is_empty()) && self.may_go(&others)
    }

    fn may_yield(&self, holders: &[u32]) -> bool {
        self.may_begin(holders)
    }

    fn suffices(&self, holders: &[u32]) -> bool {
        self.change(holders, -1);
        let has_whole = self.usage.iter().all(|&(of, amount)| self.lack(of.0, amount) == 0);
        let fits = has_whole && self.admits(&self.usage, &self.standing.borrow().request);
        self.change(holders, 1);
        fits
    }

    fn eases(&self, _: u32) -> bool {
        false
    }
}
