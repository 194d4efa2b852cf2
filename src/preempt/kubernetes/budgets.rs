//! The split of victims by the disruption budgets that they would break.

use alloc::vec::Vec;

use crate::preempt::{DisruptionBudget, RunningWork};
use crate::state::PodView;

/// Disruptions that budgets still allow, as victims are charged to them one after another.
#[derive(Debug)]
pub(super) struct Charges<'a> {
    /// Each with what is left of it.
    budgets: Vec<(&'a DisruptionBudget, i64)>,
}

impl<'a> Charges<'a> {
    pub(super) fn new(running: &'a RunningWork) -> Charges<'a> {
        let budgets = running.budgets().map(|budget| (budget, budget.disruptions_allowed));
        Charges { budgets: budgets.collect() }
    }

    /// Charges a pod to every budget that it is in. Returns whether one of them is overdrawn.
    ///
    /// Source: kube-scheduler, `plugins/defaultpreemption/default_preemption.go`
    /// (`filterPodsWithPDBViolation`).
    pub(super) fn charge(&mut self, pod: PodView<'_>) -> bool {
        let mut violating = false;
        for (budget, allowed) in &mut self.budgets {
            if budget.is_charged_for(pod) {
                *allowed = allowed.saturating_sub(1);
                violating |= *allowed < 0;
            }
        }
        violating
    }

    /// Charges the pods of a unit in order, up to the first budget that one of them overdraws.
    /// Returns whether there is one.
    ///
    /// Source: kube-scheduler, `framework/preemption/podgrouppreemption.go`
    /// (`filterVictimsWithPDBViolation`).
    pub(super) fn charge_unit<'p>(&mut self, mut pods: impl Iterator<Item = PodView<'p>>) -> bool {
        pods.any(|pod| {
            self.budgets.iter_mut().any(|(budget, allowed)| {
                let charged = budget.is_charged_for(pod);
                if charged {
                    *allowed = allowed.saturating_sub(1);
                }
                charged && *allowed < 0
            })
        })
    }
}
