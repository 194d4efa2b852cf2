//! The way of a request up the tree, and the holders that come into question by priority.
//!
//! Source: Kueue's `hierarchical_preemption.go`.

use alloc::vec::Vec;

use crate::Time;
use crate::quota::books::cells::NONE;
use crate::quota::engine::trial::Trial;
use crate::quota::model::claim::Usage;
use crate::quota::model::queue::QueuePreemptionPolicy;

/// Whether a policy makes a holder a candidate for a claim, by priority and age.
pub fn is_candidate(
    policy: QueuePreemptionPolicy,
    claim: (i64, Time),
    holder: (i64, Time),
) -> bool {
    let lower = holder.0 < claim.0;
    match policy {
        QueuePreemptionPolicy::Never => false,
        QueuePreemptionPolicy::LowerPriority => lower,
        QueuePreemptionPolicy::LowerOrNewerEqualPriority => {
            lower || (holder.0 == claim.0 && holder.1 > claim.1)
        }
        QueuePreemptionPolicy::Any => true,
    }
}

/// The ancestors from the parent up, and from which on the request fits a subtree below.
pub(in crate::quota) struct Climb {
    pub(in crate::quota) ancestors: Vec<u32>,
    pub(in crate::quota) advantage_from: usize,
}

impl Climb {
    pub(in crate::quota) fn new(trial: &Trial<'_>, leaf: u32, usage: &Usage) -> Climb {
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
