//! Conversions of views to nodes and pods of the model.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;

use super::columns::NO_POD_LIMIT;
use super::view::{NodeView, PodView};
use crate::model::resources::PODS;
use crate::model::{Amounts, Node, Pod};

impl NodeView<'_> {
    /// The node as a value of its own. O(labels + resources).
    pub fn to_node(self) -> Node {
        let mut node = Node::new(self.name());
        node.key = self.key();
        node.tie_rank = self.tie_rank();
        let rare = self.spec.rare();
        node.unschedulable = rare.unschedulable;
        node.taints.clone_from(&rare.taints);
        node.images.clone_from(&rare.images);
        node.devices.clone_from(&rare.devices);
        node.partitions.clone_from(&rare.partitions);
        node.zones.clone_from(&rare.zones);
        for (key, value) in self.labels() {
            let (key, value) = (self.cluster.label_key_text(key), self.cluster.label_text(value));
            node.labels.insert(key.to_owned(), value.to_owned());
        }
        let mut allocatable = Amounts::new();
        let zeros = rare.listed_zero.iter().map(|&resource| (resource, 0));
        for (resource, amount) in self.cluster.columns.offers(self.row).chain(zeros) {
            allocatable.set(self.cluster.resource_name(resource), amount);
        }
        if self.pod_limit() != NO_POD_LIMIT {
            allocatable.set(PODS, self.pod_limit());
        }
        node.capacity = rare.capacity.as_ref().unwrap_or(&allocatable).clone();
        node.allocatable = allocatable;
        node
    }
}

impl<'a> PodView<'a> {
    /// The pod as a value of its own, bound to the node it is on or waits for. A pod that a
    /// transaction has evicted is bound to none.
    pub fn to_pod(self) -> Pod {
        let node = self.node_name();
        let mut pod = self.to_pod_on("");
        pod.node = node.map(String::from);
        pod
    }

    /// The name of the node that the pod is on or waits for.
    pub(crate) fn node_name(self) -> Option<&'a str> {
        self.node().map(NodeView::name).or_else(|| self.waits_for())
    }

    /// The node that the pod is bound to, if that does not exist.
    pub(crate) fn waits_for(self) -> Option<&'a str> {
        self.cluster.parked.node_of(self.slot)
    }

    /// The pod as a value of its own, bound to `node`.
    pub(crate) fn to_pod_on(self, node: &str) -> Pod {
        let shape = self.cluster.shape_entry(self.record.shape());
        let shape = shape.map(|entry| Arc::clone(&entry.shape)).unwrap_or_default();
        let mut pod = Pod::of_shape(shape).name(self.name()).uid(self.uid()).on(node);
        pod.key = self.key();
        pod.priority = self.record.priority;
        pod.deleting = self.record.deleting();
        pod.start = self.start();
        pod.device_indexes = self.device_indexes().to_vec();
        pod.allocations = self.allocations().to_vec();
        pod.zone_shares = self.zone_shares().to_vec();
        let namespace = self.namespace().len() + 1;
        pod.group = self.group().and_then(|group| group.get(namespace..)).map(ToOwned::to_owned);
        pod
    }
}
