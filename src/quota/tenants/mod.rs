//! Tenants: whose turn it is, and what may be taken back.

mod heads;
mod holds;
mod made;
mod report;
#[cfg(feature = "serde")]
mod saved;
mod searches;
mod yields;

pub use self::heads::{Head, Heads};
pub use self::report::{QueueReport, ResourceReport};
#[cfg(feature = "serde")]
pub use self::saved::SavedTenants;
pub use self::searches::Searches;
pub use self::yields::Yields;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::books::owners::{OverLimit, Owned};
use super::books::past::Past;
use super::books::share::ShareValue;
use super::books::tree::{QueueId, QueueTree, Removal};
use super::books::{Books, Holder};
use super::dialect::{Change, Dialect};
use super::dialects::DialectSettings;
use super::engine::head_rules::HeadRules;
use super::engine::partial::reduced_counts;
use super::engine::trial::on_trial;
use super::model::claim::{
    AssignmentMode, Claim, FlavorResource, HolderId, PodSet, QuotaAssignment, QuotaDecision, Usage,
};
use super::model::error::QuotaError;
use super::model::flavor::Flavor;
use super::model::limit::Limited;
use super::model::queue::{Queue, QueueKind};
use crate::Time;

/// Queues with quota, the holders of it, and the rules by which it is given and taken back.
///
/// Pure data: no placement, no clock. A claim is decided on ([`Tenants::decide`]), its victims give
/// back ([`Tenants::release`]), it is admitted ([`Tenants::admit`]); which queue's head goes next
/// says [`Heads`].
///
/// ```
/// use phalanx::Time;
/// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
///
/// let mut tenants = Tenants::kueue();
/// tenants.set_flavor(Flavor::new("spot"));
/// for team in ["vision", "speech"] {
///     tenants.set_queue(Queue::leaf(team).parent("labs").quota("spot", "gpu", Quota::nominal(8)))?;
/// }
/// let gang = |name: &str, gpus: i64| {
///     Claim::new(name, "vision").pods(PodSet::new("main", 1, [("gpu", gpus)]))
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
    books: Books,
    settings: DialectSettings,
    dialect: Box<dyn Dialect>,
}

impl Tenants {
    /// Tenants by the rules of a dialect.
    fn of(settings: DialectSettings) -> Tenants {
        let dialect = settings.dialect();
        let (share, is_by_share) = dialect.share();
        let mut books = Books::new(share, is_by_share);
        (books.past, books.past_share) = (Past::new(dialect.half_life()), dialect.past_share());
        Tenants { books, settings, dialect }
    }

    /// Adds a queue or changes one: see [`QueueTree::set_queue`]. The index of victims is made anew at
    /// the next search.
    ///
    /// # Errors
    /// The errors of [`QueueTree::set_queue`]; a name that a dialect gives once stands twice.
    pub fn set_queue(&mut self, mut queue: Queue) -> Result<QueueId, QuotaError> {
        queue.check()?;
        if !self.dialect.limits_borrowing() {
            queue.forget_borrowing();
        }
        let queue = self.dialect.adopt(&mut self.books, queue)?;
        let id = self.books.set_queue(queue)?;
        self.dialect.changed(&mut self.books, Change::Queue(id))?;
        Ok(id)
    }

    /// Removes a queue: see [`QueueTree::remove_queue`].
    ///
    /// # Errors
    /// There is no such queue.
    pub fn remove_queue(&mut self, queue: QueueId) -> Result<Removal, QuotaError> {
        self.books.remove_queue(queue, self.dialect.above())
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

    /// The number of a resource in a flavor, given now if it has none.
    pub fn intern(&mut self, flavor: &str, resource: &str) -> FlavorResource {
        self.books.tree.intern(flavor, resource)
    }

    /// The order of heads.
    pub fn head_rules(&self) -> HeadRules {
        self.dialect.order()
    }

    /// Whether a queue admits anything: it is not stopped nor being removed, stands where it was put,
    /// and all of its flavors are there.
    pub fn is_active(&self, queue: QueueId) -> bool {
        self.books.is_active(queue)
    }

    /// The time at which decisions are made from now on; it does not go back. Dialects that protect
    /// work for a while, or count past usage, do so from it: it is advanced before usage changes.
    pub fn advance(&mut self, now: Time) {
        self.books.past.advance(now);
        // A change of the time states nothing that could be refused.
        let _ = self.dialect.changed(&mut self.books, Change::Time(now));
    }

    /// The average of what a queue and those below have used of a resource, in which usage counts half
    /// as much for each half-life that has passed since.
    /// The half-life is a setting ([`TenantSettings::half_life`](crate::quota::TenantSettings), or KAI's). It is an amount: usage
    /// that stays is approached. 0 without a half-life.
    pub fn past_usage(&self, queue: QueueId, of: FlavorResource) -> f64 {
        self.books.past.average(queue, of, self.books.tree.sums(queue, of).used)
    }

    /// Whether past usage counts in the order of turns, which then changes as time passes.
    pub(crate) fn counts_past(&self) -> bool {
        self.books.past.is_counted()
    }

    /// The share of a queue by the rules in force; [`ShareValue::NONE`] for a queue that is gone.
    pub fn share(&self, queue: QueueId) -> ShareValue {
        self.share_with(queue, &[])
    }

    /// The share of a queue if so much more were drawn from it.
    pub fn share_with(&self, queue: QueueId, more: &[(FlavorResource, i64)]) -> ShareValue {
        self.books.share_with(queue, more)
    }

    /// Flavors for a claim, how they can be had, and which holders must give back first. The books are as
    /// before.
    ///
    /// Where the claim neither fits nor finds victims, and fewer pods would do, the largest number
    /// that fits or finds victims is assigned. A queue that is not active has no flavors to give. What
    /// is reserved for other claims ([`Tenants::reserve`]) is left to them.
    ///
    /// A claim that a limit of its user or group keeps out ([`Queue::limits`]) is given nothing
    /// ([`AssignmentMode::NoFit`]), and nobody gives back for it; [`Tenants::over_limit`] names the
    /// limit. If fewer pods would do, it is given the largest number that limits let in.
    ///
    /// O(flavors · depth), and where others hold what is asked O((depth + victims) · log holders) for
    /// each search, holders that are passed over aside.
    ///
    /// # Errors
    /// The queue is not known; an amount is negative. One beyond [`MOST`](super::MOST) fits nowhere.
    pub fn decide(&mut self, claim: &Claim) -> Result<QuotaDecision, QuotaError> {
        let queue = self.leaf(claim)?;
        if !self.is_active(queue) {
            let assignment = QuotaAssignment::new(Usage::new(), AssignmentMode::NoFit, 0);
            return Ok(QuotaDecision { assignment, victims: Vec::new() });
        }
        let dialect = &self.dialect;
        Ok(self.books.beside_reserved(&claim.name, |books| {
            let decide = |books: &mut Books, claim: &Claim| dialect.decide(books, queue, claim);
            within_limits(books, queue, claim, dialect.reduces(), decide)
        }))
    }

    /// The limit of a user or group ([`Queue::limits`]) that keeps a claim with a usage out, beside what
    /// is used and what is reserved for others; `None` if none does. O(reservations · depth + names of
    /// the limits on the path).
    pub fn over_limit(&mut self, claim: &Claim, usage: &Usage) -> Option<OverLimit> {
        let leaf = self.leaf(claim).ok()?;
        let own = Owned { name: &claim.name, owner: &claim.owner, leaf, usage };
        self.books.beside_reserved(&claim.name, |books| books.over_limit(own, &[]))
    }

    /// The usage of a user or group in a queue with a limit on it and in all below; without a resource
    /// the number of its claims that hold quota. 0 where no limit of the queue counts it. After a change
    /// of the queues it is up to date from the next decision on.
    pub fn used_by(&self, queue: QueueId, limited: &Limited, resource: Option<&str>) -> i64 {
        self.books.tallies.used(&self.books.tree, queue, limited, resource)
    }

    /// The users and groups whose usage the limits of a queue count, in order. O(users of all queues
    /// with limits).
    pub fn limited(&self, queue: QueueId) -> impl Iterator<Item = &Limited> {
        self.books.tallies.at(queue)
    }

    /// Who may yield for a claim that gets an assignment; `None` in dialects that name victims by
    /// their own search alone (Koordinator, YuniKorn).
    ///
    /// Quota that is reserved for other claims counts as used by their queues. If quota is put aside for
    /// another claim, a claim beyond its queue's guarantee leaves it: where the two do not fit together,
    /// nobody yields. O(queues + holders of the tree).
    ///
    /// # Errors
    /// The errors of [`Tenants::decide`].
    pub fn yields(
        &mut self,
        claim: &Claim,
        assignment: &QuotaAssignment,
    ) -> Result<Option<Yields<'_>>, QuotaError> {
        let queue = self.leaf(claim)?;
        self.open_cells(queue, claim, assignment)?;
        let sets = self.dialect.entitled(&mut self.books, queue, claim, &assignment.usage);
        Ok(sets.map(|sets| Yields::new(queue.slot, sets)))
    }

    /// Whether a scheduler searches victims over quota and room at once where its settings do not
    /// say: in this crate's own dialect. The others name victims as they are recorded to.
    pub fn yields_jointly(&self) -> bool {
        self.dialect.yields_jointly()
    }

    /// Opens the sums of a leaf that an assignment counts in.
    fn open_cells(
        &mut self,
        queue: QueueId,
        claim: &Claim,
        assignment: &QuotaAssignment,
    ) -> Result<(), QuotaError> {
        for &(of, _) in &assignment.usage {
            if self.books.tree.names(of).1.is_empty() {
                return Err(QuotaError::Foreign(claim.name.clone()));
            }
            self.books.tree.cell_or_new(queue.slot, of.0);
        }
        Ok(())
    }

    /// How much more of a resource in a flavor a leaf may use, if all of `wanted` were requested in it
    /// too. A dialect counts limits in, or leaves them to [`Tenants::limiting`]. Negative where more
    /// is used than may be.
    pub fn room(&self, queue: QueueId, of: FlavorResource, wanted: &Usage) -> i64 {
        self.dialect.room(&self.books, queue, of, wanted)
    }

    /// The resource in a flavor that a claim is short of when it would use so much, and the room for it;
    /// `None` if sums leave room for all. Volcano and YuniKorn then name the first resource that is used.
    pub fn short(&self, queue: QueueId, usage: &Usage) -> Option<(FlavorResource, i64)> {
        self.dialect.short(&self.books, queue, usage)
    }

    /// The queues whose limits bind claims of a leaf, from the leaf up.
    pub fn limiting(&self, queue: QueueId) -> Vec<QueueId> {
        self.dialect.limiting(&self.books, queue)
    }

    /// Whether all that waits in a queue counts for what it may use. If not, only the amount counts
    /// that each claim is short of.
    pub fn counts_requests(&self) -> bool {
        self.dialect.requested().is_some()
    }

    /// Usage that a refused claim adds to what waits in its leaf ([`Tenants::wait`]); none if requests
    /// do not count ([`Tenants::counts_requests`]).
    pub fn requested(&self, queue: QueueId, claim: &Claim) -> Usage {
        let requested = self.dialect.requested();
        requested.map_or_else(Usage::new, |usage| usage(&self.books, queue, claim))
    }

    /// Whether resources that no queue has quota of are not counted.
    pub fn counts_known_only(&self) -> bool {
        self.dialect.counts_known_only()
    }

    /// Whether a leaf may use so much more once some holders have given back.
    pub fn fits(&mut self, queue: QueueId, usage: &Usage, without: &[HolderId]) -> bool {
        fits(&mut self.books, queue, usage, without)
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
        self.books.hold(claim, usage, since)
    }

    /// Charges a leaf with usage that has no holder (or, with `sign` −1, takes it back): room that is
    /// kept, or what others use.
    ///
    /// # Errors
    /// The queue is not known or no leaf; a sum would be out of range.
    pub fn keep(&mut self, queue: QueueId, usage: &Usage, sign: i64) -> Result<(), QuotaError> {
        self.books.charge("", queue, usage, sign.signum())
    }

    /// [`Tenants::keep`] for a claim, whose user it counts for.
    pub(crate) fn give(
        &mut self,
        claim: &Claim,
        queue: QueueId,
        usage: &Usage,
        sign: i64,
    ) -> Result<(), QuotaError> {
        self.books.give(claim, queue, usage, sign.signum())
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
        self.books.wait(queue, of, amount)
    }

    /// Takes back what a holder holds.
    ///
    /// # Errors
    /// There is no such holder.
    pub fn release(&mut self, holder: HolderId) -> Result<Holder, QuotaError> {
        self.books.release(holder)
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
        let (_, held) = self.books.renew(holder, claim, usage, since)?;
        held
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

    pub(crate) fn holder_count(&self) -> usize {
        self.books.holder_count()
    }

    /// The holders of a leaf, in the order of victims.
    pub fn holders(&self, queue: QueueId) -> impl Iterator<Item = HolderId> {
        self.books.holders(queue)
    }

    /// The leaf of a claim that makes sense.
    pub(in crate::quota) fn leaf(&self, claim: &Claim) -> Result<QueueId, QuotaError> {
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
}

/// A decision that keeps to the limits of users and groups: with fewer pods, where fewer will do.
fn within_limits(
    books: &mut Books,
    leaf: QueueId,
    claim: &Claim,
    reduces: bool,
    mut decide: impl FnMut(&mut Books, &Claim) -> QuotaDecision,
) -> QuotaDecision {
    let mut whole = decide(books, claim);
    let (name, owner) = (&claim.name, &claim.owner);
    let is_over = |books: &mut Books, usage: &Usage| {
        books.over_limit(Owned { name, owner, leaf, usage }, &[]).is_some()
    };
    if whole.assignment.mode == AssignmentMode::NoFit || !is_over(books, &whole.assignment.usage) {
        return whole;
    }
    let least = |set: &PodSet| set.min_count.filter(|_| reduces).unwrap_or(set.count);
    let of = |set: &PodSet| (set.count, least(set).min(set.count));
    let sets: Vec<(u32, u32)> = claim.pod_sets.iter().map(of).collect();
    // The most that limits let in; the dialect may give fewer of these.
    let fewer = reduced_counts(&sets, |counts| {
        let found = decide(books, &claim.of_counts(counts));
        (!is_over(books, &found.assignment.usage)).then_some(found)
    });
    fewer.unwrap_or_else(|| {
        whole.assignment.set_mode(AssignmentMode::NoFit);
        whole.victims.clear();
        whole
    })
}

/// Whether a leaf may use so much more once some holders have given back.
fn fits(books: &mut Books, queue: QueueId, usage: &Usage, without: &[HolderId]) -> bool {
    if books.tree.slot(queue).is_err() {
        return false;
    }
    let held = |id: &&HolderId| books.holder(**id).is_some();
    let without: Vec<u32> = without.iter().filter(held).map(|id| id.at).collect();
    on_trial(books, |trial| trial.fits_without(queue.slot, usage, &without))
}
