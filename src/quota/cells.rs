//! Sums of one resource in one flavor, from a queue up to its root.

use alloc::vec::Vec;

use super::amount::{UNLIMITED, minus, plus};
use super::queue::Quota;

/// No cell.
pub(super) const NONE: u32 = u32::MAX;

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
pub(super) struct Cell {
    /// The cell of the parent queue.
    pub(super) parent: u32,
    /// The slot of the queue.
    pub(super) queue: u32,
    /// The resource in a flavor.
    pub(super) pair: u32,
    /// Whether the queue's quota states it.
    pub(super) stated: bool,
    pub(super) nominal: i64,
    /// [`UNLIMITED`] if there is none.
    pub(super) borrowing_limit: i64,
    /// [`UNLIMITED`] if there is none.
    pub(super) lending_limit: i64,
    /// The most that may be used in the subtree; [`UNLIMITED`] if there is none.
    pub(super) limit: i64,
    /// Amount that the children lend to this queue.
    lent: Lent,
    /// The guarantees of the subtree, less what its parts keep for themselves.
    pub(super) subtree: i64,
    /// Part of `subtree` that the queue keeps for itself.
    pub(super) local: i64,
    /// Amount drawn from `subtree`: the use of a leaf, or the children's use beyond their own
    /// parts.
    pub(super) drawn: i64,
    /// Usage of the subtree.
    pub(super) used: i64,
    /// Waiting requests of the subtree.
    pub(super) pending: i64,
}

impl Cell {
    /// Amount that the subtree takes from its parent.
    #[inline]
    fn spill(&self) -> i64 {
        minus(self.drawn, self.local).max(0)
    }

    /// Unused rest of the part that the queue keeps for itself.
    #[inline]
    pub(super) fn local_available(&self) -> i64 {
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

    pub(super) fn is_idle(&self) -> bool {
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
pub(super) struct Cells {
    list: Vec<Cell>,
    free: Vec<u32>,
    /// Whether any quota ever stated a limit.
    limited: bool,
    /// Cells that charges have gone through.
    pub(super) steps: u64,
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
    pub(super) fn add(&mut self, queue: u32, pair: u32) -> u32 {
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
    pub(super) fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    /// How many places there are for cells.
    pub(super) fn len(&self) -> usize {
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
    pub(super) fn link(&mut self, at: u32, parent: u32) {
        let share = self.share(at);
        let old = core::mem::replace(&mut self.list[at as usize].parent, parent);
        if old != parent {
            self.replace(old, share, Share::default());
            self.replace(parent, Share::default(), share);
        }
    }

    /// Sets the quota of a cell; `None`: none is stated. O(depth).
    pub(super) fn set_quota(&mut self, at: u32, quota: Option<&Quota>) {
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
    pub(super) fn charge(&mut self, mut at: u32, amount: i64) {
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
    pub(super) fn wait(&mut self, mut at: u32, amount: i64) {
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
    pub(super) fn available(&self, at: u32) -> i64 {
        let lent = self.unbounded(at);
        if self.limited { lent.min(self.headroom(at)) } else { lent }
    }

    /// The rest within the limits of a queue and of those above.
    pub(super) fn headroom(&self, mut at: u32) -> i64 {
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
    pub(super) fn potential(&self, at: u32) -> i64 {
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
