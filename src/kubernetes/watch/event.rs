//! Lines of a watch as the API server sends them, one JSON object each.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer};

use crate::kubernetes::claims::{self, claim_kind};
use crate::kubernetes::keep::OBJECT;
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::owners::SERVICE;
use crate::kubernetes::storage::{is_namespaced, storage_kind, word};
use crate::kubernetes::value::{Seed, Value};
use crate::state::{ClaimKind, StorageKind};

/// A kind of object that a [`Store`](super::Store) takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `v1 Node`.
    Node,
    /// `v1 Pod`.
    Pod,
    /// `v1 Namespace`.
    Namespace,
    /// `scheduling.k8s.io PriorityClass`.
    PriorityClass,
    /// `scheduling.k8s.io PodGroup`.
    PodGroup,
    /// `scheduling.k8s.io Workload`; its groups are read where it has any (1.35), templates are
    /// not.
    Workload,
    /// `scheduling.k8s.io CompositePodGroup`.
    CompositePodGroup,
    /// `scheduling.x-k8s.io PodGroup`, of coscheduling.
    Coscheduling,
    /// `scheduling.sigs.k8s.io PodGroup`, of Koordinator and of older coscheduling. It describes the
    /// same groups as [`Kind::Coscheduling`], and has a watch of its own; where both have an object
    /// of one name that of coscheduling counts.
    Koordinator,
    /// `PodGroup` of Volcano.
    Volcano,
    /// `policy PodDisruptionBudget`.
    PodDisruptionBudget,
    /// `trainer.kubeflow.org TrainingRuntime`.
    TrainingRuntime,
    /// `trainer.kubeflow.org ClusterTrainingRuntime`.
    ClusterTrainingRuntime,
    /// A workload of any kind.
    Submitted(WorkloadKind),
    /// Claims, volumes, classes and other objects of storage.
    Storage(StorageKind),
    /// Classes of devices, slices and claims of `resource.k8s.io`.
    Claims(ClaimKind),
    /// `resource.k8s.io DeviceTaintRule`.
    DeviceTaintRule,
    /// `topology.volcano.sh HyperNode`.
    HyperNode,
    /// `scheduling.koordinator.sh ClusterNetworkTopology`.
    ClusterNetworkTopology,
    /// `scheduling.koordinator.sh Device`.
    Device,
    /// `v1 Service`. With the controllers below and `StatefulSet`s it says which pods are counted
    /// by the default spread constraints of a pod.
    Service,
    /// `v1 ReplicationController`.
    ReplicationController,
    /// `apps ReplicaSet`.
    ReplicaSet,
    /// `PodGroup` of KAI.
    Kai,
    /// `Topology` of KAI.
    KaiTopology,
    /// `topology.node.k8s.io NodeResourceTopology`.
    NodeResourceTopology,
    /// `v1 ResourceQuota`: it explains members that are missing, and bears on nothing else.
    ResourceQuota,
}

impl Kind {
    /// Number of kinds.
    pub(super) const COUNT: usize = Kind::ResourceQuota.index() + 1;

    /// The number of the kind.
    pub(super) const fn index(self) -> usize {
        match self {
            Kind::Node => 0,
            Kind::Pod => 1,
            Kind::Namespace => 2,
            Kind::PriorityClass => 3,
            Kind::PodGroup => 4,
            Kind::Workload => 5,
            Kind::Coscheduling => 6,
            Kind::Volcano => 7,
            Kind::PodDisruptionBudget => 8,
            Kind::TrainingRuntime => 9,
            Kind::ClusterTrainingRuntime => 10,
            Kind::CompositePodGroup => 11,
            Kind::Koordinator => 12,
            Kind::Submitted(kind) => 13 + kind as usize,
            Kind::Storage(kind) => 13 + WorkloadKind::COUNT + kind as usize,
            Kind::Claims(kind) => {
                Kind::Storage(StorageKind::Attachment).index() + 1 + kind as usize
            }
            Kind::DeviceTaintRule => Kind::Claims(ClaimKind::Claim).index() + 1,
            Kind::HyperNode => Kind::DeviceTaintRule.index() + 1,
            Kind::ClusterNetworkTopology => Kind::DeviceTaintRule.index() + 2,
            Kind::Device => Kind::DeviceTaintRule.index() + 3,
            Kind::Service => Kind::DeviceTaintRule.index() + 4,
            Kind::ReplicationController => Kind::DeviceTaintRule.index() + 5,
            Kind::ReplicaSet => Kind::DeviceTaintRule.index() + 6,
            Kind::Kai => Kind::DeviceTaintRule.index() + 7,
            Kind::KaiTopology => Kind::DeviceTaintRule.index() + 8,
            Kind::NodeResourceTopology => Kind::DeviceTaintRule.index() + 9,
            Kind::ResourceQuota => Kind::DeviceTaintRule.index() + 10,
        }
    }

    fn of(group: &str, kind: &str) -> Option<Kind> {
        Some(match (group, kind) {
            ("", "Node") => Kind::Node,
            ("", "Pod") => Kind::Pod,
            ("", "Namespace") => Kind::Namespace,
            ("scheduling.k8s.io", "PriorityClass") => Kind::PriorityClass,
            ("scheduling.k8s.io", "PodGroup") => Kind::PodGroup,
            ("scheduling.k8s.io", "Workload") => Kind::Workload,
            ("scheduling.k8s.io", "CompositePodGroup") => Kind::CompositePodGroup,
            ("scheduling.x-k8s.io", "PodGroup") => Kind::Coscheduling,
            ("scheduling.sigs.k8s.io", "PodGroup") => Kind::Koordinator,
            ("scheduling.volcano.sh", "PodGroup") => Kind::Volcano,
            ("policy", "PodDisruptionBudget") => Kind::PodDisruptionBudget,
            ("trainer.kubeflow.org", "TrainingRuntime") => Kind::TrainingRuntime,
            ("trainer.kubeflow.org", "ClusterTrainingRuntime") => Kind::ClusterTrainingRuntime,
            ("resource.k8s.io", "DeviceTaintRule") => Kind::DeviceTaintRule,
            ("topology.volcano.sh", "HyperNode") => Kind::HyperNode,
            ("scheduling.koordinator.sh", "ClusterNetworkTopology") => Kind::ClusterNetworkTopology,
            ("scheduling.koordinator.sh", "Device") => Kind::Device,
            ("", "Service") => Kind::Service,
            ("", "ResourceQuota") => Kind::ResourceQuota,
            ("", "ReplicationController") => Kind::ReplicationController,
            ("apps", "ReplicaSet") => Kind::ReplicaSet,
            ("scheduling.run.ai", "PodGroup") => Kind::Kai,
            ("kai.scheduler", "Topology") => Kind::KaiTopology,
            ("topology.node.k8s.io", "NodeResourceTopology") => Kind::NodeResourceTopology,
            _ => {
                let storage = storage_kind(group, kind).map(Kind::Storage);
                let storage = storage.or_else(|| claim_kind(group, kind).map(Kind::Claims));
                return storage.or_else(|| WorkloadKind::of(group, kind).map(Kind::Submitted));
            }
        })
    }

    /// The word by which errors name an object of this kind.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Pod => "pod",
            Kind::Namespace => "namespace",
            Kind::PriorityClass => "priorityclass",
            Kind::PodGroup => "podgroup",
            Kind::Workload => "workload",
            Kind::CompositePodGroup => "compositepodgroup",
            Kind::Coscheduling => "coscheduling podgroup",
            Kind::Koordinator => "koordinator podgroup",
            Kind::Volcano => "volcano podgroup",
            Kind::PodDisruptionBudget => "poddisruptionbudget",
            Kind::TrainingRuntime => "trainingruntime",
            Kind::ClusterTrainingRuntime => "clustertrainingruntime",
            Kind::Submitted(kind) => kind.word(),
            Kind::Storage(kind) => word(kind),
            Kind::Claims(kind) => claims::word(kind),
            Kind::DeviceTaintRule => "devicetaintrule",
            Kind::HyperNode => "hypernode",
            Kind::ClusterNetworkTopology => "clusternetworktopology",
            Kind::Device => "device",
            Kind::Service => "service",
            Kind::ReplicationController => "replicationcontroller",
            Kind::ReplicaSet => "replicaset",
            Kind::Kai => "kai podgroup",
            Kind::KaiTopology => "kai topology",
            Kind::NodeResourceTopology => "noderesourcetopology",
            Kind::ResourceQuota => "resourcequota",
        }
    }

    /// The kind of an object whose selector says which pods are counted together; `None` of others.
    pub(super) fn owner(self) -> Option<&'static str> {
        match self {
            Kind::Service => Some(SERVICE),
            Kind::ReplicationController => Some("ReplicationController"),
            Kind::ReplicaSet => Some("ReplicaSet"),
            Kind::Submitted(WorkloadKind::StatefulSet) => Some("StatefulSet"),
            Kind::Submitted(WorkloadKind::Deployment) => Some("Deployment"),
            _ => None,
        }
    }

    /// The resource by which reasons name groups of this kind.
    pub(super) fn resource(self) -> &'static str {
        match self {
            Kind::PodGroup => "podgroups of scheduling.k8s.io",
            Kind::CompositePodGroup => "compositepodgroups of scheduling.k8s.io",
            Kind::Workload => "workloads of scheduling.k8s.io",
            Kind::Coscheduling => "podgroups of scheduling.x-k8s.io",
            Kind::Koordinator => "podgroups of scheduling.sigs.k8s.io",
            Kind::Volcano => "podgroups of scheduling.volcano.sh",
            Kind::Kai => "podgroups of scheduling.run.ai",
            other => other.word(),
        }
    }

    /// The API group and the kind of an object by which the layout of a cluster is read.
    pub(super) fn layout_names(self) -> (&'static str, &'static str) {
        match self {
            Kind::HyperNode => ("topology.volcano.sh", "HyperNode"),
            Kind::ClusterNetworkTopology => ("scheduling.koordinator.sh", "ClusterNetworkTopology"),
            Kind::Device => ("scheduling.koordinator.sh", "Device"),
            Kind::KaiTopology => ("kai.scheduler", "Topology"),
            Kind::NodeResourceTopology => ("topology.node.k8s.io", "NodeResourceTopology"),
            _ => ("", "Node"),
        }
    }

    /// Whether objects of this kind describe groups.
    pub(super) fn is_of_groups(self) -> bool {
        matches!(
            self,
            Kind::PodGroup
                | Kind::CompositePodGroup
                | Kind::Workload
                | Kind::Coscheduling
                | Kind::Koordinator
                | Kind::Volcano
                | Kind::Kai
        )
    }

    /// Whether objects of this kind are in a namespace.
    pub fn namespaced(self) -> bool {
        if let Kind::Storage(kind) = self {
            return is_namespaced(kind);
        }
        if let Kind::Claims(kind) = self {
            return kind == ClaimKind::Claim;
        }
        !matches!(
            self,
            Kind::Node
                | Kind::Namespace
                | Kind::PriorityClass
                | Kind::ClusterTrainingRuntime
                | Kind::DeviceTaintRule
                | Kind::HyperNode
                | Kind::ClusterNetworkTopology
                | Kind::Device
                | Kind::KaiTopology
                | Kind::NodeResourceTopology
        )
    }
}

/// One object, with the fields that scheduling reads. The others are skipped while it is parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(pub(super) Value);

impl Object {
    /// The kind; `None` for kinds that are not read.
    pub fn kind(&self) -> Option<Kind> {
        let text = |name: &str| self.0.entry(name).and_then(Value::text).unwrap_or("");
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        Kind::of(group, text("kind"))
    }

    /// The version of its API, without the group: `v1beta1`.
    pub(super) fn api_version(&self) -> &str {
        let text = self.0.entry("apiVersion").and_then(Value::text).unwrap_or("");
        text.rsplit_once('/').map_or(text, |(_, version)| version)
    }

    /// The version as text (`metadata.resourceVersion`), from which a watch may go on; empty if
    /// the object has none.
    pub fn resource_version(&self) -> &str {
        self.metadata("resourceVersion")
    }

    /// The version as a number; 0 if it has none.
    pub(super) fn version(&self) -> u64 {
        self.resource_version().parse().unwrap_or(0)
    }

    /// The name by which a store knows it, with its namespace if it is in one.
    pub(super) fn key(&self, kind: Kind) -> String {
        let name = self.metadata("name");
        if kind.namespaced() {
            format!("{}/{name}", self.metadata("namespace"))
        } else {
            name.to_owned()
        }
    }

    pub(super) fn metadata(&self, name: &str) -> &str {
        let metadata = self.0.entry("metadata");
        metadata.and_then(|metadata| metadata.entry(name)).and_then(Value::text).unwrap_or("")
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        Seed::new(&OBJECT).deserialize(deserializer).map(Object)
    }
}

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// `ADDED` or `MODIFIED`: the object as it is now.
    Changed(Object),
    /// `DELETED`: the object as it was last.
    Deleted(Object),
    /// `BOOKMARK`: everything up to this version has been sent.
    Bookmark {
        /// The kind of the watch.
        kind: Option<Kind>,
        /// The version from which a watch may go on.
        version: String,
        /// Whether the initial events of the watch end here.
        initial_events_end: bool,
    },
    /// `ERROR`: the watch has failed. Code 410 says that its version is too old: list again.
    Error {
        /// The HTTP status.
        code: i64,
        /// The reason, for people.
        message: String,
    },
}

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl<'de> Deserialize<'de> for WatchEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WatchEvent, D::Error> {
        #[derive(Deserialize)]
        struct Line {
            r#type: String,
            object: Object,
        }
        let Line { r#type, object } = Line::deserialize(deserializer)?;
        let entry = |name: &str| object.0.entry(name);
        Ok(match r#type.as_str() {
            "ADDED" | "MODIFIED" => WatchEvent::Changed(object),
            "DELETED" => WatchEvent::Deleted(object),
            "BOOKMARK" => {
                let annotations = entry("metadata").and_then(|of| of.entry("annotations"));
                let end = annotations.and_then(|of| of.entry(INITIAL_EVENTS_END));
                WatchEvent::Bookmark {
                    kind: object.kind(),
                    version: object.resource_version().to_owned(),
                    initial_events_end: end.and_then(Value::text) == Some("true"),
                }
            }
            _ => WatchEvent::Error {
                code: entry("code").and_then(Value::integer).unwrap_or(0),
                message: entry("message").and_then(Value::text).unwrap_or(&r#type).to_owned(),
            },
        })
    }
}
