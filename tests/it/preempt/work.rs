//! Running groups and budgets of random worlds.

use std::collections::BTreeSet;

use phalanx::PodGroup;
use phalanx::model::LabelSelector;
use phalanx::preempt::{DisruptionBudget, RunningWork};

use crate::support::dice::Dice;

/// The app of its pods, how many of them may go, and pods that are counted already.
pub(super) type Budget = (u64, i64, BTreeSet<String>);

/// Budgets of the first apps, over pods of some names.
pub(super) fn random_budgets<'p>(
    dice: &mut Dice,
    names: impl Iterator<Item = &'p String> + Clone,
) -> Vec<Budget> {
    let apps = 0..dice.roll(3);
    let budget = |app| {
        let counted = names.clone().filter(|_| dice.one_in(6)).cloned().collect();
        (app, dice.roll(3) as i64, counted)
    };
    apps.map(budget).collect()
}

/// Leaves among flat groups, given the parent of each: groups of groups have no pods of their own.
pub(super) fn leaves(parents: &[Option<usize>]) -> Vec<usize> {
    (0..parents.len()).filter(|&group| parents.iter().all(|other| *other != Some(group))).collect()
}

/// Running work of some root groups, under budgets.
pub(super) fn running(roots: impl Iterator<Item = PodGroup>, budgets: &[Budget]) -> RunningWork {
    let mut running = RunningWork::new();
    for root in roots {
        running.set_group(&root).unwrap();
    }
    for (app, allowed, counted) in budgets {
        let selector = LabelSelector::label("app", format!("a{app}"));
        let mut budget = DisruptionBudget::new(format!("b{app}"), selector, *allowed);
        budget.disrupted_pods.clone_from(counted);
        running.set_budget(budget);
    }
    running
}
