//! Victims without fair sharing: by guarantees alone.
//!
//! Source: Kueue's `preemption.go` and `hierarchical_preemption.go`.

use alloc::vec::Vec;

use super::Preemptor;
use super::candidates::{Candidates, LeafCandidates, is_past, satisfies};
use super::trial::{Taken, Trial};
use crate::quota::books::{Books, VictimKey};
use crate::quota::cells::NONE;
use crate::quota::claim::{Usage, VictimReason};
use crate::quota::queue::QueuePreemptionPolicy;

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

/// The ancestors from the parent up, and from which on the request fits a subtree below.
struct Climb {
    ancestors: Vec<u32>,
    advantage_from: usize,
}

impl Climb {
    fn new(trial: &Trial<'_>, leaf: u32, usage: &Usage) -> Climb {
        let tree = &trial.books.tree;
        let mut rest: Vec<(u32, i64)> = usage
            .iter()
            .map(|(of, amount)| (tree.slots[leaf as usize].cell(of.0).unwrap_or(NONE), *amount))
            .collect();
        let mut step = || {
            let mut fits = true;
            for (cell, amount) in &mut rest {
                if *cell == NONE {
                    fits &= *amount <= 0;
                    continue;
                }
                let sums = &trial.cells[*cell];
                fits &= sums.drawn.saturating_add(*amount) <= sums.subtree;
                *amount = (*amount - sums.local_available().min(*amount)).max(0);
                *cell = sums.parent;
            }
            fits
        };
        let mut climb = Climb { ancestors: Vec::new(), advantage_from: usize::MAX };
        let mut advantage = step();
        let mut at = trial.parent(leaf);
        while at != NONE {
            if advantage && climb.advantage_from == usize::MAX {
                climb.advantage_from = climb.ancestors.len();
            }
            climb.ancestors.push(at);
            advantage |= step();
            at = trial.parent(at);
        }
        climb
    }
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

/// The ancestor, counted from the parent, from which on the request fits a subtree below.
pub(in crate::quota) fn advantage_from(trial: &Trial<'_>, leaf: u32, usage: &Usage) -> usize {
    Climb::new(trial, leaf, usage).advantage_from
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

fn attempt(
    trial: &mut Trial<'_>,
    climb: &Climb,
    preemptor: &Preemptor<'_>,
    borrowing: bool,
) -> Vec<Taken> {
    let books = trial.books;
    let fits = |trial: &Trial<'_>| {
        (borrowing || !trial.borrows_with(preemptor.leaf, preemptor.usage))
            && trial.fits(preemptor.leaf, preemptor.usage)
    };
    let mut groups = Groups::new(books, climb, preemptor);
    let mut taken: Vec<Taken> = Vec::new();
    while let Some((key, standing)) = groups.next(books) {
        let reason = match standing {
            Standing::Own => VictimReason::InClusterQueue,
            Standing::Borrowing => VictimReason::InCohortReclaimWhileBorrowing,
            Standing::NotBorrowing | Standing::Hierarchy => VictimReason::InCohortReclamation,
        };
        if standing != Standing::Own {
            if standing == Standing::NotBorrowing && borrowing {
                continue;
            }
            let mut at = trial.leaf_of(key.holder);
            let mut within = false;
            while at != NONE && !within && !climb.ancestors.contains(&at) {
                within = trial.is_within(at, preemptor.pairs);
                at = trial.parent(at);
            }
            if within {
                continue;
            }
        }
        trial.remove(key.holder);
        taken.push((key.holder, reason));
        if fits(trial) {
            return trial.fill_back(taken, fits);
        }
    }
    trial.give_back(&taken);
    Vec::new()
}
