//! A cluster as data: canonical, so that equal states are equal bytes.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::cluster::Cluster;
use super::event::Deleted;
use super::ids::ResourceId;
use super::view::{NodeView, PodView};
use crate::model::resources::PODS;
use crate::model::{Amounts, Labels, Node, Pod};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    levels: Vec<String>,
    namespaces: Vec<(String, Labels, u64)>,
    nodes: Vec<(Node, u64)>,
    pods: Vec<(Pod, u64)>,
    deleted: Vec<(Deleted, u64)>,
}

impl NodeView<'_> {
    /// The node as a value of its own.
    pub fn to_node(self) -> Node {
        let mut node = Node::new(self.name());
        node.key = self.spec.key;
        node.tie_rank = self.spec.tie_rank;
        node.unschedulable = self.spec.unschedulable;
        node.taints = self.spec.taints.to_vec();
        node.images = self.spec.images.to_vec();
        node.devices = self.spec.devices.to_vec();
        for (key, value) in self.labels() {
            let (key, value) = (self.cluster.label_key_text(key), self.cluster.label_text(value));
            node.labels.insert(key.to_owned(), value.to_owned());
        }
        let mut allocatable = Amounts::new();
        for resource in 0..self.cluster.columns.allocatable.len() {
            let resource = ResourceId(resource as u32);
            let amount = self.allocatable(resource);
            if amount != 0 || self.spec.listed_zero.contains(&resource) {
                allocatable.set(self.cluster.resource_name(resource), amount);
            }
        }
        if self.pod_limit() != super::columns::NO_POD_LIMIT {
            allocatable.set(PODS, self.pod_limit());
        }
        node.capacity = self.spec.capacity.as_deref().unwrap_or(&allocatable).clone();
        node.allocatable = allocatable;
        node
    }
}

impl PodView<'_> {
    /// The pod as a value of its own, bound to `node`.
    fn to_pod(self, node: &str) -> Option<Pod> {
        let shape = &self.cluster.shape_entry(self.record.shape)?.shape;
        let mut pod = Pod::of_shape(Arc::clone(shape)).name(self.name()).uid(self.uid()).on(node);
        pod.key = self.record.key;
        pod.priority = self.record.priority;
        pod.deleting = self.record.deleting;
        pod.device_indexes = self.device_indexes().to_vec();
        let namespace = self.namespace().len() + 1;
        pod.group = self.group().map(|group| group[namespace..].to_owned());
        Some(pod)
    }
}

impl Serialize for Cluster {
    /// Levels in their order; namespaces, nodes and pods by name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut nodes: Vec<_> =
            self.nodes().map(|node| (node.to_node(), node.spec.version)).collect();
        nodes.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let bound = self.pods().filter_map(|pod| Some((pod, pod.node()?.name())));
        let parked = self.parked.iter().flat_map(|(node, slots)| {
            slots.iter().filter_map(|&slot| Some((self.pod_view(slot)?, node.as_str())))
        });
        let mut pods: Vec<_> = bound
            .chain(parked)
            .filter_map(|(pod, node)| Some((pod.to_pod(node)?, pod.record.version)))
            .collect();
        pods.sort_by(|a, b| {
            (a.0.namespace(), &a.0.name, &a.0.node).cmp(&(b.0.namespace(), &b.0.name, &b.0.node))
        });
        Snapshot {
            levels: self.levels().map(ToOwned::to_owned).collect(),
            namespaces: self
                .namespaces
                .iter()
                .map(|(name, (labels, version))| (name.clone(), labels.clone(), *version))
                .collect(),
            nodes,
            pods,
            deleted: self.deleted.iter().map(|(key, version)| (key.clone(), *version)).collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Cluster {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cluster, D::Error> {
        let snapshot = Snapshot::deserialize(deserializer)?;
        let mut cluster =
            Cluster::builder().levels(snapshot.levels).build().map_err(D::Error::custom)?;
        for (name, labels, version) in snapshot.namespaces {
            Arc::make_mut(&mut cluster.namespaces).insert(name, (labels, version));
        }
        for (node, version) in snapshot.nodes {
            node.check().map_err(D::Error::custom)?;
            if cluster.row_of(&node.name).is_some() {
                return Err(D::Error::custom(super::StateError::NodeExists(node.name)));
            }
            cluster.insert_node(&node, version).map_err(D::Error::custom)?;
        }
        for (pod, version) in snapshot.pods {
            pod.check().map_err(D::Error::custom)?;
            let Some(node) = pod.node.clone() else {
                return Err(D::Error::custom(super::StateError::NotBound(pod.name)));
            };
            let old = cluster.slot_of(pod.namespace(), &pod.name);
            cluster.put_pod(&pod, &node, version, old).map_err(D::Error::custom)?;
        }
        Arc::make_mut(&mut cluster.deleted).extend(snapshot.deleted);
        Ok(cluster)
    }
}
