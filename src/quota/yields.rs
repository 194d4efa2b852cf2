//! Sets that may yield for a claim: every set of holders that a dialect's order of victims allows,
//! not only the one that its own search takes.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use super::cells::NONE;
use super::claim::{Claim, HolderId, QuotaAssignment, Usage};
use super::dialect::Dialect;
use super::error::QuotaError;
use super::kueue::FairStrategy;
use super::kueue::is_candidate;
use super::kueue::trial::Trial;
use super::queue::{OWN_PREEMPTION, QueuePreemption, QueuePreemptionPolicy};
use super::tenants::Tenants;
use crate::Time;

/// The sets of holders that may yield for one claim, in books that stand still.
///
/// A set may yield if its holders can give back one after another, each allowed by the dialect as
/// the sums stand at its turn. Holders that are leaving have given back before, and may be in any
/// set. The rules only get stricter as other queues give back. So every part of a set that may
/// yield may yield too, but for holders of the claim's own queue: those come first in every order.
///
/// | dialect | own queue | other queues |
/// |---|---|---|
/// | this crate's own | lower priority | queues that borrow, up to the inner queue in common. A claim beyond its queue's guarantee leaves the other leaf its guarantee, and the other side a share no smaller than its own will be |
/// | Kueue, fair | `withinClusterQueue` | the same by `reclaimWithinCohort`; beyond the nominal quota the first strategy holds in place of guarantees |
/// | Kueue, classical | `withinClusterQueue` | `reclaimWithinCohort`, from queues beyond their nominal quota; where the claim borrows in the end, only by `borrowWithinCohort` or by the hierarchy |
///
/// ```
/// use phalanx::Time;
/// use phalanx::model::Amounts;
/// use phalanx::quota::{Claim, Flavor, PodSet, Queue, Quota, Tenants};
///
/// let mut tenants = Tenants::default();
/// tenants.set_flavor(Flavor::new("all"));
/// for team in ["vision", "speech"] {
///     tenants.set_queue(Queue::leaf(team).parent("labs").quota("all", "gpu", Quota::nominal(8)))?;
/// }
/// let gang = |name: &str, queue: &str| {
///     let mut requests = Amounts::new();
///     requests.set("gpu", 4);
///     Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
/// };
/// let mut holders = Vec::new();
/// for name in ["one", "two", "three", "four"] {
///     let claim = gang(name, "vision");
///     let assignment = tenants.decide(&claim)?.assignment;
///     holders.push(tenants.admit(&claim, &assignment, Time::ZERO)?);
/// }
/// let claim = gang("own", "speech");
/// let assignment = tenants.decide(&claim)?.assignment;
/// let yields = tenants.yields(&claim, &assignment)?.expect("the dialect says");
/// // Two of the four are borrowed: any two may yield, and no three.
/// assert!(yields.may_yield(&holders[1..3]) && !yields.may_yield(&holders[1..]));
/// // One is enough.
/// assert!(yields.suffices(&holders[3..]) && !yields.suffices(&[]));
/// # Ok::<(), phalanx::quota::QuotaError>(())
/// ```
pub struct Yields<'t> {
    /// The sums without those that leave anyway. With fair shares the claim is charged.
    trial: RefCell<Trial<'t>>,
    leaf: u32,
    usage: Usage,
    /// The claim's resources in flavors: those that are short, or all if none is.
    pairs: Vec<u32>,
    priority: i64,
    created: Time,
    policy: QueuePreemption,
    fair: bool,
    keeps_guarantees: bool,
    initial_share: bool,
    /// Whether the claim stays within its queue's own quota.
    within: bool,
    /// The leaf and the queues above it.
    path: Vec<u32>,
    /// The queue on the path from which on the request fits a subtree below.
    advantage_from: usize,
    lacks: Usage,
    /// Holders of the tree.
    holders: Vec<u32>,
    /// Holders of the own queue that may yield.
    own: Vec<u32>,
}

impl fmt::Debug for Yields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yields")
            .field("usage", &self.usage)
            .field("lacks", &self.lacks)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

impl Tenants {
    /// Who may yield for a claim that gets an assignment; `None` in dialects that name victims by
    /// their own search alone (Koordinator, Volcano, YuniKorn, KAI).
    ///
    /// Amounts that are reserved for other claims or put aside stay theirs. O(queues + holders of
    /// the tree).
    ///
    /// # Errors
    /// The errors of [`Tenants::decide`].
    pub fn yields(
        &mut self,
        claim: &Claim,
        assignment: &QuotaAssignment,
    ) -> Result<Option<Yields<'_>>, QuotaError> {
        let queue = self.leaf(claim)?;
        if !matches!(self.dialect, Dialect::Own(_) | Dialect::Kueue) {
            return Ok(None);
        }
        for &(of, _) in &assignment.usage {
            if self.books.tree.names(of).1.is_empty() {
                return Err(QuotaError::Foreign(claim.name.clone()));
            }
            self.books.tree.cell_or_new(queue.slot, of.0);
        }
        let aside = self.dialect.own().and_then(|own| own.aside.clone());
        let aside = aside.filter(|aside| {
            let is_bound = aside.queue == queue || !self.is_within(queue, assignment);
            aside.claim != claim.name && is_bound && self.books.tree.slot(aside.queue).is_ok()
        });
        self.books.sync();
        let cells = self.beside_reserved(&claim.name, |all| all.books.tree.cells.clone());
        let mut trial = Trial::new(&self.books, cells);
        if let Some(aside) = aside {
            trial.add(aside.queue.slot, &aside.usage);
        }
        let strategy = self.rules.fair_sharing.as_ref().and_then(|all| all.first());
        let initial_share = strategy == Some(&FairStrategy::LessThanInitialShare);
        Ok(Some(Yields::new(trial, queue.slot, claim, &assignment.usage, initial_share)))
    }
}

impl<'t> Yields<'t> {
    fn new(
        mut trial: Trial<'t>,
        leaf: u32,
        claim: &Claim,
        usage: &Usage,
        initial_share: bool,
    ) -> Yields<'t> {
        let books = trial.books;
        let tree = &books.tree;
        let root = tree.root_of(leaf);
        let leaves = tree.queues(super::queue::QueueKind::Leaf);
        let leaves = leaves.filter(|queue| tree.root_of(queue.slot) == root);
        let holders: Vec<u32> = leaves
            .flat_map(|queue| books.index.holders(queue.slot))
            .map(|key| key.holder)
            .collect();
        // A claim is within its quota beside all that its queue still uses.
        let slot = &tree.slots[leaf as usize];
        let beyond = |&(of, amount): &(super::tree::FlavorResource, i64)| {
            let cell = slot.cell(of.0).map(|at| &trial.cells[at]);
            cell.is_some_and(|cell| cell.nominal < cell.drawn.saturating_add(amount))
        };
        let beyond: Vec<u32> = usage.iter().filter(|own| beyond(own)).map(|(of, _)| of.0).collect();
        let borrows = trial.borrows_with(leaf, usage);
        for &holder in &holders {
            if books.holder_at(holder).is_some_and(|own| own.leaving) {
                trial.remove(holder);
            }
        }
        let short = |&(of, amount): &(super::tree::FlavorResource, i64)| {
            let cell = tree.cell_above(leaf, of.0);
            let free = cell.map_or(0, |cell| trial.cells.available(cell)).max(0);
            (of, super::amount::minus(amount, free).max(0))
        };
        let lacks: Usage = usage.iter().map(short).filter(|(_, lack)| *lack > 0).collect();
        let of_claim = usage.iter().filter(|(_, amount)| *amount > 0);
        let mut pairs: Vec<u32> = lacks.iter().map(|(of, _)| of.0).collect();
        if pairs.is_empty() {
            pairs = of_claim.map(|(of, _)| of.0).collect();
        }
        let own_rules = tree.whole_shares;
        let mut path = alloc::vec![leaf];
        while let Some(&at) = path.last().filter(|at| trial.parent(**at) != NONE) {
            path.push(trial.parent(at));
        }
        let advantage_from = super::kueue::advantage_from(&trial, leaf, usage);
        if books.fair {
            trial.add(leaf, usage);
        }
        let within =
            if books.fair { !pairs.iter().any(|pair| beyond.contains(pair)) } else { !borrows };
        let mut yields = Yields {
            trial: RefCell::new(trial),
            leaf,
            usage: usage.clone(),
            pairs,
            priority: claim.priority,
            created: claim.created,
            policy: if own_rules { OWN_PREEMPTION } else { slot.spec.preemption },
            fair: books.fair,
            keeps_guarantees: own_rules,
            initial_share: initial_share && !own_rules,
            within,
            path,
            advantage_from,
            lacks,
            holders,
            own: Vec::new(),
        };
        let is_own = |holder: &&u32| {
            let leaves = books.holder_at(**holder).is_none_or(|own| own.leaving);
            !leaves && yields.is_own(**holder) && yields.is_candidate(**holder)
        };
        yields.own = yields.holders.iter().filter(is_own).copied().collect();
        yields
    }

    /// The resources that are short for the claim now, with how much. Empty if quota suffices.
    pub fn lacks(&self) -> &Usage {
        &self.lacks
    }

    /// The amount of [`Yields::lacks`] that a holder gives back, by place there.
    pub fn gives(&self, holder: HolderId) -> Vec<i64> {
        let trial = self.trial.borrow();
        let own = trial.books.holder(holder).filter(|own| !own.leaving);
        let usage = own.map(|own| &own.usage);
        let of = |pair: u32| {
            let own = usage.and_then(|usage| usage.iter().find(|(own, _)| own.0 == pair));
            own.map_or(0, |(_, amount)| *amount)
        };
        self.lacks.iter().map(|(pair, _)| of(pair.0)).collect()
    }

    /// The holders that some set contains, ascending. O(holders of the tree · depth).
    pub fn candidates(&self) -> Vec<HolderId> {
        let books = self.trial.borrow().books;
        let ids = self.holders.iter().map(|&holder| books.holder_id(holder));
        let mut all: Vec<HolderId> = ids.filter(|id| self.may_begin(&[*id])).collect();
        all.sort_unstable();
        all
    }

    /// The holder of a name.
    pub fn find(&self, name: &str) -> Option<HolderId> {
        self.trial.borrow().books.find(name)
    }

    /// The names of the holders of the claim's own queue that may yield.
    pub fn own_names(&self) -> impl Iterator<Item = &str> {
        let books = self.trial.borrow().books;
        self.own.iter().filter_map(|&holder| Some(books.holder_at(holder)?.name.as_str()))
    }

    /// Whether a set is part of one that may yield, with as much of the own queue as may go.
    /// O(holders² · depth) at most, O(holders · depth) where each could go last.
    pub fn may_begin(&self, holders: &[HolderId]) -> bool {
        self.is_allowed(holders, true)
    }

    /// Whether a set may yield, whole. It need not suffice. O as [`Yields::may_begin`].
    pub fn may_yield(&self, holders: &[HolderId]) -> bool {
        self.is_allowed(holders, false)
    }

    /// Whether the claim has its quota once a set has given back. O(holders · depth).
    pub fn suffices(&self, holders: &[HolderId]) -> bool {
        let mut trial = self.trial.borrow_mut();
        let Some(places) = places(&trial, holders) else { return false };
        if self.fair {
            trial.take(self.leaf, &self.usage);
        }
        let fits = trial.fits_without(self.leaf, &self.usage, &places);
        if self.fair {
            trial.add(self.leaf, &self.usage);
        }
        fits
    }

    /// Whether holders may matter that make no room: for the quota that is short, or because the
    /// claim's share or loan falls with its own queue's use.
    pub fn matters_without_room(&self, holder: HolderId) -> bool {
        self.gives(holder).iter().any(|amount| *amount > 0)
            || !self.within && self.is_own(holder.at)
    }

    /// Whether a holder is of the claim's own queue.
    pub fn is_of_own_queue(&self, holder: HolderId) -> bool {
        self.is_own(holder.at)
    }

    fn is_own(&self, holder: u32) -> bool {
        self.trial.borrow().leaf_of(holder) == self.leaf
    }

    /// Whether the policy makes a holder a candidate, whatever the sums.
    fn is_candidate(&self, holder: u32) -> bool {
        let trial = self.trial.borrow();
        let books = trial.books;
        let Some(own) = books.holder_at(holder) else { return false };
        let uses = |pair: &u32| own.usage.iter().any(|(of, amount)| of.0 == *pair && *amount > 0);
        if own.stays() || !self.pairs.iter().any(uses) {
            return false;
        }
        let policy = if own.queue.slot == self.leaf {
            self.policy.within_cluster_queue
        } else {
            self.policy.reclaim_within_cohort
        };
        policy != QueuePreemptionPolicy::Never
            && is_candidate(policy, (self.priority, self.created), (own.priority, own.created))
    }

    fn is_allowed(&self, holders: &[HolderId], with_all_own: bool) -> bool {
        let Some(places) = places(&self.trial.borrow(), holders) else { return false };
        if !places.iter().all(|&holder| self.is_candidate(holder)) {
            return false;
        }
        let mut trial = self.trial.borrow_mut();
        let is_own = |&holder: &u32| trial.leaf_of(holder) == self.leaf;
        let (own, others): (Vec<u32>, Vec<u32>) = places.into_iter().partition(is_own);
        let own = if with_all_own { &self.own } else { &own };
        for &holder in own.iter().chain(&others) {
            trial.remove(holder);
        }
        let may_borrow = with_all_own
            || self.fair
            || !trial.borrows_with(self.leaf, &self.usage)
            || others.iter().all(|&holder| self.yields_to_borrowers(&trial, holder));
        // Whoever may go last is put back first.
        let mut left = others;
        while may_borrow
            && let Some(last) = (0..left.len()).find(|&at| self.may_go_last(&mut trial, left[at]))
        {
            trial.restore(left.swap_remove(last));
        }
        for &holder in own.iter().chain(&left) {
            trial.restore(holder);
        }
        may_borrow && left.is_empty()
    }

    /// Whether a holder of another queue may give back when all others of a set have; it is gone
    /// before and after.
    fn may_go_last(&self, trial: &mut Trial<'t>, holder: u32) -> bool {
        let leaf = trial.leaf_of(holder);
        let final_share = self.fair.then(|| trial.share(self.side_of(trial, leaf)));
        let keeps = trial.keeps_guarantee(leaf, holder, &self.pairs);
        trial.restore(holder);
        let allowed = match final_share {
            None => self.is_beyond(trial, leaf, |trial, at| !trial.is_within(at, &self.pairs)),
            Some(final_share) => {
                let own = trial.share(self.own_side(trial, leaf));
                let enough = if self.initial_share {
                    own < trial.share(self.side_of(trial, leaf))
                } else {
                    own <= final_share
                };
                self.is_beyond(trial, leaf, |trial, at| trial.share(at).borrowing)
                    && !trial.is_within(leaf, &self.pairs)
                    && (self.within || (keeps || !self.keeps_guarantees) && enough)
            }
        };
        trial.remove(holder);
        allowed
    }

    /// Whether a leaf, and each queue above it up to the one in common, passes a test.
    fn is_beyond(
        &self,
        trial: &Trial<'t>,
        leaf: u32,
        test: impl Fn(&Trial<'t>, u32) -> bool,
    ) -> bool {
        let mut at = leaf;
        while at != NONE && !self.path.contains(&at) {
            if !test(trial, at) {
                return false;
            }
            at = trial.parent(at);
        }
        true
    }

    /// The queue right below the one in common, on the other side.
    fn side_of(&self, trial: &Trial<'t>, leaf: u32) -> u32 {
        let mut side = leaf;
        while trial.parent(side) != NONE && !self.path.contains(&trial.parent(side)) {
            side = trial.parent(side);
        }
        side
    }

    /// The queue right below the one in common, on the claim's side.
    fn own_side(&self, trial: &Trial<'t>, leaf: u32) -> u32 {
        let common = trial.parent(self.side_of(trial, leaf));
        let level = self.path.iter().position(|&at| at == common);
        level.and_then(|level| level.checked_sub(1)).map_or(self.leaf, |level| self.path[level])
    }

    /// Whether a holder yields to a claim that borrows, without fair shares.
    fn yields_to_borrowers(&self, trial: &Trial<'t>, holder: u32) -> bool {
        let common = trial.parent(self.side_of(trial, trial.leaf_of(holder)));
        let level = self.path.iter().position(|&at| at == common);
        if level.is_some_and(|level| level > self.advantage_from) {
            return true;
        }
        let borrow = self.policy.borrow_within_cohort;
        let Some(own) = trial.books.holder_at(holder) else { return false };
        borrow.lower_priority
            && own.priority < self.priority
            && borrow.max_priority_threshold.is_none_or(|most| own.priority <= most)
    }
}

/// The places of holders that do not leave anyway; `None` if one is gone.
fn places(trial: &Trial<'_>, holders: &[HolderId]) -> Option<Vec<u32>> {
    let known = |id: &HolderId| trial.books.holder(*id).map(|own| (id.at, own.leaving));
    let all: Option<Vec<(u32, bool)>> = holders.iter().map(known).collect();
    Some(all?.into_iter().filter(|(_, leaving)| !leaving).map(|(at, _)| at).collect())
}
