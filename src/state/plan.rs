//! Plans: where every pod goes, as data.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::columns::{NodeSpec, NodeSpecs};
use super::ids::Row;
use super::journal::Moment;
use super::pods::Devices;
use super::roster::Roster;
use crate::model::Pod;

/// Where the members of a group go, and what the decision rested on.
///
/// A plan is plain data: it names pods and nodes, compares, and serialises. It stays what it is
/// while the cluster moves on; [`Cluster::commit`](crate::Cluster::commit) finds out whether it
/// still holds. A kept plan keeps the descriptions of all nodes (names, labels, taints), not of its
/// own alone, as they were; the cluster shares what has not changed since.
///
/// Two plans are equal if they place the same pods on the same nodes and devices, in the same
/// order, within the same domains.
#[derive(Clone, Default)]
pub struct Plan {
    pub(crate) roster: Arc<Roster>,
    /// The nodes as they were found.
    pub(crate) nodes: Arc<NodeSpecs>,
    pub(crate) members: Vec<PlanMember>,
    /// Devices chosen for the members, up to the last that has any.
    pub(crate) devices: Vec<Option<Devices>>,
    pub(crate) domains: Vec<PlanDomain>,
    /// When the plan was made.
    pub(crate) basis: Moment,
}

/// A member of the roster and where it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanMember {
    /// The row of its node among those of the plan.
    pub(crate) row: u32,
    /// Its place in the roster.
    pub(crate) member: u32,
}

/// A group of the tree and the domain it was confined to: the nodes with a label, or an island.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct PlanDomain {
    /// The group's full name.
    pub(crate) group: String,
    /// The node label key; for an island, the name of its node.
    pub(crate) key: String,
    /// Its value on all nodes of the group; for an island, its name.
    pub(crate) value: String,
    /// Whether it is an island.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
    pub(crate) island: bool,
    /// The members of the plan that it holds: a range of indexes.
    pub(crate) first: usize,
    pub(crate) end: usize,
}

/// One pod of a [`Plan`] and where it goes.
#[derive(Clone, Copy)]
pub struct Assignment<'a> {
    plan: &'a Plan,
    pod: &'a Pod,
    /// Its place in the plan, and its row there.
    at: usize,
    row: Row,
}

impl<'a> Assignment<'a> {
    /// The pod.
    pub fn pod(self) -> &'a Pod {
        self.pod
    }

    /// The name of its node.
    pub fn node(self) -> &'a str {
        self.spec().map_or("", |spec| &spec.name)
    }

    /// The devices chosen for it, one list a device request: indexes of the node's devices.
    pub fn devices(self) -> &'a [Vec<u32>] {
        self.held().map_or(&[], |devices| devices)
    }

    pub(crate) fn held(self) -> Option<&'a Devices> {
        self.plan.devices.get(self.at)?.as_ref()
    }

    /// Its row, where the nodes are still those of the plan.
    pub(crate) fn row(self) -> Row {
        self.row
    }

    /// Its node as it was found.
    pub(crate) fn spec(self) -> Option<&'a Arc<NodeSpec>> {
        self.plan.nodes.get(self.row)?.as_ref()
    }
}

impl Plan {
    /// The full name of the group, `namespace/name`.
    pub fn group(&self) -> String {
        self.roster.group().full_name()
    }

    /// The pods and their nodes, in the order in which they were placed.
    pub fn assignments(&self) -> impl ExactSizeIterator<Item = Assignment<'_>> {
        self.assignments_in(0, self.members.len())
    }

    /// The assignments of a range of members.
    pub(crate) fn assignments_in(
        &self,
        first: usize,
        end: usize,
    ) -> impl ExactSizeIterator<Item = Assignment<'_>> {
        let mut pods = self.roster.pods();
        let members = self.members.get(first..end).unwrap_or(&[]);
        members.iter().enumerate().map(move |(at, member)| Assignment {
            plan: self,
            pod: pods.pod(member.member),
            at: first + at,
            row: member.row as Row,
        })
    }

    /// The domains that groups of the tree were confined to: full name of the group, node label
    /// key, value.
    pub fn domains(&self) -> impl ExactSizeIterator<Item = (&str, &str, &str)> {
        let levels: Vec<&PlanDomain> =
            self.domains.iter().filter(|domain| !domain.island).collect();
        levels.into_iter().map(|domain| (&*domain.group, &*domain.key, &*domain.value))
    }

    /// The islands that groups of the tree were confined to: full name of the group, node, island.
    pub fn islands(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let islands = self.domains.iter().filter(|domain| domain.island);
        islands.map(|domain| (&*domain.group, &*domain.key, &*domain.value))
    }

    /// How many pods are placed.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether no pod is placed.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// How many pods go to each node, in order of node name.
    pub fn pods_per_node(&self) -> Vec<(&str, usize)> {
        let mut counts = alloc::collections::BTreeMap::<&str, usize>::new();
        for assignment in self.assignments() {
            *counts.entry(assignment.node()).or_default() += 1;
        }
        counts.into_iter().collect()
    }
}

impl Plan {
    /// Leaves out the pods of which this does not hold.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Pod) -> bool) {
        let kept: Vec<bool> = self.assignments().map(|assignment| keep(assignment.pod())).collect();
        let before = |end: usize| kept.iter().take(end).filter(|kept| **kept).count();
        for domain in &mut self.domains {
            (domain.first, domain.end) = (before(domain.first), before(domain.end));
        }
        let mut kept_members = kept.iter();
        self.members.retain(|_| kept_members.next().is_some_and(|kept| *kept));
        let mut kept_devices = kept.iter();
        self.devices.retain(|_| kept_devices.next().is_some_and(|kept| *kept));
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("group", &self.group())
            .field("assignments", &self.assignments().collect::<Vec<_>>())
            .field("domains", &self.domains)
            .field("basis", &self.basis)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Assignment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment")
            .field("pod", &self.pod().name)
            .field("node", &self.node())
            .field("devices", &self.devices())
            .finish()
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Plan) -> bool {
        self.len() == other.len()
            && self.domains == other.domains
            && self.group() == other.group()
            && self.assignments().zip(other.assignments()).all(|(own, other)| {
                own.node() == other.node()
                    && own.devices() == other.devices()
                    && own.pod() == other.pod()
            })
    }
}

impl Eq for Plan {}

#[cfg(feature = "serde")]
mod codec {
    use super::{Plan, PlanDomain, PlanMember};
    use crate::model::{Pod, PodGroup};
    use crate::state::columns::{NodeSpec, NodeSpecs};
    use crate::state::journal::Moment;
    use crate::state::roster::Roster;
    use alloc::string::String;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        namespace: String,
        name: String,
        assignments: Vec<Line>,
        domains: Vec<PlanDomain>,
    }

    #[derive(Serialize, Deserialize)]
    struct Line {
        pod: Pod,
        node: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<Vec<u32>>,
    }

    impl Serialize for Plan {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let lines = self.assignments().map(|assignment| Line {
                pod: assignment.pod().clone(),
                node: assignment.node().into(),
                devices: assignment.devices().to_vec(),
            });
            let group = self.roster.group();
            Data {
                namespace: group.namespace.clone(),
                name: group.name.clone(),
                assignments: lines.collect(),
                domains: self.domains.clone(),
            }
            .serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Plan {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Plan, D::Error> {
            let data = Data::deserialize(deserializer)?;
            let mut group = PodGroup::basic(data.name).in_namespace(data.namespace);
            let mut nodes = NodeSpecs::default();
            let mut members = Vec::with_capacity(data.assignments.len());
            let mut devices = Vec::new();
            for (member, line) in data.assignments.into_iter().enumerate() {
                group.pods.push(line.pod);
                let node = NodeSpec { name: line.node.into(), ..NodeSpec::default() };
                nodes.push(Some(Arc::new(node)));
                members.push(PlanMember { row: member as u32, member: member as u32 });
                if !line.devices.is_empty() {
                    devices.resize(member, None);
                    devices.push(Some(line.devices.into()));
                }
            }
            Ok(Plan {
                roster: Arc::new(Roster::new(group)),
                nodes: Arc::new(nodes),
                members,
                devices,
                domains: data.domains,
                basis: Moment::default(),
            })
        }
    }
}
