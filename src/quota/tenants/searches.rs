//! The steps of a decision, one by one: flavors, victims, and the orders in which they are sought.

use alloc::vec::Vec;

use super::Tenants;
use crate::quota::books::tree::QueueId;
use crate::quota::dialects::kueue::decide::{SearchRules, simulate_levels, victims};
use crate::quota::dialects::kueue::fair::target_order;
use crate::quota::dialects::kueue::settings::KueueSettings;
use crate::quota::engine::assign::{Ask, Outlook, assign};
use crate::quota::engine::trial::{Trial, named, on_trial};
use crate::quota::model::claim::{Claim, FlavorResource, HolderId, QuotaAssignment, QuotaVictim};
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::QueueKind;

/// Kueue's searches on the books of tenants, one by one. [`Tenants::decide`] runs them together.
///
/// ```
/// use phalanx::quota::{
///     Claim, Flavor, KueueSettings, AssignmentMode, PodSet, Queue, Quota, Searches, Tenants,
/// };
///
/// let settings = KueueSettings::default();
/// let mut tenants = Tenants::kueue_with(settings.clone());
/// tenants.set_flavor(Flavor::new("spot"));
/// tenants.set_queue(Queue::leaf("vision").quota("spot", "gpu", Quota::nominal(8)))?;
/// let claim = Claim::new("train", "vision").pods(PodSet::new("main", 1, [("gpu", 4)]));
/// let mut searches = Searches::new(&mut tenants, &settings);
/// let assignment = searches.assign(&claim)?;
/// assert_eq!(assignment.mode, AssignmentMode::Fit);
/// assert_eq!(searches.victims(&claim, &assignment)?, []);
/// # Ok::<(), phalanx::quota::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct Searches<'t> {
    tenants: &'t mut Tenants,
    rules: SearchRules<'t>,
}

impl<'t> Searches<'t> {
    /// The searches by some settings.
    pub fn new(tenants: &'t mut Tenants, settings: &'t KueueSettings) -> Searches<'t> {
        Searches { tenants, rules: SearchRules::new(settings) }
    }

    /// Flavors for all of a claim's pods, with the outlook of what has to be taken from others given
    /// by the caller, with the level after that (`None`: as before).
    ///
    /// # Errors
    /// The errors of [`Tenants::decide`].
    pub fn assign_with(
        &mut self,
        claim: &Claim,
        mut outlook: impl FnMut(FlavorResource, i64) -> (Outlook, Option<u32>),
    ) -> Result<QuotaAssignment, QuotaError> {
        let queue = self.tenants.leaf(claim)?;
        Ok(on_trial(&mut self.tenants.books, |trial| {
            let mut simulate = |_: &mut Trial<'_>, of, amount| outlook(of, amount);
            assign(trial, Ask::new(queue.slot, claim), &mut simulate)
        }))
    }

    /// Flavors for all of a claim's pods. The books are as before.
    ///
    /// # Errors
    /// The errors of [`Tenants::decide`].
    pub fn assign(&mut self, claim: &Claim) -> Result<QuotaAssignment, QuotaError> {
        let queue = self.tenants.leaf(claim)?;
        let rules = self.rules;
        Ok(on_trial(&mut self.tenants.books, |trial| {
            let mut simulate = simulate_levels(claim, queue.slot, rules);
            assign(trial, Ask::new(queue.slot, claim), &mut simulate)
        }))
    }

    /// The holders that must give back for an assignment that needs it; none if that does not suffice.
    /// The books are as before.
    ///
    /// # Errors
    /// The errors of [`Tenants::decide`].
    pub fn victims(
        &mut self,
        claim: &Claim,
        assignment: &QuotaAssignment,
    ) -> Result<Vec<QuotaVictim>, QuotaError> {
        let queue = self.tenants.leaf(claim)?;
        self.tenants.open_cells(queue, claim, assignment)?;
        let rules = self.rules;
        Ok(on_trial(&mut self.tenants.books, |trial| {
            let taken = victims(trial, queue.slot, claim, assignment, rules);
            named(trial.books, &taken)
        }))
    }

    /// The leaves of a list in the order in which fair sharing looks for victims in them. Of each only
    /// the first holder is passed over; where `drops` says so, all are. None gives anything back.
    ///
    /// # Errors
    /// A queue is not known.
    pub fn target_order(
        &mut self,
        preemptor: QueueId,
        candidates: &[QueueId],
        drops: &[bool],
    ) -> Result<Vec<QueueId>, QuotaError> {
        let books = &mut self.tenants.books;
        let leaf = books.tree.slot(preemptor)?;
        let leaves = candidates.iter().map(|queue| books.tree.slot(*queue));
        let leaves = leaves.collect::<Result<Vec<u32>, _>>()?;
        let order = on_trial(books, |trial| target_order(trial, leaf, &leaves, drops));
        Ok(order.into_iter().map(|at| books.tree.id(at)).collect())
    }

    /// The holders of a leaf's tree in the order in which its claims look for victims: those that are
    /// leaving first, those of other queues before its own. O(n log n).
    ///
    /// # Errors
    /// The queue is not known.
    pub fn candidate_order(&self, preemptor: QueueId) -> Result<Vec<HolderId>, QuotaError> {
        let books = &self.tenants.books;
        let tree = &books.tree;
        let root = tree.root_of(tree.slot(preemptor)?);
        let mut order = Vec::new();
        for leaf in tree.queues(QueueKind::Leaf).filter(|leaf| tree.root_of(leaf.slot) == root) {
            let keys = books.index.holders(leaf.slot).iter();
            order.extend(keys.map(|key| (key.staying, leaf == preemptor, key)));
        }
        order.sort_unstable();
        Ok(order.into_iter().map(|(_, _, key)| books.holder_id(key.holder)).collect())
    }
}
