//! Storage: claims, volumes, classes, drivers, pools and attach limits from their manifests, and
//! the volumes of pods.

mod migrated;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use self::migrated::{migrated, of_plugin};
use super::affinity::{label_selector, node_selector};
use super::field::{Fault, Field};
use super::metadata::{self, of_controller, unsupported};
use super::node::labels;
use crate::model::{
    AccessMode, AttachLimits, BindingMode, ClaimRef, InlineDisk, NodeSelectorTerm, Operator,
    PodVolume, Problem, Requirement, StorageCapacity, StorageClass, StorageDriver, Volume,
    VolumeAttachment, VolumeClaim, VolumeMode,
};
use crate::state::{StorageKey, StorageKind, StorageObject};

/// The annotation by which claims and volumes named their class before they had a field for it.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a node's limits that lists plug-ins whose volumes drivers serve there.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Kinds of storage objects by API group and kind.
const KINDS: [(&str, &str, StorageKind); 7] = [
    ("", "PersistentVolumeClaim", StorageKind::Claim),
    ("", "PersistentVolume", StorageKind::Volume),
    ("storage.k8s.io", "StorageClass", StorageKind::Class),
    ("storage.k8s.io", "CSIDriver", StorageKind::Driver),
    ("storage.k8s.io", "CSIStorageCapacity", StorageKind::Capacity),
    ("storage.k8s.io", "CSINode", StorageKind::Limits),
    ("storage.k8s.io", "VolumeAttachment", StorageKind::Attachment),
];

/// The kind of storage object that an API group and kind name.
pub(super) fn storage_kind(group: &str, kind: &str) -> Option<StorageKind> {
    let mut kinds = KINDS.iter();
    let found = kinds.find(|(own, name, _)| *own == group && *name == kind);
    found.map(|(.., kind)| *kind)
}

/// The kind of storage object of a name, whatever its API group.
pub(super) fn kind_named(kind: &str) -> Option<StorageKind> {
    KINDS.iter().find(|(_, name, _)| *name == kind).map(|(.., kind)| *kind)
}

/// The word by which errors name an object of a kind.
pub(super) fn word(kind: StorageKind) -> &'static str {
    match kind {
        StorageKind::Claim => "persistentvolumeclaim",
        StorageKind::Volume => "persistentvolume",
        StorageKind::Class => "storageclass",
        StorageKind::Driver => "csidriver",
        StorageKind::Capacity => "csistoragecapacity",
        StorageKind::Limits => "csinode",
        _ => "volumeattachment",
    }
}

/// Whether objects of a kind are in a namespace.
pub(super) fn is_namespaced(kind: StorageKind) -> bool {
    matches!(kind, StorageKind::Claim | StorageKind::Capacity)
}

/// An object of a kind.
pub(super) fn storage_object(kind: StorageKind, root: &Field<'_>) -> Fault<StorageObject> {
    Ok(match kind {
        StorageKind::Claim => claim(root)?.into(),
        StorageKind::Volume => volume(root)?.into(),
        StorageKind::Class => class(root)?.into(),
        StorageKind::Driver => driver(root)?.into(),
        StorageKind::Capacity => capacity(root)?.into(),
        StorageKind::Limits => limits(root)?.into(),
        StorageKind::Attachment => attachment(root)?.into(),
    })
}

fn annotation(root: &Field<'_>, name: &str) -> Fault<Option<String>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    annotations.get(name)?.map(|field| field.text().map(String::from)).transpose()
}

/// The class of a claim or a volume.
fn class_of(root: &Field<'_>, spec: &Field<'_>) -> Fault<String> {
    match annotation(root, CLASS)? {
        Some(class) => Ok(class),
        None => spec.text_of("storageClassName"),
    }
}

fn is_being_deleted(root: &Field<'_>) -> Fault<bool> {
    let Some(metadata) = root.get("metadata")? else { return Ok(false) };
    Ok(metadata.get("deletionTimestamp")?.is_some())
}

fn uid(root: &Field<'_>) -> Fault<String> {
    root.get("metadata")?.map_or(Ok(String::new()), |metadata| metadata.text_of("uid"))
}

fn phase(root: &Field<'_>) -> Fault<String> {
    root.get("status")?.map_or(Ok(String::new()), |status| status.text_of("phase"))
}

/// The bytes of a quantity inside; `None` if it is absent.
fn bytes(of: &Field<'_>, name: &str) -> Fault<Option<i64>> {
    let Some(field) = of.get(name)? else { return Ok(None) };
    let quantity = field.quantity()?;
    if quantity.is_negative() {
        return Err(field.fail(Problem::Negative));
    }
    Ok(Some(quantity.ceil()))
}

fn access_modes(spec: &Field<'_>) -> Fault<Vec<AccessMode>> {
    const MODES: [(&str, AccessMode); 4] = [
        ("ReadWriteOnce", AccessMode::ReadWriteOnce),
        ("ReadOnlyMany", AccessMode::ReadOnlyMany),
        ("ReadWriteMany", AccessMode::ReadWriteMany),
        ("ReadWriteOncePod", AccessMode::ReadWriteOncePod),
    ];
    let mut modes = Vec::new();
    spec.each("accessModes", |field| {
        let text = field.text()?;
        let mode = MODES.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode);
        modes.push(mode.ok_or_else(|| unsupported(&field, text, &MODES.map(|(name, _)| name)))?);
        Ok(())
    })?;
    Ok(modes)
}

fn volume_mode(spec: &Field<'_>) -> Fault<VolumeMode> {
    let Some(field) = spec.get("volumeMode")? else { return Ok(VolumeMode::Filesystem) };
    match field.text()? {
        "" | "Filesystem" => Ok(VolumeMode::Filesystem),
        "Block" => Ok(VolumeMode::Block),
        other => Err(unsupported(&field, other, &["Filesystem", "Block"])),
    }
}

fn claim(root: &Field<'_>) -> Fault<VolumeClaim> {
    let claim = VolumeClaim::new(metadata::namespace(root)?, metadata::name(root)?);
    let mut claim = claim_like(claim, root)?;
    let spec = root.need("spec")?;
    claim.uid = uid(root)?;
    claim.volume = spec.text_of("volumeName")?;
    // As written: a claim that names its volume will be bound to it.
    let is_named = root.strict() && !claim.volume.is_empty();
    claim.bound = annotation(root, BIND_COMPLETED)?.is_some() || is_named;
    claim.selected_node = annotation(root, SELECTED_NODE)?.filter(|node| !node.is_empty());
    if let Some(metadata) = root.get("metadata")? {
        let owner = of_controller(&metadata, |owner| owner.text_of("uid"))?;
        claim.owner = owner.unwrap_or_default();
    }
    claim.lost = phase(root)? == "Lost";
    claim.deleting = is_being_deleted(root)?;
    Ok(claim)
}

/// The request of a claim, of an object or of a template.
fn claim_like(mut claim: VolumeClaim, root: &Field<'_>) -> Fault<VolumeClaim> {
    let spec = root.need("spec")?;
    claim.class = class_of(root, &spec)?;
    if let Some(resources) = spec.get("resources")?
        && let Some(requests) = resources.get("requests")?
    {
        claim.request = bytes(&requests, "storage")?;
    }
    claim.access_modes = access_modes(&spec)?;
    claim.mode = volume_mode(&spec)?;
    claim.attributes_class = spec.text_of("volumeAttributesClassName")?;
    claim.selector = label_selector(&spec, "selector")?;
    Ok(claim)
}

fn volume(root: &Field<'_>) -> Fault<Volume> {
    let spec = root.need("spec")?;
    let capacity = match spec.get("capacity")? {
        Some(capacity) => bytes(&capacity, "storage")?.unwrap_or(0),
        None => 0,
    };
    let mut volume = Volume::new(metadata::name(root)?, capacity);
    volume.class = class_of(root, &spec)?;
    volume.access_modes = access_modes(&spec)?;
    volume.mode = volume_mode(&spec)?;
    volume.attributes_class = spec.text_of("volumeAttributesClassName")?;
    volume.labels = labels(root)?;
    if let Some(affinity) = spec.get("nodeAffinity")? {
        volume.node_affinity =
            affinity.get("required")?.map(|required| node_selector(&required)).transpose()?;
    }
    if let Some(claim) = spec.get("claimRef")? {
        let (namespace, name) = (claim.text_of("namespace")?, claim.text_of("name")?);
        volume.claim = Some(ClaimRef { namespace, name, uid: claim.text_of("uid")? });
    }
    let phase = phase(root)?;
    volume.available = phase == "Available" || phase.is_empty() && root.strict();
    volume.deleting = is_being_deleted(root)?;
    if let Some(csi) = spec.get("csi")? {
        volume = volume.driver(csi.text_of("driver")?, csi.text_of("volumeHandle")?);
    }
    volume.migrated = migrated(&spec, &volume)?;
    Ok(volume)
}

fn class(root: &Field<'_>) -> Fault<StorageClass> {
    let mut class = StorageClass::new(metadata::name(root)?, root.text_of("provisioner")?);
    class.binding = match root.get("volumeBindingMode")? {
        // As the API server stores it.
        None if root.strict() => Some(BindingMode::Immediate),
        None => None,
        Some(field) => Some(match field.text()? {
            "Immediate" => BindingMode::Immediate,
            "WaitForFirstConsumer" => BindingMode::WaitForFirstConsumer,
            other => {
                return Err(unsupported(&field, other, &["Immediate", "WaitForFirstConsumer"]));
            }
        }),
    };
    root.each("allowedTopologies", |term| {
        let mut allowed = NodeSelectorTerm::default();
        term.each("matchLabelExpressions", |field| {
            let (key, values) = (field.text_of("key")?, field.texts("values")?);
            allowed.match_expressions.push(Requirement::new(key, Operator::In, values));
            Ok(())
        })?;
        class.allowed_topologies.push(allowed);
        Ok(())
    })?;
    Ok(class)
}

fn driver(root: &Field<'_>) -> Fault<StorageDriver> {
    let mut driver = StorageDriver::new(metadata::name(root)?);
    if let Some(spec) = root.get("spec")? {
        driver.tracks_capacity = spec.flag("storageCapacity")?;
    }
    Ok(driver)
}

fn capacity(root: &Field<'_>) -> Fault<StorageCapacity> {
    let mut pool = StorageCapacity::default();
    (pool.namespace, pool.name) = (metadata::namespace(root)?, metadata::name(root)?);
    pool.class = root.text_of("storageClassName")?;
    pool.nodes = label_selector(root, "nodeTopology")?;
    pool.capacity = bytes(root, "capacity")?;
    pool.largest_volume = bytes(root, "maximumVolumeSize")?;
    Ok(pool)
}

fn limits(root: &Field<'_>) -> Fault<AttachLimits> {
    let mut limits = AttachLimits::new(metadata::name(root)?);
    if let Some(plugins) = annotation(root, MIGRATED)? {
        let plugins = plugins.split(',').filter(|plugin| !plugin.is_empty());
        limits.migrated.extend(plugins.map(String::from));
    }
    let Some(spec) = root.get("spec")? else { return Ok(limits) };
    spec.each("drivers", |driver| {
        let mut count = None;
        if let Some(allocatable) = driver.get("allocatable")? {
            count = allocatable.get("count")?.map(|count| count.integer()).transpose()?;
        }
        limits.drivers.push((driver.text_of("name")?, count));
        Ok(())
    })?;
    Ok(limits)
}

fn attachment(root: &Field<'_>) -> Fault<VolumeAttachment> {
    let spec = root.need("spec")?;
    let volume = match spec.get("source")? {
        Some(source) => source.text_of("persistentVolumeName")?,
        None => String::new(),
    };
    let (driver, node) = (spec.text_of("attacher")?, spec.text_of("nodeName")?);
    Ok(VolumeAttachment::new(metadata::name(root)?, driver, node, volume))
}

/// Whether a claim leaves its class to the cluster's default.
pub(super) fn is_classless(root: &Field<'_>) -> Fault<bool> {
    let spec = root.need("spec")?;
    Ok(annotation(root, CLASS)?.is_none() && spec.get("storageClassName")?.is_none())
}

/// Whether a class is the default one.
pub(super) fn is_default_class(root: &Field<'_>) -> Fault<bool> {
    Ok(annotation(root, DEFAULT_CLASS)?.as_deref() == Some("true"))
}

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// A volume for which each pod of a template has a claim of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnVolume {
    /// The volume of the template.
    name: String,
    /// Whether the pod's name stands before that of the volume, as in ephemeral volumes.
    is_ephemeral: bool,
    /// Whether the claim leaves its class to the cluster's default.
    pub(super) is_classless: bool,
    claim: VolumeClaim,
}

impl OwnVolume {
    /// The claim that a pod has for it.
    pub(super) fn claim_of(&self, namespace: &str, pod: &str) -> VolumeClaim {
        let mut claim = self.claim.clone();
        claim.namespace = namespace.into();
        let name = &self.name;
        claim.name =
            if self.is_ephemeral { format!("{pod}-{name}") } else { format!("{name}-{pod}") };
        claim
    }
}

/// The volumes of a template that are made for each of its pods.
pub(super) fn ephemeral_volumes(spec: &Field<'_>) -> Fault<Vec<OwnVolume>> {
    let mut own = Vec::new();
    spec.each("volumes", |volume| {
        if let Some(ephemeral) = volume.get("ephemeral")? {
            let template = ephemeral.need("volumeClaimTemplate")?;
            own.push(OwnVolume {
                name: volume.text_of("name")?,
                is_ephemeral: true,
                is_classless: is_classless(&template)?,
                claim: claim_like(VolumeClaim::default(), &template)?,
            });
        }
        Ok(())
    })?;
    Ok(own)
}

/// Templates of claims, of which each pod has one of each.
pub(super) fn claim_templates(of: &Field<'_>, list: &str) -> Fault<Vec<OwnVolume>> {
    let mut own = Vec::new();
    of.each(list, |template| {
        own.push(OwnVolume {
            name: template.need("metadata")?.need("name")?.text()?.to_string(),
            is_ephemeral: false,
            is_classless: is_classless(&template)?,
            claim: claim_like(VolumeClaim::default(), &template)?,
        });
        Ok(())
    })?;
    Ok(own)
}

/// Name and uid of a pod.
pub(super) type Own<'a> = (&'a str, &'a str);

/// The volumes of a pod that decide where it can go. Claims that are made for a pod alone are those of
/// pods that there are: of a template they are left out.
pub(super) fn volumes(spec: &Field<'_>, own: Option<Own<'_>>) -> Fault<Vec<PodVolume>> {
    let mut volumes = Vec::new();
    spec.each("volumes", |volume| {
        volumes.extend(pod_volume(&volume, own)?);
        volumes.extend(of_plugin(&volume)?);
        Ok(())
    })?;
    Ok(volumes)
}

fn pod_volume(volume: &Field<'_>, own: Option<Own<'_>>) -> Fault<Option<PodVolume>> {
    if let Some(claim) = volume.get("persistentVolumeClaim")? {
        let name = claim.text_of("claimName")?;
        if claim.strict() && name.is_empty() {
            return Err(claim.fail_at("claimName", Problem::Required));
        }
        return Ok(Some(PodVolume::Claim(name)));
    }
    if volume.get("ephemeral")?.is_some() {
        let Some((pod, uid)) = own else { return Ok(None) };
        let claim = format!("{pod}-{}", volume.text_of("name")?);
        return Ok(Some(PodVolume::Ephemeral { claim, owner: uid.to_string() }));
    }
    let disk = |kind: &str, field: &Field<'_>, name: &str| -> Fault<InlineDisk> {
        let disk = InlineDisk::new(kind, field.text_of(name)?);
        Ok(if field.flag("readOnly")? { disk.read_only() } else { disk })
    };
    let found = if let Some(field) = volume.get("gcePersistentDisk")? {
        disk("gce", &field, "pdName")?
    } else if let Some(field) = volume.get("awsElasticBlockStore")? {
        // Readers of these conflict, too.
        InlineDisk::new("aws", field.text_of("volumeID")?)
    } else if let Some(field) = volume.get("iscsi")? {
        disk("iscsi", &field, "iqn")?
    } else if let Some(field) = volume.get("rbd")? {
        let mut disk = disk("rbd", &field, "image")?;
        disk.name = format!("{}/{}", field.text_of("pool")?, disk.name);
        disk.on_hosts(field.texts("monitors")?)
    } else {
        return Ok(None);
    };
    Ok(Some(PodVolume::Disk(found)))
}

/// Storage of an input: objects, those left out, and the class of claims that name none.
#[derive(Debug, Default)]
pub(super) struct StorageRecords {
    /// The last one of a name counts, where more than one is stored.
    pub(super) objects: BTreeMap<StorageKey, StorageObject>,
    /// Objects of which a field is not in force, with the reason.
    pub(super) refused: BTreeMap<StorageKey, String>,
    /// Claims that leave their class to the default one.
    pub(super) classless: BTreeSet<StorageKey>,
    pub(super) default_class: Option<String>,
}

impl StorageRecords {
    /// Gives claims without a class the default one, as the API server does.
    pub(super) fn fill_in(&mut self) {
        let Some(class) = &self.default_class else { return };
        for key in &self.classless {
            if let Some(StorageObject::Claim(claim)) = self.objects.get_mut(key) {
                claim.class.clone_from(class);
            }
        }
    }

    /// Adds the claim of a pod's own volume, unless there is one of its name.
    pub(super) fn add(&mut self, mut claim: VolumeClaim, is_classless: bool) {
        if let (true, Some(class)) = (is_classless, &self.default_class) {
            claim.class.clone_from(class);
        }
        let object = StorageObject::Claim(claim);
        self.objects.entry(object.key()).or_insert(object);
    }

    /// Why a claim is not in force, or its class, or its volume, if so.
    pub(super) fn fault(&self, namespace: &str, claim: &str) -> Option<&str> {
        let key = StorageKey::claim(namespace, claim);
        if let Some(reason) = self.refused.get(&key) {
            return Some(reason);
        }
        let Some(StorageObject::Claim(claim)) = self.objects.get(&key) else { return None };
        let named = [(StorageKind::Class, &claim.class), (StorageKind::Volume, &claim.volume)];
        let named = named.into_iter().map(|(kind, name)| StorageKey::new(kind, name.as_str()));
        named.filter_map(|key| self.refused.get(&key)).map(String::as_str).next()
    }
}
