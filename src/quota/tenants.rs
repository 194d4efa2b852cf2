//! Tenants: whose turn it is, and what may be taken back.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::books::{Books, Holder};
use super::cells::Cells;
use super::claim::{
    AssignmentMode, Claim, HolderId, QuotaAssignment, QuotaDecision, QuotaVictim, Usage,
};
use super::dialect::{Dialect, Own, TenantSettings};
use super::error::QuotaError;
use super::flavor::Flavor;
use super::kueue::head_rules::HeadRules;
use super::kueue::trial::{Trial, named};
use super::kueue::{self, FairStrategy, Outlook};
use super::queue::{Fungibility, Queue, QueueKind};
use super::share::{ShareValue, borrowed_share};
use super::tree::{FlavorResource, QueueId, QueueTree, Removal};
use crate::Time;

/// Settings of [`Tenants::kueue`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct KueueSettings {
    /// The strategies of fair sharing, in order; `None`: no fair sharing.
    pub fair_sharing: Option<Vec<FairStrategy>>,
    /// Whether claims are admitted with fewer pods than all.
    pub partial_admission: bool,
    /// The order of heads; `fair` is set by `fair_sharing`.
    pub heads: HeadRules,
}

impl Default for KueueSettings {
    fn default() -> KueueSettings {
        KueueSettings { fair_sharing: None, partial_admission: true, heads: HeadRules::default() }
    }
}

impl KueueSettings {
    /// Fair sharing, with both strategies.
    #[must_use]
    pub fn fair(self) -> KueueSettings {
        let both = [FairStrategy::LessThanOrEqualToFinalShare, FairStrategy::LessThanInitialShare];
        self.fair_with(both)
    }

    /// Fair sharing, with strategies in order; none means both.
    #[must_use]
    pub fn fair_with(
        mut self,
        strategies: impl IntoIterator<Item = FairStrategy>,
    ) -> KueueSettings {
        let strategies: Vec<FairStrategy> = strategies.into_iter().collect();
        if strategies.is_empty() {
            return self.fair();
        }
        self.fair_sharing = Some(strategies);
        self.heads.fair = true;
        self
    }

    /// Sets whether claims are admitted with fewer pods than all.
    #[must_use]
    pub fn partial_admission(mut self, partial: bool) -> KueueSettings {
        self.partial_admission = partial;
        self
    }

    /// Sets the order of heads.
    #[must_use]
    pub fn heads(mut self, rules: HeadRules) -> KueueSettings {
        self.heads = HeadRules { fair: self.fair_sharing.is_some(), ..rules };
        self
    }
}

/// Queues with quota, the holders of it, and the rules by which it is given and taken back.
///
/// Pure data: no placement, no clock. A claim is decided on ([`Tenants::decide`]), its victims give
/// back ([`Tenants::release`]), it is admitted ([`Tenants::admit`]); which queue's head goes next
/// says [`Heads`](super::Heads).
///
/// ```
/// use phalanx::Time;
/// use phalanx::model::Amounts;
/// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
///
/// let mut tenants = Tenants::kueue();
/// tenants.set_flavor(Flavor::new("spot"));
/// for team in ["vision", "speech"] {
///     tenants.set_queue(Queue::leaf(team).parent("labs").quota("spot", "gpu", Quota::nominal(8)))?;
/// }
/// let gang = |name: &str, gpus: i64| {
///     let mut requests = Amounts::new();
///     requests.set("gpu", gpus);
///     Claim::new(name, "vision").pods(PodSet::new("main", 1, requests))
/// };
/// let large = gang("large", 12);
/// let decision = tenants.decide(&large)?;
/// assert_eq!((decision.assignment.mode, decision.assignment.level), (AssignmentMode::Fit, 1));
/// tenants.admit(&large, &decision.assignment, Time::ZERO)?;
/// assert_eq!(tenants.decide(&gang("more", 5))?.assignment.mode, AssignmentMode::Preempt);
/// # Ok::<(), phalanx::quota::QuotaError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tenants {
    pub(super) books: Books,
    pub(super) rules: KueueSettings,
    pub(super) dialect: Dialect,
    /// By claim.
    pub(super) reserved: BTreeMap<String, Reserved>,
}

/// Usage reserved for a claim.
#[derive(Debug, Clone)]
pub(super) struct Reserved {
    pub(super) queue: QueueId,
    pub(super) usage: Usage,
}

impl Tenants {
    /// Kueue's semantics: cohorts, flavors and fungibility, classical order and preemption.
    pub fn kueue() -> Tenants {
        Tenants::kueue_with(KueueSettings::default())
    }

    /// Kueue's semantics with settings, fair sharing among them.
    pub fn kueue_with(rules: KueueSettings) -> Tenants {
        let mut books = Books::default();
        books.set_fair(rules.fair_sharing.is_some());
        Tenants { books, rules, dialect: Dialect::Kueue, reserved: BTreeMap::new() }
    }

    /// This crate's own dialect: guarantees, limits, weighted shares, and age in the end; see
    /// `docs/tenants.md`. [`Tenants::default`] has the default settings.
    pub fn with(settings: TenantSettings) -> Tenants {
        let strategy = FairStrategy::LessThanOrEqualToFinalShare;
        let mut tenants = Tenants::kueue_with(KueueSettings::default().fair_with([strategy]));
        tenants.books.tree.whole_shares = true;
        tenants.dialect = Dialect::Own(Own::new(settings));
        tenants
    }

    /// Adds a queue or changes one: see [`QueueTree::set_queue`]. The index of victims is made anew at
    /// the next search.
    ///
    /// # Errors
    /// The errors of [`QueueTree::set_queue`].
    pub fn set_queue(&mut self, queue: Queue) -> Result<QueueId, QuotaError> {
        let queue = match self.dialect {
            Dialect::Kueue | Dialect::Own(_) => queue,
            Dialect::Koordinator(_) => self.placed(queue)?,
            Dialect::Peer(_) => self.below_root(queue)?,
            Dialect::Kai(_) => return self.set_kai_queue(queue),
        };
        let (kind, name) = (queue.kind, queue.name.clone());
        let id = self.books.set_queue(queue)?;
        self.quota_changed(kind, &name);
        Ok(id)
    }

    /// Removes a queue: see [`QueueTree::remove_queue`].
    ///
    /// # Errors
    /// There is no such queue.
    pub fn remove_queue(&mut self, queue: QueueId) -> Result<Removal, QuotaError> {
        let spec = self.books.tree.spec(queue).map(|spec| (spec.kind, spec.name.clone()));
        let removal = self.books.remove_queue(queue)?;
        if let Some((kind, name)) = spec {
            self.quota_changed(kind, &name);
        }
        Ok(removal)
    }

    /// Adds a flavor, or changes one.
    pub fn set_flavor(&mut self, flavor: Flavor) {
        self.books.set_flavor(flavor);
    }

    /// Removes a flavor. Queues that name it are not active.
    pub fn remove_flavor(&mut self, name: &str) -> Option<Flavor> {
        self.books.remove_flavor(name)
    }

    /// A flavor.
    pub fn flavor(&self, name: &str) -> Option<&Flavor> {
        self.books.flavor(name)
    }

    /// The tree of queues.
    pub fn tree(&self) -> &QueueTree {
        &self.books.tree
    }

    /// Reads the tree, with sums to try things on, which are left as they were.
    pub(super) fn with_cells<R>(&mut self, run: impl FnOnce(&QueueTree, &mut Cells) -> R) -> R {
        let mut cells = core::mem::take(&mut self.books.tree.cells);
        let result = run(&self.books.tree, &mut cells);
        self.books.tree.cells = cells;
        result
    }

    /// The number of a resource in a flavor, given now if it has none.
    pub fn intern(&mut self, flavor: &str, resource: &str) -> FlavorResource {
        self.books.tree.intern(flavor, resource)
    }

    /// The order of heads.
    pub fn head_rules(&self) -> HeadRules {
        self.rules.heads
    }

    /// Whether a queue admits anything: it is not stopped nor being removed, stands where it was put,
    /// and all of its flavors are there.
    pub fn is_active(&self, queue: QueueId) -> bool {
        let tree = &self.books.tree;
        let Some(spec) = tree.spec(queue) else { return false };
        let mut flavors = spec.groups.iter().flat_map(|group| &group.flavors);
        !spec.stopped
            && !tree.is_draining(queue)
            && tree.is_linked(queue)
            && flavors.all(|flavor| self.books.flavor(&flavor.name).is_some())
    }

    /// The share of a queue by the rules in force; [`ShareValue::NONE`] for a queue that is gone.
    pub fn share(&self, queue: QueueId) -> ShareValue {
        self.share_with(queue, &[])
    }

    /// The share of a queue if so much more were drawn from it.
    pub fn share_with(&self, queue: QueueId, more: &[(FlavorResource, i64)]) -> ShareValue {
        let tree = &self.books.tree;
        let share = |at| borrowed_share(tree, &tree.cells, at, more);
        tree.slot(queue).map_or(ShareValue::NONE, share)
    }

    /// Flavors for a claim, how they can be had, and which holders must give back first. The books are as
    /// before.
    ///
    /// Where the claim neither fits nor finds victims, and fewer pods would do, the largest number
    /// that fits or finds victims is assigned. A queue that is not active has no flavors to give. What
    /// is reserved for other claims ([`Tenants::reserve`]) is left to them.
    ///
    /// O(flavors · depth), and where others hold what is asked O((depth + victims) · log holders) for
    /// each search, holders that are passed over aside.
    ///
    /// # Errors
    /// The queue is not known; an amount is negative. One beyond [`MOST`](super::MOST) fits nowhere.
    pub fn decide(&mut self, claim: &Claim) -> Result<QuotaDecision, QuotaError> {
        let queue = self.leaf(claim)?;
        if !self.is_active(queue) {
            let assignment = QuotaAssignment {
                pod_sets: smallvec::SmallVec::new(),
                usage: Usage::new(),
                mode: AssignmentMode::NoFit,
                level: 0,
            };
            return Ok(QuotaDecision { assignment, victims: Vec::new() });
        }
        Ok(self.beside_reserved(&claim.name, |tenants| tenants.decide_active(queue, claim)))
    }

    /// The decision on a claim of an active leaf, beside what is reserved for others.
    fn decide_active(&mut self, queue: QueueId, claim: &Claim) -> QuotaDecision {
        match &self.dialect {
            Dialect::Kueue => self.decide_plain(queue, claim),
            Dialect::Own(_) => self.decide_own(queue, claim),
            Dialect::Koordinator(own) => self.decide_koordinator(own, queue, claim),
            Dialect::Peer(peer) => self.decide_peer(peer, queue, claim),
            Dialect::Kai(_) => self.decide_kai(queue, claim),
        }
    }

    /// The decision on a claim of an active leaf, with nothing put aside.
    pub(super) fn decide_plain(&mut self, queue: QueueId, claim: &Claim) -> QuotaDecision {
        let partial = self.rules.partial_admission;
        self.trial(|trial, strategies| kueue::decide(trial, queue.slot, claim, strategies, partial))
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
        let queue = self.leaf(claim)?;
        Ok(self.trial(|trial, _| {
            let mut simulate = |_: &mut Trial<'_>, of, amount| outlook(of, amount);
            kueue::assign(trial, queue.slot, claim, None, &mut simulate)
        }))
    }

    /// Flavors for all of a claim's pods. The books are as before.
    ///
    /// # Errors
    /// The errors of [`Tenants::decide`].
    pub fn assign(&mut self, claim: &Claim) -> Result<QuotaAssignment, QuotaError> {
        let queue = self.leaf(claim)?;
        Ok(self.trial(|trial, strategies| {
            let mut simulate = kueue::simulate_levels(claim, queue.slot, strategies);
            kueue::assign(trial, queue.slot, claim, None, &mut simulate)
        }))
    }

    /// The holders that must give back for an assignment that needs it; none if that does not suffice. The books
    /// are as before.
    ///
    /// # Errors
    /// The errors of [`Tenants::decide`].
    pub fn victims(
        &mut self,
        claim: &Claim,
        assignment: &QuotaAssignment,
    ) -> Result<Vec<QuotaVictim>, QuotaError> {
        let queue = self.leaf(claim)?;
        for &(of, _) in &assignment.usage {
            if self.books.tree.names(of).1.is_empty() {
                return Err(QuotaError::Foreign(claim.name.clone()));
            }
            self.books.tree.cell_or_new(queue.slot, of.0);
        }
        Ok(self.trial(|trial, strategies| {
            let taken = kueue::victims(trial, queue.slot, claim, assignment, strategies);
            named(trial.books, &taken)
        }))
    }

    /// Compares two ways to have flavors by a rule: how each can be had, and how far up
    /// the tree is borrowed from. `Greater` if the first.
    pub fn compare_flavors(
        rule: Fungibility,
        a: (Outlook, u32),
        b: (Outlook, u32),
    ) -> core::cmp::Ordering {
        let prefer = |(outlook, level)| kueue::Prefer { outlook, level };
        kueue::flavor_order(rule, prefer(a), prefer(b))
    }

    /// The leaves of a list in the order in which fair sharing looks for victims in them. It takes
    /// only the first holder of each, or (where `drops` says so) passes over all of them.
    ///
    /// # Errors
    /// A queue is not known.
    pub fn target_order(
        &mut self,
        preemptor: QueueId,
        candidates: &[QueueId],
        drops: &[bool],
    ) -> Result<Vec<QueueId>, QuotaError> {
        let leaf = self.books.tree.slot(preemptor)?;
        let leaves = candidates.iter().map(|queue| self.books.tree.slot(*queue));
        let leaves = leaves.collect::<Result<Vec<u32>, _>>()?;
        let order = self.trial(|trial, _| kueue::target_order(trial, leaf, &leaves, drops));
        Ok(order.into_iter().map(|at| self.books.tree.id(at)).collect())
    }

    /// Whether a leaf may use so much more once some holders have given back.
    pub fn fits(&mut self, queue: QueueId, usage: &Usage, without: &[HolderId]) -> bool {
        if self.books.tree.slot(queue).is_err() {
            return false;
        }
        let without: Vec<u32> =
            without.iter().filter(|id| self.books.holder(**id).is_some()).map(|id| id.at).collect();
        self.trial(|trial, _| trial.fits_without(queue.slot, usage, &without))
    }

    /// Charges a claim's queue with what is assigned to it; the claim is a holder from then on.
    /// O(depth · log).
    ///
    /// # Errors
    /// The claim is one already, or is unsound; a sum would be out of range.
    pub fn admit(
        &mut self,
        claim: &Claim,
        assignment: &QuotaAssignment,
        now: Time,
    ) -> Result<HolderId, QuotaError> {
        self.leaf(claim)?;
        self.restore(claim, &assignment.usage, now)
    }

    /// Charges a claim's queue with usage that is known: of what was admitted elsewhere.
    ///
    /// # Errors
    /// The errors of [`Tenants::admit`].
    pub fn restore(
        &mut self,
        claim: &Claim,
        usage: &Usage,
        since: Time,
    ) -> Result<HolderId, QuotaError> {
        let holder = self.books.hold(claim, usage, since)?;
        self.counted(&claim.queue, usage, 1, claim.preemptible == Some(false), false);
        Ok(holder)
    }

    /// Charges a leaf with usage that has no holder (or, with `sign` −1, takes it back): room that is
    /// kept, or what others use.
    ///
    /// # Errors
    /// The queue is not known or no leaf; a sum would be out of range.
    pub fn keep(&mut self, queue: QueueId, usage: &Usage, sign: i64) -> Result<(), QuotaError> {
        let name = self.leaf_name(queue);
        self.books.charge("", queue, usage, sign.signum())?;
        self.counted(&name, usage, sign.signum(), false, false);
        Ok(())
    }

    /// Adds to what waits in a leaf; a negative amount takes away. It decides nothing, and is part of
    /// what a queue deserves.
    ///
    /// # Errors
    /// The errors of [`QueueTree::wait`].
    pub fn wait(
        &mut self,
        queue: QueueId,
        of: FlavorResource,
        amount: i64,
    ) -> Result<(), QuotaError> {
        let name = self.leaf_name(queue);
        self.books.wait(queue, of, amount)?;
        self.counted(&name, &[(of, amount)], 1, false, true);
        Ok(())
    }

    /// Takes back what a holder holds.
    ///
    /// # Errors
    /// There is no such holder.
    pub fn release(&mut self, holder: HolderId) -> Result<Holder, QuotaError> {
        let name = self.holder_leaf(holder);
        let holder = self.books.release(holder)?;
        self.counted(&name, &holder.usage, -1, holder.preemptible == Some(false), false);
        Ok(holder)
    }

    /// Charges a claim in place of a holder: with other usage or priority, or in another queue. A
    /// queue that drains stays for it. If the claim cannot be charged, the holder is released.
    ///
    /// # Errors
    /// There is no such holder; those of [`Tenants::restore`].
    pub(crate) fn renew(
        &mut self,
        holder: HolderId,
        claim: &Claim,
        usage: &Usage,
        since: Time,
    ) -> Result<HolderId, QuotaError> {
        let name = self.holder_leaf(holder);
        let (before, held) = self.books.renew(holder, claim, usage, since)?;
        self.counted(&name, &before.usage, -1, before.preemptible == Some(false), false);
        let held = held?;
        self.counted(&claim.queue, usage, 1, claim.preemptible == Some(false), false);
        Ok(held)
    }

    /// Notes that a holder is being evicted, or is not any more. It is charged until it is released,
    /// and is the first choice of every search for victims.
    ///
    /// # Errors
    /// There is no such holder.
    pub fn set_leaving(&mut self, holder: HolderId, leaving: bool) -> Result<(), QuotaError> {
        self.books.set_leaving(holder, leaving)
    }

    /// A holder.
    pub fn holder(&self, holder: HolderId) -> Option<&Holder> {
        self.books.holder(holder)
    }

    /// The holder of a name.
    pub fn find(&self, name: &str) -> Option<HolderId> {
        self.books.find(name)
    }

    /// The holders of a leaf, in the order of victims.
    pub fn holders(&self, queue: QueueId) -> impl Iterator<Item = HolderId> {
        self.books.holders(queue)
    }

    /// The holders of a leaf's tree in the order in which its claims look for victims: those that are
    /// leaving first, those of other queues before its own. O(n log n).
    ///
    /// # Errors
    /// The queue is not known.
    pub fn candidate_order(&self, preemptor: QueueId) -> Result<Vec<HolderId>, QuotaError> {
        let tree = &self.books.tree;
        let root = tree.root_of(tree.slot(preemptor)?);
        let mut order = Vec::new();
        for leaf in tree.queues(QueueKind::Leaf).filter(|leaf| tree.root_of(leaf.slot) == root) {
            let keys = self.books.index.holders(leaf.slot).iter();
            order.extend(keys.map(|key| (key.staying, leaf == preemptor, key)));
        }
        order.sort_unstable();
        Ok(order.into_iter().map(|(_, _, key)| self.books.holder_id(key.holder)).collect())
    }

    /// The name of a queue, where a dialect counts by name.
    fn leaf_name(&self, queue: QueueId) -> String {
        let spec = self.books.tree.spec(queue).filter(|_| self.dialect.koordinator().is_some());
        spec.map(|spec| spec.name.clone()).unwrap_or_default()
    }

    fn holder_leaf(&self, holder: HolderId) -> String {
        let queue = self.books.holder(holder).map(|holder| holder.queue);
        queue.map(|queue| self.leaf_name(queue)).unwrap_or_default()
    }

    /// Checks that no queue of the other kind has a queue's name.
    pub(super) fn check_name(&self, queue: &Queue) -> Result<(), QuotaError> {
        let other = match queue.kind {
            QueueKind::Leaf => QueueKind::Inner,
            QueueKind::Inner => QueueKind::Leaf,
        };
        match self.books.tree.queue(other, &queue.name) {
            Some(_) => {
                Err(QuotaError::Twice { queue: queue.name.clone(), name: queue.name.clone() })
            }
            None => Ok(()),
        }
    }

    /// The leaf of a claim that makes sense.
    pub(super) fn leaf(&self, claim: &Claim) -> Result<QueueId, QuotaError> {
        let queue = self.books.tree.queue(QueueKind::Leaf, &claim.queue);
        let queue = queue.ok_or_else(|| QuotaError::UnknownQueue(claim.queue.clone()))?;
        let requests = claim.pod_sets.iter().flat_map(|set| set.requests.iter());
        for (resource, amount) in requests {
            if amount < 0 {
                return Err(QuotaError::Amount {
                    claim: claim.name.clone(),
                    resource: resource.into(),
                    amount,
                });
            }
        }
        Ok(queue)
    }

    /// Tries something on sums of their own.
    pub(super) fn trial<R>(&mut self, run: impl FnOnce(&mut Trial<'_>, &[FairStrategy]) -> R) -> R {
        self.books.sync();
        let cells = core::mem::take(&mut self.books.tree.cells);
        let mut trial = Trial::new(&self.books, cells);
        let strategies = self.rules.fair_sharing.as_deref().unwrap_or(&[]);
        let result = run(&mut trial, strategies);
        let cells = trial.cells;
        self.books.tree.cells = cells;
        result
    }
}
