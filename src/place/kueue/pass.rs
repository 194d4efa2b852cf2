//! One placement of a list of pod sets, in which later ones see earlier ones.
//!
//! Source: Kueue's `tas_flavor_snapshot.go`.

use alloc::vec::Vec;

use super::balanced::balance;
use super::counts::{Question, count};
use super::descend::{Placement, descend};
use super::filter::Filter;
use super::input::{KueueFlavor, KueuePodSet, SliceLayer};
use super::outcome::{KueueAssignment, KueueOutcome, PodSetOutcome};
use super::request::Plan;
use super::select::choose;
use super::tree::{Free, Tree};
use crate::framework::KueueGates;
use crate::place::failure::Failure;

pub(crate) struct Pass<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) flavor: &'a KueueFlavor,
    pub(crate) gates: KueueGates,
    pub(crate) free: Free,
}

/// Pods to find leaves for.
pub(crate) struct Request<'a> {
    pub(crate) pod_set: &'a KueuePodSet,
    pub(crate) count: u32,
    pub(crate) slices: &'a [SliceLayer],
    pub(crate) leader: Option<&'a KueuePodSet>,
    pub(crate) within: Option<usize>,
}

impl Pass<'_> {
    pub(crate) fn all(mut self, pod_sets: &[KueuePodSet]) -> KueueOutcome {
        let mut outcome = KueueOutcome::default();
        for unit in units(pod_sets) {
            let outcomes = self.unit(&unit);
            let failed = outcomes.iter().any(|one| one.result.is_err());
            outcome.pod_sets.extend(outcomes);
            if failed {
                break;
            }
        }
        outcome
    }

    pub(crate) fn unit(&mut self, unit: &[&KueuePodSet]) -> Vec<PodSetOutcome> {
        if unit.iter().any(|pod_set| pod_set.replace_node.is_some()) {
            return self.replace_all(unit);
        }
        let (workers, leader) = match *unit {
            [workers] => (workers, None),
            [first, second] if second.count > first.count => (second, Some(first)),
            [first, second] => (first, Some(second)),
            _ => return wrong_shape(unit),
        };
        if leader.is_some_and(|leader| leader.count != 1) {
            return wrong_shape(unit);
        }
        if let Some(outcomes) = self.elastic(workers, leader) {
            return outcomes;
        }
        let request = Request {
            pod_set: workers,
            count: workers.count,
            slices: &workers.topology.slices,
            leader,
            within: None,
        };
        let placed = self.place(&request);
        let outcome = |pod_set: &KueuePodSet| {
            let is_leader = leader.is_some_and(|leader| core::ptr::eq(leader, pod_set));
            let result = match &placed {
                Ok((workers, leader)) => Ok(if is_leader { leader } else { workers }.clone()),
                Err(failure) => Err(failure.clone()),
            };
            PodSetOutcome { name: pod_set.name.clone(), result }
        };
        let outcomes: Vec<_> = unit.iter().map(|pod_set| outcome(pod_set)).collect();
        for (pod_set, one) in unit.iter().zip(&outcomes) {
            if let Ok(assignment) = &one.result {
                self.charge(pod_set, assignment);
            }
        }
        outcomes
    }

    fn replace_all(&mut self, unit: &[&KueuePodSet]) -> Vec<PodSetOutcome> {
        let mut outcomes = Vec::new();
        for pod_set in unit {
            let Some(previous) = &pod_set.previous else { continue };
            let result = match &pod_set.replace_node {
                Some(node) => self.replace(pod_set, previous, node),
                None => Ok(previous.clone()),
            };
            let failed = result.is_err();
            outcomes.push(PodSetOutcome { name: pod_set.name.clone(), result });
            if failed {
                break;
            }
        }
        outcomes
    }

    /// Leaves for the workers and for the leader.
    pub(crate) fn place(
        &self,
        request: &Request<'_>,
    ) -> Result<(KueueAssignment, KueueAssignment), Failure> {
        let &Request { pod_set, count: pods, slices, leader, within } = request;
        let plan = Plan::new(self.tree, self.gates, pod_set, slices, pods, leader.is_some())?;
        let filter = Filter::new(pod_set, self.flavor, self.gates)?;
        let worker = self.tree.demand(&pod_set.requests);
        let leader = leader.map(|leader| self.tree.demand(&leader.requests));
        let question =
            Question { worker: &worker, leader: leader.as_ref(), filter: &filter, within };
        let (mut counts, survey) = count(self.tree, &self.free, &question, &plan);

        if self.gates.balanced_placement && !plan.required && !plan.unconstrained {
            let even = balance(self.tree, &counts, &plan).and_then(|mut even| {
                let (level, domains) = (even.level, even.domains);
                let placement = descend(self.tree, &mut even.counts, &plan, level, domains, true);
                self.assignments(&plan, &placement).ok()
            });
            if let Some(assignments) = even {
                return Ok(assignments);
            }
        }
        let (level, domains) = choose(self.tree, &counts, &plan, &survey)?;
        let placement = descend(self.tree, &mut counts, &plan, level, domains, false);
        self.assignments(&plan, &placement)
    }

    fn assignments(
        &self,
        plan: &Plan,
        placement: &Placement,
    ) -> Result<(KueueAssignment, KueueAssignment), Failure> {
        let workers: i64 = placement.workers.values().sum();
        let leaders: i64 = placement.leader.values().sum();
        if (workers, leaders) != (plan.count, plan.leaders) {
            let (placed, of) = ((workers + leaders) as u64, (plan.count + plan.leaders) as u64);
            return Err(Failure::Incomplete { placed, of });
        }
        Ok((self.tree.assignment(&placement.workers), self.tree.assignment(&placement.leader)))
    }

    /// Takes the pods of an assignment out of the free capacity.
    pub(crate) fn charge(&mut self, pod_set: &KueuePodSet, assignment: &KueueAssignment) {
        let demand = self.tree.demand(&pod_set.requests);
        for domain in &assignment.domains {
            if let Some(leaf) = self.tree.leaf(&domain.values) {
                demand.take(&mut self.free[self.tree.row(leaf)], i64::from(domain.count));
            }
        }
    }
}

/// Pod sets that are placed together, in the order of their first members.
fn units(pod_sets: &[KueuePodSet]) -> Vec<Vec<&KueuePodSet>> {
    let mut units: Vec<Vec<&KueuePodSet>> = Vec::new();
    for pod_set in pod_sets {
        let same = |unit: &&mut Vec<&KueuePodSet>| {
            pod_set.group.is_some() && unit.first().is_some_and(|one| one.group == pod_set.group)
        };
        match units.iter_mut().find(same) {
            Some(unit) => unit.push(pod_set),
            None => units.push(Vec::from([pod_set])),
        }
    }
    units
}

fn wrong_shape(unit: &[&KueuePodSet]) -> Vec<PodSetOutcome> {
    let group = unit.iter().find_map(|pod_set| pod_set.group.clone()).unwrap_or_default();
    let failed = |pod_set: &&KueuePodSet| PodSetOutcome {
        name: pod_set.name.clone(),
        result: Err(Failure::GroupShape { group: group.clone() }),
    };
    unit.iter().map(failed).collect()
}
