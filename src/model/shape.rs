//! Pod shapes: everything that a scheduler can tell pods apart by.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::Labels;
use super::affinity::{NodeAffinity, PodAffinityTerm, WeightedPodAffinityTerm};
use super::claims::PodClaim;
use super::device::DeviceRequest;
use super::device::zone::ZoneAsk;
use super::resources::{Amounts, CPU, DEFAULT_CPU, DEFAULT_MEMORY, MEMORY};
use super::selector::LabelSelector;
use super::spread::SpreadConstraint;
use super::taint::Toleration;
use super::volume::PodVolume;

/// Everything about a pod that filters and scores may read.
///
/// Pods of equal shape are interchangeable: any statement about one on a node is true of the other.
/// So the crate judges a shape once and places as many pods of it as are wanted.
///
/// Lists keep the order they are given in; two shapes are equal if they are written alike.
#[derive(Debug, Clone, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct PodShape {
    /// The namespace.
    pub namespace: String,
    /// Labels.
    pub labels: Labels,
    /// Amounts that the pod takes of a node.
    pub requests: Amounts,
    /// CPU (thousandths) and memory (bytes) that scores count for the pod where it runs.
    pub existing_requests: [i64; 2],
    /// Amounts that scores count for the pod while it is being placed.
    pub incoming_requests: Amounts,
    /// The only node it may run on.
    pub node_name: Option<String>,
    /// Labels the node must have.
    pub node_selector: Labels,
    /// Further wishes about nodes.
    pub node_affinity: Option<NodeAffinity>,
    /// Taints consented to.
    pub tolerations: Vec<Toleration>,
    /// Spreading over domains.
    pub spread: Vec<SpreadConstraint>,
    /// The pods that default spread constraints count: those of the services and the controller
    /// the pod belongs to. `None` if there are none.
    pub owner_selector: Option<LabelSelector>,
    /// Company that must be in the domain.
    pub pod_affinity: Vec<PodAffinityTerm>,
    /// Company that must not be in the domain.
    pub pod_anti_affinity: Vec<PodAffinityTerm>,
    /// Company that is liked.
    pub preferred_pod_affinity: Vec<WeightedPodAffinityTerm>,
    /// Company that is disliked.
    pub preferred_pod_anti_affinity: Vec<WeightedPodAffinityTerm>,
    /// Ports taken on the node itself.
    pub ports: Vec<HostPort>,
    /// Images of all containers and of image volumes, as written.
    pub images: Vec<String>,
    /// How many containers and init containers there are.
    pub containers: u32,
    /// Device requests.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub devices: Vec<DeviceRequest>,
    /// Resources that nodes with NUMA zones align.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "ZoneAsk::is_empty"))]
    pub zones: ZoneAsk,
    /// Volumes that decide where the pod can go.
    #[cfg_attr(not(feature = "volumes"), doc(hidden))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub volumes: Vec<PodVolume>,
    /// Resource claims.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub claims: Vec<PodClaim>,
    /// Whatever else the embedder's own plugins read.
    pub attributes: Labels,
    /// Names of nodes that the queue keeps the pod from while a place is searched.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) avoids: Vec<String>,
}

/// Whether two lists are equal. Most lists of a shape are empty, and that is all there is to see.
#[inline]
fn alike<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

#[inline]
fn alike_labels(one: &Labels, other: &Labels) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

impl PartialEq for PodShape {
    /// Field by field, as derived; a planner compares shapes for each group.
    fn eq(&self, other: &PodShape) -> bool {
        // All fields are named, so that none is forgotten.
        let PodShape {
            namespace,
            labels,
            requests,
            existing_requests,
            incoming_requests,
            node_name,
            node_selector,
            node_affinity,
            tolerations,
            spread,
            owner_selector,
            pod_affinity,
            pod_anti_affinity,
            preferred_pod_affinity,
            preferred_pod_anti_affinity,
            ports,
            images,
            containers,
            devices,
            zones,
            volumes,
            claims,
            attributes,
            avoids,
        } = self;
        *existing_requests == other.existing_requests
            && *containers == other.containers
            && *requests == other.requests
            && *incoming_requests == other.incoming_requests
            && *namespace == other.namespace
            && alike_labels(labels, &other.labels)
            && *node_name == other.node_name
            && alike_labels(node_selector, &other.node_selector)
            && *node_affinity == other.node_affinity
            && alike(tolerations, &other.tolerations)
            && alike(spread, &other.spread)
            && *owner_selector == other.owner_selector
            && alike(pod_affinity, &other.pod_affinity)
            && alike(pod_anti_affinity, &other.pod_anti_affinity)
            && alike(preferred_pod_affinity, &other.preferred_pod_affinity)
            && alike(preferred_pod_anti_affinity, &other.preferred_pod_anti_affinity)
            && alike(ports, &other.ports)
            && alike(images, &other.images)
            && alike(devices, &other.devices)
            && zones.least == other.zones.least
            && alike(&zones.parts, &other.zones.parts)
            && alike(volumes, &other.volumes)
            && alike(claims, &other.claims)
            && alike_labels(attributes, &other.attributes)
            && alike(avoids, &other.avoids)
    }
}

impl Hash for PodShape {
    /// Lists that few pods have count only where there are some.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let PodShape {
            namespace,
            labels,
            requests,
            existing_requests,
            incoming_requests,
            node_name,
            node_selector,
            node_affinity,
            tolerations,
            spread,
            owner_selector,
            pod_affinity,
            pod_anti_affinity,
            preferred_pod_affinity,
            preferred_pod_anti_affinity,
            ports,
            images,
            containers,
            devices,
            zones,
            volumes,
            claims,
            attributes,
            avoids,
        } = self;
        (namespace, labels, requests, existing_requests, incoming_requests).hash(state);
        (node_name, node_selector, node_affinity, tolerations, spread).hash(state);
        (owner_selector, pod_affinity, pod_anti_affinity).hash(state);
        (preferred_pod_affinity, preferred_pod_anti_affinity).hash(state);
        (ports, images, containers, devices, attributes).hash(state);
        if !(volumes.is_empty() && claims.is_empty() && avoids.is_empty() && zones.is_empty()) {
            (zones, volumes, claims, avoids).hash(state);
        }
    }
}

/// A port taken on the node itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HostPort {
    /// The address of the node; `0.0.0.0` means all.
    pub ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// Whether two ports cannot both be taken on one node.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        const ANY: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ANY || other.ip == ANY)
    }
}

impl Default for PodShape {
    /// One container that asks for nothing, in namespace `default`.
    fn default() -> PodShape {
        let mut incoming_requests = Amounts::new();
        incoming_requests.set(CPU, DEFAULT_CPU);
        incoming_requests.set(MEMORY, DEFAULT_MEMORY);
        PodShape {
            namespace: String::from("default"),
            labels: Labels::new(),
            requests: Amounts::new(),
            existing_requests: [DEFAULT_CPU, DEFAULT_MEMORY],
            incoming_requests,
            node_name: None,
            node_selector: Labels::new(),
            node_affinity: None,
            tolerations: Vec::new(),
            spread: Vec::new(),
            owner_selector: None,
            pod_affinity: Vec::new(),
            pod_anti_affinity: Vec::new(),
            preferred_pod_affinity: Vec::new(),
            preferred_pod_anti_affinity: Vec::new(),
            ports: Vec::new(),
            images: Vec::new(),
            containers: 1,
            devices: Vec::new(),
            zones: ZoneAsk::default(),
            volumes: Vec::new(),
            claims: Vec::new(),
            attributes: Labels::new(),
            avoids: Vec::new(),
        }
    }
}

impl PodShape {
    /// Sets the request for one resource, of a pod with one container.
    pub fn set_request(&mut self, resource: &str, amount: i64) {
        self.requests.set(resource, amount);
        self.incoming_requests.set(resource, amount);
        match resource {
            CPU => self.existing_requests[0] = amount,
            MEMORY => self.existing_requests[1] = amount,
            _ => {}
        }
    }

    /// Whether the pod has no volumes, no claims, no device requests, and nothing that zones align.
    pub fn is_plain(&self) -> bool {
        self.volumes.is_empty()
            && self.claims.is_empty()
            && self.devices.is_empty()
            && self.zones.is_empty()
    }

    /// Whether a pod's placement can be judged by another's presence: it has affinity terms of
    /// any kind.
    pub fn has_pod_affinity(&self) -> bool {
        !(self.pod_affinity.is_empty()
            && self.pod_anti_affinity.is_empty()
            && self.preferred_pod_affinity.is_empty()
            && self.preferred_pod_anti_affinity.is_empty())
    }
}
