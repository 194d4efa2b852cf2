//! Input of an attempt to preempt, and its outcome.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use phalanx::quota::yunikorn::{Queues, Resource};

/// A pod that runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allocation {
    /// The key, unique among allocations.
    pub key: String,
    /// The path of its queue.
    pub queue: String,
    /// Used resources.
    pub resource: Resource,
    /// The priority.
    pub priority: i32,
    /// The node that it is on.
    pub node: String,
    /// When it came, in milliseconds; the newest go first.
    pub created: i64,
    /// Whether it has opted in to being preempted.
    pub allow_preempt_self: bool,
    /// Whether it is the first of its application.
    pub originator: bool,
    /// Whether it has to be on its node.
    pub required_node: bool,
    /// Whether it has been released, or is being preempted.
    pub released: bool,
    /// Whether its application knows of it; otherwise it only takes room.
    pub known: bool,
    /// Whether it is released while it is being chosen.
    pub released_meanwhile: bool,
}

/// A node, its own use aside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeInput {
    /// The name.
    pub id: String,
    /// All resources.
    pub total: Resource,
    /// Resources that others use.
    pub occupied: Resource,
    /// Keys of the allocations that it counts.
    pub allocations: Vec<String>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ask {
    /// The key.
    pub key: String,
    /// The path of its queue.
    pub queue: String,
    /// Requested resources.
    pub resource: Resource,
    /// The priority.
    pub priority: i32,
}

/// An answer of the shim for one node and some victims, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShimPreemption {
    /// The ask.
    pub ask: String,
    /// The node.
    pub node: String,
    /// The victims.
    pub victims: Vec<String>,
    /// How many of them it was told to take at least, less one.
    pub start_index: i64,
    /// Whether it would do.
    pub success: bool,
    /// How many it takes, less one.
    pub result_index: i64,
}

/// Answers of the shim on nodes. A node that is not named does not pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Predicates {
    /// The only node on which an ask passes without victims.
    pub allocations: BTreeMap<String, String>,
    /// With victims.
    pub preemptions: Vec<ShimPreemption>,
}

/// Everything that an attempt sees.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    /// The queues.
    pub queues: Queues,
    /// Running allocations.
    pub allocations: Vec<Allocation>,
    /// The nodes.
    pub nodes: Vec<NodeInput>,
    /// The request.
    pub ask: Ask,
    /// Answers of the shim; `None`: everything passes.
    pub predicates: Option<Predicates>,
}

/// The outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptOutcome {
    /// The node for the ask.
    pub node: String,
    /// Keys of the victims, in order.
    pub victims: Vec<String>,
}
