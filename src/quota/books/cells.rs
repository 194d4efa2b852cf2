//! Sums of one resource in one flavor, from a queue up to its root.

use alloc::vec::Vec;

use crate::quota::model::amount::{UNLIMITED, minus, plus};
use crate::quota::model::queue::Quota;

/// No cell.
pub(in crate::quota) const NONE: u32 = u32::MAX;

/// A sum of amounts that may be unlimited, from which each can be taken again.
#[derive(Debug, Clone, Copy, Default)]
struct Lent {
    bounded: i128,
    unlimited: u32,
}

impl Lent {
    fn add(&mut self, amount: i64) {
        if amount == UNLIMITED {
            self.unlimited += 1;
        } else {
            self.bounded += i128::from(amount);
        }
    }

    fn take(&mut self, amount: i64) {
        if amount == UNLIMITED {
            self.unlimited -= 1;
        } else {
            self.bounded -= i128::from(amount);
        }
    }

    fn total(self) -> i64 {
        if self.unlimited > 0 {
            return UNLIMITED;
        }
        i64::try_from(self.bounded).unwrap_or(UNLIMITED)
    }
}

/// One queue's books of one resource in one flavor.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Cell {
    /// The cell of the parent queue.
    pub(in crate::quota) parent: u32,
    /// The slot of the queue.
    pub(in crate::quota) queue: u32,
    /// The resource in a flavor.
    pub(in crate::quota) pair: u32,
    /// Whether the queue's quota states it.
    pub(in crate::quota) stated: bool,
    pub(in crate::quota) nominal: i64,
    /// [`UNLIMITED`] if there is none.
    pub(in crate::quota) borrowing_limit: i64,
    /// [`UNLIMITED`] if there is none.
    pub(in crate::quota) lending_limit: i64,
    /// The most that may be used in the subtree; [`UNLIMITED`] if there is none.
    pub(in crate::quota) limit: i64,
    /// Amount that the children lend to this queue.
    lent: Lent,
    /// The guarantees of the subtree, less what its parts keep for themselves.
    pub(in crate::quota) subtree: i64,
    /// Part of `subtree` that the queue keeps for itself.
    pub(in crate::quota) local: i64,
    /// Amount drawn from `subtree`: the use of a leaf, or the children's use beyond their own
    /// parts.
    pub(in crate::quota) drawn: i64,
    /// Usage of the subtree.
    pub(in crate::quota) used: i64,
    /// Waiting requests of the subtree.
    pub(in crate::quota) pending: i64,
}

impl Cell {
    /// Amount that the subtree takes from its parent.
    #[inline]
    fn spill(&self) -> i64 {
        minus(self.drawn, self.local).max(0)
    }

    /// Unused rest of the part that the queue keeps for itself.
    #[inline]
    pub(in crate::quota) fn local_available(&self) -> i64 {
        minus(self.local, self.drawn).max(0)
    }

    fn lends(&self) -> i64 {
        minus(self.subtree, self.local)
    }

    fn resum(&mut self) {
        self.subtree = plus(self.nominal, self.lent.total());
        self.local = match self.lending_limit {
            UNLIMITED => 0,
            limit => minus(self.subtree, limit).max(0),
        };
    }

    pub(in crate::quota) fn is_idle(&self) -> bool {
        self.used == 0 && self.pending == 0
    }
}

/// Amounts that a cell gives to its parent.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    lends: Option<i64>,
    spill: i64,
    used: i64,
    pending: i64,
}

/// All cells of a tree.
#[derive(Debug, Clone, Default)]
pub(in crate::quota) struct Cells {
    list: Vec<Cell>,
    free: Vec<u32>,
    /// Whether any quota ever stated a limit.
    limited: bool,
    /// Cells that charges have gone through.
    pub(in crate::quota) steps: u64,
}

impl core::ops::Index<u32> for Cells {
    type Output = Cell;

    #[inline]
    fn index(&self, at: u32) -> &Cell {
        &self.list[at as usize]
    }
}

impl Cells {
    /// A new cell without a parent.
    pub(in crate::quota) fn add(&mut self, queue: u32, pair: u32) -> u32 {
        let cell = Cell {
            parent: NONE,
            queue,
            pair,
            stated: false,
            nominal: 0,
            borrowing_limit: UNLIMITED,
            lending_limit: UNLIMITED,
            limit: UNLIMITED,
            lent: Lent::default(),
            subtree: 0,
            local: 0,
            drawn: 0,
            used: 0,
            pending: 0,
        };
        if let Some(at) = self.free.pop() {
            self.list[at as usize] = cell;
            return at;
        }
        self.list.push(cell);
        self.list.len() as u32 - 1
    }

    /// Frees a cell that has no parent and no children.
    pub(in crate::quota) fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    /// How many places there are for cells.
    pub(in crate::quota) fn len(&self) -> usize {
        self.list.len()
    }

    fn share(&self, at: u32) -> Share {
        let cell = &self[at];
        let lends = Some(cell.lends());
        Share { lends, spill: cell.spill(), used: cell.used, pending: cell.pending }
    }

    /// Replaces what a child gives to a cell, and so on up to the root.
    fn replace(&mut self, mut at: u32, mut before: Share, mut after: Share) {
        while at != NONE {
            let own = self.share(at);
            let cell = &mut self.list[at as usize];
            if let Some(lends) = before.lends {
                cell.lent.take(lends);
            }
            if let Some(lends) = after.lends {
                cell.lent.add(lends);
            }
            cell.drawn += after.spill - before.spill;
            cell.used += after.used - before.used;
            cell.pending += after.pending - before.pending;
            cell.resum();
            at = cell.parent;
            before = own;
            after = Share {
                lends: Some(cell.lends()),
                spill: cell.spill(),
                used: cell.used,
                pending: cell.pending,
            };
        }
    }

    /// Hangs a cell below another, or takes it off ([`NONE`]). O(depth).
    pub(in crate::quota) fn link(&mut self, at: u32, parent: u32) {
        let share = self.share(at);
        let old = core::mem::replace(&mut self.list[at as usize].parent, parent);
        if old != parent {
            self.replace(old, share, Share::default());
            self.replace(parent, Share::default(), share);
        }
    }

    /// Sets the quota of a cell; `None`: none is stated. O(depth).
    pub(in crate::quota) fn set_quota(&mut self, at: u32, quota: Option<&Quota>) {
        let before = self.share(at);
        let cell = &mut self.list[at as usize];
        cell.stated = quota.is_some();
        cell.nominal = quota.map_or(0, |quota| quota.nominal);
        let limit = |limit: Option<i64>| limit.unwrap_or(UNLIMITED);
        cell.borrowing_limit = quota.map_or(UNLIMITED, |quota| limit(quota.borrowing_limit));
        cell.lending_limit = quota.map_or(UNLIMITED, |quota| limit(quota.lending_limit));
        cell.limit = quota.map_or(UNLIMITED, |quota| limit(quota.limit));
        let limited = cell.limit != UNLIMITED;
        cell.resum();
        let parent = cell.parent;
        self.limited |= limited;
        let after = self.share(at);
        self.replace(parent, before, after);
    }

    /// Adds to the use of a leaf's cell. O(depth).
    #[inline]
    pub(in crate::quota) fn charge(&mut self, mut at: u32, amount: i64) {
        let mut flow = amount;
        while at != NONE {
            self.steps += 1;
            let cell = &mut self.list[at as usize];
            cell.used += amount;
            if flow != 0 {
                let before = cell.spill();
                cell.drawn += flow;
                flow = cell.spill() - before;
            }
            at = cell.parent;
        }
    }

    /// Adds to what waits in a leaf's cell. O(depth).
    pub(in crate::quota) fn wait(&mut self, mut at: u32, amount: i64) {
        while at != NONE {
            let cell = &mut self.list[at as usize];
            cell.pending += amount;
            at = cell.parent;
        }
    }

    /// Amount that may still be used: the rest of the guarantees and the amount to borrow, within
    /// the limits of the queue and of those above. Negative where more is used than may be.
    /// O(depth).
    #[inline]
    pub(in crate::quota) fn available(&self, at: u32) -> i64 {
        let lent = self.unbounded(at);
        if self.limited { lent.min(self.headroom(at)) } else { lent }
    }

    /// The rest within the limits of a queue and of those above.
    pub(in crate::quota) fn headroom(&self, mut at: u32) -> i64 {
        let mut least = UNLIMITED;
        while at != NONE {
            let cell = &self[at];
            if cell.limit != UNLIMITED {
                least = least.min(minus(cell.limit, cell.used));
            }
            at = cell.parent;
        }
        least
    }

    /// [`Cells::available`], limits aside.
    fn unbounded(&self, at: u32) -> i64 {
        let cell = &self[at];
        if cell.parent == NONE {
            return minus(cell.subtree, cell.drawn);
        }
        let mut above = self.unbounded(cell.parent);
        if cell.borrowing_limit != UNLIMITED {
            let stored = minus(cell.subtree, cell.local);
            let own = plus(minus(stored, cell.spill()), cell.borrowing_limit);
            above = above.min(own);
        }
        plus(cell.local_available(), above)
    }

    /// Amount that could be used if nothing else were. O(depth).
    pub(in crate::quota) fn potential(&self, at: u32) -> i64 {
        let cell = &self[at];
        if cell.parent == NONE {
            return cell.subtree.min(cell.limit);
        }
        let all = plus(cell.local, self.potential(cell.parent));
        match cell.borrowing_limit {
            UNLIMITED => all.min(cell.limit),
            limit => all.min(plus(cell.subtree, limit)).min(cell.limit),
        }
    }
}
