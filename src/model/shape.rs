//! Pod shapes: everything that a scheduler can tell pods apart by.

use alloc::string::String;
use alloc::vec::Vec;

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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    pub devices: Vec<DeviceRequest>,
    /// Resources that nodes with NUMA zones align.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "ZoneAsk::is_empty"))]
    pub zones: ZoneAsk,
    /// Volumes that decide where the pod can go.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub volumes: Vec<PodVolume>,
    /// Resource claims.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub claims: Vec<PodClaim>,
    /// Whatever else the embedder's own plugins read.
    pub attributes: Labels,
    /// Names of nodes that the queue keeps the pod from while a place is searched.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) avoids: Vec<String>,
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

    /// Whether a pod's placement can be judged by another's presence: it has affinity terms of
    /// any kind.
    pub fn has_pod_affinity(&self) -> bool {
        !(self.pod_affinity.is_empty()
            && self.pod_anti_affinity.is_empty()
            && self.preferred_pod_affinity.is_empty()
            && self.preferred_pod_anti_affinity.is_empty())
    }
}
