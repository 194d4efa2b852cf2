//! Quota reserved for claims that wait for their victims, and holders that do not give back.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::claim::{HolderId, Usage};
use super::error::QuotaError;
use super::queue::QueueKind;
use super::tenants::{Reserved, Tenants};
use super::tree::QueueId;

impl Tenants {
    /// Reserves quota for a claim, in place of its former reservation. Decisions on other claims
    /// ([`Tenants::decide`]) leave it, and see its queue as if it were used there. It is not used,
    /// and no sum shows it.
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
        self.reserved.remove(claim);
        let spec = self.books.tree.spec(queue);
        let Some(_) = spec.filter(|spec| spec.kind == QueueKind::Leaf) else {
            let name = spec.map(|spec| spec.name.clone()).unwrap_or_default();
            return Err(QuotaError::UnknownQueue(name));
        };
        self.reserved.insert(claim.to_owned(), Reserved { queue, usage: usage.clone() });
        Ok(())
    }

    /// Gives up what is reserved for a claim, and returns it.
    pub fn unreserve(&mut self, claim: &str) -> Option<(QueueId, Usage)> {
        self.reserved.remove(claim).map(|own| (own.queue, own.usage))
    }

    /// Usage reserved for a claim.
    pub fn reserved(&self, claim: &str) -> Option<(QueueId, &Usage)> {
        self.reserved.get(claim).map(|own| (own.queue, &own.usage))
    }

    /// The claims that quota is reserved for, by name.
    pub fn reserving(&self) -> impl Iterator<Item = &str> {
        self.reserved.keys().map(String::as_str)
    }

    /// Whether a claim may have what is reserved for it once some holders have given back, beside
    /// what is reserved for others. False if nothing is. O((reservations + holders) · depth · log).
    pub fn fits_reserved(&mut self, claim: &str, without: &[HolderId]) -> bool {
        let Some(Reserved { queue, usage }) = self.reserved.get(claim).cloned() else {
            return false;
        };
        self.beside_reserved(claim, |tenants| tenants.fits(queue, &usage, without))
    }

    /// Whether a claim may have what is reserved for it now, beside what is reserved for others but for
    /// claims that wait for victims: these hold it still. O((reservations + holders) · depth · log).
    pub(crate) fn fits_beside(&mut self, claim: &str, waiting: &BTreeSet<&str>) -> bool {
        let Some(Reserved { queue, usage }) = self.reserved.get(claim).cloned() else {
            return false;
        };
        let aside: Vec<(String, Reserved)> = self
            .reserved
            .iter()
            .filter(|(name, _)| waiting.contains(name.as_str()))
            .map(|(name, own)| (name.clone(), own.clone()))
            .collect();
        self.reserved.retain(|name, _| !waiting.contains(name.as_str()));
        let fits = self.beside_reserved(claim, |tenants| tenants.fits(queue, &usage, &[]));
        self.reserved.extend(aside);
        fits
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

    /// How many sums have been changed so far, each queue on a path counted. Sums that searches
    /// have tried and taken back are among them. It is a measure of work that no clock disturbs.
    pub fn steps(&self) -> u64 {
        self.books.tree.cells.steps
    }

    /// Runs something with what is reserved for others charged. Nothing happens to the books where
    /// nothing is.
    pub(super) fn beside_reserved<R>(
        &mut self,
        claim: &str,
        run: impl FnOnce(&mut Tenants) -> R,
    ) -> R {
        let others = self.reserved.iter().filter(|(name, _)| *name != claim);
        let others: Vec<Reserved> = others.map(|(_, own)| own.clone()).collect();
        let mut charged = Vec::with_capacity(others.len());
        for own in others {
            // An amount that no sum can hold, or of a queue that is gone, is left out.
            if self.keep(own.queue, &own.usage, 1).is_ok() {
                charged.push(own);
            }
        }
        let result = run(self);
        for own in charged.iter().rev() {
            let _ = self.keep(own.queue, &own.usage, -1);
        }
        result
    }
}
