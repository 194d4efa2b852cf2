//! Sets that guarantees, shares and priorities allow: this crate's own dialect, and Kueue's.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use super::decide::SearchRules;
use super::settings::FairStrategy;
use crate::Time;
use crate::quota::books::Books;
use crate::quota::books::cells::NONE;
use crate::quota::books::holds::Hold;
use crate::quota::books::tree::QueueId;
use crate::quota::engine::climb::{Climb, is_candidate};
use crate::quota::engine::sets::Sets;
use crate::quota::engine::trial::Trial;
use crate::quota::model::amount::minus;
use crate::quota::model::claim::{Claim, FlavorResource, Usage};
use crate::quota::model::queue::{QueueKind, QueuePreemption, QueuePreemptionPolicy};

/// The sets that may yield for a claim, beside quota that is reserved for others. A claim leaves what
/// is put aside.
pub(in crate::quota) fn sets<'b>(
    books: &'b mut Books,
    leaf: QueueId,
    (claim, usage): (&Claim, &Usage),
    aside: Option<&Hold>,
    rules: SearchRules<'_>,
) -> Box<dyn Sets + 'b> {
    books.sync();
    let cells = books.beside_reserved(&claim.name, |books| books.tree.cells.clone());
    let trial = Trial::new(books, cells);
    Box::new(Guarantees::new(trial, (leaf.slot, claim, usage), aside, rules))
}

/// The sets for one claim, in books that stand still.
struct Guarantees<'t> {
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
    leaves_promised: bool,
    initial_share: bool,
    /// Whether the claim stays within its queue's own quota.
    within: bool,
    /// The leaf and the queues above it.
    path: Vec<u32>,
    /// The queue on the path from which on the request fits a subtree below.
    advantage_from: usize,
    lacks: Usage,
    /// Whether nobody yields: the claim has to leave what is put aside for another.
    is_barred: bool,
    /// Holders of the tree.
    holders: Vec<u32>,
    /// Holders of the own queue that may yield.
    own: Vec<u32>,
    /// Where shares decide, candidates of other queues that count on the claim's side for queues further
    /// off. They have the level of the queue in common, and are ascending by it.
    near: Vec<(usize, u32)>,
}

/// Who gives back beside the holders that are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nobody,
    /// All of the claim's queue that may yield.
    Own,
    /// Those, and all of queues near the claim's: it is milder then for queues further off.
    OwnAndNear,
}

impl fmt::Debug for Guarantees<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarantees")
            .field("usage", &self.usage)
            .field("lacks", &self.lacks)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

impl<'t> Guarantees<'t> {
    fn new(
        mut trial: Trial<'t>,
        (leaf, claim, usage): (u32, &Claim, &Usage),
        aside: Option<&Hold>,
        rules: SearchRules<'_>,
    ) -> Guarantees<'t> {
        let books = trial.books;
        let tree = &books.tree;
        let root = tree.root_of(leaf);
        let leaves = tree.queues(QueueKind::Leaf);
        let leaves = leaves.filter(|queue| tree.root_of(queue.slot) == root);
        let holders: Vec<u32> = leaves
            .flat_map(|queue| books.index.holders(queue.slot))
            .map(|key| key.holder)
            .collect();
        // A claim is within its quota beside all that its queue still uses.
        let slot = &tree.slots[leaf as usize];
        let beyond = |&(of, amount): &(FlavorResource, i64)| {
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
        // Usage put aside is not used: it makes no queue one that borrows.
        if let Some(aside) = aside {
            trial.add(aside.queue.slot, &aside.usage);
        }
        let short = |&(of, amount): &(FlavorResource, i64)| {
            let cell = tree.cell_above(leaf, of.0);
            let free = cell.map_or(0, |cell| trial.cells.available(cell)).max(0);
            (of, minus(amount, free).max(0))
        };
        let lacks: Usage = usage.iter().map(short).filter(|(_, lack)| *lack > 0).collect();
        let is_barred = aside.is_some() && !lacks.is_empty();
        if let Some(aside) = aside {
            trial.take(aside.queue.slot, &aside.usage);
        }
        let of_claim = usage.iter().filter(|(_, amount)| *amount > 0);
        let mut pairs: Vec<u32> = lacks.iter().map(|(of, _)| of.0).collect();
        if pairs.is_empty() {
            pairs = of_claim.map(|(of, _)| of.0).collect();
        }
        let mut path = alloc::vec![leaf];
        while let Some(&at) = path.last().filter(|at| trial.parent(**at) != NONE) {
            path.push(trial.parent(at));
        }
        let advantage_from = Climb::new(&trial, leaf, usage).advantage_from;
        if books.fair {
            trial.add(leaf, usage);
        }
        let within =
            if books.fair { !pairs.iter().any(|pair| beyond.contains(pair)) } else { !borrows };
        let mut sets = Guarantees {
            trial: RefCell::new(trial),
            leaf,
            usage: usage.clone(),
            pairs,
            priority: claim.priority,
            created: claim.created,
            policy: rules.policy.unwrap_or(slot.spec.preemption),
            fair: books.fair,
            leaves_promised: rules.keeps_guarantees,
            initial_share: rules.strategies.first() == Some(&FairStrategy::LessThanInitialShare),
            within,
            path,
            advantage_from,
            lacks,
            is_barred,
            holders,
            own: Vec::new(),
            near: Vec::new(),
        };
        let is_own = |holder: &&u32| {
            let leaves = books.holder_at(**holder).is_none_or(|own| own.leaving);
            !leaves && sets.is_own(**holder) && sets.is_candidate(**holder)
        };
        sets.own = sets.holders.iter().filter(is_own).copied().collect();
        sets.near = sets.near();
        sets
    }

    fn near(&self) -> Vec<(usize, u32)> {
        if !self.judges_shares() || self.path.len() < 3 {
            return Vec::new();
        }
        let books = self.books();
        let stays = |at: &u32| books.holder_at(*at).is_some_and(|own| !own.leaving);
        let others = self.holders.iter().copied().filter(|at| stays(at) && !self.is_own(*at));
        let trial = self.trial.borrow();
        let mut near: Vec<(usize, u32)> =
            others.map(|at| (self.level(&trial, trial.leaf_of(at)), at)).collect();
        near.retain(|&(level, at)| self.is_near(level) && self.is_candidate(at));
        near.sort_by_key(|own| own.0);
        near
    }

    /// Whether queues whose path meets the claim's at a level are on the claim's side for others.
    fn is_near(&self, level: usize) -> bool {
        level + 1 < self.path.len()
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
        if self.is_barred || own.stays() || !self.pairs.iter().any(uses) {
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

    /// Whether holders may give back when others do, too.
    fn is_allowed(&self, places: &[u32], beside: Beside) -> bool {
        if !places.iter().all(|&holder| self.is_candidate(holder)) {
            return false;
        }
        let mut trial = self.trial.borrow_mut();
        let is_own = |&holder: &u32| trial.leaf_of(holder) == self.leaf;
        let (own, others): (Vec<u32>, Vec<u32>) = places.iter().copied().partition(is_own);
        let own = if beside == Beside::Nobody { &own } else { &self.own };
        let is_beside = |holder| beside == Beside::OwnAndNear && !places.contains(holder);
        let near = self.near.iter().filter(|(_, holder)| is_beside(holder));
        let mut near: Vec<(usize, u32)> = near.copied().collect();
        let near_places = near.iter().map(|(_, holder)| holder);
        for &holder in own.iter().chain(&others).chain(near_places) {
            trial.remove(holder);
        }
        let may_borrow = beside != Beside::Nobody
            || self.fair
            || !trial.borrows_with(self.leaf, &self.usage)
            || others.iter().all(|&holder| self.yields_to_borrowers(&trial, holder));
        // Whoever may go last is put back first: of those furthest off, as all that is nearer makes the
        // claim's side larger.
        let level = |&at: &u32| (self.level(&trial, trial.leaf_of(at)), at);
        let mut left: Vec<(usize, u32)> = others.iter().map(level).collect();
        while may_borrow && let Some(level) = left.iter().map(|own| own.0).max() {
            near.retain(|&(of, holder)| {
                if of >= level {
                    trial.restore(holder);
                }
                of < level
            });
            let may_be_last = |trial: &mut Trial<'t>, (of, holder): (usize, u32)| {
                of == level && self.may_go_last(trial, holder)
            };
            let last = (0..left.len()).find(|&at| may_be_last(&mut trial, left[at]));
            let Some(last) = last else { break };
            trial.restore(left.swap_remove(last).1);
        }
        for &holder in own.iter().chain(left.iter().chain(&near).map(|(_, holder)| holder)) {
            trial.restore(holder);
        }
        may_borrow && left.is_empty()
    }

    /// Whether a holder of another queue may give back when all others of a set have; it is gone
    /// before and after.
    fn may_go_last(&self, trial: &mut Trial<'t>, holder: u32) -> bool {
        let leaf = trial.leaf_of(holder);
        let afterwards = self.judges_shares().then(|| {
            let keeps = trial.keeps_guarantee(leaf, holder, &self.pairs);
            (trial.share(self.side_of(trial, leaf)), keeps || !self.leaves_promised)
        });
        trial.restore(holder);
        let allowed = self.is_over(trial, leaf)
            && afterwards.is_none_or(|(final_share, keeps)| {
                let own = trial.share(self.own_side(trial, leaf));
                let is_less = || own < trial.share(self.side_of(trial, leaf));
                let enough = if self.initial_share {
                    is_less()
                } else {
                    own <= final_share && (!self.leaves_promised || is_less())
                };
                keeps && enough
            });
        trial.remove(holder);
        allowed
    }

    /// Whether shares decide who yields: for a claim beyond its queue's own quota.
    fn judges_shares(&self) -> bool {
        self.fair && !self.within
    }

    /// Whether a leaf, and each queue above it up to the one in common, uses more than its own.
    fn is_over(&self, trial: &Trial<'t>, leaf: u32) -> bool {
        if self.fair {
            self.is_beyond(trial, leaf, |trial, at| trial.share(at).borrowing)
                && !trial.is_within(leaf, &self.pairs)
        } else {
            self.is_beyond(trial, leaf, |trial, at| !trial.is_within(at, &self.pairs))
        }
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

    /// The place on the claim's path of the queue in common with a leaf.
    fn level(&self, trial: &Trial<'t>, leaf: u32) -> usize {
        let common = trial.parent(self.side_of(trial, leaf));
        self.path.iter().position(|&at| at == common).unwrap_or(0)
    }

    /// The queue right below the one in common, on the claim's side.
    fn own_side(&self, trial: &Trial<'t>, leaf: u32) -> u32 {
        self.path[self.level(trial, leaf).saturating_sub(1)]
    }

    /// Whether a holder yields to a claim that borrows, without fair shares.
    fn yields_to_borrowers(&self, trial: &Trial<'t>, holder: u32) -> bool {
        if self.level(trial, trial.leaf_of(holder)) > self.advantage_from {
            return true;
        }
        let borrow = self.policy.borrow_within_cohort;
        let Some(own) = trial.books.holder_at(holder) else { return false };
        borrow.lower_priority
            && own.priority < self.priority
            && borrow.max_priority_threshold.is_none_or(|most| own.priority <= most)
    }
}

impl Sets for Guarantees<'_> {
    fn books(&self) -> &Books {
        self.trial.borrow().books
    }

    fn lacks(&self) -> &Usage {
        &self.lacks
    }

    fn holders(&self) -> &[u32] {
        &self.holders
    }

    /// The own queue's holders go once for all, not for each holder, and so do those of queues beside it for
    /// those further off. Of one queue, holders with equal usage are judged once; all are where shares do
    /// not decide.
    fn candidates(&self) -> Vec<u32> {
        let leaves = |at: u32| self.books().holder_at(at).is_some_and(|own| own.leaving);
        let open = self.holders.iter().map(|&at| (at, leaves(at)));
        let mut open: Vec<(u32, bool)> =
            open.filter(|&(at, leaves)| leaves || self.is_candidate(at)).collect();
        let mut trial = self.trial.borrow_mut();
        if !self.near.is_empty() {
            // Nearest first: all of one leaf are as near.
            open.sort_by_cached_key(|own| self.level(&trial, trial.leaf_of(own.0)));
        }
        for &own in &self.own {
            trial.remove(own);
        }
        let mut near = self.near.iter().peekable();
        let books = trial.books;
        let mut last: Option<(u32, &Usage, bool)> = None;
        open.retain(|&(at, leaves)| {
            let Some(own) = books.holder_at(at) else { return false };
            let leaf = own.queue.slot;
            if leaves || leaf == self.leaf {
                return true;
            }
            if let Some((of, usage, may)) = last
                && of == leaf
                && (*usage == own.usage || !self.judges_shares())
            {
                return may;
            }
            while let Some(&(_, nearer)) = near.next_if(|own| own.0 < self.level(&trial, leaf)) {
                trial.remove(nearer);
            }
            // All others are in place: only shares are compared with and without the holder.
            let may = if self.judges_shares() {
                trial.remove(at);
                let may = self.may_go_last(&mut trial, at);
                trial.restore(at);
                may
            } else {
                self.is_over(&trial, leaf)
            };
            last = Some((leaf, &own.usage, may));
            may
        });
        let left = near.count();
        let gone = self.near.iter().take(self.near.len() - left).map(|(_, at)| at);
        for &own in self.own.iter().chain(gone) {
            trial.restore(own);
        }
        open.into_iter().map(|(at, _)| at).collect()
    }

    fn own(&self) -> &[u32] {
        &self.own
    }

    fn may_begin(&self, holders: &[u32]) -> bool {
        self.is_allowed(holders, Beside::Own)
            || !self.near.is_empty() && self.is_allowed(holders, Beside::OwnAndNear)
    }

    fn may_yield(&self, holders: &[u32]) -> bool {
        self.is_allowed(holders, Beside::Nobody)
    }

    fn suffices(&self, holders: &[u32]) -> bool {
        if self.is_barred {
            return false;
        }
        let mut trial = self.trial.borrow_mut();
        let gives = |(of, lack): &(FlavorResource, i64)| {
            let usages = holders.iter().filter_map(|at| Some(&trial.books.holder_at(*at)?.usage));
            let own = |usage: &Usage| usage.iter().find(|own| own.0 == *of).map_or(0, |own| own.1);
            usages.map(own).fold(0_i64, i64::saturating_add) >= *lack
        };
        if !self.lacks.iter().all(gives) {
            return false;
        }
        if self.fair {
            trial.take(self.leaf, &self.usage);
        }
        let fits = trial.fits_without(self.leaf, &self.usage, holders);
        if self.fair {
            trial.add(self.leaf, &self.usage);
        }
        fits
    }

    /// The share or the loan of a claim beyond its guarantee falls with its own queue's use, and the share
    /// of its side with that of queues beside it.
    fn eases(&self, holder: u32) -> bool {
        let is_near = || {
            let trial = self.trial.borrow();
            self.is_near(self.level(&trial, trial.leaf_of(holder)))
        };
        !self.within && (self.is_own(holder) || self.judges_shares() && is_near())
    }
}
