//! The serialised form of plans.

use super::{Plan, PlanDomain, PlanMember, PlanMembers};
use crate::model::{ClaimAllocation, GroupPolicy, Pod, PodGroup, VolumeBindings, ZoneShare};
use crate::state::columns::{NodeSpec, NodeSpecs};
use crate::state::devices::Devices;
use crate::state::journal::Moment;
use crate::state::roster::Roster;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group>,
    /// The short form of one group, of which one pod counts: read in place of `groups`.
    #[serde(default, skip_serializing)]
    namespace: String,
    #[serde(default, skip_serializing)]
    name: String,
    assignments: Vec<Line>,
    domains: Vec<PlanDomain>,
}

/// Members that a group of the tree must have for the plan to hold, parents first.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    namespace: String,
    name: String,
    /// The place of the group it is in; of the first, its own.
    parent: u32,
    /// The least that counts, with what runs; 0 where the plan counts by itself.
    min_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_pods: Option<u32>,
    /// How many of its own pods the plan places.
    planned: u32,
    /// Whether it is to stay in the domain of the sibling it leads, running members included.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    leader: bool,
}

#[derive(Serialize, Deserialize)]
struct Line {
    pod: Pod,
    node: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    devices: Vec<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volumes: Option<VolumeBindings>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allocations: Vec<ClaimAllocation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    zones: Vec<ZoneShare>,
    /// The place of the pod's group.
    #[serde(default)]
    group: u32,
}

fn enter(group: &PodGroup, parent: u32, minima: bool, groups: &mut Vec<Group>) {
    let own = groups.len() as u32;
    groups.push(Group {
        namespace: group.namespace.clone(),
        name: group.name.clone(),
        parent,
        min_count: if minima { group.policy.minimum() } else { 0 },
        min_pods: group.min_pods.filter(|_| minima),
        planned: 0,
        leader: group.leader && minima,
    });
    for inner in &group.groups {
        enter(inner, own, minima, groups);
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let group = self.roster.group();
        let mut groups = Vec::new();
        enter(group, 0, self.minima, &mut groups);
        let planned = match &*self.planned {
            [] => self.members_by_group(),
            planned => planned.into(),
        };
        for (group, planned) in groups.iter_mut().zip(planned) {
            group.planned = planned;
        }
        let firsts = self.first_members();
        let lines = self.assignments().zip(self.members.iter()).map(|(assignment, member)| Line {
            pod: assignment.pod().clone(),
            node: assignment.node().into(),
            devices: assignment.devices().to_vec(),
            volumes: assignment.volumes().cloned(),
            allocations: assignment.allocations().to_vec(),
            zones: assignment.zone_shares().to_vec(),
            group: Plan::group_place(&firsts, member.member) as u32,
        });
        let (namespace, name) = Default::default();
        let (assignments, domains) = (lines.collect(), self.domains.clone());
        Data { groups, namespace, name, assignments, domains }.serialize(serializer)
    }
}

/// A tree of groups without pods out of a list, parents first.
struct Tree(Vec<PodGroup>);

impl Tree {
    /// Puts the groups of a list into their parents, whose places come with them.
    fn fold(mut self, parents: &[u32]) -> PodGroup {
        for parent in parents.iter().skip(1).rev() {
            let Some(mut inner) = self.0.pop() else { break };
            inner.groups.reverse();
            if let Some(parent) = self.0.get_mut(*parent as usize) {
                parent.groups.push(inner);
            }
        }
        let mut root = self.0.pop().unwrap_or_default();
        root.groups.reverse();
        root
    }
}

/// Whether every group stands after its parent and the groups inside those before it, and none
/// is nested too deeply.
fn is_tree(groups: &[Group]) -> bool {
    let mut open: Vec<u32> = Vec::new();
    groups.iter().enumerate().all(|(place, group)| {
        if place > 0 {
            while open.last().is_some_and(|last| *last != group.parent) {
                open.pop();
            }
        }
        let inside = !open.is_empty() || place == 0;
        open.push(place as u32);
        inside && open.len() <= PodGroup::MAX_DEPTH
    })
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Plan, D::Error> {
        let mut data = Data::deserialize(deserializer)?;
        if data.groups.is_empty() && !data.name.is_empty() {
            let (namespace, name) = (data.namespace, data.name);
            let planned = data.assignments.len() as u32;
            let group = Group { namespace, name, planned, min_count: 1, ..Group::default() };
            data.groups.push(group);
        }
        if data.groups.is_empty() || !is_tree(&data.groups) {
            return Err(D::Error::custom("the groups of the plan are no tree, parents first"));
        }
        // Some may be missing, which is for the commit to say.
        let planned = data.groups.iter().map(|group| group.planned as usize);
        let planned = planned.fold(0, usize::saturating_add);
        if !data.domains.iter().all(|domain| domain.is_of(planned)) {
            return Err(D::Error::custom("a domain of the plan is none of its members"));
        }
        let parents: Vec<u32> = data.groups.iter().map(|group| group.parent).collect();
        let planned = data.groups.iter().map(|group| group.planned).collect();
        let bare = data.groups.into_iter().map(|group| PodGroup {
            policy: GroupPolicy::Gang { min_count: group.min_count },
            min_pods: group.min_pods,
            leader: group.leader,
            ..PodGroup::basic(group.name).in_namespace(group.namespace)
        });
        let mut tree = Tree(bare.collect());
        let mut nodes = NodeSpecs::default();
        let mut places = Vec::with_capacity(data.assignments.len());
        let (mut devices, mut volumes) = (Vec::new(), Vec::new());
        for (row, line) in data.assignments.into_iter().enumerate() {
            let Some(group) = tree.0.get_mut(line.group as usize) else {
                return Err(D::Error::custom("a pod of the plan is in no group of it"));
            };
            places.push((line.group, group.pods.len() as u32));
            group.pods.push(line.pod);
            let node = NodeSpec { name: line.node.into(), ..NodeSpec::default() };
            nodes.push(Some(Arc::new(node)));
            let held = Devices::new(line.devices, line.allocations, line.zones);
            if held.is_some() {
                devices.resize(row, None);
                devices.push(held);
            }
            if let Some(bindings) = line.volumes {
                volumes.resize(row, None);
                volumes.push(Some(bindings.into()));
            }
        }
        let mut plan = Plan {
            roster: Arc::new(Roster::new(tree.fold(&parents))),
            nodes: Arc::new(nodes),
            members: PlanMembers::default(),
            devices,
            volumes,
            domains: data.domains,
            minima: true,
            planned,
            basis: Moment::default(),
        };
        let firsts = plan.first_members();
        let member = |(row, (group, at)): (usize, (u32, u32))| PlanMember {
            row: row as u32,
            member: firsts[group as usize] + at,
        };
        plan.members = places.into_iter().enumerate().map(member).collect();
        Ok(plan)
    }
}
