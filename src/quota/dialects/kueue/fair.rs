//! Victims by fair shares: queues with the largest shares give first.
//!
//! Source: Kueue's `preemption.go` and `preemption/fairsharing`.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque, btree_set};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::iter::Peekable;

use super::candidates::{LeafCandidates, is_past, satisfies};
use super::preemptor::Preemptor;
use super::settings::FairStrategy;
use crate::base::hash::FixedMap;
use crate::quota::books::Books;
use crate::quota::books::cells::NONE;
use crate::quota::books::index::{FairInner, FairLeaf, VictimKey};
use crate::quota::books::share::ShareValue;
use crate::quota::engine::give_back::{GiveBack, give_back, without_spare};
use crate::quota::engine::trial::{Taken, Trial};
use crate::quota::model::claim::VictimReason;
use crate::quota::model::queue::{QueueKind, QueuePreemptionPolicy};

/// A leaf with candidates among its siblings: the largest share first, then in the order of their
/// first candidates, those of other queues before the preemptor's own.
type Ready<'a> = (Reverse<ShareValue>, bool, bool, &'a VictimKey, u32);

/// The candidates of one leaf.
enum Supply<'a> {
    /// Candidates of the books, by a policy.
    Books(LeafCandidates<'a>, QueuePreemptionPolicy),
    /// Candidates of a list.
    List(VecDeque<&'a VictimKey>),
}

/// A leaf that has been looked at.
struct Leaf<'a> {
    supply: Supply<'a>,
    ready: Option<Ready<'a>>,
}

/// An inner queue that has been entered.
struct Frame<'a> {
    leaves: BTreeSet<Ready<'a>>,
    inner: BTreeSet<(Reverse<ShareValue>, &'a str, u32)>,
    /// The unread part of the index.
    base: Option<Base<'a>>,
}

struct Base<'a> {
    leaves: Peekable<btree_set::Iter<'a, FairLeaf>>,
    inner: Peekable<btree_set::Iter<'a, FairInner>>,
}

/// The leaves that give next, one after the other.
pub(super) struct Order<'a, 'p> {
    books: &'a Books,
    preemptor: &'p Preemptor<'p>,
    /// The preemptor's leaf and those above it.
    path: Vec<u32>,
    frames: FixedMap<u32, Frame<'a>>,
    leaves: FixedMap<u32, Leaf<'a>>,
    /// By inner queue: what it stands as among its siblings.
    standing: FixedMap<u32, Option<ShareValue>>,
    from_books: bool,
}

impl<'a, 'p> Order<'a, 'p> {
    fn empty(trial: &Trial<'a>, preemptor: &'p Preemptor<'p>, from_books: bool) -> Order<'a, 'p> {
        let mut path = alloc::vec![preemptor.leaf];
        let mut at = trial.parent(preemptor.leaf);
        while at != NONE {
            path.push(at);
            at = trial.parent(at);
        }
        Order {
            books: trial.books,
            preemptor,
            path,
            frames: FixedMap::default(),
            leaves: FixedMap::default(),
            standing: FixedMap::default(),
            from_books,
        }
    }

    /// All candidates of the books.
    fn of_books(trial: &Trial<'a>, preemptor: &'p Preemptor<'p>) -> Order<'a, 'p> {
        let mut order = Order::empty(trial, preemptor, true);
        let own = LeafCandidates::new(trial.books, preemptor.leaf, preemptor.pairs);
        let supply = Supply::Books(own, preemptor.policy.within_cluster_queue);
        order.leaves.insert(preemptor.leaf, Leaf { supply, ready: None });
        order
    }

    /// The candidates of lists, by leaf.
    pub(super) fn of_lists(
        trial: &Trial<'a>,
        preemptor: &'p Preemptor<'p>,
        lists: BTreeMap<u32, VecDeque<&'a VictimKey>>,
    ) -> Order<'a, 'p> {
        let mut order = Order::empty(trial, preemptor, false);
        let leaves: Vec<u32> = lists.keys().copied().collect();
        for (leaf, list) in lists {
            order.leaves.insert(leaf, Leaf { supply: Supply::List(list), ready: None });
        }
        for leaf in leaves {
            order.refresh_leaf(trial, leaf);
            let mut at = trial.parent(leaf);
            while at != NONE {
                order.refresh_inner(trial, at);
                at = trial.parent(at);
            }
        }
        order
    }

    /// The frame of an inner queue, made now if it has not been entered.
    fn frame(&mut self, trial: &Trial<'a>, at: u32) -> &mut Frame<'a> {
        if !self.frames.contains_key(&at) {
            let index = &self.books.index;
            let base = self.from_books.then(|| Base {
                leaves: index.fair_leaves(at).iter().peekable(),
                inner: index.fair_inner(at).iter().peekable(),
            });
            self.frames.insert(at, Frame { leaves: BTreeSet::new(), inner: BTreeSet::new(), base });
            if self.from_books {
                let level = self.path.iter().position(|&on| on == at);
                match level.and_then(|level| level.checked_sub(1)) {
                    Some(0) => self.refresh_leaf(trial, self.preemptor.leaf),
                    Some(below) => self.refresh_inner(trial, self.path[below]),
                    None => {}
                }
            }
        }
        self.frames.entry(at).or_insert_with(|| Frame {
            leaves: BTreeSet::new(),
            inner: BTreeSet::new(),
            base: None,
        })
    }

    /// The first candidate of a leaf that is left.
    fn head(&mut self, leaf: u32) -> Option<&'a VictimKey> {
        match &mut self.leaves.get_mut(&leaf)?.supply {
            Supply::List(list) => list.front().copied(),
            Supply::Books(candidates, policy) => loop {
                let key = candidates.peek()?;
                if satisfies(*policy, self.preemptor, self.books, key) {
                    return Some(key);
                }
                if is_past(*policy, self.preemptor, key) {
                    return None;
                }
                candidates.next();
            },
        }
    }

    /// Takes the first candidate of a leaf.
    pub(super) fn pop(&mut self, leaf: u32) -> Option<&'a VictimKey> {
        let key = self.head(leaf)?;
        match &mut self.leaves.get_mut(&leaf)?.supply {
            Supply::List(list) => drop(list.pop_front()),
            Supply::Books(candidates, _) => drop(candidates.next()),
        }
        Some(key)
    }

    /// Leaves out the other candidates of a leaf.
    pub(super) fn drop_leaf(&mut self, leaf: u32) {
        if let Some(leaf) = self.leaves.get_mut(&leaf) {
            leaf.supply = Supply::List(VecDeque::new());
        }
    }

    /// Puts a leaf in its place among its siblings, or takes it out for good.
    fn refresh_leaf(&mut self, trial: &Trial<'a>, at: u32) {
        let parent = trial.parent(at);
        let own = at == self.preemptor.leaf;
        let share = trial.share(at);
        let head = if share.borrowing || own { self.head(at) } else { None };
        let ready = head.map(|key| (Reverse(share), key.staying, own, key, at));
        let Some(leaf) = self.leaves.get_mut(&at) else { return };
        let before = core::mem::replace(&mut leaf.ready, ready);
        if parent == NONE {
            return;
        }
        let frame = self.frame(trial, parent);
        if let Some(before) = before {
            frame.leaves.remove(&before);
        }
        if let Some(ready) = ready {
            frame.leaves.insert(ready);
        }
    }

    /// Puts an inner queue in its place among its siblings, or takes it out.
    fn refresh_inner(&mut self, trial: &Trial<'a>, at: u32) {
        let parent = trial.parent(at);
        if parent == NONE {
            return;
        }
        let share = trial.share(at);
        let stands = share.borrowing || self.path.contains(&at);
        let name = self.books.tree.slots[at as usize].spec.name.as_str();
        let before = self.standing.insert(at, stands.then_some(share)).flatten();
        let frame = self.frame(trial, parent);
        if let Some(before) = before {
            frame.inner.remove(&(Reverse(before), name, at));
        }
        if stands {
            frame.inner.insert((Reverse(share), name, at));
        }
    }

    /// Brings everything in line after a change of what a leaf uses or offers.
    pub(super) fn changed(&mut self, trial: &Trial<'a>, leaf: u32) {
        self.refresh_leaf(trial, leaf);
        let mut at = trial.parent(leaf);
        while at != NONE {
            // One that is pruned stays so.
            if self.standing.get(&at).is_none_or(Option::is_some) {
                self.refresh_inner(trial, at);
            }
            at = trial.parent(at);
        }
    }

    /// The leaf of the largest share below an inner queue, among those right below it.
    fn best_leaf(&mut self, trial: &Trial<'a>, at: u32) -> Option<(ShareValue, u32)> {
        loop {
            let frame = self.frame(trial, at);
            let first = frame.leaves.first().copied();
            let found = first.map(|(share, _, _, _, leaf)| (share.0, leaf));
            let Some(base) = &mut frame.base else { return found };
            let Some((share, key, leaf)) = base.leaves.peek() else { return found };
            // The first holder of all is no later than the first candidate.
            if first.is_some_and(|first| {
                (first.0, first.1, first.2, first.3) < (*share, key.staying, false, key)
            }) {
                return found;
            }
            let leaf = *leaf;
            base.leaves.next();
            let pairs = self.preemptor.pairs;
            if !self.leaves.contains_key(&leaf) && !trial.is_within(leaf, pairs) {
                let candidates = LeafCandidates::new(self.books, leaf, pairs);
                let policy = self.preemptor.policy.reclaim_within_cohort;
                let supply = Supply::Books(candidates, policy);
                self.leaves.insert(leaf, Leaf { supply, ready: None });
                self.refresh_leaf(trial, leaf);
            }
        }
    }

    /// The inner queue of the largest share right below another.
    fn best_inner(&mut self, trial: &Trial<'a>, at: u32) -> Option<(ShareValue, u32)> {
        loop {
            let frame = self.frame(trial, at);
            let first = frame.inner.first();
            let found = first.map(|(share, _, inner)| (share.0, *inner));
            let Some(base) = &mut frame.base else { return found };
            let Some((share, inner)) = base.inner.peek() else { return found };
            if found.is_some_and(|found| found.0 > share.0) {
                return found;
            }
            let inner = *inner;
            base.inner.next();
            if !self.standing.contains_key(&inner) {
                self.refresh_inner(trial, inner);
            }
        }
    }

    /// The leaf that gives next.
    pub(super) fn next(&mut self, trial: &Trial<'a>) -> Option<u32> {
        let root = *self.path.last()?;
        if root == self.preemptor.leaf {
            self.head(root)?;
            return Some(root);
        }
        let mut at = root;
        loop {
            let leaf = self.best_leaf(trial, at);
            let inner = self.best_inner(trial, at);
            match (leaf, inner) {
                (None, None) if at == root => return None,
                (None, None) => {
                    let parent = trial.parent(at);
                    let name = self.books.tree.slots[at as usize].spec.name.as_str();
                    if let Some(share) = self.standing.insert(at, None).flatten() {
                        self.frame(trial, parent).inner.remove(&(Reverse(share), name, at));
                    }
                    at = root;
                }
                (Some((of_leaf, leaf)), Some((of_inner, _))) if of_inner < of_leaf => {
                    return Some(leaf);
                }
                (Some((_, leaf)), None) => return Some(leaf),
                (_, Some((_, inner))) => at = inner,
            }
        }
    }
}

/// The two children of the lowest queue that is above both leaves, on each side.
fn sides(trial: &Trial<'_>, path: &[u32], mut leaf: u32) -> (u32, u32) {
    loop {
        let parent = trial.parent(leaf);
        if parent == NONE {
            return (path[path.len() - 1], leaf);
        }
        if let Some(level) = path.iter().position(|&on| on == parent) {
            return (path[level.saturating_sub(1)], leaf);
        }
        leaf = parent;
    }
}

/// Candidates that were refused, by leaf.
type Refused<'a> = BTreeMap<u32, VecDeque<&'a VictimKey>>;

/// The victims; none if no set of candidates suffices.
pub(super) fn search(trial: &mut Trial<'_>, preemptor: &Preemptor<'_>) -> Vec<Taken> {
    trial.add(preemptor.leaf, preemptor.usage);
    let pass = Pass::First(First::new(trial, preemptor));
    let mut search = Search { trial: &mut *trial, preemptor, pass };
    let victims = match give_back(&mut search) {
        Ok(victims) => victims,
        Err(taken) => search.after_all(&taken),
    };
    trial.take(preemptor.leaf, preemptor.usage);
    victims
}

/// The search for victims by shares. The preemptor's request is counted.
struct Search<'a, 'p, 't> {
    trial: &'t mut Trial<'a>,
    preemptor: &'p Preemptor<'p>,
    pass: Pass<'a, 'p>,
}

/// The candidates in order.
enum Pass<'a, 'p> {
    /// All candidates, by the first strategy.
    First(First<'a, 'p>),
    /// Refused candidates, by the second strategy.
    Second(Order<'a, 'p>),
    /// Candidates that leave anyway, and one that was refused.
    Single { gone: VecDeque<Taken>, refused: Refused<'a> },
}

struct First<'a, 'p> {
    order: Order<'a, 'p>,
    refused: Refused<'a>,
    /// Whether the preemptor's leaf stays within its own quota, with the request and before any victim
    /// is taken.
    within: bool,
}

impl<'a, 'p> First<'a, 'p> {
    fn new(trial: &Trial<'a>, preemptor: &'p Preemptor<'p>) -> First<'a, 'p> {
        let slot = &trial.books.tree.slots[preemptor.leaf as usize];
        let within = preemptor.pairs.iter().all(|&pair| {
            slot.cell(pair).is_none_or(|at| trial.cells[at].nominal >= trial.cells[at].drawn)
        });
        First { order: Order::of_books(trial, preemptor), refused: BTreeMap::new(), within }
    }

    fn take_next(&mut self, trial: &mut Trial<'a>, preemptor: &Preemptor<'_>) -> Option<Taken> {
        loop {
            let leaf = self.order.next(trial)?;
            let taken = if leaf == preemptor.leaf {
                self.take_first(trial, leaf, VictimReason::InClusterQueue)
            } else if self.within {
                self.take_first(trial, leaf, VictimReason::InCohortReclamation)
            } else {
                self.take_by_share(trial, preemptor, leaf)
            };
            self.order.changed(trial, leaf);
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Takes the first candidate of a leaf.
    fn take_first(
        &mut self,
        trial: &mut Trial<'a>,
        leaf: u32,
        reason: VictimReason,
    ) -> Option<Taken> {
        let key = self.order.pop(leaf)?;
        trial.remove(key.holder);
        Some((key.holder, reason))
    }

    /// Takes the first candidate of a leaf that shares allow; those before it are refused.
    fn take_by_share(
        &mut self,
        trial: &mut Trial<'a>,
        preemptor: &Preemptor<'_>,
        leaf: u32,
    ) -> Option<Taken> {
        let strategy = preemptor.strategies.first();
        let strategy = strategy.copied().unwrap_or(FairStrategy::LessThanOrEqualToFinalShare);
        let (own, others) = sides(trial, &self.order.path, leaf);
        let share = trial.share(own);
        while let Some(key) = self.order.pop(leaf) {
            let initial = trial.share(others);
            trial.remove(key.holder);
            let kept = !preemptor.keeps_guarantees
                || trial.keeps_guarantee(leaf, key.holder, preemptor.pairs);
            // A claim that leaves anyway is gone: the guarantee is about claims that stay.
            let is_going = preemptor.keeps_guarantees && !key.staying;
            let allowed = is_going
                || kept
                    && match strategy {
                        FairStrategy::LessThanOrEqualToFinalShare => {
                            // Else two queues of equal shares could take turns.
                            share <= trial.share(others)
                                && (!preemptor.keeps_guarantees || share < initial)
                        }
                        FairStrategy::LessThanInitialShare => share < initial,
                    };
            if allowed {
                return Some((key.holder, VictimReason::InCohortFairSharing));
            }
            trial.restore(key.holder);
            self.refused.entry(leaf).or_default().push_back(key);
        }
        None
    }
}

impl GiveBack for Search<'_, '_, '_> {
    type Holder = Taken;

    fn take_next(&mut self) -> Option<Taken> {
        if let Pass::First(first) = &mut self.pass {
            let taken = first.take_next(self.trial, self.preemptor);
            if taken.is_some() || self.preemptor.strategies.len() < 2 {
                return taken;
            }
            let refused = core::mem::take(&mut first.refused);
            self.pass = Pass::Second(Order::of_lists(self.trial, self.preemptor, refused));
        }
        match &mut self.pass {
            Pass::First(_) => None,
            Pass::Second(order) => second(self.trial, order),
            Pass::Single { gone, refused } => {
                if let Some(taken) = gone.pop_front() {
                    self.trial.remove(taken.0);
                    return Some(taken);
                }
                let refused = core::mem::take(refused);
                single(self.trial, self.preemptor, &refused)
            }
        }
    }

    fn suffices(&mut self) -> bool {
        fits(self.trial, self.preemptor)
    }

    fn put_back(&mut self, taken: &Taken) {
        self.trial.restore(taken.0);
    }

    fn take_again(&mut self, taken: &Taken) {
        self.trial.remove(taken.0);
    }

    fn needed(&mut self, taken: &[Taken]) -> Option<Vec<Taken>> {
        Some(without_spare(self, taken))
    }
}

impl Search<'_, '_, '_> {
    /// One victim in place of all that were taken in vain, where guarantees are kept: one of the
    /// candidates that were refused beside smaller ones.
    fn after_all(&mut self, taken: &[Taken]) -> Vec<Taken> {
        let books = self.trial.books;
        // A claim that leaves anyway stays out: guarantees are about claims that stay.
        let leaves = |taken: &&Taken| books.holder_at(taken.0).is_some_and(|own| own.leaving);
        let gone: VecDeque<Taken> = taken.iter().filter(leaves).copied().collect();
        let Pass::First(first) = &mut self.pass else { return Vec::new() };
        if !self.preemptor.keeps_guarantees || gone.len() == taken.len() {
            return Vec::new();
        }
        let refused = core::mem::take(&mut first.refused);
        self.pass = Pass::Single { gone, refused };
        give_back(self).unwrap_or_default()
    }
}

/// Whether the preemptor fits; its request is counted before and after.
fn fits(trial: &mut Trial<'_>, preemptor: &Preemptor<'_>) -> bool {
    trial.take(preemptor.leaf, preemptor.usage);
    let fits = trial.fits(preemptor.leaf, preemptor.usage);
    trial.add(preemptor.leaf, preemptor.usage);
    fits
}

/// Takes the next refused candidate that the second strategy allows, one of each leaf.
fn second<'a>(trial: &mut Trial<'a>, order: &mut Order<'a, '_>) -> Option<Taken> {
    loop {
        let leaf = order.next(trial)?;
        let (own, others) = sides(trial, &order.path, leaf);
        let mut taken = None;
        if let Some(key) = order.pop(leaf)
            && trial.share(own) < trial.share(others)
        {
            trial.remove(key.holder);
            taken = Some((key.holder, VictimReason::InCohortFairSharing));
        }
        order.drop_leaf(leaf);
        order.changed(trial, leaf);
        if taken.is_some() {
            return taken;
        }
    }
}

/// Takes one candidate that suffices, of those that were refused beside smaller ones that did not.
fn single(
    trial: &mut Trial<'_>,
    preemptor: &Preemptor<'_>,
    refused: &Refused<'_>,
) -> Option<Taken> {
    let path = Order::empty(trial, preemptor, false).path;
    let keys = refused.iter().flat_map(|(leaf, keys)| keys.iter().map(move |key| (leaf, *key)));
    let mut keys: Vec<(Reverse<ShareValue>, &VictimKey, u32)> =
        keys.map(|(&leaf, key)| (Reverse(trial.share(leaf)), key, leaf)).collect();
    keys.sort_unstable();
    keys.into_iter().find_map(|(_, key, leaf)| {
        let (own, others) = sides(trial, &path, leaf);
        let (share, initial) = (trial.share(own), trial.share(others));
        trial.remove(key.holder);
        if trial.keeps_guarantee(leaf, key.holder, preemptor.pairs)
            && share < initial
            && share <= trial.share(others)
            && fits(trial, preemptor)
        {
            return Some((key.holder, VictimReason::InCohortFairSharing));
        }
        trial.restore(key.holder);
        None
    })
}

/// The leaves that give, in order, if of each only the first holder is taken, or (where `drops` says
/// so) all are passed over. Only leaves of a list take part.
pub(in crate::quota) fn target_order(
    trial: &mut Trial<'_>,
    leaf: u32,
    candidates: &[u32],
    drops: &[bool],
) -> Vec<u32> {
    let usage = crate::quota::model::claim::Usage::new();
    let preemptor = Preemptor {
        leaf,
        priority: 0,
        created: crate::Time::ZERO,
        policy: crate::quota::model::queue::QueuePreemption::default(),
        usage: &usage,
        pairs: &[],
        strategies: &[],
        keeps_guarantees: false,
    };
    let is_leaf = |at: &&u32| trial.books.tree.slots[**at as usize].spec.kind == QueueKind::Leaf;
    let list = |&at: &u32| (at, trial.books.index.holders(at).iter().collect());
    let lists = candidates.iter().filter(is_leaf).map(list).collect();
    let mut order = Order::of_lists(trial, &preemptor, lists);
    let mut leaves = Vec::new();
    while let Some(at) = order.next(trial) {
        if drops.get(leaves.len()).copied().unwrap_or(false) {
            order.drop_leaf(at);
        } else {
            order.pop(at);
        }
        leaves.push(at);
        order.changed(trial, at);
    }
    leaves
}
