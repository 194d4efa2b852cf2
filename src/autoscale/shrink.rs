//! Requests and answers about nodes that can go.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::base::{ObjectName, Time};
use crate::preempt::{AnyUnit, KeptBy, Move, Policy};
use crate::state::PodView;

/// Steps that a search for moves may take unless the request says otherwise.
const DEFAULT_STEPS: u64 = 200_000;

/// Pods that are told apart by the caller.
type Pods<'a> = &'a (dyn Fn(PodView<'_>) -> bool + Send + Sync);

/// Nodes that may go, and units that may move for it.
#[derive(Clone)]
#[must_use]
pub struct ScaleDownRequest<'a> {
    pub(super) now: Time,
    /// Nodes and prices; `None` for all nodes at a price of 1.
    pub(super) candidates: Option<Vec<(String, u64)>>,
    pub(super) policy: &'a dyn Policy,
    goes_with_node: Option<Pods<'a>>,
    pub(super) budget: u64,
}

impl Default for ScaleDownRequest<'_> {
    fn default() -> Self {
        ScaleDownRequest {
            now: Time::ZERO,
            candidates: None,
            policy: &AnyUnit,
            goes_with_node: None,
            budget: DEFAULT_STEPS,
        }
    }
}

impl fmt::Debug for ScaleDownRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScaleDownRequest")
            .field("now", &self.now)
            .field("candidates", &self.candidates)
            .field("policy", &self.policy)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl<'a> ScaleDownRequest<'a> {
    /// Any node may go, all at one price, and any unit may move that may be disrupted at all.
    pub fn new() -> ScaleDownRequest<'a> {
        ScaleDownRequest::default()
    }

    /// Sets the time, by which minimum run times are judged.
    pub fn now(mut self, now: Time) -> ScaleDownRequest<'a> {
        self.now = now;
        self
    }

    /// Sets which nodes may go, each with what it costs. A node that is given twice counts once.
    pub fn candidates<S: Into<String>>(
        mut self,
        nodes: impl IntoIterator<Item = (S, u64)>,
    ) -> ScaleDownRequest<'a> {
        self.candidates =
            Some(nodes.into_iter().map(|(name, price)| (name.into(), price)).collect());
        self
    }

    /// Sets which units may move.
    pub fn policy(mut self, policy: &'a dyn Policy) -> ScaleDownRequest<'a> {
        self.policy = policy;
        self
    }

    /// Sets which pods go with their node and need no other, as those of a `DaemonSet` do.
    pub fn goes_with_node(mut self, pods: Pods<'a>) -> ScaleDownRequest<'a> {
        self.goes_with_node = Some(pods);
        self
    }

    /// Sets how many steps the search for moves may take: 32 for each node whose units are laid out
    /// anew, and one for each unit that is put in order.
    pub fn budget(mut self, steps: u64) -> ScaleDownRequest<'a> {
        self.budget = steps;
        self
    }

    pub(super) fn goes(&self, pod: PodView<'_>) -> bool {
        self.goes_with_node.is_some_and(|goes| goes(pod))
    }
}

/// Nodes that can be taken away, one after another, and what keeps the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct ScaleDown {
    /// The nodes that can go, in the order in which they are emptied.
    pub removals: Vec<NodeRemoval>,
    /// The others that were asked about, by name.
    pub kept: Vec<KeptNode>,
    /// Price of the nodes that can go, together.
    pub price: u64,
    /// Steps that the search has taken.
    pub steps: u64,
}

/// A node that can be taken away once its pods have moved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct NodeRemoval {
    /// The node.
    pub node: String,
    /// Its price.
    pub price: u64,
    /// The moves that empty it, one after another, once it takes no new pods and those of the nodes
    /// before it are made. Of a group that moves whole, pods on other nodes are among them.
    pub moves: Vec<Move>,
}

/// A node that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct KeptNode {
    /// The node.
    pub node: String,
    /// The reason to keep it.
    pub reason: Blocked,
}

/// A reason to keep a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", rename_all_fields = "camelCase"))]
#[non_exhaustive]
pub enum Blocked {
    /// A unit on it may not be moved; or one that would have to move along.
    Unit {
        /// A pod of the unit.
        pod: ObjectName,
        /// The rule.
        by: KeptBy,
    },
    /// A member on it does not move without the others of its group: it is in a slice, evenly spread,
    /// or led.
    Together {
        /// The member.
        pod: ObjectName,
    },
    /// There is no room for its units elsewhere, beside what has moved before.
    NoRoom {
        /// A pod that has no place; the first of all where each has one alone.
        pod: ObjectName,
    },
    /// Its units could be elsewhere, but no order takes them there one after another.
    NoOrder {
        /// A pod of one of them.
        pod: ObjectName,
    },
    /// Pods of nodes that go have moved to it.
    Receives {
        /// One of them.
        pod: ObjectName,
    },
    /// A unit on it, or one that would have to move along, has moved with a node that goes. No unit
    /// moves twice.
    Moved {
        /// A pod of the unit.
        pod: ObjectName,
    },
    /// The budget of steps ran out, or that of a layout.
    Exhausted,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocked::Unit { pod, by } => write!(f, "pod {pod} stays: {by}"),
            Blocked::Together { pod } => write!(f, "pod {pod} does not move without its group"),
            Blocked::NoRoom { pod } => write!(f, "there is no room elsewhere for pod {pod}"),
            Blocked::NoOrder { pod } => {
                write!(f, "there is no order in which pod {pod} and others move")
            }
            Blocked::Receives { pod } => write!(f, "pod {pod} has moved to it"),
            Blocked::Moved { pod } => write!(f, "the unit of pod {pod} has moved already"),
            Blocked::Exhausted => f.write_str("the budget of steps ran out"),
        }
    }
}

impl fmt::Display for KeptNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.reason)
    }
}
