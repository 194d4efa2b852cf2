//! World of a session: nodes, queues, jobs.

use std::collections::BTreeMap;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

use phalanx::quota::kai::QueueShare;

/// A node that is ready.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The name; decides ties.
    pub name: String,
    /// Milli-cores.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Devices.
    pub gpus: i64,
    /// Memory of each device, in MiB.
    pub gpu_memory: i64,
    /// The most pods.
    pub pods: usize,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// Devices that a pod requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gpu {
    /// Whole devices; none is 0.
    Whole(i64),
    /// A portion of each of some devices, in thousandths.
    Portion {
        /// Thousandths of a device.
        portion: i64,
        /// How many devices.
        devices: i64,
    },
    /// Memory of each of some devices.
    Memory {
        /// MiB.
        memory: i64,
        /// How many devices.
        devices: i64,
    },
}

impl Gpu {
    /// Whether any device is asked for.
    pub fn is_some(self) -> bool {
        self != Gpu::Whole(0)
    }
}

/// How a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodState {
    /// It waits.
    Pending,
    /// It waits for a gate.
    Gated,
    /// It has a place, which is not committed.
    Allocated,
    /// It holds a place on a node whose resources are still being released.
    Pipelined,
    /// It is being bound.
    Binding,
    /// It is bound.
    Bound,
    /// It runs.
    Running,
    /// It is leaving.
    Releasing,
    /// It is done.
    Succeeded,
    /// It has failed.
    Failed,
}

impl PodState {
    /// Whether it has a place, or will have one.
    pub fn is_active_allocated(self) -> bool {
        self == PodState::Pipelined || self.is_allocated()
    }

    /// Whether queues account for it.
    pub fn is_allocated(self) -> bool {
        use PodState::{Allocated, Binding, Bound, Running};
        matches!(self, Allocated | Binding | Bound | Running)
    }

    /// Whether it uses a node.
    pub fn is_active_used(self) -> bool {
        self == PodState::Releasing || self.is_active_allocated()
    }
}

/// Affinity to pods with the same labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodAffinity {
    /// The node label of a domain that has to hold such a pod.
    pub near: Option<String>,
    /// The node label of a domain that must not.
    pub apart: Option<String>,
}

/// A pod.
#[derive(Debug, Clone)]
pub struct Pod {
    /// The name; decides ties.
    pub name: String,
    /// The pod set that it is of.
    pub pod_set: String,
    /// How it stands when the first session opens.
    pub state: PodState,
    /// Its node.
    pub node: Option<String>,
    /// Labels of shared devices, local to the node.
    pub devices: Vec<String>,
    /// Higher goes first, before those without.
    pub order: Option<i64>,
    /// Milli-cores.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Devices.
    pub gpu: Gpu,
    /// A node label that has to have one of some values.
    pub node_affinity: Option<(String, Vec<String>)>,
    /// Labels, for affinity between pods.
    pub labels: BTreeMap<String, String>,
    /// Affinity between pods.
    pub affinity: PodAffinity,
}

/// Where in a topology pods have to be, or should.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyConstraint {
    /// The topology.
    pub topology: String,
    /// The level of a domain that holds all.
    pub required: Option<String>,
    /// The level of a domain that should.
    pub preferred: Option<String>,
}

/// Pods of which a number is needed.
#[derive(Debug, Clone, Default)]
pub struct PodSet {
    /// The name.
    pub name: String,
    /// The least number.
    pub min_available: u32,
    /// Where they have to be together.
    pub topology: Option<TopologyConstraint>,
}

/// Pod sets, and groups of such, all of which are needed.
#[derive(Debug, Clone, Default)]
pub struct SubGroupSet {
    /// The name.
    pub name: String,
    /// Where all have to be together.
    pub topology: Option<TopologyConstraint>,
    /// Groups in it.
    pub groups: Vec<SubGroupSet>,
    /// Pod sets in it.
    pub pod_sets: Vec<PodSet>,
}

impl SubGroupSet {
    /// Its pod sets and those of its groups.
    pub fn all_pod_sets(&self) -> Vec<&PodSet> {
        let inner = self.groups.iter().flat_map(SubGroupSet::all_pod_sets);
        inner.chain(&self.pod_sets).collect()
    }
}

/// A pod group.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// The name; decides ties.
    pub name: String,
    /// The leaf it waits in.
    pub queue: String,
    /// Higher goes first.
    pub priority: i64,
    /// Whether it may be evicted.
    pub preemptible: bool,
    /// Since when it waits; less is older.
    pub since: i64,
    /// For how long it has had too few pods.
    pub stale_for: Option<Duration>,
    /// Whether its evicted pods never go.
    pub stays_releasing: bool,
    /// Minima of the job.
    pub tree: SubGroupSet,
    /// Its pods.
    pub pods: Vec<Pod>,
}

/// A topology.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    /// The name.
    pub name: String,
    /// Node labels, from wide to narrow.
    pub levels: Vec<String>,
}

/// Order of nodes, by free amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The fullest.
    Binpack,
    /// The emptiest.
    Spread,
}

/// Order of shared devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuOrder {
    /// No order.
    None,
    /// The fullest.
    Pack,
    /// The emptiest.
    Spread,
}

/// The configuration.
#[derive(Debug, Clone)]
pub struct Rules {
    /// For pods that ask for devices, and for others; `None`: nodes are not scored by it.
    pub placement: Option<(Placement, Placement)>,
    /// The order of devices.
    pub gpu_order: GpuOrder,
    /// The plugins that are on; `None`: those of the default.
    pub plugins: Option<Vec<String>>,
    /// How long a gang may be stale; `None`: for ever.
    pub stale_grace: Option<Duration>,
    /// Whether victims that find another place do not count.
    pub consolidating_reclaim: bool,
    /// The most victims of a consolidation.
    pub consolidation_victims: Option<usize>,
    /// How much past usage counts, in billionths.
    pub usage_factor: u64,
    /// How much better served siblings have to stay, in thousandths.
    pub saturation: u64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            placement: Some((Placement::Binpack, Placement::Binpack)),
            gpu_order: GpuOrder::Pack,
            plugins: None,
            stale_grace: Some(Duration::from_secs(60)),
            consolidating_reclaim: true,
            consolidation_victims: None,
            usage_factor: 1_000_000_000,
            saturation: 1000,
        }
    }
}

impl Rules {
    /// Whether a plugin is on.
    pub(super) fn has(&self, plugin: &str) -> bool {
        self.plugins.as_ref().is_none_or(|own| own.iter().any(|name| name == plugin))
    }
}

/// A cluster.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Queues with cpu (milli-cores), memory (bytes) and devices (thousandths), in this order, and
    /// nothing held. A queue whose parent is not known has itself as parent, and is left out.
    pub queues: Vec<QueueShare>,
    /// Jobs.
    pub jobs: Vec<Job>,
    /// Topologies.
    pub topologies: Vec<Topology>,
    /// The configuration.
    pub rules: Rules,
}

/// One of the actions of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Places what fits.
    Allocate,
    /// Moves pods so that others fit.
    Consolidation,
    /// Takes back across queues.
    Reclaim,
    /// Evicts within a queue.
    Preempt,
    /// Evicts gangs that have too few pods.
    StaleGangEviction,
}
