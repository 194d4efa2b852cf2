//! A cluster as data: canonical, so that equal states are equal bytes.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::check::bound_node;
use super::claims::ClaimKey;
use super::cluster::Cluster;
use super::storage::Storage;
use super::tombstones::Deleted;
use crate::model::{DeviceClass, Labels, Node, NodeUsage, Pod, ResourceClaim, ResourceSlice};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    levels: Vec<String>,
    namespaces: Vec<(String, Labels, u64)>,
    nodes: Vec<(Node, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    measured: Vec<(String, NodeUsage, u64)>,
    pods: Vec<(Pod, u64)>,
    deleted: Vec<(Deleted, u64)>,
    #[serde(default, skip_serializing_if = "Storage::is_empty")]
    storage: Storage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claims: Option<Claims>,
}

/// Published classes and slices of drivers, and the claims.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Claims {
    classes: Vec<DeviceClass>,
    slices: Vec<ResourceSlice>,
    objects: Vec<ResourceClaim>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    versions: Vec<(ClaimKey, u64)>,
}

impl Serialize for Cluster {
    /// Levels in their order; namespaces, nodes and pods by name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut nodes: Vec<_> =
            self.nodes().map(|node| (node.to_node(), self.columns.version(node.row))).collect();
        nodes.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let bound = self.pods().filter_map(|pod| Some((pod, pod.node()?.name())));
        let parked =
            self.parked.iter().filter_map(|(node, slot)| Some((self.pod_view(slot)?, node)));
        let mut pods: Vec<_> = bound
            .chain(parked)
            .map(|(pod, node)| (pod.to_pod_on(node), self.pods.version(pod.slot)))
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
            measured: nodes
                .iter()
                .filter_map(|(node, _)| {
                    let measured = self.columns.measured.get(self.row_of(&node.name)?.index())?;
                    Some((node.name.clone(), measured.0.clone(), measured.1))
                })
                .collect(),
            nodes,
            pods,
            deleted: self.deleted.sorted(),
            storage: self.storage.clone(),
            claims: (!self.claims.is_empty()).then(|| Claims {
                classes: self.claims.classes().cloned().collect(),
                slices: self.claims.slices().cloned().collect(),
                objects: self.claims.claims_as_given(),
                versions: self.claims.versions().map(|(key, of)| (key.clone(), of)).collect(),
            }),
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
        for (node, usage, version) in snapshot.measured {
            if let Some(row) = cluster.row_of(&node) {
                cluster.set_measured(row, Some((usage, version)));
            }
        }
        let claims = snapshot.claims.unwrap_or_default();
        claims.classes.into_iter().for_each(|class| cluster.set_device_class(class));
        claims.slices.into_iter().for_each(|slice| cluster.set_resource_slice(slice));
        claims.objects.into_iter().for_each(|claim| cluster.set_claim(claim));
        cluster.claims.set_versions(claims.versions);
        for (pod, version) in snapshot.pods {
            let node = bound_node(&pod).map_err(D::Error::custom)?;
            if cluster.slot_of(pod.namespace(), &pod.name).is_some() {
                return Err(D::Error::custom(super::StateError::PodExists(pod.full_name())));
            }
            cluster.put_pod(&pod, node, version, None).map_err(D::Error::custom)?;
        }
        for (object, version) in snapshot.deleted {
            cluster.deleted.remember(&object, version);
        }
        cluster.storage = snapshot.storage;
        Ok(cluster)
    }
}
