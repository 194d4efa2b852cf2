//! Sums to try things on, apart from the books.

use alloc::vec::Vec;

use crate::quota::books::Books;
use crate::quota::books::cells::{Cells, NONE};
use crate::quota::books::share::ShareValue;
use crate::quota::model::claim::{QuotaVictim, Usage, VictimReason};

/// The books, with sums of their own that can be changed and changed back.
pub(in crate::quota) struct Trial<'a> {
    pub(in crate::quota) books: &'a Books,
    pub(in crate::quota) cells: Cells,
}

/// A holder taken as a victim, by place.
pub(in crate::quota) type Taken = (u32, VictimReason);

impl<'a> Trial<'a> {
    pub(in crate::quota) fn new(books: &'a Books, cells: Cells) -> Trial<'a> {
        Trial { books, cells }
    }

    fn charge(&mut self, leaf: u32, usage: &Usage, sign: i64) {
        let slot = &self.books.tree.slots[leaf as usize];
        for (of, amount) in usage {
            if let Some(cell) = slot.cell(of.0) {
                self.cells.charge(cell, sign * amount);
            }
        }
    }

    /// Adds usage to a leaf.
    pub(in crate::quota) fn add(&mut self, leaf: u32, usage: &Usage) {
        self.charge(leaf, usage, 1);
    }

    /// Takes usage from a leaf.
    pub(in crate::quota) fn take(&mut self, leaf: u32, usage: &Usage) {
        self.charge(leaf, usage, -1);
    }

    /// Takes what a holder holds.
    pub(in crate::quota) fn remove(&mut self, holder: u32) {
        if let Some(holder) = self.books.holder_at(holder) {
            self.charge(holder.queue.slot, &holder.usage, -1);
        }
    }

    /// Gives it back.
    pub(in crate::quota) fn restore(&mut self, holder: u32) {
        if let Some(holder) = self.books.holder_at(holder) {
            self.charge(holder.queue.slot, &holder.usage, 1);
        }
    }

    /// The leaf of a holder.
    pub(in crate::quota) fn leaf_of(&self, holder: u32) -> u32 {
        self.books.holder_at(holder).map_or(NONE, |holder| holder.queue.slot)
    }

    pub(in crate::quota) fn parent(&self, at: u32) -> u32 {
        self.books.tree.slots[at as usize].parent
    }

    /// Whether a queue draws no more than the guarantees of its subtree, of any of some resources.
    pub(in crate::quota) fn is_within(&self, at: u32, pairs: &[u32]) -> bool {
        let slot = &self.books.tree.slots[at as usize];
        pairs.iter().all(|&pair| {
            slot.cell(pair).is_none_or(|cell| {
                let cell = &self.cells[cell];
                cell.subtree >= cell.drawn
            })
        })
    }

    /// Whether a leaf still draws all that it is guaranteed of some resources, after a holder of it
    /// has given back. A resource that the holder does not use is not taken.
    pub(in crate::quota) fn keeps_guarantee(&self, leaf: u32, holder: u32, pairs: &[u32]) -> bool {
        let Some(holder) = self.books.holder_at(holder) else { return true };
        let slot = &self.books.tree.slots[leaf as usize];
        holder.usage.iter().all(|(of, amount)| {
            let cell = slot.cell(of.0).map(|cell| &self.cells[cell]);
            *amount == 0
                || !pairs.contains(&of.0)
                || cell.is_none_or(|cell| cell.drawn >= cell.subtree)
        })
    }

    /// Whether a leaf may use so much more.
    pub(in crate::quota) fn fits(&self, leaf: u32, usage: &Usage) -> bool {
        usage.iter().all(|&(of, amount)| {
            let cell = self.books.tree.cell_above(leaf, of.0);
            amount <= cell.map_or(0, |cell| self.cells.available(cell)).max(0)
        })
    }

    /// [`Trial::fits`], once some holders have given back.
    pub(in crate::quota) fn fits_without(
        &mut self,
        leaf: u32,
        usage: &Usage,
        without: &[u32],
    ) -> bool {
        for holder in without {
            self.remove(*holder);
        }
        let fits = self.fits(leaf, usage);
        for holder in without {
            self.restore(*holder);
        }
        fits
    }

    /// Whether a leaf would use more than its own.
    pub(in crate::quota) fn borrows_with(&self, leaf: u32, usage: &Usage) -> bool {
        usage.iter().any(|&(of, amount)| {
            let cell = self.books.tree.slots[leaf as usize].cell(of.0);
            let (nominal, drawn) =
                cell.map_or((0, 0), |cell| (self.cells[cell].nominal, self.cells[cell].drawn));
            nominal < drawn.saturating_add(amount)
        })
    }

    pub(in crate::quota) fn share(&self, at: u32) -> ShareValue {
        (self.books.share)(&self.books.tree, &self.cells, at, &[])
    }

    pub(in crate::quota) fn give_back(&mut self, taken: &[Taken]) {
        for &(holder, _) in taken {
            self.restore(holder);
        }
    }
}

/// Tries something on sums of their own. The books are as before.
pub(in crate::quota) fn on_trial<R>(books: &mut Books, run: impl FnOnce(&mut Trial<'_>) -> R) -> R {
    books.sync();
    let cells = core::mem::take(&mut books.tree.cells);
    let mut trial = Trial::new(books, cells);
    let result = run(&mut trial);
    let cells = trial.cells;
    books.tree.cells = cells;
    result
}

/// Victims, by id.
pub(in crate::quota) fn named(books: &Books, taken: &[Taken]) -> Vec<QuotaVictim> {
    let name = |&(holder, reason): &Taken| QuotaVictim { holder: books.holder_id(holder), reason };
    taken.iter().map(name).collect()
}
