//! Workload-aware preemption: for a group as a whole.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::budgets::Charges;
use super::group_cycle::GroupCycle;
use super::node_infos::NodeInfos;
use super::snapshot::PreemptionSnapshot;
use super::units::{Unit, units};
use super::victims::{PodVictim, deleted};
use crate::model::{PodGroup, PreemptionPolicy};
use crate::place::PlaceError;
use crate::preempt::EvictedPod;
use crate::state::StateError;

/// The answer of workload-aware preemption for a group that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupPreemption {
    refusal: Option<GroupRefusal>,
    victims: Vec<PodVictim>,
    violations: u32,
    nominated: Vec<(usize, String)>,
}

/// Why preemption does not help a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupRefusal {
    /// The group has a topology constraint: kube-scheduler does not preempt for such groups.
    TopologyConstraint,
    /// A member's preemption policy is `Never`.
    PreemptionPolicyNever,
    /// No unit has a lower priority.
    NoVictims,
    /// The group does not fit without all units of lower priority either.
    DoesNotFit,
}

impl GroupPreemption {
    /// Why it does not help; `None` if it does.
    pub fn refusal(&self) -> Option<GroupRefusal> {
        self.refusal
    }

    /// The pods to evict, whole units together, the most important unit first.
    pub fn victims(&self) -> &[PodVictim] {
        &self.victims
    }

    /// How many units are taken against a budget. Nothing depends on it.
    pub fn pdb_violations(&self) -> u32 {
        self.violations
    }

    /// The victims to evict, by namespace and name.
    pub fn deleted(&self) -> Vec<&EvictedPod> {
        deleted(&self.victims)
    }

    /// The members, by index, that are nominated afterwards, in the order of trying: those that
    /// fitted in the attempt that failed, to the nodes that they had there. Members for which room
    /// is made are not among them.
    pub fn nominated(&self) -> &[(usize, String)] {
        &self.nominated
    }
}

/// Chooses the units that leave the cluster for a group that does not fit. All units of lower
/// priority go. Then units come back without which the group fits as well: units in budgets first,
/// and the most important first. For every unit the whole group is placed anew.
///
/// Units are pods, and groups of [`DisruptionMode::All`](crate::model::DisruptionMode::All) that
/// the snapshot's [`RunningWork`](crate::preempt::RunningWork) knows. The preemptor's priority is the group's, not its
/// members'. A group that fits is answered like one that does not: ask [`schedule_group`] first.
///
/// O(units × members × nodes × filters).
///
/// # Errors
/// The group is unsound, holds groups, or has a member that is bound; or a sum overflows.
///
/// Source: kube-scheduler, `framework/preemption/podgrouppreemption.go` (`Preempt`,
/// `selectVictimsOnDomain`) and `schedule_one_podgroup.go` (`runWorkloadAwarePreemption`).
///
/// [`schedule_group`]: super::schedule_group
pub fn preempt_group(
    snapshot: &PreemptionSnapshot<'_>,
    group: &PodGroup,
) -> Result<GroupPreemption, PlaceError> {
    let cycle = GroupCycle::new(snapshot, group)?;
    let refused = |refusal| GroupPreemption { refusal: Some(refusal), ..Default::default() };
    if group.topology.require.is_some() {
        return Ok(refused(GroupRefusal::TopologyConstraint));
    }
    if group.pods.iter().any(|pod| pod.preemption_policy == PreemptionPolicy::Never) {
        return Ok(refused(GroupRefusal::PreemptionPolicyNever));
    }
    let mut potential = units(snapshot);
    potential.retain(|unit| unit.priority < group.priority);
    if potential.is_empty() {
        return Ok(refused(GroupRefusal::NoVictims));
    }
    let rows = snapshot.rows();
    let mut infos = NodeInfos::new(&snapshot.cluster);
    let first = cycle.run_plain(&mut infos, &rows)?;
    for unit in &potential {
        remove(&mut infos, unit)?;
    }
    if !cycle.run_plain(&mut infos, &rows)?.feasible {
        return Ok(refused(GroupRefusal::DoesNotFit));
    }
    potential.sort_by_key(|unit| unit.importance(snapshot));
    let mut charges = Charges::new(snapshot.running);
    let (violating, others): (Vec<Unit>, Vec<Unit>) = potential.into_iter().partition(|unit| {
        charges.charge_unit(unit.pods.iter().filter_map(|info| info.view(&snapshot.cluster)))
    });
    let count = violating.len();
    let mut taken: Vec<Unit> = Vec::new();
    let mut violations = 0;
    for (number, unit) in violating.into_iter().chain(others).enumerate() {
        for info in &unit.pods {
            infos.add_pod(info)?;
        }
        if !cycle.run_plain(&mut infos, &rows)?.feasible {
            remove(&mut infos, &unit)?;
            violations += u32::from(number < count);
            taken.push(unit);
        }
    }
    taken.sort_by_key(|unit| unit.importance(snapshot));
    let victim = |info| PodVictim::new(&snapshot.cluster, info);
    let name = |row| snapshot.cluster.view(row).map_or("", |node| node.name()).to_string();
    Ok(GroupPreemption {
        refusal: None,
        victims: taken.iter().flat_map(|unit| &unit.pods).map(victim).collect(),
        violations,
        nominated: first.rows.into_iter().map(|(index, row)| (index, name(row))).collect(),
    })
}

fn remove(infos: &mut NodeInfos, unit: &Unit) -> Result<(), StateError> {
    unit.pods.iter().try_for_each(|info| infos.remove_pod(info))
}
