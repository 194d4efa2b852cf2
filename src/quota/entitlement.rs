//! Entitlement: which queue may take from which, down to what.

use alloc::vec::Vec;

use super::claim::{Assignment, Claim, Victim};
use super::error::QuotaError;
use super::tenants::Tenants;
use super::tree::{FlavorResource, QueueId, QueueTree};

/// Rules by which queues take from others, and down to which amount.
pub trait Entitlement {
    /// The least of a resource in a flavor that is left to a queue when another takes from it; `None`
    /// if it may not take at all. Queues are siblings or leaves, as the dialect compares them.
    fn floor(
        &self,
        tree: &QueueTree,
        taker: QueueId,
        from: QueueId,
        of: FlavorResource,
    ) -> Option<i64>;
}

/// A queue below its guarantees takes what others draw beyond theirs.
#[derive(Debug, Clone, Copy, Default)]
pub struct AboveNominal;

impl Entitlement for AboveNominal {
    fn floor(
        &self,
        tree: &QueueTree,
        taker: QueueId,
        from: QueueId,
        of: FlavorResource,
    ) -> Option<i64> {
        let (own, others) = (tree.sums(taker, of), tree.sums(from, of));
        let entitled = taker != from && own.drawn < own.subtree && others.drawn > others.subtree;
        entitled.then_some(others.subtree)
    }
}

/// A queue below what it deserves takes what others use beyond what they deserve, and never below
/// their guarantees. Where nothing is said of what a queue deserves, it is its guarantee.
#[derive(Debug, Clone, Copy, Default)]
pub struct AboveDeserved;

impl Entitlement for AboveDeserved {
    fn floor(
        &self,
        tree: &QueueTree,
        taker: QueueId,
        from: QueueId,
        of: FlavorResource,
    ) -> Option<i64> {
        let deserved = |queue| {
            let quota = tree.quota(queue, of);
            quota.map_or(0, |quota| quota.deserved.unwrap_or(quota.nominal).max(quota.nominal))
        };
        let used = |queue| tree.sums(queue, of).used;
        let entitled =
            taker != from && used(taker) < deserved(taker) && used(from) > deserved(from);
        entitled.then(|| deserved(from))
    }
}

/// The search for holders that give back, so that a claim can have what is assigned to it.
///
/// Searches that place as they go stand in a layer above; the one of quota alone is [`Tenants`]'.
pub trait VictimSearch {
    /// The victims; none if no set of holders suffices, or none is needed.
    ///
    /// # Errors
    /// The errors of [`Tenants::decide`].
    fn victims(
        &self,
        tenants: &mut Tenants,
        claim: &Claim,
        assignment: &Assignment,
    ) -> Result<Vec<Victim>, QuotaError>;
}

/// The search by quota alone: [`Tenants::victims`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ByQuota;

impl VictimSearch for ByQuota {
    fn victims(
        &self,
        tenants: &mut Tenants,
        claim: &Claim,
        assignment: &Assignment,
    ) -> Result<Vec<Victim>, QuotaError> {
        tenants.victims(claim, assignment)
    }
}
