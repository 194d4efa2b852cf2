//! Events: versioned changes of single objects, and how a cluster applies them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use super::check::bound_node;
use super::claims::{ClaimKey, ClaimObject};
use super::cluster::Cluster;
use super::error::StateError;
use super::journal::Change;
use super::storage::{StorageKey, StorageObject};
use super::tombstones::Deleted;
use crate::model::{Labels, Node, NodeUsage, Pod};

/// A change to one object.
///
/// Events may come twice, late and in any order between objects. Each carries the version of its
/// object, a number that grows with every change (`metadata.resourceVersion`). An event that is not
/// newer than the known version of its object is [`Applied::Stale`] and changes nothing. Version 0
/// says that the embedder keeps order itself: the event always counts, and the known version stays
/// as it is.
///
/// A deletion is remembered by its version, so that a late event does not bring the object back;
/// [`Cluster::forget_deleted`] drops that memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum Event {
    /// A node was added or changed.
    NodeChanged {
        /// The node as it is now.
        node: Node,
        /// The node's version.
        version: u64,
    },
    /// A node was removed. Its pods are kept aside until they are deleted or it returns.
    NodeRemoved {
        /// The node's name.
        name: String,
        /// The version of the removal.
        version: u64,
    },
    /// A node's usage was measured. A report for a node that is unknown, or goes, is dropped: the
    /// next report will come.
    #[cfg(feature = "usage")]
    NodeUsageChanged {
        /// The node's name.
        name: String,
        /// The report; `None`: there is none any longer.
        usage: Option<Box<NodeUsage>>,
        /// The report's own version.
        version: u64,
    },
    /// A namespace was added, or its labels changed.
    NamespaceChanged {
        /// The namespace's name.
        name: String,
        /// Its labels now.
        labels: Labels,
        /// Its version.
        version: u64,
    },
    /// A namespace was removed.
    NamespaceRemoved {
        /// The namespace's name.
        name: String,
        /// The version of the removal.
        version: u64,
    },
    /// A pod was bound, or a bound pod changed, or is being deleted (`pod.deleting`).
    ///
    /// Its node need not exist yet: the pod is kept aside until it does.
    PodChanged {
        /// The pod as it is now.
        pod: Pod,
        /// The pod's version.
        version: u64,
    },
    /// A claim, a volume, a class or another object of storage was added or changed.
    #[cfg(feature = "volumes")]
    StorageChanged {
        /// The object as it is now.
        object: StorageObject,
        /// The object's version.
        version: u64,
    },
    /// An object of storage was removed.
    #[cfg(feature = "volumes")]
    StorageRemoved {
        /// Its kind and name.
        key: StorageKey,
        /// The version of the removal.
        version: u64,
    },
    /// A class of devices, a slice or a claim was added or changed.
    #[cfg(feature = "devices")]
    ClaimsChanged {
        /// The object as it is now.
        object: ClaimObject,
        /// The object's version.
        version: u64,
    },
    /// A class of devices, a slice or a claim was removed.
    #[cfg(feature = "devices")]
    ClaimsRemoved {
        /// Its kind and name.
        key: ClaimKey,
        /// The version of the removal.
        version: u64,
    },
    /// A pod is gone or has finished.
    PodDeleted {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The version of the deletion.
        version: u64,
    },
}

/// The effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Applied {
    /// The event counts. The state changed, unless the object is what it was but for its version.
    Changed,
    /// The pod is known, but waits aside for its node.
    Parked,
    /// Nothing was there to change; a deletion is remembered.
    Unknown,
    /// The event was not newer than what is known; nothing changed.
    Stale,
}

impl Cluster {
    /// Takes an event in.
    ///
    /// O(log nodes) for pods; O(log objects) for storage and claims, and a copy of all objects of the
    /// kind if clones of the cluster share them. O(√nodes) for nodes, and in proportion to the pods kept aside for
    /// one that appears.
    ///
    /// # Errors
    /// The object is unsound, a pod to be bound names no node, or a sum overflows. The state is
    /// then unchanged.
    pub fn apply(&mut self, event: Event) -> Result<Applied, StateError> {
        match event {
            Event::NodeChanged { node, version } => self.node_changed(&node, version),
            Event::NodeRemoved { name, version } => Ok(self.node_removed(name, version)),
            #[cfg(feature = "usage")]
            Event::NodeUsageChanged { name, usage, version } => {
                Ok(self.usage_changed(&name, usage.map(|usage| *usage), version))
            }
            Event::NamespaceChanged { name, labels, version } => {
                Ok(self.namespace_changed(name, labels, version))
            }
            Event::NamespaceRemoved { name, version } => Ok(self.namespace_removed(&name, version)),
            Event::PodChanged { pod, version } => self.pod_changed(&pod, version),
            #[cfg(feature = "volumes")]
            Event::StorageChanged { object, version } => self.storage_changed(object, version),
            #[cfg(feature = "volumes")]
            Event::StorageRemoved { key, version } => Ok(self.storage_removed(&key, version)),
            #[cfg(feature = "devices")]
            Event::ClaimsChanged { object, version } => self.claims_changed(object, version),
            #[cfg(feature = "devices")]
            Event::ClaimsRemoved { key, version } => Ok(self.claims_removed(&key, version)),
            Event::PodDeleted { namespace, name, version } => {
                Ok(self.pod_deleted(namespace, name, version))
            }
        }
    }

    /// Forgets deletions of versions up to and including `version`: events older than them would
    /// count again. Call it now and then with a version below which nothing can still arrive.
    pub fn forget_deleted(&mut self, version: u64) {
        self.deleted.forget_up_to(version);
    }

    fn node_changed(&mut self, node: &Node, version: u64) -> Result<Applied, StateError> {
        node.check()?;
        let row = self.row_of(&node.name);
        let known = row.map_or(0, |row| self.columns.version(row));
        let key = Deleted::Node(node.name.clone());
        if is_stale(version, known) || self.is_deleted(&key, version) {
            return Ok(Applied::Stale);
        }
        match row {
            Some(row) => self.replace_node(row, node, version.max(known))?,
            None => self.insert_node(node, version).map(|_| ())?,
        }
        self.recall(&key, version);
        Ok(Applied::Changed)
    }

    fn node_removed(&mut self, name: String, version: u64) -> Applied {
        let row = self.row_of(&name);
        let known = row.map_or(0, |row| self.columns.version(row));
        self.deletion(&Deleted::Node(name), version, known, row.is_some(), |cluster| {
            if let Some(row) = row {
                cluster.remove_row(row);
            }
        })
    }

    #[cfg(feature = "usage")]
    fn usage_changed(&mut self, node: &str, usage: Option<NodeUsage>, version: u64) -> Applied {
        let Some(row) = self.row_of(node) else { return Applied::Unknown };
        let known = self.columns.measured.get(row.index());
        let known_version = known.map_or(0, |known| known.1);
        if is_stale(version, known_version) {
            return Applied::Stale;
        }
        if known.is_some() || usage.is_some() {
            self.set_measured(row, usage.map(|usage| (usage, version.max(known_version))));
        }
        Applied::Changed
    }

    fn namespace_changed(&mut self, name: String, labels: Labels, version: u64) -> Applied {
        let known = self.namespaces.get(&name).map_or(0, |(_, version)| *version);
        let key = Deleted::Namespace(name.clone());
        if is_stale(version, known) || self.is_deleted(&key, version) {
            return Applied::Stale;
        }
        self.recall(&key, version);
        self.put_namespace(name, labels, version.max(known));
        Applied::Changed
    }

    fn namespace_removed(&mut self, name: &str, version: u64) -> Applied {
        let known = self.namespaces.get(name).map(|(_, version)| *version);
        let key = Deleted::Namespace(String::from(name));
        self.deletion(&key, version, known.unwrap_or(0), known.is_some(), |cluster| {
            Arc::make_mut(&mut cluster.namespaces).remove(name);
            cluster.journal.record(Change::Namespaces);
        })
    }

    #[cfg(feature = "volumes")]
    fn storage_changed(
        &mut self,
        object: StorageObject,
        version: u64,
    ) -> Result<Applied, StateError> {
        object.check()?;
        let key = object.key();
        let known = self.storage.version(&key).unwrap_or(0);
        let key = Deleted::Storage(key);
        if is_stale(version, known) || self.is_deleted(&key, version) {
            return Ok(Applied::Stale);
        }
        self.recall(&key, version);
        self.put_storage(object, version.max(known));
        Ok(Applied::Changed)
    }

    #[cfg(feature = "volumes")]
    fn storage_removed(&mut self, key: &StorageKey, version: u64) -> Applied {
        let known = self.storage.version(key);
        let deleted = Deleted::Storage(key.clone());
        self.deletion(&deleted, version, known.unwrap_or(0), known.is_some(), |cluster| {
            cluster.drop_storage(key);
        })
    }

    #[cfg(feature = "devices")]
    fn claims_changed(&mut self, object: ClaimObject, version: u64) -> Result<Applied, StateError> {
        object.check()?;
        let key = object.key();
        let known = self.claims().version(&key).unwrap_or(0);
        let key = Deleted::Claims(key);
        if is_stale(version, known) || self.is_deleted(&key, version) {
            return Ok(Applied::Stale);
        }
        self.recall(&key, version);
        self.put_claim_object(object, version.max(known));
        Ok(Applied::Changed)
    }

    #[cfg(feature = "devices")]
    fn claims_removed(&mut self, key: &ClaimKey, version: u64) -> Applied {
        let known = self.claims().version(key);
        let deleted = Deleted::Claims(key.clone());
        self.deletion(&deleted, version, known.unwrap_or(0), known.is_some(), |cluster| {
            cluster.remove_claim_object(key);
        })
    }

    fn pod_changed(&mut self, pod: &Pod, version: u64) -> Result<Applied, StateError> {
        let node = bound_node(pod)?;
        let slot = self.slot_of(pod.namespace(), &pod.name);
        let known = slot.map_or(0, |slot| self.pods.version(slot));
        let key = Deleted::Pod(pod.namespace().into(), pod.name.clone());
        if is_stale(version, known) || self.is_deleted(&key, version) {
            return Ok(Applied::Stale);
        }
        self.put_pod(pod, node, version.max(known), slot)?;
        self.recall(&key, version);
        let parked = self.row_of(node).is_none();
        Ok(if parked { Applied::Parked } else { Applied::Changed })
    }

    fn pod_deleted(&mut self, namespace: String, name: String, version: u64) -> Applied {
        let slot = self.slot_of(&namespace, &name);
        let known = slot.map_or(0, |slot| self.pods.version(slot));
        self.deletion(&Deleted::Pod(namespace, name), version, known, slot.is_some(), |cluster| {
            if let Some(slot) = slot {
                cluster.drop_pod_for_good(slot);
            }
        })
    }

    fn deletion(
        &mut self,
        key: &Deleted,
        version: u64,
        known: u64,
        exists: bool,
        delete: impl FnOnce(&mut Cluster),
    ) -> Applied {
        // A deletion carries the last version of its object or a later one.
        if version != 0 && version < known || exists && self.is_deleted(key, version) {
            return Applied::Stale;
        }
        if version != 0 {
            self.deleted.remember(key, version);
        }
        if !exists {
            return Applied::Unknown;
        }
        delete(self);
        Applied::Changed
    }

    fn is_deleted(&self, key: &Deleted, version: u64) -> bool {
        version != 0 && self.deleted.version(key).is_some_and(|deleted| version <= deleted)
    }

    /// Forgets the deletion of an object that has come back with a later version. Without one,
    /// the deletion is still needed, to recognise late events.
    fn recall(&mut self, key: &Deleted, version: u64) {
        if version != 0 {
            self.deleted.forget(key);
        }
    }
}

fn is_stale(version: u64, known: u64) -> bool {
    version != 0 && version <= known
}
