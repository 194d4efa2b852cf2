//! The decision on a claim: flavors, and victims by guarantees or by fair shares.
//!
//! Source: Kueue's `flavorassigner.go` and `preemption.go`.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::preemptor::Preemptor;
use super::settings::{FairStrategy, KueueSettings};
use super::{classical, fair};
use crate::quota::books::Books;
use crate::quota::books::tree::QueueId;
use crate::quota::engine::assign::{Ask, Outlook, assign, borrow_level};
use crate::quota::engine::partial::decide_reduced;
use crate::quota::engine::trial::{Taken, Trial, named, on_trial};
use crate::quota::model::claim::{
    AssignmentMode, Claim, FlavorResource, QuotaAssignment, QuotaDecision, Usage,
};
use crate::quota::model::queue::QueuePreemption;

/// Rules of a search for victims.
#[derive(Debug, Clone, Copy)]
pub(in crate::quota) struct SearchRules<'a> {
    pub(in crate::quota) strategies: &'a [FairStrategy],
    /// Whose claims a claim may evict; `None`: as its queue says.
    pub(in crate::quota) policy: Option<QueuePreemption>,
    /// Whether a claim that borrows leaves others what they are guaranteed, of each resource.
    pub(in crate::quota) keeps_guarantees: bool,
    /// Whether claims are admitted with fewer pods than all.
    pub(in crate::quota) partial: bool,
}

impl<'a> SearchRules<'a> {
    /// The rules by Kueue's settings.
    pub(in crate::quota) fn new(settings: &'a KueueSettings) -> SearchRules<'a> {
        SearchRules {
            strategies: settings.fair_sharing.as_deref().unwrap_or(&[]),
            policy: None,
            keeps_guarantees: false,
            partial: settings.partial_admission,
        }
    }
}

/// The search for victims as a simulation.
pub(in crate::quota) fn simulate_levels<'s>(
    claim: &'s Claim,
    leaf: u32,
    rules: SearchRules<'s>,
) -> impl FnMut(&mut Trial<'_>, FlavorResource, i64) -> (Outlook, Option<u32>) + 's {
    move |trial, of, amount| {
        let usage: Usage = [(of, amount)].into_iter().collect();
        let taken = search(trial, &preemptor(trial.books, leaf, claim, &usage, &[of.0], rules));
        if taken.is_empty() {
            return (Outlook::NoCandidates, None);
        }
        let own = taken.iter().any(|(holder, _)| trial.leaf_of(*holder) == leaf);
        for (holder, _) in &taken {
            trial.remove(*holder);
        }
        let tree = &trial.books.tree;
        let cell = tree.slots[leaf as usize].cell(of.0);
        let level = cell.map(|cell| borrow_level(tree, &trial.cells, cell, amount).0);
        trial.give_back(&taken);
        (if own { Outlook::Preempt } else { Outlook::Reclaim }, level)
    }
}

/// Victims for a preemptor, by the rule in force. The sums are as before.
fn search(trial: &mut Trial<'_>, preemptor: &Preemptor<'_>) -> Vec<Taken> {
    if preemptor.pairs.is_empty() {
        return Vec::new();
    }
    if trial.books.fair {
        fair::search(trial, preemptor)
    } else {
        classical::search(trial, preemptor)
    }
}

fn preemptor<'a>(
    books: &Books,
    leaf: u32,
    claim: &Claim,
    usage: &'a Usage,
    pairs: &'a [u32],
    rules: SearchRules<'a>,
) -> Preemptor<'a> {
    let stated = books.tree.slots[leaf as usize].spec.preemption;
    Preemptor {
        leaf,
        priority: claim.priority,
        created: claim.created,
        policy: rules.policy.unwrap_or(stated),
        keeps_guarantees: rules.keeps_guarantees,
        usage,
        pairs,
        strategies: rules.strategies,
    }
}

/// The answer to a claim of an active leaf, with fewer pods than all if that helps.
pub(in crate::quota) fn decide(
    books: &mut Books,
    leaf: QueueId,
    claim: &Claim,
    rules: SearchRules<'_>,
) -> QuotaDecision {
    on_trial(books, |trial| {
        let leaf = leaf.slot;
        let mut simulate = simulate_levels(claim, leaf, rules);
        let mut attempt = |counts: Option<&[u32]>| {
            let ask = Ask { leaf, claim, counts, policy: rules.policy };
            let assignment = assign(trial, ask, &mut simulate);
            let taken = match assignment.mode {
                AssignmentMode::Preempt => victims(trial, leaf, claim, &assignment, rules),
                AssignmentMode::Fit | AssignmentMode::NoFit => Vec::new(),
            };
            QuotaDecision { assignment, victims: named(trial.books, &taken) }
        };
        if rules.partial { decide_reduced(claim, attempt) } else { attempt(None) }
    })
}

/// Victims for an assignment that needs some.
pub(in crate::quota) fn victims(
    trial: &mut Trial<'_>,
    leaf: u32,
    claim: &Claim,
    assignment: &QuotaAssignment,
    rules: SearchRules<'_>,
) -> Vec<Taken> {
    let mut pairs: SmallVec<[u32; 4]> = SmallVec::new();
    for choice in assignment.pod_sets.iter().flat_map(|set| &set.flavors) {
        if choice.mode == AssignmentMode::Preempt && !pairs.contains(&choice.of.0) {
            pairs.push(choice.of.0);
        }
    }
    pairs.sort_unstable();
    search(trial, &preemptor(trial.books, leaf, claim, &assignment.usage, &pairs, rules))
}
