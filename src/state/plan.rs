//! Plans: where every pod goes, as data.

#[cfg(feature = "serde")]
mod codec;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use smallvec::SmallVec;

use super::cluster::Cluster;
use super::columns::{NodeSpec, NodeSpecs};
use super::devices::Devices;
use super::journal::Moment;
use super::roster::Roster;
use super::view::NodeView;
use crate::base::ObjectName;
use crate::base::Row;
use crate::model::{ClaimAllocation, Pod, PodGroup, PodShape, VolumeBindings, ZoneShare};

/// Where the members of a group go, and what the decision rested on.
///
/// A plan is plain data: it names pods and nodes, compares, and serialises. It stays what it is
/// while the cluster moves on; [`Cluster::commit`](crate::Cluster::commit) finds out whether it
/// still holds. A kept plan keeps the descriptions of all nodes (names, labels, taints), not of its
/// own alone, as they were; the cluster shares what has not changed since.
///
/// Two plans are equal if they place the same pods on the same nodes, devices and volumes, in the
/// same order, within the same domains.
#[derive(Clone, Default)]
pub struct Plan {
    pub(crate) roster: Arc<Roster>,
    /// The nodes as they were found.
    pub(crate) nodes: Arc<NodeSpecs>,
    pub(crate) members: PlanMembers,
    /// Devices chosen for the members, up to the last that has any.
    pub(crate) devices: Vec<Option<Devices>>,
    /// Volumes of the members' claims, up to the last member that has unbound ones.
    pub(crate) volumes: Vec<Option<Arc<VolumeBindings>>>,
    pub(crate) domains: Vec<PlanDomain>,
    /// Whether minima are to be met, with members that run. Else the plan counts by itself.
    pub(crate) minima: bool,
    /// How many members a plan from elsewhere had of each group of the tree, parents first; empty
    /// of a plan made here.
    pub(crate) planned: Vec<u32>,
    /// When the plan was made.
    pub(crate) basis: Moment,
}

/// The members of a plan, in place where there are one or two. They are copied as one block.
#[derive(Debug, Default)]
pub(crate) struct PlanMembers(SmallVec<[PlanMember; 2]>);

impl Clone for PlanMembers {
    fn clone(&self) -> PlanMembers {
        PlanMembers(SmallVec::from_slice(&self.0))
    }
}

impl PlanMembers {
    pub(crate) fn with_capacity(count: usize) -> PlanMembers {
        PlanMembers(SmallVec::with_capacity(count))
    }
}

impl FromIterator<PlanMember> for PlanMembers {
    fn from_iter<I: IntoIterator<Item = PlanMember>>(members: I) -> PlanMembers {
        PlanMembers(members.into_iter().collect())
    }
}

impl Deref for PlanMembers {
    type Target = SmallVec<[PlanMember; 2]>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for PlanMembers {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// A member of the roster and where it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanMember {
    /// The row of its node among those of the plan.
    pub(crate) row: u32,
    /// Its place in the roster.
    pub(crate) member: u32,
}

/// The domain that a group of the tree was confined to, in the sense of the plan's strategy; or the
/// island.
///
/// A domain is the nodes that have all labels of its path. The path is the value of its key alone,
/// or, by strategies that know levels, the values of all levels from the coarsest down to its own.
/// Its text is stable: `zone=a/rack=1`, with `-` for a level whose label the nodes lack; `n1/left`
/// of an island.
///
/// ```
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang};
///
/// let mut cluster = Cluster::builder().levels(["zone", "rack"]).build()?;
/// cluster.add_node(Node::new("n1").capacity("cpu", 2).label("zone", "a").label("rack", "1"))?;
/// let gang = PodGroup::of("g", 2, Pod::new().request("cpu", 1)).require("rack");
/// let outcome = place_gang(&cluster, &Framework::default(), &gang)?;
/// let domain = &outcome.plan().unwrap().confinements()[0];
/// assert_eq!((domain.group(), domain.key()), ("default/g", "rack"));
/// assert_eq!(domain.to_string(), "zone=a/rack=1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlanDomain {
    /// The group's full name.
    pub(crate) group: String,
    /// The labels that all nodes of the domain have, its own last; for an island, the name of its
    /// node and its own.
    pub(crate) path: Vec<PlanLabel>,
    /// Whether it is an island.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
    pub(crate) island: bool,
    /// How many labels of the path, from the first, members that run are held to.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) required: usize,
    /// The members of the plan that it holds: a range of indexes.
    pub(crate) first: usize,
    pub(crate) end: usize,
}

/// A label of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct PlanLabel {
    pub(crate) key: String,
    /// `None` where nodes lack it.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub(crate) value: Option<String>,
}

impl PlanLabel {
    /// Whether a node has the label. A node without a hostname label is told by its name.
    fn is_of(&self, node: NodeView<'_>) -> bool {
        let host = || (self.key == "kubernetes.io/hostname").then(|| node.name());
        match node.label(&self.key) {
            None if self.value.is_some() => self.value.as_deref() == host(),
            label => label == self.value.as_deref(),
        }
    }
}

impl PlanDomain {
    /// The full name of the group; a slice has its number after it: `default/trainer[3]`.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The node label key; for an island, the name of its node.
    pub fn key(&self) -> &str {
        self.own().map_or("", |label| &label.key)
    }

    /// The value of the key on all nodes of the group; for an island, its name.
    pub fn value(&self) -> &str {
        self.own().and_then(|label| label.value.as_deref()).unwrap_or_default()
    }

    /// The labels that tell the domain apart, coarsest first, its own last: keys and values, `None`
    /// where the nodes lack the label. Empty for an island.
    pub fn path(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let labels = if self.island { &[][..] } else { &self.path };
        labels.iter().map(|label| (&*label.key, label.value.as_deref()))
    }

    fn own(&self) -> Option<&PlanLabel> {
        self.path.last()
    }

    /// Whether it is a domain of members of a plan of so many.
    #[cfg(feature = "serde")]
    fn is_of(&self, members: usize) -> bool {
        let named = self.own().is_some_and(|own| own.value.is_some());
        let range = self.first <= self.end && self.end <= members;
        named && range && self.required <= self.path.len()
    }

    /// Whether a node is in the domain, or has the island.
    pub(crate) fn holds(&self, node: NodeView<'_>) -> bool {
        self.holds_labels(node, self.path.len())
    }

    /// Whether a node is in the required part of the domain; any is if none is required.
    pub(crate) fn requires(&self, node: NodeView<'_>) -> bool {
        self.holds_labels(node, self.required.min(self.path.len()))
    }

    fn holds_labels(&self, node: NodeView<'_>, labels: usize) -> bool {
        let mut labels = self.path[..labels].iter();
        if self.island {
            return labels.all(|label| label.key == node.name());
        }
        labels.all(|label| label.is_of(node))
    }

    /// The text of the first labels.
    pub(crate) fn text(&self, labels: usize) -> String {
        let mut text = String::new();
        for label in self.path.iter().take(labels) {
            let value = label.value.as_deref().unwrap_or("-");
            let parts: [&str; 4] = match self.island {
                true => ["", &label.key, "/", value],
                false if text.is_empty() => ["", &label.key, "=", value],
                false => ["/", &label.key, "=", value],
            };
            text.extend(parts);
        }
        text
    }
}

impl fmt::Display for PlanDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(self.path.len()))
    }
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
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn devices(self) -> &'a [Vec<u32>] {
        self.held().map_or(&[], |devices| devices)
    }

    /// The devices chosen for its claims; those of claims that had theirs before are not among them.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn allocations(self) -> &'a [ClaimAllocation] {
        self.held().map_or(&[], Devices::claims)
    }

    /// Amounts chosen for it of the NUMA zones of its node.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn zone_shares(self) -> &'a [ZoneShare] {
        self.held().map_or(&[], Devices::zones)
    }

    pub(crate) fn held(self) -> Option<&'a Devices> {
        self.plan.devices.get(self.at)?.as_ref()
    }

    /// The volumes that its unbound claims get, and those for which one is made. A claim of several
    /// pods stands with each of them.
    #[cfg_attr(not(feature = "volumes"), doc(hidden))]
    pub fn volumes(self) -> Option<&'a VolumeBindings> {
        self.bindings().map(|bindings| &**bindings)
    }

    pub(crate) fn bindings(self) -> Option<&'a Arc<VolumeBindings>> {
        self.plan.volumes.get(self.at)?.as_ref()
    }

    /// Its row, where the nodes are still those of the plan.
    pub(crate) fn row(self) -> Row {
        self.row
    }

    /// Its node as it was found.
    pub(crate) fn spec(self) -> Option<&'a Arc<NodeSpec>> {
        self.plan.nodes.get(self.row.index())?.as_ref()
    }
}

impl Plan {
    /// The full name of the group, `namespace/name`.
    pub fn group(&self) -> ObjectName {
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
            row: Row::from(member.row),
        })
    }

    /// The domains that groups of the tree were confined to: full name of the group, node label
    /// key, value. By strategies that know levels a value alone is no domain: see
    /// [`Plan::confinements`].
    pub fn domains(&self) -> impl ExactSizeIterator<Item = (&str, &str, &str)> {
        let levels: Vec<&PlanDomain> =
            self.domains.iter().filter(|domain| !domain.island).collect();
        levels.into_iter().map(|domain| (domain.group(), domain.key(), domain.value()))
    }

    /// The domains and islands that groups of the tree were confined to, with their paths. A group
    /// whose members are not next to each other in the plan is there several times.
    pub fn confinements(&self) -> &[PlanDomain] {
        &self.domains
    }

    /// The islands that groups of the tree were confined to: full name of the group, node, island.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn islands(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let islands = self.domains.iter().filter(|domain| domain.island);
        islands.map(|domain| (domain.group(), domain.key(), domain.value()))
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
    /// A plan that puts pods of a group on rows of a cluster, with their devices, where `find` says;
    /// the others are left out. It was made at no moment, so that whoever commits it judges all of
    /// it.
    pub(crate) fn of_places(
        group: PodGroup,
        cluster: &Cluster,
        find: impl Fn(&Pod) -> Option<(Row, Option<Devices>)>,
    ) -> Plan {
        let roster = Arc::new(Roster::new(group));
        let (mut members, mut devices) = (PlanMembers::default(), Vec::new());
        let mut pods = roster.pods();
        for member in 0..roster.len() as u32 {
            let Some((row, held)) = find(pods.pod(member)) else { continue };
            if held.is_some() {
                devices.resize(members.len(), None);
                devices.push(held);
            }
            members.push(PlanMember { row: row.as_u32(), member });
        }
        let nodes = Arc::clone(&cluster.columns.spec);
        Plan { roster, nodes, members, devices, minima: true, ..Plan::default() }
    }

    /// How many members it has of each group of the tree, parents first; those of groups inside are
    /// not counted. O(members · log groups).
    pub(crate) fn members_by_group(&self) -> Vec<u32> {
        self.members_by_group_if(|_| true)
    }

    /// The same, over the members that a test accepts.
    pub(crate) fn members_by_group_if(&self, holds: impl Fn(&Pod) -> bool) -> Vec<u32> {
        let firsts = self.first_members();
        let mut members = alloc::vec![0; firsts.len()];
        for (member, assignment) in self.members.iter().zip(self.assignments()) {
            let count = &mut members[Plan::group_place(&firsts, member.member)];
            *count += u32::from(holds(assignment.pod()));
        }
        members
    }

    /// The number of the first pod of each group of the tree, parents first.
    fn first_members(&self) -> Vec<u32> {
        let (mut firsts, mut next) = (Vec::new(), 0);
        self.roster.group().visit(&mut |group| {
            firsts.push(next);
            next += group.pods.len() as u32;
        });
        firsts
    }

    /// The place of a member's group. Of groups that begin at one number, all but the last have no
    /// pods.
    fn group_place(firsts: &[u32], member: u32) -> usize {
        firsts.partition_point(|first| *first <= member).saturating_sub(1)
    }

    /// Leaves out the pods that a test rejects. Forgets the nodes that its pods were kept from: the
    /// pods are as their group has them.
    pub(crate) fn forget_avoided(&mut self) {
        if self.roster.shapes().iter().all(|shape| shape.avoids.is_empty()) {
            return;
        }
        let mut group = self.roster.group().clone();
        let mut known: Vec<(Arc<PodShape>, Arc<PodShape>)> = Vec::new();
        forget_avoided(&mut group, &mut known);
        self.roster = Arc::new(Roster::new(group));
        self.basis = Moment::default();
    }

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
        let mut kept_volumes = kept.iter();
        self.volumes.retain(|_| kept_volumes.next().is_some_and(|kept| *kept));
        // It is another plan now, and not known to be whole.
        self.basis = Moment::default();
        if !self.planned.is_empty() {
            self.planned = self.members_by_group();
        }
    }
}

fn forget_avoided(group: &mut PodGroup, known: &mut Vec<(Arc<PodShape>, Arc<PodShape>)>) {
    for pod in group.pods.iter_mut().filter(|pod| !pod.shape().avoids.is_empty()) {
        let same = known.iter().find(|(from, _)| Arc::ptr_eq(from, pod.shape()));
        let to = if let Some((_, to)) = same {
            Arc::clone(to)
        } else {
            let to = PodShape { avoids: Vec::new(), ..PodShape::clone(pod.shape()) };
            known.push((Arc::clone(pod.shape()), Arc::new(to)));
            Arc::clone(&known[known.len() - 1].1)
        };
        *pod = pod.clone().with_shape(to);
    }
    group.groups.iter_mut().for_each(|inner| forget_avoided(inner, known));
}

/// The common part of two equal plans, and no more: equal plans print equally.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("group", &self.group())
            .field("assignments", &self.assignments().collect::<Vec<_>>())
            .field("domains", &self.domains)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Assignment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment")
            .field("pod", &self.pod().name)
            .field("node", &self.node())
            .field("devices", &self.devices())
            .field("volumes", &self.volumes())
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
                    && own.zone_shares() == other.zone_shares()
                    && own.volumes() == other.volumes()
                    && own.allocations() == other.allocations()
                    && (core::ptr::eq(own.pod(), other.pod()) || own.pod() == other.pod())
            })
    }
}

impl Eq for Plan {}
