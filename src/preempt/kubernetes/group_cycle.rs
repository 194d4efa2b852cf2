//! The scheduling cycle of a pod group: its members one after another.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::node_infos::NodeInfos;
use super::nominator::Nominator;
use super::schedule::find_fit;
use super::snapshot::PreemptionSnapshot;
use crate::framework::device_fit::choose_for;
use crate::model::{Pod, PodGroup};
use crate::place::PlaceError;
use crate::place::topology::pinned::running;
use crate::state::{Cluster, NodeView, PodView, Row, StateError};

/// The outcome of trying a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupAttempt {
    feasible: bool,
    placed: Vec<(usize, String)>,
}

impl GroupAttempt {
    /// Whether the group can be scheduled: a member was placed, and with those that run there are
    /// as many as the group needs.
    pub fn is_feasible(&self) -> bool {
        self.feasible
    }

    /// The members placed, by their index in the group, with the names of their nodes, in the order
    /// in which they were tried. Members that did not fit are left out, also of a group that is not
    /// feasible.
    pub fn placed(&self) -> &[(usize, String)] {
        &self.placed
    }
}

/// A cycle under way: what it works on, and how members are tried.
pub(super) struct GroupCycle<'a> {
    pub(super) snapshot: &'a PreemptionSnapshot<'a>,
    pub(super) group: &'a PodGroup,
    /// The members, in the order in which they are tried.
    pub(super) members: Vec<(usize, &'a Pod)>,
    nominator: Nominator<'a>,
    /// How many members run.
    bound: usize,
}

/// Placements of a cycle.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// By index of the member, in the order of placing.
    pub(super) rows: Vec<(usize, Row)>,
    pub(super) feasible: bool,
}

impl<'a> GroupCycle<'a> {
    /// Cycles of a group.
    ///
    /// # Errors
    /// The group is unsound, asks what kube-scheduler does not know, or a member is bound already.
    pub(super) fn new(
        snapshot: &'a PreemptionSnapshot<'a>,
        group: &'a PodGroup,
    ) -> Result<GroupCycle<'a>, PlaceError> {
        group.check()?;
        if !group.groups.is_empty() {
            let what = "groups inside a group";
            return Err(PlaceError::Unsupported { group: group.full_name(), what });
        }
        let bound = |pod: &&Pod| snapshot.cluster.pod(pod.namespace(), &pod.name).is_some();
        if let Some(pod) = group.pods.iter().find(bound) {
            return Err(PlaceError::AlreadyBound(pod.full_name()));
        }
        let mut members: Vec<(usize, &Pod)> = group.pods.iter().enumerate().collect();
        members.retain(|(_, pod)| pod.scheduling_gates.is_empty());
        members.sort_by_key(|(_, pod)| Reverse(pod.priority));
        let (nominator, bound) = (Nominator::new(snapshot), running(&snapshot.cluster, group));
        Ok(GroupCycle { snapshot, group, members, nominator, bound })
    }

    /// Tries all members in order, on a working copy that is left as it was. A member that is
    /// placed is no longer nominated for those after it. `rescue` may name a row for a member that
    /// fits nowhere.
    pub(super) fn run(
        &self,
        infos: &mut NodeInfos,
        rows: &[Row],
        mut rescue: impl FnMut(
            &mut NodeInfos,
            &Nominator<'_>,
            usize,
            &[Row],
        ) -> Result<Option<Row>, StateError>,
    ) -> Result<Placed, StateError> {
        let before = infos.changes();
        let mut nominator = self.nominator.clone();
        let mut placed = Placed::default();
        for &(index, pod) in &self.members {
            let what = (pod, Some(self.group));
            let fit = find_fit(self.snapshot, infos, &nominator, what, rows)?;
            let row = if fit.chosen.is_some() {
                fit.chosen
            } else {
                let resolvable: Vec<Row> = fit.resolvable().collect();
                rescue(infos, &nominator, index, &resolvable)?
            };
            let Some(row) = row else { continue };
            let devices = choose_for(self.snapshot.framework, infos.cluster(), pod.shape(), row);
            let devices = if fit.chosen.is_some() {
                let Ok(devices) = devices else { continue };
                devices
            } else {
                devices.unwrap_or_default()
            };
            infos.assume(pod, row, devices)?;
            nominator.delete(pod);
            placed.rows.push((index, row));
        }
        infos.forget(before)?;
        let minimum = self.group.policy.minimum() as usize;
        placed.feasible = !placed.rows.is_empty() && placed.rows.len() + self.bound >= minimum;
        Ok(placed)
    }

    /// [`GroupCycle::run`] without preemption.
    pub(super) fn run_plain(
        &self,
        infos: &mut NodeInfos,
        rows: &[Row],
    ) -> Result<Placed, StateError> {
        self.run(infos, rows, |_, _, _, _| Ok(None))
    }
}

impl Placed {
    fn named(self, cluster: &Cluster) -> GroupAttempt {
        let name = |row| cluster.view(row).map_or("", |node| node.name()).to_string();
        let placed = self.rows.into_iter().map(|(index, row)| (index, name(row)));
        GroupAttempt { feasible: self.feasible, placed: placed.collect() }
    }
}

/// Tries a group: members by priority, then in the order given, each where it fits best, visible to
/// those after it. A group that requires a level of the topology is tried in each domain of it. The
/// answer is that of the first feasible domain, in the order of their names, else of the last one.
///
/// O(members × nodes × filters) for each domain.
///
/// # Errors
/// The group is unsound, holds groups, or has a member that is bound; or a sum overflows.
///
/// Source: kube-scheduler, `schedule_one_podgroup.go` (`podGroupSchedulingDefaultAlgorithm`).
pub fn schedule_group(
    snapshot: &PreemptionSnapshot<'_>,
    group: &PodGroup,
) -> Result<GroupAttempt, PlaceError> {
    let cycle = GroupCycle::new(snapshot, group)?;
    let mut infos = NodeInfos::new(&snapshot.cluster);
    let mut answer = GroupAttempt::default();
    for rows in domains(snapshot, group) {
        answer = cycle.run_plain(&mut infos, &rows)?.named(&snapshot.cluster);
        if answer.feasible {
            break;
        }
    }
    Ok(answer)
}

/// The rows of each domain that a group may go to: that of members that run, if any do.
fn domains(snapshot: &PreemptionSnapshot<'_>, group: &PodGroup) -> Vec<Vec<Row>> {
    let Some(key) = &group.topology.require else { return alloc::vec![snapshot.rows()] };
    let mut domains: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for node in snapshot.cluster.nodes() {
        if let Some(value) = node.label(key) {
            domains.entry(value).or_default().push(node.row());
        }
    }
    let home = |node: NodeView<'_>| {
        domains.retain(|value, _| node.has_label(key, value));
    };
    snapshot.cluster.pods_of(group).filter_map(PodView::node).for_each(home);
    domains.into_values().collect()
}
