//! Views: one node or one pod, read in place.

use smallvec::SmallVec;

use super::cluster::Cluster;
use super::columns::NodeSpec;
use super::devices::DeviceState;
use super::ids::{LabelKey, LabelValue, NONE, NodeId, PodId, ResourceId, ShapeId};
use super::pods::PodRecord;
use crate::base::Row;
use crate::base::Time;
use crate::model::{
    ClaimAllocation, Device, Image, NodeUsage, Partitions, PodShape, Taint, ZoneShare,
};

/// A node of a cluster or a transaction, as it is now.
#[derive(Debug, Clone, Copy)]
pub struct NodeView<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) spec: &'a NodeSpec,
    pub(crate) row: Row,
    /// Stands in for the columns where a decision under way has placed pods.
    pub(crate) usage: Option<&'a RowUsage>,
    /// Stands in for what is left of the devices.
    pub(crate) devices: Option<&'a DeviceState>,
}

/// Usage of a node by its pods, those of a decision under way included.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowUsage {
    pub(crate) pod_count: i64,
    pub(crate) scored: [i64; 2],
    /// By number of resource; what is beyond the end is 0.
    pub(crate) used: SmallVec<[i64; 6]>,
}

impl RowUsage {
    #[inline]
    pub(crate) fn used_of(&self, resource: ResourceId) -> i64 {
        self.used.get(resource.index()).copied().unwrap_or(0)
    }
}

impl Cluster {
    /// A node by row; `None` for a row that is not in use.
    #[inline]
    pub fn view(&self, row: Row) -> Option<NodeView<'_>> {
        let spec = self.columns.spec.get(row.index())?.as_deref()?;
        Some(NodeView { cluster: self, spec, row, usage: None, devices: None })
    }

    #[inline]
    pub(crate) fn pod_view(&self, slot: u32) -> Option<PodView<'_>> {
        if slot == NONE {
            return None;
        }
        let record = self.pods.record(slot)?;
        let shape = &*self.shapes.entry(record.shape())?.shape;
        Some(PodView { cluster: self, record, slot, shape })
    }
}

impl<'a> NodeView<'a> {
    /// The cluster, or the transaction, that the node is of.
    #[inline]
    pub fn cluster(self) -> &'a Cluster {
        self.cluster
    }

    /// The node's place in the columns.
    #[inline]
    pub fn row(self) -> Row {
        self.row
    }

    /// The node's id.
    pub fn id(self) -> NodeId {
        NodeId { row: self.row.as_u32(), use_count: self.cluster.columns.use_count(self.row) }
    }

    /// The name.
    #[inline]
    pub fn name(self) -> &'a str {
        &self.spec.name
    }

    /// The embedder's own number.
    pub fn key(self) -> u64 {
        self.cluster.columns.key(self.row)
    }

    /// The caller's place among equals.
    pub fn tie_rank(self) -> i64 {
        self.cluster.columns.tie_rank(self.row)
    }

    /// Whether new pods are kept away.
    #[inline]
    pub fn unschedulable(self) -> bool {
        self.spec.rare().unschedulable
    }

    /// Taints, in the order given.
    #[inline]
    pub fn taints(self) -> &'a [Taint] {
        &self.spec.rare().taints
    }

    /// Images, in the order given.
    pub fn images(self) -> &'a [Image] {
        &self.spec.rare().images
    }

    /// Devices, in order of index; what is left of them is in
    /// [`device_room`](NodeView::device_room).
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[inline]
    pub fn devices(self) -> &'a [Device] {
        &self.spec.rare().devices
    }

    /// Sets of devices that go together.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn partitions(self) -> &'a Partitions {
        &self.spec.rare().partitions
    }

    /// The last measurement of the node, if there is one.
    #[cfg(feature = "usage")]
    #[inline]
    pub fn measured(self) -> Option<&'a NodeUsage> {
        self.cluster.columns.measured.get(self.row.index()).map(|measured| &measured.0)
    }

    /// The value of a label. O(log labels), and a look-up of the key.
    pub fn label(self, key: &str) -> Option<&'a str> {
        let value = self.label_value(self.cluster.label_key(key)?)?;
        Some(self.cluster.label_text(value))
    }

    /// Whether a label has a value.
    pub fn has_label(self, key: &str, value: &str) -> bool {
        self.label(key) == Some(value)
    }

    /// The value of a label whose key was looked up before. O(log labels).
    #[inline]
    pub fn label_value(self, key: LabelKey) -> Option<LabelValue> {
        self.spec.label(key)
    }

    /// Keys and values of all labels, in no particular order.
    pub fn labels(self) -> impl Iterator<Item = (LabelKey, LabelValue)> + 'a {
        self.spec.labels.iter().copied()
    }

    /// The allocatable amount of a resource: thousandths for `cpu`, whole units else.
    #[inline]
    pub fn allocatable(self, resource: ResourceId) -> i64 {
        self.cluster.columns.allocatable(self.row, resource)
    }

    /// The sum of the pods' requests of a resource, in the same units.
    #[inline]
    pub fn used(self, resource: ResourceId) -> i64 {
        match self.usage {
            Some(usage) => usage.used_of(resource),
            None => self.cluster.columns.used(self.row, resource),
        }
    }

    /// Allocatable less used of a resource; below zero where too much was bound.
    #[inline]
    pub fn free(self, resource: ResourceId) -> i64 {
        self.allocatable(resource).saturating_sub(self.used(resource))
    }

    /// Pods that the node has places for; below zero where too many were bound.
    #[inline]
    pub fn free_pods(self) -> i64 {
        self.pod_limit().saturating_sub(self.pod_count())
    }

    /// CPU (thousandths) and memory (bytes) that scores count as used: with defaults for
    /// containers that request none.
    #[inline]
    pub fn scored_used(self) -> [i64; 2] {
        if let Some(usage) = self.usage {
            return usage.scored;
        }
        self.cluster.columns.sums(self.row).scored()
    }

    /// How many pods the node has.
    #[inline]
    pub fn pod_count(self) -> i64 {
        if let Some(usage) = self.usage {
            return usage.pod_count;
        }
        self.cluster.columns.sums(self.row).pod_count()
    }

    /// How many pods the node may have; `i64::MAX` if it states no limit.
    #[inline]
    pub fn pod_limit(self) -> i64 {
        self.cluster.columns.pod_limit[self.row]
    }

    /// The node's pods, in no particular order.
    pub fn pods(self) -> impl Iterator<Item = PodView<'a>> {
        let cluster = self.cluster;
        let mut slot = cluster.columns.first_pod(self.row);
        core::iter::from_fn(move || {
            let view = cluster.pod_view(slot)?;
            slot = view.record.next;
            Some(view)
        })
    }

    /// The change that touched the node or its pods last.
    pub fn generation(self) -> u64 {
        self.cluster.columns.generation(self.row)
    }
}

/// A bound pod.
#[derive(Debug, Clone, Copy)]
pub struct PodView<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) record: &'a PodRecord,
    pub(crate) slot: u32,
    pub(crate) shape: &'a PodShape,
}

impl<'a> PodView<'a> {
    /// The pod's id.
    pub fn id(self) -> PodId {
        PodId(self.slot)
    }

    /// The namespace.
    pub fn namespace(self) -> &'a str {
        &self.shape.namespace
    }

    /// The name.
    pub fn name(self) -> &'a str {
        self.cluster.pods.name(self.slot)
    }

    /// Namespace and name, by which pods have an order.
    pub(crate) fn names(&self) -> (&'a str, &'a str) {
        (self.namespace(), self.name())
    }

    /// The identity that survives the name; may be empty.
    pub fn uid(self) -> &'a str {
        self.cluster.pods.uid(self.slot)
    }

    /// The embedder's own number.
    pub fn key(self) -> u64 {
        self.cluster.pods.key(self.slot)
    }

    /// The shape.
    #[inline]
    pub fn shape(self) -> &'a PodShape {
        self.shape
    }

    /// The number of the shape.
    #[inline]
    pub fn shape_id(self) -> ShapeId {
        self.record.shape()
    }

    /// The priority.
    pub fn priority(self) -> i32 {
        self.record.priority
    }

    /// Since when it runs, if that is known.
    pub fn start(self) -> Option<Time> {
        self.cluster.pods.start(self.slot)
    }

    /// Whether it is being deleted.
    #[inline]
    pub fn deleting(self) -> bool {
        self.record.deleting()
    }

    /// The node it is on; `None` while that does not exist.
    #[inline]
    pub fn node(self) -> Option<NodeView<'a>> {
        if self.record.row == NONE { None } else { self.cluster.view(Row::from(self.record.row)) }
    }

    /// The full name of its group, `namespace/name`.
    pub fn group(self) -> Option<&'a str> {
        (self.record.group != NONE).then(|| self.cluster.pods.group_name(self.record.group))
    }

    /// The devices it holds, one list a device request: indexes of the node's devices.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn device_indexes(self) -> &'a [alloc::vec::Vec<u32>] {
        self.cluster.pods.devices(self.slot).map_or(&[], |devices| devices)
    }

    /// Amounts that it holds of the NUMA zones of its node.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn zone_shares(self) -> &'a [ZoneShare] {
        self.cluster.pods.devices(self.slot).map_or(&[], |held| held.zones())
    }

    /// The devices of its claims that it was placed with.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn allocations(self) -> &'a [ClaimAllocation] {
        self.cluster.pods.devices(self.slot).map_or(&[], |held| held.claims())
    }
}
