//! Quota that is held: reserved for claims that wait until their victims have given back, put aside for
//! the oldest claim, and holders that do not give back.

use alloc::collections::BTreeSet;
use core::time::Duration;

use super::{Tenants, fits};
use crate::Time;
use crate::model::Owner;
use crate::quota::books::Books;
use crate::quota::books::cells::{Cells, NONE};
use crate::quota::books::holds::Hold;
use crate::quota::books::owners::Owned;
use crate::quota::books::tree::QueueId;
use crate::quota::model::amount::{UNLIMITED, minus, plus};
use crate::quota::model::claim::{AssignmentMode, Claim, FlavorResource, HolderId, Usage};
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::QueueKind;

impl Tenants {
    /// Reserves quota for a claim, in place of what was reserved for it before. Decisions on other
    /// claims ([`Tenants::decide`]) leave it, and see its queue as if it were used there. It is not
    /// used, and no sum shows it.
    ///
    /// A claim that waits for its victims reserves what it is assigned, so that what they give back
    /// is its own; [`Tenants::fits_reserved`] says when that suffices.
    ///
    /// # Errors
    /// The queue is not known, or is no leaf; nothing is reserved then.
    pub fn reserve(
        &mut self,
        claim: &str,
        queue: QueueId,
        usage: &Usage,
    ) -> Result<(), QuotaError> {
        self.reserve_for(claim, &Owner::default(), queue, usage)
    }

    /// [`Tenants::reserve`] for a claim of a user: limits by user and group count it.
    ///
    /// # Errors
    /// The queue is not known, or is no leaf; nothing is reserved then.
    pub fn reserve_for(
        &mut self,
        claim: &str,
        owner: &Owner,
        queue: QueueId,
        usage: &Usage,
    ) -> Result<(), QuotaError> {
        self.books.holds.unreserve(claim);
        let spec = self.books.tree.spec(queue);
        let Some(_) = spec.filter(|spec| spec.kind == QueueKind::Leaf) else {
            let name = spec.map(|spec| spec.name.clone()).unwrap_or_default();
            return Err(QuotaError::UnknownQueue(name));
        };
        let hold = Hold { queue, usage: usage.clone(), owner: owner.clone() };
        self.books.holds.reserve(claim, hold);
        Ok(())
    }

    /// Gives up what is reserved for a claim, and returns it.
    pub fn unreserve(&mut self, claim: &str) -> Option<(QueueId, Usage)> {
        self.books.holds.unreserve(claim).map(|own| (own.queue, own.usage))
    }

    /// Usage reserved for a claim.
    pub fn reserved(&self, claim: &str) -> Option<(QueueId, &Usage)> {
        self.books.holds.reserved(claim).map(|own| (own.queue, &own.usage))
    }

    /// The claims that quota is reserved for, by name.
    pub fn reserving(&self) -> impl Iterator<Item = &str> {
        self.books.holds.reservations().map(|(claim, _)| claim)
    }

    /// Whether a claim may have what is reserved for it once some holders have given back, beside
    /// what is reserved for others. False if nothing is. O((reservations + holders) · depth · log).
    pub fn fits_reserved(&mut self, claim: &str, without: &[HolderId]) -> bool {
        let Some(hold) = self.books.holds.reserved(claim).cloned() else { return false };
        self.books.beside_reserved(claim, |books| fits_hold(books, claim, &hold, without))
    }

    /// Whether a claim may have what is reserved for it now, beside what is reserved for others but for
    /// claims that wait for victims: these hold it still. O((reservations + holders) · depth · log).
    pub(crate) fn fits_beside(&mut self, claim: &str, waiting: &BTreeSet<&str>) -> bool {
        let Some(hold) = self.books.holds.reserved(claim).cloned() else { return false };
        let out = self.books.holds.take_out(waiting);
        let fits = self.books.beside_reserved(claim, |books| fits_hold(books, claim, &hold, &[]));
        self.books.holds.put_back(out);
        fits
    }

    /// How long a claim waits before quota is put aside for it; `None`: none ever is.
    pub fn patience(&self) -> Option<Duration> {
        self.dialect.patience()
    }

    /// Puts quota aside for a claim that has waited beyond its patience, in place of what was put
    /// aside before; whether it did. From now on, claims that borrow have to leave room for it, and
    /// so have all of its own queue. Nothing is put aside for a claim that limits keep out, whatever
    /// others use, nor where claims have no patience.
    ///
    /// # Errors
    /// The claim is unsound, or its queue is not known.
    pub fn put_aside(&mut self, claim: &Claim, now: Time) -> Result<bool, QuotaError> {
        let Some(patience) = self.dialect.patience() else { return Ok(false) };
        self.books.holds.set_aside(None);
        if now.since(claim.created) < patience {
            return Ok(false);
        }
        let decision = self.decide(claim)?;
        let queue = self.leaf(claim)?;
        let tree = &self.books.tree;
        let usage = decision.assignment.usage;
        let bounded = |&(of, amount): &(FlavorResource, i64)| {
            tree.cell_above(queue.slot, of.0).is_none_or(|cell| {
                amount <= tree.cells.potential(cell).min(tree.cells.headroom(cell))
                    && amount <= borrowable(&tree.cells, cell)
            })
        };
        let owner = claim.owner.clone();
        let can = decision.assignment.mode != AssignmentMode::NoFit && usage.iter().all(bounded);
        if can {
            self.books.holds.set_aside(Some((claim.name.clone(), Hold { queue, usage, owner })));
        }
        Ok(can)
    }

    /// Gives up what is put aside.
    pub fn take_aside(&mut self) {
        self.books.holds.set_aside(None);
    }

    /// The claim that quota is put aside for.
    pub fn aside(&self) -> Option<&str> {
        self.books.holds.aside().map(|(claim, _)| claim)
    }

    /// Usage put aside for it.
    pub fn aside_usage(&self) -> Option<(QueueId, &Usage)> {
        self.books.holds.aside().map(|(_, hold)| (hold.queue, &hold.usage))
    }

    /// Sets whether a holder is kept: it is charged as any other, and no search names it as a victim.
    /// Its embedder knows of reasons that the books do not: it may not be preempted, or not yet.
    /// O(log holders).
    ///
    /// # Errors
    /// There is no such holder.
    pub fn set_kept(&mut self, holder: HolderId, kept: bool) -> Result<(), QuotaError> {
        self.books.set_kept(holder, kept)
    }

    /// Sums that have been changed so far, each queue on a path counted, with those that searches have
    /// tried and taken back. It is a measure of work that no clock disturbs.
    pub fn steps(&self) -> u64 {
        self.books.tree.cells.steps
    }
}

/// Whether a claim may have what is reserved for it, as its queues and its user's limits stand.
fn fits_hold(books: &mut Books, name: &str, hold: &Hold, without: &[HolderId]) -> bool {
    let Hold { queue, usage, owner } = hold;
    let own = Owned { name, owner, leaf: *queue, usage };
    fits(books, *queue, usage, without) && books.over_limit(own, without).is_none()
}

/// Amount that limits on borrowing leave to a queue, whatever others use.
fn borrowable(cells: &Cells, mut at: u32) -> i64 {
    let mut least = UNLIMITED;
    while at != NONE {
        let cell = &cells[at];
        if cell.borrowing_limit != UNLIMITED {
            let most = plus(cell.subtree, cell.borrowing_limit);
            least = least.min(minus(most, cell.drawn));
        }
        at = cell.parent;
    }
    least
}
