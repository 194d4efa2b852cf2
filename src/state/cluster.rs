//! The cluster: nodes, what runs on them, and how they are labelled.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::builder::ClusterBuilder;
use super::check::{bound_node, full_name};
use super::columns::{Columns, NO_POD_LIMIT, NodeSpec, NodeSpecs, Rare};
use super::devices::{DeviceNeed, DeviceSpecs, DeviceTerm};
use super::error::StateError;
use super::event::Deleted;
use super::ids::{LabelKey, LabelValue, NONE, NodeId, PodId, ResourceId, Row, ShapeId};
use super::journal::{Change, Journal, Moment};
use super::order::NodeOrder;
use super::parked::Parked;
use super::parts::LevelParts;
use super::pods::Pods;
use super::shapes::{ShapeEntry, Shapes};
use super::view::{NodeView, PodView};
use crate::base::hash::hash_of;
use crate::base::index::Index;
use crate::base::intern::Interner;
use crate::model::resources::PODS;
use crate::model::{Labels, ModelError, Node, Pod, PodShape, Problem};

/// Nodes, the pods bound to them, namespaces, and the levels of the topology.
///
/// One writer owns the cluster and feeds it with [`events`](super::Event); everybody else reads,
/// or works on a clone. A clone costs one pointer for every 256 nodes, pods and shapes, and
/// shares memory with its original until either is written to.
///
/// The order in which nodes, labels and pods are given changes no answer.
///
/// ```
/// use phalanx::Cluster;
/// use phalanx::model::{Node, Pod};
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
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    pub(crate) columns: Columns,
    pub(crate) pods: Pods,
    pub(crate) shapes: Shapes,
    pub(crate) journal: Journal,
    pub(crate) order: NodeOrder,
    /// Grows whenever ranks are given anew.
    pub(crate) rank_epoch: u64,
    node_index: Index,
    pub(super) node_count: usize,
    free_rows: Vec<u32>,
    pub(crate) resources: Interner,
    pub(crate) label_keys: Interner,
    pub(crate) label_values: Interner,
    pub(crate) levels: Vec<LabelKey>,
    pub(crate) level_parts: LevelParts,
    pub(crate) namespaces: Arc<BTreeMap<String, (Labels, u64)>>,
    pub(super) tainted: usize,
    pub(super) unschedulable: usize,
    /// How many nodes have an image, by name.
    pub(crate) image_nodes: Arc<BTreeMap<Box<str>, u32>>,
    /// Pods whose node does not exist.
    pub(crate) parked: Arc<Parked>,
    pub(crate) deleted: Arc<BTreeMap<Deleted, u64>>,
}

impl Cluster {
    /// A cluster without nodes, and without levels but the node.
    pub fn new() -> Cluster {
        Cluster::default()
    }

    /// A builder.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// Adds a node.
    ///
    /// # Errors
    /// The node is unsound, or there is one of its name.
    pub fn add_node(&mut self, node: Node) -> Result<NodeId, StateError> {
        node.check()?;
        if self.row_of(&node.name).is_some() {
            return Err(StateError::NodeExists(node.name));
        }
        let row = self.insert_node(&node, 0)?;
        Ok(self.id_of(row))
    }

    /// Replaces a node; its pods stay.
    ///
    /// # Errors
    /// The node is unsound, or there is none of its name.
    pub fn update_node(&mut self, node: &Node) -> Result<(), StateError> {
        node.check()?;
        let unknown = || StateError::UnknownNode(node.name.clone());
        let row = self.row_of(&node.name).ok_or_else(unknown)?;
        let version = self.spec(row).map_or(0, |spec| spec.version);
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

    /// Adds a pod that is bound. Nothing is judged: what runs, runs. If its node does not exist
    /// yet, the pod is kept aside until it does.
    ///
    /// # Errors
    /// The pod is unsound or not bound, there is one of its name, or a sum overflows.
    #[expect(clippy::needless_pass_by_value, reason = "the cluster takes the pod over")]
    pub fn add_pod(&mut self, pod: Pod) -> Result<PodId, StateError> {
        let node = bound_node(&pod)?;
        if self.slot_of(pod.namespace(), &pod.name).is_some() {
            return Err(StateError::PodExists(full_name(&pod)));
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
            .ok_or_else(|| StateError::UnknownPod(format!("{namespace}/{name}")))?;
        self.drop_pod(slot);
        Ok(())
    }

    /// Sets the labels of a namespace.
    pub fn set_namespace(&mut self, name: impl Into<String>, labels: Labels) {
        let namespaces = Arc::make_mut(&mut self.namespaces);
        namespaces.entry(name.into()).or_default().0 = labels;
        self.journal.record(Change::Namespaces);
    }

    /// A node by row; `None` for a row that is not in use.
    #[inline]
    pub fn view(&self, row: Row) -> Option<NodeView<'_>> {
        let spec = self.columns.spec.get(row)?.as_deref()?;
        Some(NodeView { cluster: self, spec, row, usage: None, devices: None })
    }

    pub(crate) fn moment(&self) -> Moment {
        self.journal.now()
    }

    #[inline]
    pub(crate) fn spec(&self, row: Row) -> Option<&NodeSpec> {
        self.columns.spec.get(row)?.as_deref()
    }

    pub(crate) fn id_of(&self, row: Row) -> NodeId {
        NodeId { row: row as u32, use_count: self.columns.use_count(row) }
    }

    pub(crate) fn row_of(&self, name: &str) -> Option<Row> {
        let found = self.node_index.find(hash_of(name), |row| {
            self.spec(row as Row).is_some_and(|spec| *spec.name == *name)
        });
        found.map(|row| row as Row)
    }

    pub(crate) fn slot_of(&self, namespace: &str, name: &str) -> Option<u32> {
        self.pods.find(namespace, name, &self.shapes)
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

    pub(crate) fn acquire_shape(&mut self, shape: &Arc<PodShape>) -> ShapeId {
        let (resources, columns) = (&mut self.resources, &mut self.columns);
        let terms = &mut self.label_values;
        self.shapes.acquire(shape, || {
            let used = shape.requests.iter().filter(|(_, amount)| *amount != 0);
            let requests = used.map(|(name, amount)| {
                let resource = ResourceId(resources.intern(name));
                columns.ensure_resource(resource);
                (resource, amount)
            });
            let mut intern = |text: &str| Some(DeviceTerm(terms.intern(text)));
            let needs = shape.devices.iter().map(|request| DeviceNeed::new(request, &mut intern));
            (requests.collect(), needs.collect())
        })
    }

    pub(crate) fn insert_node(&mut self, node: &Node, version: u64) -> Result<Row, StateError> {
        let waiting = self.parked.waiting(&node.name).to_vec();
        self.check_sums(node, &waiting)?;
        let devices = self.devices_of(node, waiting.iter().copied())?;
        if !waiting.is_empty() {
            Arc::make_mut(&mut self.parked).release(&node.name);
        }
        let row = self.free_rows.pop().map_or_else(
            || {
                self.columns.push_row();
                self.columns.len() - 1
            },
            |row| row as Row,
        );
        self.set_spec(row, node, version, devices.as_ref().map(|(specs, _)| Arc::clone(specs)));
        self.columns.device_state.set(row, devices.map(|(specs, _)| Arc::new(specs.idle())));
        self.node_count += 1;
        let specs = &self.columns.spec;
        let hash = hash_of(node.name.as_str());
        self.node_index.insert(hash, row as u32, |_| false, |row| hash_in(specs, row));
        self.rank(row);
        for slot in waiting {
            self.link(slot, row);
        }
        self.count_specials(row, 1);
        Ok(row)
    }

    pub(crate) fn replace_node(
        &mut self,
        row: Row,
        node: &Node,
        version: u64,
    ) -> Result<(), StateError> {
        self.check_sums(node, &[])?;
        let slots: Vec<u32> =
            if node.devices.is_empty() { Vec::new() } else { self.slots_on(row).collect() };
        let devices = self.devices_of(node, slots.into_iter())?;
        let moved = self.columns.tie_rank(row) != node.tie_rank;
        self.count_specials(row, -1);
        if moved {
            self.unrank(row);
        }
        let (specs, state) = devices.unzip();
        self.set_spec(row, node, version, specs);
        self.columns.device_state.set(row, state.map(Arc::new));
        if moved {
            self.rank(row);
        }
        self.count_specials(row, 1);
        Ok(())
    }

    /// Whether pods kept aside can be counted on the node they wait for.
    fn check_sums(&self, node: &Node, waiting: &[u32]) -> Result<(), StateError> {
        if node.allocatable.lists(PODS) && node.allocatable.of(PODS) < 0 {
            let problem = ModelError::new(&*node.name, "allocatable.pods", Problem::Negative);
            return Err(problem.into());
        }
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        let pods = waiting.iter().filter_map(|&slot| self.pod_view(slot));
        for pod in pods {
            let shape = pod.shape;
            let scored = ["scored cpu", "scored memory"].into_iter().zip(shape.existing_requests);
            for (name, amount) in shape.requests.iter().chain(scored) {
                let sum = sums.entry(name).or_default();
                *sum = sum.checked_add(amount).ok_or_else(|| StateError::Overflow {
                    node: node.name.clone(),
                    resource: name.into(),
                })?;
            }
        }
        Ok(())
    }

    pub(crate) fn remove_row(&mut self, row: Row) {
        let Some(spec) = self.columns.spec.get(row).cloned().flatten() else { return };
        let mut orphans = Vec::new();
        while self.columns.first_pod(row) != NONE {
            let slot = self.columns.first_pod(row);
            self.unlink(slot);
            orphans.push(slot);
        }
        if !orphans.is_empty() {
            Arc::make_mut(&mut self.parked).park(&Arc::from(&*spec.name), orphans);
        }
        self.count_specials(row, -1);
        self.unrank(row);
        self.level_parts.leave(row, &spec.labels, &self.label_values);
        let specs = &self.columns.spec;
        self.node_index.remove(hash_of(&*spec.name), row as u32, |row| hash_in(specs, row));
        let columns = &mut self.columns;
        columns.set_spec(row, None);
        columns.device_state.set(row, None);
        columns.set_marks(row, 0, 0);
        columns.use_anew(row);
        for column in &mut columns.allocatable {
            *column.get_mut(row) = 0;
        }
        *columns.pod_limit.get_mut(row) = 0;
        self.free_rows.push(row as u32);
        self.node_count -= 1;
        *self.columns.head(row).generation = self.journal.record(Change::Nodes);
    }

    fn set_spec(
        &mut self,
        row: Row,
        node: &Node,
        version: u64,
        device_specs: Option<Arc<DeviceSpecs>>,
    ) {
        let mut labels: Vec<_> = node
            .labels
            .iter()
            .map(|(key, value)| {
                let key = LabelKey(self.label_keys.intern(key));
                (key, LabelValue(self.label_values.intern(value)))
            })
            .collect();
        labels.sort_unstable();
        let mut listed_zero = Vec::new();
        for column in &mut self.columns.allocatable {
            if column[row] != 0 {
                *column.get_mut(row) = 0;
            }
        }
        for (name, amount) in node.allocatable.iter().filter(|(name, _)| *name != PODS) {
            let resource = ResourceId(self.resources.intern(name));
            self.columns.ensure_resource(resource);
            if amount == 0 {
                listed_zero.push(resource);
            } else {
                *self.columns.allocatable[resource.index()].get_mut(row) = amount;
                self.columns.note(amount);
            }
        }
        let limit =
            if node.allocatable.lists(PODS) { node.allocatable.of(PODS) } else { NO_POD_LIMIT };
        *self.columns.pod_limit.get_mut(row) = limit;
        let rare = Rare {
            taints: node.taints.clone(),
            images: node.images.clone(),
            devices: node.devices.clone(),
            device_specs,
            capacity: (node.capacity != node.allocatable).then(|| node.capacity.clone()),
            listed_zero,
            unschedulable: node.unschedulable,
        };
        if let Some(old) = &self.columns.spec[row] {
            self.level_parts.leave(row, &old.labels, &self.label_values);
        }
        self.level_parts.enter(row, &labels, &self.label_values);
        let spec = NodeSpec {
            name: node.name.as_str().into(),
            version,
            labels: labels.into(),
            packed: rare.packed(),
        };
        self.columns.set_spec(row, Some(Arc::new(spec)));
        self.columns.set_marks(row, node.key, node.tie_rank);
        *self.columns.head(row).generation = self.journal.record(Change::Nodes);
    }

    fn count_specials(&mut self, row: Row, sign: i32) {
        let Some(spec) = self.columns.spec[row].clone() else { return };
        let step = |count: &mut usize, counts: bool| {
            if counts {
                *count = count.saturating_add_signed(sign as isize);
            }
        };
        let spec = spec.rare();
        step(&mut self.tainted, !spec.taints.is_empty());
        step(&mut self.unschedulable, spec.unschedulable);
        if spec.images.is_empty() {
            return;
        }
        let mut names: Vec<&String> = spec.images.iter().flat_map(|image| &image.names).collect();
        names.sort_unstable();
        names.dedup();
        let counts = Arc::make_mut(&mut self.image_nodes);
        for name in names {
            let count = counts.entry(name.as_str().into()).or_default();
            *count = count.saturating_add_signed(sign);
            if *count == 0 {
                counts.remove(name.as_str());
            }
        }
    }

    pub(crate) fn shape_entry(&self, shape: ShapeId) -> Option<&Arc<ShapeEntry>> {
        self.shapes.entry(shape)
    }
}

fn hash_in(specs: &NodeSpecs, row: u32) -> u64 {
    hash_of(specs[row as Row].as_ref().map_or("", |spec| &*spec.name))
}
