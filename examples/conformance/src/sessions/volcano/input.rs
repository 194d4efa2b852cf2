//! Input of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

use super::status::TaskStatus;
use phalanx::quota::volcano::Resources;
use phalanx::{Node, Pod};

/// A plugin of Volcano that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Plugin {
    /// A gang's minimum.
    Gang,
    /// Priorities of jobs and tasks.
    Priority,
    /// Dominant shares, with a hierarchy on demand.
    Drf,
    /// Queues deserve by weight.
    Proportion,
    /// Queues deserve by configuration.
    Capacity,
    /// System pods are no victims.
    Conformance,
    /// Where a task can go.
    Predicates,
    /// Where a task should go.
    NodeOrder,
}

/// A question that plugins vote on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Vote {
    /// Whose turn it is among jobs.
    JobOrder,
    /// Whose turn it is among queues.
    QueueOrder,
    /// Whose turn it is among tasks.
    TaskOrder,
    /// Whether a job may begin.
    JobReady,
    /// Whether a job can wait for its room.
    JobPipelined,
    /// Whether a job needs more.
    JobStarving,
    /// Whether a job may be admitted.
    JobEnqueued,
    /// Who is preempted in a queue.
    Preemptable,
    /// Who gives back to another queue.
    Reclaimable,
    /// Whether a queue may take from others.
    Preemptive,
    /// Whether a queue may have a task more.
    Allocatable,
    /// Whether a queue is passed over.
    Overused,
    /// Where a task can go.
    Predicate,
    /// Where a task should go.
    NodeOrder,
    /// Whether queues stand in a tree.
    Hierarchy,
}

/// A plugin in a tier, with what it may have a say in.
#[derive(Debug, Clone, PartialEq)]
pub struct TierPlugin {
    /// The plugin.
    pub plugin: Plugin,
    /// Its votes.
    pub votes: BTreeSet<Vote>,
}

/// A step of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Admits jobs.
    Enqueue,
    /// Gives tasks room.
    Allocate,
    /// Places tasks that ask for nothing.
    Backfill,
    /// Takes from other jobs of the same queue, and from a job's own lower tasks.
    Preempt,
    /// Takes from other queues.
    Reclaim,
}

/// Weights of the scores of `nodeorder`; 0 turns one off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the scores' own names")]
pub struct NodeOrderWeights {
    pub least_requested: u32,
    pub most_requested: u32,
    pub node_affinity: u32,
    pub pod_affinity: u32,
    pub balanced_resource: u32,
    pub taint_toleration: u32,
    pub image_locality: u32,
    pub pod_topology_spread: u32,
}

impl Default for NodeOrderWeights {
    fn default() -> NodeOrderWeights {
        NodeOrderWeights {
            least_requested: 1,
            most_requested: 0,
            node_affinity: 2,
            pod_affinity: 2,
            balanced_resource: 1,
            taint_toleration: 3,
            image_locality: 1,
            pod_topology_spread: 2,
        }
    }
}

/// How a session goes about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Configuration {
    /// Plugins in tiers, those that are really there.
    pub tiers: Vec<Vec<TierPlugin>>,
    /// Actions, in order.
    pub actions: Vec<Action>,
    /// Option of `capacity`.
    pub ancestor_reclaim_level: usize,
    /// Option of `nodeorder`.
    pub weights: NodeOrderWeights,
    /// Whether `preempt` tries victims out and keeps those that are not needed
    /// (`enableTopologyAwarePreemption`).
    pub topology_aware_preemption: bool,
}

/// A node.
#[derive(Debug, Clone)]
pub struct NodeInput {
    /// The node, as predicates and scores see it.
    pub node: Node,
    /// Allocatable resources.
    pub allocatable: Resources,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs, reason = "the fields of Volcano's Queue")]
pub struct QueueInput {
    pub name: String,
    pub weight: f64,
    pub deserved: Option<Resources>,
    pub capability: Option<Resources>,
    pub guarantee: Option<Resources>,
    pub priority: i32,
    pub parent: String,
    pub reclaimable: bool,
    pub open: bool,
    /// The annotations of `drf`.
    pub hierarchy: String,
    pub hierarchy_weights: String,
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the phases of Volcano's PodGroup")]
#[non_exhaustive]
pub enum Phase {
    Pending,
    Inqueue,
    Running,
    Unknown,
    Completed,
}

/// A job: Volcano's `PodGroup`.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields of Volcano's PodGroup")]
pub struct JobInput {
    /// Namespace and name.
    pub name: String,
    pub queue: String,
    pub min_member: i32,
    pub min_task_member: BTreeMap<String, i32>,
    pub min_resources: Option<Resources>,
    pub priority: i32,
    pub phase: Phase,
}

/// A task: a pod of a job.
#[derive(Debug, Clone)]
pub struct TaskInput {
    /// The pod, as predicates and scores see it.
    pub pod: Pod,
    /// Namespace and name of its job.
    pub job: String,
    /// Requested resources, with one of `pods`.
    pub requests: Resources,
    /// Higher goes first.
    pub priority: i32,
    /// The node that it is on.
    pub node: Option<String>,
    /// The status.
    pub status: TaskStatus,
    /// Its role in the job.
    pub role: String,
    /// Whether it may be a victim.
    pub preemptable: bool,
    /// Whether it takes nothing from others (`PreemptNever`).
    pub never_preempts: bool,
    /// Whether the system needs it: a system-critical class, or the system's namespace.
    pub critical: bool,
}

/// Everything that a session sees.
#[derive(Debug, Clone, Default)]
pub struct SessionInput {
    /// How it goes about it.
    pub configuration: Configuration,
    /// The nodes.
    pub nodes: Vec<NodeInput>,
    /// The queues.
    pub queues: Vec<QueueInput>,
    /// The jobs.
    pub jobs: Vec<JobInput>,
    /// The tasks.
    pub tasks: Vec<TaskInput>,
}

/// The outcome of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionOutcome {
    /// Tasks that are bound, with their nodes, by name.
    pub bound: BTreeMap<String, String>,
    /// Tasks that are evicted, in order.
    pub evicted: Vec<String>,
    /// Nodes of tasks that wait for others to leave, by job.
    pub pipelined: BTreeMap<String, Vec<String>>,
    /// How far jobs have come.
    pub phases: BTreeMap<String, Phase>,
    /// How many tasks of a job are where.
    pub statuses: BTreeMap<String, BTreeMap<TaskStatus, usize>>,
    /// Resources that the tasks of a job have been given.
    pub allocated: BTreeMap<String, Resources>,
    /// Whether a node was one of several with the best score. Volcano draws among them.
    pub tied: bool,
}
