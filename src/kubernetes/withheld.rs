//! Reasons in other objects to leave pods alone: statements about their nodes that are not in force.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::account;
use super::field::{Fault, Field};
use super::metadata;

/// Reasons to leave pods alone, by the object that they follow from.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    namespaces: BTreeMap<String, Vec<String>>,
    /// Queues of Volcano and of KAI.
    queues: BTreeMap<String, Vec<String>>,
    flavors: BTreeMap<String, Vec<String>>,
    /// The flavours of cluster queues.
    cluster_queues: BTreeMap<String, Vec<String>>,
    /// The cluster queue of local queues, by namespace and name.
    local_queues: BTreeMap<(String, String), String>,
}

impl Withheld {
    /// Takes an object of any kind, if it bears on the nodes of pods beside it.
    pub(super) fn take(&mut self, group: &str, kind: &str, root: &Field<'_>) -> Fault<()> {
        match (group, kind) {
            ("", "LimitRange") => note(&mut self.namespaces, metadata::namespace(root)?, root),
            ("", "Namespace") => note(&mut self.namespaces, metadata::name(root)?, root),
            ("scheduling.volcano.sh" | "scheduling.run.ai", "Queue") => {
                note(&mut self.queues, metadata::name(root)?, root);
            }
            ("kueue.x-k8s.io", "ResourceFlavor") => {
                note(&mut self.flavors, metadata::name(root)?, root);
            }
            ("kueue.x-k8s.io", "ClusterQueue") => self.cluster_queue(root)?,
            ("kueue.x-k8s.io", "LocalQueue") => {
                if let Some(spec) = root.get("spec")? {
                    let name = (metadata::namespace(root)?, metadata::name(root)?);
                    self.local_queues.insert(name, spec.text_of("clusterQueue")?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn cluster_queue(&mut self, root: &Field<'_>) -> Fault<()> {
        let name = metadata::name(root)?;
        let flavors = self.cluster_queues.entry(name).or_default();
        let Some(spec) = root.get("spec")? else { return Ok(()) };
        spec.each("resourceGroups", |group| {
            group.each("flavors", |flavor| {
                flavors.push(flavor.text_of("name")?);
                Ok(())
            })?;
            Ok(())
        })?;
        Ok(())
    }

    /// Why the pods of a namespace are left alone.
    pub(super) fn of_namespace(&self, namespace: &str) -> &[String] {
        self.namespaces.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Why what waits in a queue is left alone: in one of Volcano or KAI, or in a local one of Kueue.
    pub(super) fn of_queue(
        &self,
        namespace: &str,
        queue: &str,
        local: Option<&str>,
    ) -> impl Iterator<Item = &String> {
        let local = local.map(|local| (namespace.into(), local.into()));
        let cluster_queue = local.and_then(|local| self.local_queues.get(&local));
        let flavors = cluster_queue.and_then(|queue| self.cluster_queues.get(queue));
        let flavors = flavors.into_iter().flatten().filter_map(|name| self.flavors.get(name));
        self.queues.get(queue).into_iter().chain(flavors).flatten()
    }

    /// Why a pod is left alone, by its namespace and the queues that its labels name.
    pub(super) fn of_pod(
        &self,
        namespace: &str,
        queue: &str,
        local: Option<&str>,
    ) -> impl Iterator<Item = &String> {
        self.of_namespace(namespace).iter().chain(self.of_queue(namespace, queue, local))
    }

    /// Whether nothing is left alone.
    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.queues.is_empty() && self.flavors.is_empty()
    }
}

/// Notes what an object says that is not in force.
fn note(into: &mut BTreeMap<String, Vec<String>>, name: String, root: &Field<'_>) {
    let refused = account::refused_of(root.value, root.object.mode);
    if !refused.is_empty() {
        let named = refused.into_iter().map(|field| format!("{}: {field}", root.object.name));
        into.entry(name).or_default().extend(named);
    }
}
