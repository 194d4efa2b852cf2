//! Volumes of pods: claims, the volumes that serve them, and where storage can be provisioned.
//!
//! The words are those of Kubernetes without its prefixes: a claim is a `PersistentVolumeClaim`, a
//! volume a `PersistentVolume`. Sizes are bytes.

use alloc::string::String;
use alloc::vec::Vec;

use super::Labels;
use super::affinity::{NodeSelector, NodeSelectorTerm};
use super::selector::LabelSelector;
use crate::base::ObjectName;

/// A volume that a pod mounts, as far as it decides where the pod can go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum PodVolume {
    /// A claim of the pod's namespace, by name.
    Claim(String),
    /// A claim that was made for the pod alone and goes with it.
    Ephemeral {
        /// The name of the claim.
        claim: String,
        /// The uid of the pod, which must control the claim.
        owner: String,
    },
    /// A disk that the pod names itself.
    Disk(InlineDisk),
    /// A volume that the pod names itself, of a plug-in that a driver stands in for. It counts for
    /// the driver on nodes where the plug-in [has migrated](field@AttachLimits::migrated).
    Migrated {
        /// The plug-in.
        plugin: String,
        /// The driver, and the name that it has for the volume.
        volume: DriverVolume,
    },
}

impl PodVolume {
    /// The name of the claim, if it is one.
    pub fn claim(&self) -> Option<&str> {
        match self {
            PodVolume::Claim(claim) | PodVolume::Ephemeral { claim, .. } => Some(claim),
            PodVolume::Disk(_) | PodVolume::Migrated { .. } => None,
        }
    }

    /// The driver of a volume that the pod names itself, if its plug-in has migrated on a node with
    /// these limits.
    pub fn migrated(&self, limits: &AttachLimits) -> Option<&DriverVolume> {
        match self {
            PodVolume::Migrated { plugin, volume } => {
                limits.migrated.contains(plugin).then_some(volume)
            }
            _ => None,
        }
    }
}

/// A disk that pods name themselves. Two pods that write to it cannot be on one node.
///
/// ```
/// use phalanx::model::InlineDisk;
///
/// let disk = InlineDisk::new("rbd", "pool/image").on_hosts(["m1", "m2"]);
/// assert!(disk.conflicts(&InlineDisk::new("rbd", "pool/image").on_hosts(["m2", "m3"])));
/// assert!(!disk.conflicts(&InlineDisk::new("rbd", "pool/image").on_hosts(["m3"])));
/// let reader = InlineDisk::new("iscsi", "iqn.2026-01.example:d").read_only();
/// assert!(!reader.conflicts(&reader));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct InlineDisk {
    /// The system that serves it: disks of two systems never conflict.
    pub kind: String,
    /// Its name there.
    pub name: String,
    /// The hosts that serve it; disks of one name are the same one if they share a host. Empty where
    /// the name alone tells.
    pub hosts: Vec<String>,
    /// Whether the pod only reads it. Readers do not conflict with each other.
    pub read_only: bool,
}

impl InlineDisk {
    /// A disk of a system, by its name there.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> InlineDisk {
        InlineDisk { kind: kind.into(), name: name.into(), ..InlineDisk::default() }
    }

    /// Sets the hosts that serve it.
    #[must_use]
    pub fn on_hosts<S: Into<String>>(mut self, hosts: impl IntoIterator<Item = S>) -> InlineDisk {
        self.hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// States that it is only read.
    #[must_use]
    pub fn read_only(mut self) -> InlineDisk {
        self.read_only = true;
        self
    }

    /// Whether two pods with these disks cannot be on one node.
    ///
    /// Source: kube-scheduler, `volumerestrictions/volume_restrictions.go`, `isVolumeConflict`.
    pub fn conflicts(&self, other: &InlineDisk) -> bool {
        let named_alike = self.kind == other.kind && self.name == other.name;
        let by_name = self.hosts.is_empty() && other.hosts.is_empty();
        let share_host = || self.hosts.iter().any(|host| other.hosts.contains(host));
        named_alike && !(self.read_only && other.read_only) && (by_name || share_host())
    }
}

/// Who may mount a volume at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[allow(clippy::enum_variant_names, reason = "the names are those of Kubernetes")]
pub enum AccessMode {
    /// Pods of one node, for reading and writing. No filter holds pods to one node for it; the
    /// node affinity of the volume does.
    ReadWriteOnce,
    /// Pods of many nodes, for reading.
    ReadOnlyMany,
    /// Pods of many nodes, for reading and writing.
    ReadWriteMany,
    /// One pod.
    ReadWriteOncePod,
}

/// Whether a volume holds a file system or is a raw device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum VolumeMode {
    /// A file system.
    #[default]
    Filesystem,
    /// A raw device.
    Block,
}

/// A request for storage: bound to a volume, or to be bound when its first pod is placed.
///
/// It is bound if it names a volume and says that binding is [complete](Self::bound). If it names
/// none, and its class [waits for the first consumer](BindingMode::WaitForFirstConsumer), the node of
/// its first pod decides which volume it gets, or where one is provisioned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct VolumeClaim {
    /// The namespace.
    pub namespace: String,
    /// The name; unique in its namespace.
    pub name: String,
    /// The identity that survives the name being used again; may be empty.
    pub uid: String,
    /// The storage class; empty for none.
    pub class: String,
    /// How much is asked for; `None` if the claim does not say.
    pub request: Option<i64>,
    /// Access modes that a volume must offer.
    pub access_modes: Vec<AccessMode>,
    /// Mode that a volume must have.
    pub mode: VolumeMode,
    /// The class of attributes that a volume must be of; empty for none.
    pub attributes_class: String,
    /// The labels of volumes that will do; `None`: any.
    pub selector: Option<LabelSelector>,
    /// The volume it names; empty for none.
    pub volume: String,
    /// Whether binding to that volume is complete.
    pub bound: bool,
    /// The node that a volume is provisioned for.
    pub selected_node: Option<String>,
    /// The uid of the pod that controls it; empty for none.
    pub owner: String,
    /// Whether its volume is gone.
    pub lost: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl VolumeClaim {
    /// A claim on a file system that one node mounts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> VolumeClaim {
        VolumeClaim {
            namespace: namespace.into(),
            name: name.into(),
            access_modes: alloc::vec![AccessMode::ReadWriteOnce],
            ..VolumeClaim::default()
        }
    }

    /// The full name: `namespace/name`.
    pub fn full_name(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }

    /// Sets the storage class.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> VolumeClaim {
        self.class = class.into();
        self
    }

    /// Asks for so many bytes.
    #[must_use]
    pub fn request(mut self, bytes: i64) -> VolumeClaim {
        self.request = Some(bytes);
        self
    }

    /// Sets what a volume must offer.
    #[must_use]
    pub fn access(mut self, modes: impl IntoIterator<Item = AccessMode>) -> VolumeClaim {
        self.access_modes = modes.into_iter().collect();
        self
    }

    /// Sets the labels of volumes that will do.
    #[must_use]
    pub fn selector(mut self, selector: LabelSelector) -> VolumeClaim {
        self.selector = Some(selector);
        self
    }

    /// Binds it to a volume.
    #[must_use]
    pub fn bound_to(mut self, volume: impl Into<String>) -> VolumeClaim {
        (self.volume, self.bound) = (volume.into(), true);
        self
    }

    /// Whether it is bound.
    pub fn is_bound(&self) -> bool {
        self.bound && !self.volume.is_empty()
    }

    /// Whether one pod at a time may use it.
    pub fn is_of_one_pod(&self) -> bool {
        self.access_modes.contains(&AccessMode::ReadWriteOncePod)
    }
}

/// The claim that a volume is set aside for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct ClaimRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid; empty stands for any.
    pub uid: String,
}

impl ClaimRef {
    /// Whether a claim is meant.
    pub fn means(&self, claim: &VolumeClaim) -> bool {
        self.name == claim.name
            && self.namespace == claim.namespace
            && (self.uid.is_empty() || self.uid == claim.uid)
    }
}

/// The driver that attaches a volume, and the volume's name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct DriverVolume {
    /// The driver.
    pub driver: String,
    /// The handle.
    pub handle: String,
}

/// A piece of storage, with the nodes that reach it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Volume {
    /// The name.
    pub name: String,
    /// The storage class; empty for none.
    pub class: String,
    /// Its size.
    pub capacity: i64,
    /// Access modes that it offers.
    pub access_modes: Vec<AccessMode>,
    /// Its mode.
    pub mode: VolumeMode,
    /// The class of its attributes; empty for none.
    pub attributes_class: String,
    /// Labels; those of zones and regions confine the pods that use it.
    pub labels: Labels,
    /// The nodes that reach it; `None`: all.
    pub node_affinity: Option<NodeSelector>,
    /// The claim it is set aside for.
    pub claim: Option<ClaimRef>,
    /// Whether a claim that it is not set aside for may take it.
    pub available: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The driver that attaches it; `None`: attaching it is not counted.
    pub driver: Option<DriverVolume>,
    /// The volume as a driver has it that stands in for its plug-in.
    pub migrated: Option<MigratedVolume>,
}

/// A volume of a plug-in, as the driver has it that stands in for the plug-in. It counts on nodes
/// where the plug-in [has migrated](field@AttachLimits::migrated).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct MigratedVolume {
    /// The plug-in.
    pub plugin: String,
    /// The driver, and the name that it has for the volume.
    pub volume: DriverVolume,
    /// The nodes that reach it, by the labels of the driver; `None`: all.
    pub node_affinity: Option<NodeSelector>,
}

impl MigratedVolume {
    /// A volume of a plug-in by its handle at a driver, which every node reaches.
    pub fn new(
        plugin: impl Into<String>,
        driver: impl Into<String>,
        handle: impl Into<String>,
    ) -> MigratedVolume {
        let volume = DriverVolume { driver: driver.into(), handle: handle.into() };
        MigratedVolume { plugin: plugin.into(), volume, node_affinity: None }
    }

    /// Sets the nodes that reach it.
    #[must_use]
    pub fn reached_by(mut self, nodes: NodeSelector) -> MigratedVolume {
        self.node_affinity = Some(nodes);
        self
    }
}

impl Volume {
    /// A volume of so many bytes that any claim may take and every node reaches.
    pub fn new(name: impl Into<String>, capacity: i64) -> Volume {
        Volume {
            name: name.into(),
            capacity,
            access_modes: alloc::vec![AccessMode::ReadWriteOnce],
            available: true,
            ..Volume::default()
        }
    }

    /// Sets the storage class.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Volume {
        self.class = class.into();
        self
    }

    /// Sets what it offers.
    #[must_use]
    pub fn access(mut self, modes: impl IntoIterator<Item = AccessMode>) -> Volume {
        self.access_modes = modes.into_iter().collect();
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Volume {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets the volume as the driver has it that stands in for its plug-in.
    ///
    /// ```
    /// use phalanx::model::{AttachLimits, MigratedVolume, Volume};
    ///
    /// let disk = MigratedVolume::new("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "vol-1");
    /// let volume = Volume::new("v", 1).migrated(disk);
    /// let old = AttachLimits::new("a");
    /// assert!(volume.driver_on(Some(&old)).is_none());
    /// let new = AttachLimits::new("b").migrated("kubernetes.io/aws-ebs");
    /// assert_eq!(volume.driver_on(Some(&new)).unwrap().handle, "vol-1");
    /// ```
    #[must_use]
    pub fn migrated(mut self, volume: MigratedVolume) -> Volume {
        self.migrated = Some(volume);
        self
    }

    /// The volume as the driver has it, if its plug-in has migrated on a node with these limits.
    fn migrated_on(&self, limits: Option<&AttachLimits>) -> Option<&MigratedVolume> {
        let own = self.migrated.as_ref()?;
        limits.is_some_and(|limits| limits.migrated.contains(&own.plugin)).then_some(own)
    }

    /// The driver that attaches it to a node with these limits; `None`: attaching it is not counted.
    pub fn driver_on(&self, limits: Option<&AttachLimits>) -> Option<&DriverVolume> {
        self.driver.as_ref().or_else(|| self.migrated_on(limits).map(|own| &own.volume))
    }

    /// The nodes that reach it, if a node has these limits: by labels of the driver where its plug-in
    /// has migrated. `None`: all.
    pub fn affinity_on(&self, limits: Option<&AttachLimits>) -> Option<&NodeSelector> {
        match self.migrated_on(limits) {
            Some(own) => own.node_affinity.as_ref(),
            None => self.node_affinity.as_ref(),
        }
    }

    /// Sets the nodes that reach it.
    #[must_use]
    pub fn reached_by(mut self, nodes: NodeSelector) -> Volume {
        self.node_affinity = Some(nodes);
        self
    }

    /// Sets it aside for a claim.
    #[must_use]
    pub fn for_claim(mut self, claim: ClaimRef) -> Volume {
        self.claim = Some(claim);
        self
    }

    /// Sets the driver that attaches it, and its handle there.
    #[must_use]
    pub fn driver(mut self, driver: impl Into<String>, handle: impl Into<String>) -> Volume {
        self.driver = Some(DriverVolume { driver: driver.into(), handle: handle.into() });
        self
    }
}

/// When claims of a class are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum BindingMode {
    /// As soon as they exist; pods wait for it.
    Immediate,
    /// When the first pod that uses them is placed.
    WaitForFirstConsumer,
}

/// A kind of storage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct StorageClass {
    /// The name.
    pub name: String,
    /// The driver that makes volumes; empty if volumes are not made on demand.
    pub provisioner: String,
    /// When claims are bound; `None`: the class does not say, and cannot be used.
    pub binding: Option<BindingMode>,
    /// The nodes for which volumes can be made: those that a term matches; none stands for all.
    pub allowed_topologies: Vec<NodeSelectorTerm>,
}

impl StorageClass {
    /// A class whose claims wait for their first consumer. An empty provisioner makes no volumes.
    pub fn new(name: impl Into<String>, provisioner: impl Into<String>) -> StorageClass {
        StorageClass {
            name: name.into(),
            provisioner: provisioner.into(),
            binding: Some(BindingMode::WaitForFirstConsumer),
            allowed_topologies: Vec::new(),
        }
    }

    /// Sets when claims are bound.
    #[must_use]
    pub fn binding(mut self, binding: BindingMode) -> StorageClass {
        self.binding = Some(binding);
        self
    }

    /// Allows nodes that a term matches.
    #[must_use]
    pub fn allow(mut self, nodes: NodeSelectorTerm) -> StorageClass {
        self.allowed_topologies.push(nodes);
        self
    }
}

/// A driver that makes and attaches volumes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct StorageDriver {
    /// The name.
    pub name: String,
    /// Whether it says how much storage there is: volumes are then made only where a
    /// [`StorageCapacity`] leaves room.
    pub tracks_capacity: bool,
}

impl StorageDriver {
    /// A driver that does not say how much storage there is.
    pub fn new(name: impl Into<String>) -> StorageDriver {
        StorageDriver { name: name.into(), tracks_capacity: false }
    }

    /// States that it says how much storage there is.
    #[must_use]
    pub fn tracking_capacity(mut self) -> StorageDriver {
        self.tracks_capacity = true;
        self
    }
}

/// A pool of storage: how much of a class can be provisioned for some nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct StorageCapacity {
    /// The namespace.
    pub namespace: String,
    /// The name; unique in its namespace.
    pub name: String,
    /// The storage class.
    pub class: String,
    /// The nodes that reach it; `None`: none, and an empty selector: all.
    pub nodes: Option<LabelSelector>,
    /// How much is left; `None`: not known.
    pub capacity: Option<i64>,
    /// The largest volume that can be made; `None`: as large as the capacity.
    pub largest_volume: Option<i64>,
}

impl StorageCapacity {
    /// So many bytes of a class, reached by the nodes that a selector matches.
    pub fn new(
        name: impl Into<String>,
        class: impl Into<String>,
        nodes: LabelSelector,
        capacity: i64,
    ) -> StorageCapacity {
        StorageCapacity {
            name: name.into(),
            class: class.into(),
            nodes: Some(nodes),
            capacity: Some(capacity),
            ..StorageCapacity::default()
        }
    }

    /// The full name: `namespace/name`.
    pub fn full_name(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }

    /// The size up to which a volume can be made.
    pub fn limit(&self) -> Option<i64> {
        self.largest_volume.or(self.capacity)
    }
}

/// How many volumes of each driver a node can attach: `CSINode`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct AttachLimits {
    /// The name of the node.
    pub node: String,
    /// Drivers on it, and how many volumes of each can be attached; `None`: any number.
    pub drivers: Vec<(String, Option<i64>)>,
    /// Plug-ins whose volumes drivers serve on it.
    pub migrated: Vec<String>,
}

impl AttachLimits {
    /// The limits of a node, without drivers.
    pub fn new(node: impl Into<String>) -> AttachLimits {
        AttachLimits { node: node.into(), drivers: Vec::new(), migrated: Vec::new() }
    }

    /// States that a driver serves the volumes of a plug-in.
    #[must_use]
    pub fn migrated(mut self, plugin: impl Into<String>) -> AttachLimits {
        self.migrated.push(plugin.into());
        self
    }

    /// Limits the volumes of a driver.
    #[must_use]
    pub fn limit(mut self, driver: impl Into<String>, volumes: i64) -> AttachLimits {
        self.drivers.push((driver.into(), Some(volumes)));
        self
    }
}

/// A volume that is attached to a node, or is about to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct VolumeAttachment {
    /// The name.
    pub name: String,
    /// The driver that attaches it.
    pub driver: String,
    /// The name of the node.
    pub node: String,
    /// The name of the volume; empty if it is none that pods claim.
    pub volume: String,
}

impl VolumeAttachment {
    /// An attachment of a volume to a node by a driver.
    pub fn new(
        name: impl Into<String>,
        driver: impl Into<String>,
        node: impl Into<String>,
        volume: impl Into<String>,
    ) -> VolumeAttachment {
        let (driver, node) = (driver.into(), node.into());
        VolumeAttachment { name: name.into(), driver, node, volume: volume.into() }
    }
}

/// Outcome for a pod's unbound claims on a node: the volume that each gets, or the claims for which
/// one is made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct VolumeBindings {
    /// Claims and the volumes that they get, by name of claim.
    pub bind: Vec<(ObjectName, String)>,
    /// Claims for which a volume is provisioned, by name.
    pub provision: Vec<ObjectName>,
}

impl VolumeBindings {
    /// Whether there is nothing to bind.
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }
}
