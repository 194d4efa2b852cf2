//! Volumes of pods: choices for their claims on nodes, kept in clusters and transactions.

mod matching;
mod needs;
mod offers;
mod refusal;
mod selector;

use alloc::string::String;
use alloc::sync::Arc;

pub use needs::{Provision, VolumeChoice, VolumeNeeds};
pub use refusal::VolumeRefusal;

use super::cluster::Cluster;
use super::error::StateError;
use super::journal::Change;
use super::storage::planned::{Replanned, Taking};
use super::storage::tables::{Assumed, Storage};
use super::storage::{StorageKey, StorageObject};
use crate::base::{ObjectName, Row};
use crate::model::{ClaimRef, PodShape, PodVolume, VolumeBindings};

impl Cluster {
    /// Claims, volumes and where storage can be made.
    #[cfg_attr(not(feature = "volumes"), doc(hidden))]
    #[inline]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Adds a storage object, or replaces the one of its kind and name.
    ///
    /// ```
    /// use phalanx::Cluster;
    /// use phalanx::model::VolumeClaim;
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.set_storage(VolumeClaim::new("default", "data").class("fast").request(1 << 30))?;
    /// assert_eq!(cluster.storage().claim("default", "data").unwrap().class, "fast");
    /// # Ok::<(), phalanx::StateError>(())
    /// ```
    ///
    /// # Errors
    /// The object has no name, or an amount is negative.
    #[cfg(feature = "volumes")]
    pub fn set_storage(&mut self, object: impl Into<StorageObject>) -> Result<(), StateError> {
        let object = object.into();
        object.check()?;
        let version = self.storage.version(&object.key()).unwrap_or(0);
        self.put_storage(object, version);
        Ok(())
    }

    /// Removes a storage object, if there is one.
    #[cfg(feature = "volumes")]
    pub fn remove_storage(&mut self, key: &StorageKey) {
        if self.storage.version(key).is_some() {
            self.drop_storage(key);
        }
    }

    /// Takes back what commits have bound of a claim and no event has told of yet: it was not written,
    /// or is not to be.
    #[cfg_attr(not(feature = "volumes"), doc(hidden))]
    pub fn release_claim(&mut self, namespace: &str, name: &str) {
        let Assumed { volumes, nodes } = &*self.storage.assumed;
        if volumes.is_empty() && nodes.is_empty() {
            return;
        }
        let full = ObjectName::new(namespace, name);
        let is_its = |of: &ClaimRef| of.namespace == namespace && of.name == name;
        if nodes.contains_key(&full) || volumes.values().any(is_its) {
            let assumed = Arc::make_mut(&mut self.storage.assumed);
            assumed.nodes.remove(&full);
            assumed.volumes.retain(|_, of| !is_its(of));
            self.journal.record(Change::Storage);
        }
    }

    /// Takes a pod away that does not come back, and with the last pod of a claim what commits have
    /// bound of it and no event has told of yet.
    pub(super) fn drop_pod_for_good(&mut self, slot: u32) {
        let entry = self.pods.record(slot).and_then(|record| self.shape_entry(record.shape()));
        let entry = entry.filter(|entry| !entry.shape.volumes.is_empty());
        let shape = entry.map(|entry| Arc::clone(&entry.shape));
        self.drop_pod(slot);
        let Some(shape) = shape else { return };
        for claim in shape.volumes.iter().filter_map(PodVolume::claim) {
            if !self.has_user_of(&shape.namespace, claim) {
                self.release_claim(&shape.namespace, claim);
            }
        }
    }

    pub(super) fn put_storage(&mut self, object: StorageObject, version: u64) {
        self.storage.put(object, version);
        self.journal.record(Change::Storage);
    }

    pub(super) fn drop_storage(&mut self, key: &StorageKey) {
        self.storage.remove(key);
        self.journal.record(Change::Storage);
    }

    /// Binds claims to what a plan gives them, for pods on a node.
    pub(crate) fn assume_volumes(&mut self, bindings: &VolumeBindings, node: &str) {
        let before = Arc::clone(&self.storage.assumed);
        self.storage.assume(bindings, node);
        if !Arc::ptr_eq(&before, &self.storage.assumed) {
            self.journal.record(Change::Storage);
        }
    }

    /// Plans what the claims of a pod get on a row, as far as they can be met: what a plan gives them
    /// if it still can be had. Returns what claims were before.
    pub(super) fn plan_volumes(
        &mut self,
        shape: &PodShape,
        row: Row,
        bindings: Option<&VolumeBindings>,
    ) -> Replanned {
        let needs = VolumeNeeds::of(self, shape).ok();
        let placed = needs.as_ref().zip(self.view(row));
        let takings = placed.and_then(|(needs, node)| {
            let given = bindings.and_then(|bindings| needs.hold(node, bindings).ok());
            given.or_else(|| needs.take(node))
        });
        let own = |taking: &Taking| needs.as_ref().is_some_and(|needs| needs.names(taking));
        self.storage.planned.apply(takings.unwrap_or_default(), row, own)
    }

    /// Takes back [`Cluster::plan_volumes`].
    pub(super) fn unplan_volumes(&mut self, before: Replanned) {
        self.storage.planned.restore(before);
    }

    /// Counts a pod that a transaction evicts from a row, or takes back: its volumes go with it.
    pub(super) fn count_leaving(&mut self, slot: u32, row: Row, is_back: bool) {
        let entry = self.pods.record(slot).and_then(|record| self.shape_entry(record.shape()));
        let entry = entry.filter(|entry| !entry.shape.volumes.is_empty());
        let shape = entry.map(|entry| Arc::clone(&entry.shape));
        let (Some(shape), Some(node)) = (shape, self.view(row)) else { return };
        let node = String::from(node.name());
        for claim in shape.volumes.iter().filter_map(PodVolume::claim) {
            let claim = self.storage.shared_claim(&shape.namespace, claim).map(Arc::clone);
            if let Some(claim) = claim.filter(|claim| !claim.volume.is_empty()) {
                self.storage.planned.leave(&node, &claim.volume, is_back);
            }
        }
    }

    /// Volumes that a transaction has planned for the claims of a pod.
    pub(crate) fn planned_volumes(&self, shape: &PodShape) -> Option<VolumeBindings> {
        let mut bindings = VolumeBindings::default();
        for volume in &shape.volumes {
            let Some(claim) = volume.claim() else { continue };
            self.storage.planned.add_to(&ObjectName::new(&shape.namespace, claim), &mut bindings);
        }
        // A pod may name a claim twice.
        bindings.bind.sort_unstable();
        bindings.bind.dedup();
        bindings.provision.sort_unstable();
        bindings.provision.dedup();
        Some(bindings).filter(|bindings| !bindings.is_empty())
    }

    /// Takes what a transaction has planned for bound.
    pub(super) fn keep_planned_volumes(&mut self) {
        let planned = core::mem::take(&mut self.storage.planned);
        for claim in planned.claims() {
            let mut bindings = VolumeBindings::default();
            planned.add_to(&claim.taking.need.name, &mut bindings);
            let node = claim.rows.first().and_then(|row| self.view(*row));
            let node = node.map_or_else(String::new, |node| node.name().into());
            self.assume_volumes(&bindings, &node);
        }
    }

    /// Lets claims of pods that are placed hand over volumes to those that are placed later.
    pub(crate) fn rearrange_volumes(&mut self) {
        self.storage.planned.rearranges = true;
    }

    /// Whether the claims of a pod can still have what a plan gives them on a row.
    ///
    /// # Errors
    /// They cannot: why.
    pub(crate) fn check_bindings(
        &self,
        shape: &PodShape,
        row: Row,
        bindings: &VolumeBindings,
    ) -> Result<(), VolumeRefusal> {
        let needs = VolumeNeeds::of(self, shape)?;
        self.view(row).map_or(Ok(()), |node| needs.hold(node, bindings).map(|_| ()))
    }
}
