//! What a plugin says about itself, so that its answers can be kept.

use alloc::string::String;
use alloc::vec::Vec;

use super::counters::CounterSpec;

/// What can change a plugin's answer for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Only the node's own labels, taints, capacity, images, name.
    Static,
    /// That, and the node's own pods, usage and devices.
    Node,
    /// That, and pods on nodes that share a value of one of these label keys with it.
    Domain(Vec<String>),
    /// Anything. The plugin is run again after every placement.
    Cluster,
}

/// What a plugin reads, for one pod shape.
///
/// The declaration is a promise: answers are kept while nothing declared has changed. A plugin
/// that breaks it gets stale answers, never unsoundness; [`laws`](crate::laws) find such plugins
/// out.
///
/// ```
/// use phalanx::framework::{Declaration, Reach};
///
/// let declaration = Declaration::node().monotone();
/// assert_eq!(declaration.reach, Reach::Node);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Declaration {
    /// What can change the answer for a node.
    pub reach: Reach,
    /// The answer depends on the group, not on the shape alone.
    pub reads_group: bool,
    /// The answer depends on the node's pods themselves, not just on their sums and on what is left
    /// of its devices.
    pub reads_pods: bool,
    /// The answer depends on affinity terms of other pods: where preparing says `Skip`, that holds
    /// as long as no pod with such terms comes or goes.
    pub reads_affinity: bool,
    /// The answer depends on the time of the request.
    pub reads_time: bool,
    /// Adding, removing or changing another node can change the answer.
    pub reads_nodes: bool,
    /// The score depends on which nodes are feasible, beyond normalisation.
    pub reads_feasible: bool,
    /// Placing more pods never turns a "no" into a "yes". Filters only.
    pub monotone: bool,
    /// The verdict is "no" exactly where the node has no room: one pod more than it may have, or
    /// more requested of a resource than is free, as [`Fit`](crate::plugins::Fit) has it. A search
    /// then counts instead of asking. Filters only.
    pub room: bool,
    /// The plugin promises a [`Grain`](super::Grain): what it prepares is kept, and it is asked
    /// once a class of nodes. Without it, a plugin that reads beyond the node is asked about every
    /// node for every pod.
    pub grained: bool,
    /// Pods that are being deleted do not count. `take` and `undo` are not told of them, and of a
    /// pod that begins to be deleted as of one that left.
    pub ignores_deleting: bool,
    /// Counts of pods, per domain, that the framework keeps for the plugin.
    pub counters: Vec<CounterSpec>,
}

impl Declaration {
    fn with_reach(reach: Reach) -> Declaration {
        Declaration {
            reads_group: false,
            reads_pods: !matches!(reach, Reach::Static),
            reads_affinity: false,
            reads_time: false,
            reads_nodes: false,
            reads_feasible: false,
            monotone: false,
            room: false,
            grained: false,
            ignores_deleting: false,
            counters: Vec::new(),
            reach,
        }
    }

    /// Reads, beside what is constant, the node's sums: how much of each resource its pods take,
    /// how many there are, and what is left of its devices. The cheapest declaration for what
    /// changes as pods are placed.
    #[must_use]
    pub fn usage() -> Declaration {
        Declaration { reads_pods: false, ..Declaration::node() }
    }

    /// Reads the node's own labels, taints, capacity, images and name. Such an answer cannot
    /// change while pods are placed, so it is monotone.
    #[must_use]
    pub fn constant() -> Declaration {
        Declaration::with_reach(Reach::Static).monotone()
    }

    /// Reads also the node's own pods, usage and devices.
    #[must_use]
    pub fn node() -> Declaration {
        Declaration::with_reach(Reach::Node)
    }

    /// Reads also the pods of the domains the node is in, by these label keys.
    #[must_use]
    pub fn domain<S: Into<String>>(keys: impl IntoIterator<Item = S>) -> Declaration {
        Declaration::with_reach(Reach::Domain(keys.into_iter().map(Into::into).collect()))
    }

    /// Reads anything. The safe default.
    #[must_use]
    pub fn cluster() -> Declaration {
        Declaration { reads_nodes: true, ..Declaration::with_reach(Reach::Cluster) }
    }

    /// Promises that placing more pods never turns a "no" into a "yes".
    #[must_use]
    pub fn monotone(mut self) -> Declaration {
        self.monotone = true;
        self
    }

    /// Promises that the verdict is exactly whether the node has room, as
    /// [`Fit`](crate::plugins::Fit) has it. Such a filter is monotone.
    #[must_use]
    pub fn judging_room(mut self) -> Declaration {
        self.room = true;
        self.monotone()
    }

    /// States that the group is read.
    #[must_use]
    pub fn reading_group(mut self) -> Declaration {
        self.reads_group = true;
        self
    }

    /// States that affinity terms of other pods are read.
    #[must_use]
    pub fn reading_affinity(mut self) -> Declaration {
        self.reads_affinity = true;
        self
    }

    /// States that the time is read.
    #[must_use]
    pub fn reading_time(mut self) -> Declaration {
        self.reads_time = true;
        self
    }

    /// States that other nodes matter, though not their pods.
    #[must_use]
    pub fn reading_nodes(mut self) -> Declaration {
        self.reads_nodes = true;
        self
    }

    /// States that the score depends on which nodes are feasible.
    #[must_use]
    pub fn reading_feasible(mut self) -> Declaration {
        self.reads_feasible = true;
        self
    }

    /// Promises to tell nodes apart as its [`grain`](super::Filter::grain) says.
    #[must_use]
    pub fn grained(mut self) -> Declaration {
        self.grained = true;
        self
    }

    /// States that pods that are being deleted do not count.
    #[must_use]
    pub fn ignoring_deleting(mut self) -> Declaration {
        self.ignores_deleting = true;
        self
    }

    /// Asks the framework to keep a count.
    #[must_use]
    pub fn counting(mut self, counter: CounterSpec) -> Declaration {
        self.counters.push(counter);
        self
    }

    /// Whether a pod that comes or goes changes the answer of its own node only.
    pub(crate) fn is_node_local(&self) -> bool {
        matches!(self.reach, Reach::Static | Reach::Node)
            && self.counters.is_empty()
            && !self.reads_feasible
    }

    /// Whether an answer given to one request holds for the next that has the same shape.
    pub(crate) fn is_cacheable(&self) -> bool {
        !self.reads_group && !self.reads_time
    }

    /// Whether a filter that rejects a node goes on rejecting it while pods are placed, on the node
    /// or elsewhere, so that pods may be counted by it before they are placed.
    pub(crate) fn bounds_capacity(&self) -> bool {
        self.is_node_local() && (self.monotone || self.reach == Reach::Static)
    }
}
