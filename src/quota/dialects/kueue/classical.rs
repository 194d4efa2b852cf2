//! Victims without fair sharing: by guarantees alone.
//!
//! Source: Kueue's `preemption.go` and `hierarchical_preemption.go`.

use alloc::vec::Vec;

use super::candidates::{Candidates, LeafCandidates, is_past, satisfies};
use super::preemptor::Preemptor;
use crate::quota::books::Books;
use crate::quota::books::cells::NONE;
use crate::quota::books::index::VictimKey;
use crate::quota::engine::climb::Climb;
use crate::quota::engine::give_back::{GiveBack, give_back, without_spare};
use crate::quota::engine::trial::{Taken, Trial};
use crate::quota::model::claim::VictimReason;
use crate::quota::model::queue::QueuePreemptionPolicy;

/// The relation of a candidate to the preemptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Its queue uses what is the preemptor's by guarantee of a subtree that both do not share.
    Hierarchy,
    /// It is of another queue, and a victim only if the preemptor's does not borrow.
    NotBorrowing,
    /// It is of another queue, and a victim also if the preemptor's borrows.
    Borrowing,
    /// It is of the preemptor's own queue.
    Own,
}

/// One attempt: the candidates in the order they are tried.
struct Groups<'a, 'p> {
    preemptor: &'p Preemptor<'p>,
    hierarchy: Candidates<'a, 'p>,
    priority: Candidates<'a, 'p>,
    own: LeafCandidates<'a>,
}

impl<'a, 'p> Groups<'a, 'p> {
    fn new(books: &'a Books, climb: &Climb, preemptor: &'p Preemptor<'p>) -> Groups<'a, 'p> {
        let own = LeafCandidates::new(books, preemptor.leaf, preemptor.pairs);
        let mut hierarchy = Candidates::new(books, preemptor.pairs);
        let mut priority = Candidates::new(books, preemptor.pairs);
        if preemptor.policy.reclaim_within_cohort != QueuePreemptionPolicy::Never {
            let mut below = preemptor.leaf;
            for (level, &inner) in climb.ancestors.iter().enumerate() {
                let group =
                    if level >= climb.advantage_from { &mut hierarchy } else { &mut priority };
                group.add(inner, below);
                below = inner;
            }
        }
        Groups { preemptor, hierarchy, priority, own }
    }

    /// Whether there is any candidate of other queues, and of those with a hierarchy's advantage.
    fn any(books: &'a Books, climb: &Climb, preemptor: &'p Preemptor<'p>) -> (bool, bool) {
        let mut groups = Groups::new(books, climb, preemptor);
        let policy = preemptor.policy.reclaim_within_cohort;
        let found = |group: &mut Candidates<'a, 'p>| {
            first(policy, preemptor, books, group, Candidates::peek).is_some()
        };
        let hierarchy = found(&mut groups.hierarchy);
        (hierarchy || found(&mut groups.priority), hierarchy)
    }

    /// The next candidate of any group: those that are leaving first, in the order of groups.
    fn next(&mut self, books: &'a Books) -> Option<(&'a VictimKey, Standing)> {
        let policy = self.preemptor.policy;
        let reclaim = policy.reclaim_within_cohort;
        for staying in [false, true] {
            let ready = |key: &&VictimKey| key.staying == staying;
            let own = policy.within_cluster_queue;
            let key = first(reclaim, self.preemptor, books, &mut self.hierarchy, Candidates::peek);
            if let Some(key) = key.filter(ready) {
                self.hierarchy.next();
                return Some((key, Standing::Hierarchy));
            }
            let key = first(reclaim, self.preemptor, books, &mut self.priority, Candidates::peek);
            if let Some(key) = key.filter(ready) {
                self.priority.next();
                return Some((key, self.preemptor.standing(key)));
            }
            let key = first(own, self.preemptor, books, &mut self.own, LeafCandidates::peek);
            if let Some(key) = key.filter(ready) {
                self.own.next();
                return Some((key, Standing::Own));
            }
        }
        None
    }
}

/// The first candidate that satisfies the policy; those before it are passed over.
fn first<'a, C: Iterator<Item = &'a VictimKey>>(
    policy: QueuePreemptionPolicy,
    preemptor: &Preemptor<'_>,
    books: &'a Books,
    candidates: &mut C,
    peek: impl Fn(&mut C) -> Option<&'a VictimKey>,
) -> Option<&'a VictimKey> {
    loop {
        let key = peek(candidates)?;
        if satisfies(policy, preemptor, books, key) {
            return Some(key);
        }
        if is_past(policy, preemptor, key) {
            return None;
        }
        candidates.next();
    }
}

impl Preemptor<'_> {
    /// The standing of a candidate of another queue without a hierarchy's advantage.
    fn standing(&self, key: &VictimKey) -> Standing {
        let borrow = self.policy.borrow_within_cohort;
        let low = key.priority < self.priority
            && borrow.max_priority_threshold.is_none_or(|most| key.priority <= most);
        if borrow.lower_priority && low { Standing::Borrowing } else { Standing::NotBorrowing }
    }
}

/// The victims; none if no set of candidates suffices.
pub(super) fn search(trial: &mut Trial<'_>, preemptor: &Preemptor<'_>) -> Vec<Taken> {
    let climb = Climb::new(trial, preemptor.leaf, preemptor.usage);
    let (foreign, hierarchy) = Groups::any(trial.books, &climb, preemptor);
    let slot = &trial.books.tree.slots[preemptor.leaf as usize];
    let under = |&pair: &u32| {
        slot.cell(pair).is_some_and(|cell| trial.cells[cell].nominal > trial.cells[cell].drawn)
    };
    let borrow = preemptor.policy.borrow_within_cohort.lower_priority;
    let attempts: &[bool] = if !foreign || (!borrow && !preemptor.pairs.iter().all(under)) {
        &[true]
    } else if !borrow && !hierarchy {
        &[false, true]
    } else {
        &[true, false]
    };
    for &borrowing in attempts {
        let taken = attempt(trial, &climb, preemptor, borrowing);
        if !taken.is_empty() {
            return taken;
        }
    }
    Vec::new()
}

/// One attempt: the claim with borrowing, or without.
struct Attempt<'a, 'p, 't> {
    trial: &'t mut Trial<'a>,
    climb: &'t Climb,
    groups: Groups<'a, 'p>,
    borrowing: bool,
}

impl Attempt<'_, '_, '_> {
    /// Whether a queue between a leaf and the inner queue in common stays within its guarantees.
    fn is_within(&self, leaf: u32) -> bool {
        let mut at = leaf;
        while at != NONE && !self.climb.ancestors.contains(&at) {
            if self.trial.is_within(at, self.groups.preemptor.pairs) {
                return true;
            }
            at = self.trial.parent(at);
        }
        false
    }
}

impl GiveBack for Attempt<'_, '_, '_> {
    type Holder = Taken;

    fn take_next(&mut self) -> Option<Taken> {
        loop {
            let (key, standing) = self.groups.next(self.trial.books)?;
            let reason = match standing {
                Standing::Own => VictimReason::InClusterQueue,
                Standing::Borrowing => VictimReason::InCohortReclaimWhileBorrowing,
                Standing::NotBorrowing | Standing::Hierarchy => VictimReason::InCohortReclamation,
            };
            let is_out = standing == Standing::NotBorrowing && self.borrowing
                || standing != Standing::Own && self.is_within(self.trial.leaf_of(key.holder));
            if !is_out {
                self.trial.remove(key.holder);
                return Some((key.holder, reason));
            }
        }
    }

    fn suffices(&mut self) -> bool {
        let Preemptor { leaf, usage, .. } = *self.groups.preemptor;
        (self.borrowing || !self.trial.borrows_with(leaf, usage)) && self.trial.fits(leaf, usage)
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

fn attempt(
    trial: &mut Trial<'_>,
    climb: &Climb,
    preemptor: &Preemptor<'_>,
    borrowing: bool,
) -> Vec<Taken> {
    let groups = Groups::new(trial.books, climb, preemptor);
    give_back(&mut Attempt { trial, climb, groups, borrowing }).unwrap_or_default()
}
