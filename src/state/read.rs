//! Read access to a cluster: nodes, pods, names and counts.

use super::cluster::Cluster;
use super::ids::{LabelKey, LabelValue, NodeId, ResourceId, ShapeId};
use super::view::{NodeView, PodView};
use crate::base::{Row, RowSet};
use crate::model::{Labels, PodGroup, PodShape};

impl Cluster {
    /// The labels of a namespace; `None` if it is not known.
    pub fn namespace(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name).map(|(labels, _)| labels)
    }

    /// The namespaces that are known, in order of name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, &Labels)> {
        self.namespaces.iter().map(|(name, (labels, _))| (name.as_str(), labels))
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<NodeView<'_>> {
        self.view(self.row_of(name)?)
    }

    /// A node by id; `None` if it is gone.
    pub fn node_by_id(&self, id: NodeId) -> Option<NodeView<'_>> {
        let row = Row::from(id.row);
        let view = self.view(row)?;
        (self.columns.use_count(row) == id.use_count).then_some(view)
    }

    /// All nodes, in the order of ties: by tie rank, then by name.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.order.iter().filter_map(|row| self.view(Row::from(row)))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.node_count
    }

    /// How many pods are bound. In a transaction, pods that it evicts count until it is committed.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Rows are below this number; some may not be in use.
    #[inline]
    pub fn rows(&self) -> usize {
        self.columns.len()
    }

    /// The lowest priority of a bound pod. O(1).
    pub(crate) fn lowest_priority(&self) -> Option<i32> {
        self.pods.tally.lowest_priority()
    }

    /// Whether a pod terminates. O(1).
    pub(crate) fn has_deleting_pods(&self) -> bool {
        self.pods.tally.deleting > 0
    }

    /// Slots of pods are below this number.
    pub(crate) fn slots(&self) -> usize {
        self.pods.bound()
    }

    /// A bound pod by name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<PodView<'_>> {
        self.pod_view(self.slot_of(namespace, name)?)
    }

    /// All bound pods, those kept aside too, in no particular order.
    pub fn pods(&self) -> impl Iterator<Item = PodView<'_>> {
        self.pods.slots().filter_map(|slot| self.pod_view(slot))
    }

    /// The bound pods of a group, by its full name `namespace/name`, in no particular order. Of
    /// several slashes the last one ends the namespace; [`Cluster::pods_of`] needs no such rule.
    ///
    /// ```
    /// use phalanx::{Cluster, Node, Pod};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n1"))?;
    /// cluster.add_pod(Pod::new().name("p").in_namespace("team").in_group("train").on("n1"))?;
    /// assert_eq!(cluster.group_pods("team/train").count(), 1);
    /// # Ok::<(), phalanx::StateError>(())
    /// ```
    pub fn group_pods(&self, group: &str) -> impl Iterator<Item = PodView<'_>> {
        let (namespace, name) = group.rsplit_once('/').unwrap_or(("", group));
        self.members(namespace, name)
    }

    /// The bound pods of a group, without those of groups inside it, in no particular order.
    pub fn pods_of(&self, group: &PodGroup) -> impl Iterator<Item = PodView<'_>> {
        self.members(&group.namespace, &group.name)
    }

    fn members(&self, namespace: &str, name: &str) -> impl Iterator<Item = PodView<'_>> {
        self.pods.members(namespace, name).filter_map(|slot| self.pod_view(slot))
    }

    /// The shapes of bound pods, each with the number of pods that have it, in no particular
    /// order.
    pub fn shapes(&self) -> impl Iterator<Item = (ShapeId, &PodShape, u32)> {
        self.shapes.iter().map(|(id, entry, uses)| (id, &*entry.shape, uses))
    }

    /// Whether a pod on some node uses a claim. O(shapes), and O(pods) where a shape in use names it.
    pub fn has_user_of(&self, namespace: &str, claim: &str) -> bool {
        let names =
            |shape: &PodShape| shape.volumes.iter().any(|volume| volume.claim() == Some(claim));
        let mut shapes = self.shapes_of_namespace(namespace).filter(|(_, shape)| names(shape));
        shapes.any(|(id, _)| self.pods().any(|pod| pod.shape_id() == id && pod.node().is_some()))
    }

    /// A resource by name; `None` if nothing has mentioned it.
    pub fn resource(&self, name: &str) -> Option<ResourceId> {
        self.resources.find(name).map(ResourceId)
    }

    /// The resources that have been mentioned, in no particular order.
    pub fn resources(&self) -> impl Iterator<Item = ResourceId> + use<> {
        (0..self.resources.len() as u32).map(ResourceId)
    }

    /// The name of a resource; empty for an id of another cluster.
    pub fn resource_name(&self, resource: ResourceId) -> &str {
        self.resources.text(resource.0)
    }

    /// A label key by its text; `None` if no node has it.
    pub fn label_key(&self, key: &str) -> Option<LabelKey> {
        self.label_keys.find(key).map(LabelKey)
    }

    /// A label value by its text; `None` if no node has it.
    pub fn find_label_value(&self, value: &str) -> Option<LabelValue> {
        self.label_values.find(value).map(LabelValue)
    }

    /// The text of a label key; empty for an id of another cluster.
    pub fn label_key_text(&self, key: LabelKey) -> &str {
        self.label_keys.text(key.0)
    }

    /// The text of a label value; empty for an id of another cluster.
    pub fn label_text(&self, value: LabelValue) -> &str {
        self.label_values.text(value.0)
    }

    /// The declared levels, coarsest first, without the node.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = &str> {
        self.levels.iter().map(|level| self.label_keys.text(level.0))
    }

    /// How many nodes have taints.
    pub fn tainted_nodes(&self) -> usize {
        self.specials.tainted()
    }

    /// The nodes that have taints.
    pub(crate) fn tainted_rows(&self) -> &RowSet {
        self.specials.tainted_rows()
    }

    /// How many nodes have taints that only make them less preferred.
    pub(crate) fn softly_tainted_nodes(&self) -> usize {
        self.specials.softly_tainted()
    }

    /// How many nodes keep new pods away.
    pub fn unschedulable_nodes(&self) -> usize {
        self.specials.unschedulable()
    }

    /// The nodes that keep new pods away.
    pub(crate) fn unschedulable_rows(&self) -> &RowSet {
        self.specials.unschedulable_rows()
    }

    /// The rows that are not in use, in no particular order.
    pub(crate) fn unused_rows(&self) -> &[u32] {
        &self.free_rows
    }

    /// Whether a pod with affinity or anti-affinity terms of any kind is bound. O(1).
    pub fn has_affinity_pods(&self) -> bool {
        self.shapes.any_with_affinity()
    }

    /// The shapes of bound pods that have affinity or anti-affinity terms of any kind, with the
    /// number of pods, in order of number.
    pub fn affinity_shapes(&self) -> impl Iterator<Item = (ShapeId, &PodShape, u32)> {
        self.shapes.with_affinity()
    }

    /// The shapes of bound pods of a namespace, in order of number: O(shapes), most of them in one step.
    pub(crate) fn shapes_of_namespace<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (ShapeId, &'a PodShape)> {
        self.shapes.of_namespace(namespace)
    }

    /// The shapes of [`Cluster::affinity_shapes`] but for some whose terms mean no pod of a namespace.
    pub(crate) fn shapes_concerning(
        &self,
        namespace: &str,
    ) -> impl Iterator<Item = (ShapeId, &PodShape)> {
        self.shapes.concerning(namespace)
    }

    /// The shape and the row of each pod on a node, and whether it is being deleted.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (ShapeId, Row, bool)> {
        self.pods.placed()
    }

    /// How many nodes have an image, by its exact name.
    pub fn nodes_with_image(&self, name: &str) -> u32 {
        self.image_nodes.get(name).copied().unwrap_or(0)
    }

    /// How many names of resources, label keys and label values have a number. It only grows.
    #[expect(dead_code, reason = "read by followers of the journal that resolve names")]
    pub(crate) fn names(&self) -> usize {
        self.resources.len() + self.label_keys.len() + self.label_values.len()
    }

    /// How many changes there have been. Equal numbers of one cluster mean that placement sees
    /// the same; what only waits aside is not counted.
    pub fn generation(&self) -> u64 {
        self.journal.now().generation
    }
}
