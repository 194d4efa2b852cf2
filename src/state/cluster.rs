//! The cluster: nodes, their pods, and their labels.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::check::bound_node;
use super::claims::{ClaimBook, ClaimKey, ClaimObject};
use super::columns::{Columns, NodeSpec};
use super::devices::{DeviceNeed, DeviceTerm};
use super::error::StateError;
use super::ids::{LabelKey, NodeId, PodId, ResourceId, ShapeId};
use super::journal::{Change, Journal, Moment};
use super::order::NodeOrder;
use super::parked::Parked;
use super::parts::LevelParts;
use super::pods::Pods;
use super::shapes::{ShapeEntry, Shapes};
use super::specials::Specials;
use super::storage::Storage;
use super::tombstones::Tombstones;
use crate::base::ObjectName;
use crate::base::Row;
use crate::base::hash::hash_of;
use crate::base::index::Index;
use crate::base::intern::Interner;
use crate::model::{
    DeviceClass, Labels, Node, NodeReach, Pod, PodShape, ResourceClaim, ResourceSlice,
};

/// Nodes, the pods bound to them, namespaces, and the levels of the topology.
///
/// One writer owns the cluster and feeds it with [`events`](super::Event); every other part reads,
/// or works on a clone. A clone costs one pointer for every 256 nodes, pods and shapes, and
/// shares memory with its original until either is written to.
///
/// The order in which nodes, labels and pods are given changes no answer.
///
/// ```
/// use phalanx::{Cluster, Node, Pod};
///
/// let mut cluster = Cluster::builder().levels(["zone", "rack"]).build()?;
/// cluster.add_node(Node::new("n1").capacity("cpu", 4).label("zone", "a").label("rack", "a1"))?;
/// cluster.add_pod(Pod::new().name("p").request("cpu", "500m").on("n1"))?;
///
/// let node = cluster.node("n1").unwrap();
/// let cpu = cluster.resource("cpu").unwrap();
/// assert_eq!((node.free(cpu), node.label("rack")), (3_500, Some("a1")));
/// # Ok::<(), phalanx::StateError>(())
/// ```
#[derive(Clone, Default)]
pub struct Cluster {
    pub(crate) columns: Columns,
    pub(crate) pods: Pods,
    pub(crate) shapes: Shapes,
    pub(crate) journal: Journal,
    pub(crate) order: NodeOrder,
    /// Grows whenever ranks are given anew.
    pub(crate) rank_epoch: u64,
    pub(super) node_index: Index,
    pub(super) node_count: usize,
    pub(super) free_rows: Vec<u32>,
    pub(crate) resources: Interner,
    pub(crate) label_keys: Interner,
    pub(crate) label_values: Interner,
    pub(crate) levels: Vec<LabelKey>,
    pub(crate) level_parts: LevelParts,
    pub(crate) namespaces: Arc<BTreeMap<String, (Labels, u64)>>,
    pub(super) specials: Specials,
    /// How many nodes have an image, by name.
    pub(crate) image_nodes: Arc<BTreeMap<Box<str>, u32>>,
    /// Pods whose node does not exist.
    pub(crate) parked: Arc<Parked>,
    pub(super) deleted: Tombstones,
    pub(crate) storage: Storage,
    pub(super) claims: ClaimBook,
}

/// The counts of a cluster and its levels, on one line whatever its size.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<&str> = self.levels().collect();
        f.debug_struct("Cluster")
            .field("nodes", &self.node_count())
            .field("pods", &self.pod_count())
            .field("levels", &levels)
            .field("namespaces", &self.namespaces.len())
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// A cluster without nodes, and without levels but the node.
    pub fn new() -> Cluster {
        Cluster::default()
    }

    /// Adds a node.
    ///
    /// # Errors
    /// The node is unsound, or there is one of its name.
    #[allow(clippy::needless_pass_by_value, reason = "a node is given, as a pod is")]
    pub fn add_node(&mut self, node: Node) -> Result<NodeId, StateError> {
        Ok(self.add_node_with(&node)?.0)
    }

    /// Adds a node, and publishes the slices that come with it; their names.
    pub(super) fn add_node_with(
        &mut self,
        node: &Node,
    ) -> Result<(NodeId, Vec<String>), StateError> {
        node.check()?;
        if self.row_of(&node.name).is_some() {
            return Err(StateError::NodeExists(node.name.clone()));
        }
        let row = self.insert_node(node, 0)?;
        Ok((self.id_of(row), self.publish_with(node)))
    }

    /// Publishes the slices that come with a node, but for pools that are published already.
    fn publish_with(&mut self, node: &Node) -> Vec<String> {
        let mut names = Vec::new();
        let known = |own: &ResourceSlice| {
            let key = super::claims::pool_key(&own.driver, &node.name);
            self.claims.published().by_pool.contains_key(&key)
        };
        let new: Vec<&ResourceSlice> = node.slices.iter().filter(|own| !known(own)).collect();
        for (number, slice) in new.into_iter().enumerate() {
            let mut slice = slice.clone();
            slice.name = alloc::format!("{}-{}-{number}", node.name, slice.driver);
            slice.pool.clone_from(&node.name);
            slice.nodes = NodeReach::Node(node.name.clone());
            names.push(slice.name.clone());
            self.set_resource_slice(slice);
        }
        names
    }

    /// Replaces a node; its pods stay.
    ///
    /// # Errors
    /// The node is unsound, or there is none of its name.
    pub fn update_node(&mut self, node: &Node) -> Result<(), StateError> {
        node.check()?;
        let unknown = || StateError::UnknownNode(node.name.clone());
        let row = self.row_of(&node.name).ok_or_else(unknown)?;
        let version = self.columns.version(row);
        self.replace_node(row, node, version)
    }

    /// Removes a node. Its pods are kept aside until they are removed or it returns.
    ///
    /// # Errors
    /// There is no such node.
    pub fn remove_node(&mut self, name: &str) -> Result<(), StateError> {
        let row = self.row_of(name).ok_or_else(|| StateError::UnknownNode(name.into()))?;
        self.remove_row(row);
        Ok(())
    }

    /// Closes a node to new pods, as `kubectl cordon` does; what runs there stays. The filter
    /// [`NodeUnschedulable`](crate::plugins::NodeUnschedulable) reads the mark. It stays until
    /// [`Cluster::uncordon`], or until the node is replaced. O(1).
    ///
    /// # Errors
    /// There is no such node.
    pub fn cordon(&mut self, node: &str) -> Result<(), StateError> {
        self.set_unschedulable(node, true)
    }

    /// Opens a node to new pods again. O(1).
    ///
    /// # Errors
    /// There is no such node.
    pub fn uncordon(&mut self, node: &str) -> Result<(), StateError> {
        self.set_unschedulable(node, false)
    }

    fn set_unschedulable(&mut self, node: &str, unschedulable: bool) -> Result<(), StateError> {
        let unknown = || StateError::UnknownNode(node.into());
        let row = self.row_of(node).ok_or_else(unknown)?;
        self.mark_unschedulable(row, unschedulable);
        Ok(())
    }

    /// Adds a pod that is bound. Nothing is judged: what runs, runs. If its node does not exist
    /// yet, the pod is kept aside until it does.
    ///
    /// # Errors
    /// The pod is unsound or not bound, there is one of its name, or a sum overflows.
    #[expect(clippy::needless_pass_by_value, reason = "the cluster takes the pod over")]
    pub fn add_pod(&mut self, pod: Pod) -> Result<PodId, StateError> {
        let node = bound_node(&pod)?;
        if self.slot_of(pod.namespace(), &pod.name).is_some() {
            return Err(StateError::PodExists(pod.full_name()));
        }
        self.put_pod(&pod, node, 0, None).map(PodId)
    }

    /// Removes a pod.
    ///
    /// # Errors
    /// There is no such pod.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) -> Result<(), StateError> {
        let slot = self
            .slot_of(namespace, name)
            .ok_or_else(|| StateError::UnknownPod(ObjectName::new(namespace, name)))?;
        self.drop_pod_for_good(slot);
        Ok(())
    }

    /// Sets the labels of a namespace.
    pub fn set_namespace(&mut self, name: impl Into<String>, labels: Labels) {
        let name = name.into();
        let version = self.namespaces.get(&name).map_or(0, |(_, version)| *version);
        self.put_namespace(name, labels, version);
    }

    /// Sets the labels of a namespace and its version. Equal labels are no change.
    pub(super) fn put_namespace(&mut self, name: String, labels: Labels, version: u64) {
        let same = self.namespaces.get(&name).is_some_and(|(known, _)| *known == labels);
        Arc::make_mut(&mut self.namespaces).insert(name, (labels, version));
        if !same {
            self.journal.record(Change::Namespaces);
        }
    }

    /// Device classes, slices and claims, and the devices in use.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn claims(&self) -> &ClaimBook {
        &self.claims
    }

    /// Adds a class, a slice or a claim, or replaces the one of its kind and name, as the three
    /// functions below do.
    ///
    /// ```
    /// use phalanx::Cluster;
    /// use phalanx::model::DeviceClass;
    /// use phalanx::state::{ClaimKey, ClaimKind};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.set_claim_object(DeviceClass::new("gpu"))?;
    /// assert_eq!(cluster.claims().classes().count(), 1);
    /// assert!(cluster.remove_claim_object(&ClaimKey::new(ClaimKind::Class, "gpu")));
    /// # Ok::<(), phalanx::StateError>(())
    /// ```
    ///
    /// # Errors
    /// The object has no name.
    #[cfg(feature = "devices")]
    pub fn set_claim_object(&mut self, object: impl Into<ClaimObject>) -> Result<(), StateError> {
        let object = object.into();
        object.check()?;
        self.put_claim_object(object, 0);
        Ok(())
    }

    /// Removes a class, a slice or a claim; whether there was one.
    #[cfg(feature = "devices")]
    pub fn remove_claim_object(&mut self, key: &ClaimKey) -> bool {
        let removed = self.claims.remove(key);
        self.journal.record(Change::Claims);
        removed
    }

    pub(super) fn put_claim_object(&mut self, object: ClaimObject, version: u64) {
        self.claims.put(object, version);
        self.journal.record(Change::Claims);
    }

    /// Adds or replaces a device class. O(classes).
    #[cfg(feature = "devices")]
    pub fn set_device_class(&mut self, class: DeviceClass) {
        self.claims.set_class(class);
        self.journal.record(Change::Claims);
    }

    /// Removes a device class; whether there was one. Claims that were allocated stay so.
    #[cfg(feature = "devices")]
    pub fn remove_device_class(&mut self, name: &str) -> bool {
        let removed = self.claims.remove_class(name);
        self.journal.record(Change::Claims);
        removed
    }

    /// Adds or replaces a slice of devices. O(slices of its pool).
    ///
    /// ```
    /// use phalanx::Cluster;
    /// use phalanx::model::{ResourceSlice, SliceDevice};
    ///
    /// let mut cluster = Cluster::new();
    /// let gpus = (0..8).map(|at| SliceDevice::new(format!("gpu-{at}")).attribute("island", at / 4));
    /// let slice = ResourceSlice::on("n1", "gpu.example.com");
    /// cluster.set_resource_slice(gpus.fold(slice, ResourceSlice::device));
    /// assert_eq!(cluster.claims().slices().count(), 1);
    /// ```
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn set_resource_slice(&mut self, slice: ResourceSlice) {
        self.claims.set_slice(slice);
        self.journal.record(Change::Claims);
    }

    /// Removes a slice of devices; whether there was one. Devices in use stay in use.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn remove_resource_slice(&mut self, name: &str) -> bool {
        let removed = self.claims.remove_slice(name);
        self.journal.record(Change::Claims);
        removed
    }

    /// Adds or replaces a claim. One without an allocation keeps the devices that its pods were
    /// placed with.
    #[cfg(feature = "devices")]
    pub fn set_claim(&mut self, claim: ResourceClaim) {
        self.claims.set_claim(claim);
        self.journal.record(Change::Claims);
    }

    /// Removes a claim; whether there was one. Pods that it was placed with keep its devices.
    #[cfg(feature = "devices")]
    pub fn remove_claim(&mut self, namespace: &str, name: &str) -> bool {
        let removed = self.claims.remove_claim(namespace, name);
        self.journal.record(Change::Claims);
        removed
    }

    /// Takes the devices of a claim away; whether it had some.
    #[cfg(feature = "devices")]
    pub fn deallocate_claim(&mut self, namespace: &str, name: &str) -> bool {
        let had = self.claims.deallocate(namespace, name);
        self.journal.record(Change::Claims);
        had
    }

    pub(crate) fn moment(&self) -> Moment {
        self.journal.now()
    }

    #[inline]
    pub(crate) fn spec(&self, row: Row) -> Option<&NodeSpec> {
        self.columns.spec.get(row.index())?.as_deref()
    }

    pub(crate) fn id_of(&self, row: Row) -> NodeId {
        NodeId { row: row.as_u32(), use_count: self.columns.use_count(row) }
    }

    pub(crate) fn row_of(&self, name: &str) -> Option<Row> {
        let found = self.node_index.find(hash_of(name), |row| {
            self.spec(Row::from(row)).is_some_and(|spec| *spec.name == *name)
        });
        found.map(Row::from)
    }

    pub(crate) fn slot_of(&self, namespace: &str, name: &str) -> Option<u32> {
        self.pods.find(namespace, name, &self.shapes)
    }

    pub(crate) fn acquire_shape(&mut self, shape: &Arc<PodShape>) -> ShapeId {
        let (resources, terms) = (&mut self.resources, &mut self.label_values);
        self.shapes.acquire(shape, || {
            let used = shape.requests.iter().filter(|(_, amount)| *amount != 0);
            let requests = used.map(|(name, amount)| (ResourceId(resources.intern(name)), amount));
            let mut intern = |text: &str| Some(DeviceTerm(terms.intern(text)));
            let needs = shape.devices.iter().map(|request| DeviceNeed::new(request, &mut intern));
            (requests.collect(), needs.collect())
        })
    }

    pub(crate) fn shape_entry(&self, shape: ShapeId) -> Option<&Arc<ShapeEntry>> {
        self.shapes.entry(shape)
    }
}
