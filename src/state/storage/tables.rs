//! Storage: claims, volumes, classes and pools of a cluster, and bindings of plans.
//!
//! | part | changed by |
//! |---|---|
//! | objects | events |
//! | assumed: claims that commits have bound, until an event tells of them | commits |
//! | planned: claims that pods of a transaction bind | placing and taking back |
//!
//! A cluster without storage costs a few empty maps.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;

use super::object::{StorageKey, StorageKind, StorageObject};
use super::planned::Planned;
use crate::base::ObjectName;
use crate::model::{
    AttachLimits, ClaimRef, StorageCapacity, StorageClass, StorageDriver, Volume, VolumeAttachment,
    VolumeBindings, VolumeClaim,
};
use crate::state::check::name_in;

/// The storage of a cluster, or of a transaction, for reading: [`Cluster::storage`](crate::Cluster::storage).
///
/// Its content changes with events of storage objects and with pods that are placed. A plugin that
/// reads it declares [`Reach::Cluster`](crate::framework::Reach::Cluster) for shapes with volumes.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    pub(in crate::state) claims: Table<VolumeClaim>,
    pub(in crate::state) volumes: Table<Volume>,
    pub(in crate::state) classes: Table<StorageClass>,
    pub(in crate::state) drivers: Table<StorageDriver>,
    pub(in crate::state) capacities: Table<StorageCapacity>,
    pub(in crate::state) limits: Table<AttachLimits>,
    pub(in crate::state) attachments: Table<VolumeAttachment>,
    /// The names of volumes by class.
    volumes_of: Arc<BTreeMap<String, BTreeSet<String>>>,
    pub(in crate::state) assumed: Arc<Assumed>,
    pub(in crate::state) planned: Planned,
}

/// Objects of one kind by name, with their versions.
#[derive(Debug)]
pub(in crate::state) struct Table<T>(pub(in crate::state) Arc<BTreeMap<String, (Arc<T>, u64)>>);

/// Bindings that commits have made and no event has told of yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::state) struct Assumed {
    /// The claims that volumes are set aside for, by volume.
    pub(in crate::state) volumes: BTreeMap<String, ClaimRef>,
    /// The nodes that volumes are provisioned for, by claim.
    pub(in crate::state) nodes: BTreeMap<ObjectName, String>,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Table<T> {
        Table(Arc::clone(&self.0))
    }
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table(Arc::default())
    }
}

impl<T> Table<T> {
    pub(in crate::state) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.0.get(name).map(|(object, _)| object)
    }

    fn version(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|(_, version)| *version)
    }

    fn put(&mut self, name: String, object: T, version: u64) {
        Arc::make_mut(&mut self.0).insert(name, (Arc::new(object), version));
    }

    fn remove(&mut self, name: &str) -> Option<Arc<T>> {
        Arc::make_mut(&mut self.0).remove(name).map(|(object, _)| object)
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|(object, _)| &**object)
    }
}

impl Storage {
    /// A claim. O(log claims).
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&VolumeClaim> {
        self.shared_claim(namespace, name).map(|claim| &**claim)
    }

    pub(in crate::state) fn shared_claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<VolumeClaim>> {
        if self.claims.0.is_empty() { None } else { self.claims.get(&name_in(namespace, name)) }
    }

    /// A volume. O(log volumes).
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.get(name).map(|volume| &**volume)
    }

    /// A storage class. O(log classes).
    pub fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name).map(|class| &**class)
    }

    /// A driver. O(log drivers).
    pub fn driver(&self, name: &str) -> Option<&StorageDriver> {
        self.drivers.get(name).map(|driver| &**driver)
    }

    /// The attach limits of a node. O(log nodes).
    pub fn limits(&self, node: &str) -> Option<&AttachLimits> {
        self.limits.get(node).map(|limits| &**limits)
    }

    /// All claims, in order of full name.
    pub fn claims(&self) -> impl Iterator<Item = &VolumeClaim> {
        self.claims.iter()
    }

    /// All volumes, in order of name.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.iter()
    }

    /// All pools, in order of full name.
    pub fn capacities(&self) -> impl Iterator<Item = &StorageCapacity> {
        self.capacities.iter()
    }

    /// Whether a volume is detached once a pod is gone that the transaction has evicted from where it
    /// is attached.
    pub fn is_leaving(&self, attached: &VolumeAttachment) -> bool {
        self.planned.leaves(&attached.node, &attached.volume)
    }

    /// All attachments, in order of name.
    pub fn attachments(&self) -> impl Iterator<Item = &VolumeAttachment> {
        self.attachments.iter()
    }

    /// The claim that a volume is set aside for: by a commit that no event has told of yet, else as
    /// the volume says itself. What a transaction plans is not among it.
    pub fn holder(&self, volume: &Volume) -> Option<ClaimRef> {
        self.assumed.volumes.get(&volume.name).or(volume.claim.as_ref()).cloned()
    }

    /// The node that a volume of a claim is provisioned for: by a commit that no event has told of
    /// yet, else as the claim says itself. What a transaction plans is not among it.
    pub fn selected_node<'a>(&'a self, claim: &'a VolumeClaim) -> Option<&'a str> {
        let assumed = if self.assumed.nodes.is_empty() {
            None
        } else {
            self.assumed.nodes.get(&*claim.full_name())
        };
        assumed.or(claim.selected_node.as_ref()).map(String::as_str)
    }

    pub(in crate::state) fn is_set_aside_for_another(
        &self,
        volume: &Volume,
        claim: &VolumeClaim,
    ) -> bool {
        let holder = self.assumed.volumes.get(&volume.name).or(volume.claim.as_ref());
        holder.is_some_and(|holder| !holder.means(claim))
    }

    pub(in crate::state) fn is_set_aside_for(&self, volume: &Volume, claim: &VolumeClaim) -> bool {
        let holder = self.assumed.volumes.get(&volume.name).or(volume.claim.as_ref());
        holder.is_some_and(|holder| holder.means(claim))
    }

    pub(in crate::state) fn volumes_of_class(
        &self,
        class: &str,
    ) -> impl Iterator<Item = &Arc<Volume>> {
        let names = self.volumes_of.get(class).into_iter().flatten();
        names.filter_map(|name| self.volumes.get(name))
    }

    /// The version of an object; `None` if there is none.
    pub(in crate::state) fn version(&self, key: &StorageKey) -> Option<u64> {
        let name = &*key.name;
        match key.kind {
            StorageKind::Claim => self.claims.version(name),
            StorageKind::Volume => self.volumes.version(name),
            StorageKind::Class => self.classes.version(name),
            StorageKind::Driver => self.drivers.version(name),
            StorageKind::Capacity => self.capacities.version(name),
            StorageKind::Limits => self.limits.version(name),
            StorageKind::Attachment => self.attachments.version(name),
        }
    }

    pub(in crate::state) fn put(&mut self, object: StorageObject, version: u64) {
        let StorageKey { name, .. } = object.key();
        match object {
            StorageObject::Claim(claim) => {
                if self.assumed.nodes.contains_key(&*name) {
                    Arc::make_mut(&mut self.assumed).nodes.remove(&*name);
                }
                self.claims.put(name, claim, version);
            }
            StorageObject::Volume(volume) => {
                self.forget_volume(&name);
                let classes = Arc::make_mut(&mut self.volumes_of);
                classes.entry(volume.class.clone()).or_default().insert(name.clone());
                self.volumes.put(name, volume, version);
            }
            StorageObject::Class(class) => self.classes.put(name, class, version),
            StorageObject::Driver(driver) => self.drivers.put(name, driver, version),
            StorageObject::Capacity(pool) => self.capacities.put(name, pool, version),
            StorageObject::Limits(limits) => self.limits.put(name, limits, version),
            StorageObject::Attachment(attached) => self.attachments.put(name, attached, version),
        }
    }

    pub(in crate::state) fn remove(&mut self, key: &StorageKey) {
        let name = &*key.name;
        match key.kind {
            StorageKind::Claim => {
                self.claims.remove(name);
                if self.assumed.nodes.contains_key(name) {
                    Arc::make_mut(&mut self.assumed).nodes.remove(name);
                }
            }
            StorageKind::Volume => {
                self.forget_volume(name);
                self.volumes.remove(name);
            }
            StorageKind::Class => drop(self.classes.remove(name)),
            StorageKind::Driver => drop(self.drivers.remove(name)),
            StorageKind::Capacity => drop(self.capacities.remove(name)),
            StorageKind::Limits => drop(self.limits.remove(name)),
            StorageKind::Attachment => drop(self.attachments.remove(name)),
        }
    }

    /// Takes a volume out of its class, and forgets what was assumed of it.
    fn forget_volume(&mut self, name: &str) {
        if let Some(old) = self.volumes.get(name) {
            let classes = Arc::make_mut(&mut self.volumes_of);
            if let Some(names) = classes.get_mut(&old.class) {
                names.remove(name);
                if names.is_empty() {
                    classes.remove(&old.class);
                }
            }
        }
        if self.assumed.volumes.contains_key(name) {
            Arc::make_mut(&mut self.assumed).volumes.remove(name);
        }
    }

    /// The first claim of some bindings whose volume another claim has; with the volume and that
    /// claim.
    pub(crate) fn conflict(
        &self,
        bindings: &VolumeBindings,
    ) -> Option<(ObjectName, String, ObjectName)> {
        bindings.bind.iter().find_map(|(name, volume)| {
            let claim = self.claim(name.namespace(), name.name())?;
            let holder = self.holder(self.volume(volume)?).filter(|holder| !holder.means(claim))?;
            let holder = ObjectName::new(&holder.namespace, &holder.name);
            Some((name.clone(), volume.clone(), holder))
        })
    }

    pub(in crate::state) fn assume(&mut self, bindings: &VolumeBindings, node: &str) {
        for (name, volume) in &bindings.bind {
            let Some(claim) = self.claim(name.namespace(), name.name()) else { continue };
            if claim.is_bound()
                || self.volume(volume).is_none_or(|v| self.is_set_aside_for(v, claim))
            {
                continue;
            }
            let holder = ClaimRef {
                namespace: claim.namespace.clone(),
                name: claim.name.clone(),
                uid: claim.uid.clone(),
            };
            Arc::make_mut(&mut self.assumed).volumes.insert(volume.clone(), holder);
        }
        for name in &bindings.provision {
            let claim = self.claim(name.namespace(), name.name());
            if claim.is_some_and(|claim| !claim.is_bound() && self.selected_node(claim).is_none()) {
                Arc::make_mut(&mut self.assumed).nodes.insert(name.clone(), node.into());
            }
        }
    }
}
