//! Declarations: the inputs of a plugin, so that its answers can be kept, and the questions about
//! it.

use alloc::string::String;
use alloc::vec::Vec;

use crate::model::LabelSelector;

/// Changes that can alter a plugin's answer for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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

/// The pods that a counter counts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CountedPods {
    /// Pods in a namespace (`None`: in any) whose labels a selector matches.
    Matching {
        /// The namespace.
        namespace: Option<String>,
        /// The labels.
        selector: LabelSelector,
    },
    /// Pods with a required anti-affinity term, over the counter's key, that matches the pod being
    /// placed; namespaces by the term's own rule. Each such term counts.
    Repelling,
}

/// A count that the framework keeps for a plugin: pods of some kind, per value of a node label.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterSpec {
    /// The node label key whose values are the domains.
    pub key: String,
    /// The pods counted.
    pub pods: CountedPods,
}

impl CounterSpec {
    /// A count of pods per value of a label key.
    pub fn new(key: impl Into<String>, pods: CountedPods) -> CounterSpec {
        CounterSpec { key: key.into(), pods }
    }
}

/// The inputs of a plugin, for one pod shape.
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
    /// Changes that can alter the answer for a node.
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
    /// The answer depends on the pod's resource claims. The planner ranks nodes for a pod with claims
    /// as for one without, unless a plugin beside
    /// [`DynamicResources`](crate::plugins::DynamicResources) states this; it is asked of the shape
    /// without its claims, too.
    pub reads_claims: bool,
    /// Adding, removing or changing another node can change the answer.
    pub reads_nodes: bool,
    /// The score depends on which nodes are feasible, beyond normalisation.
    pub reads_feasible: bool,
    /// Placing more pods never turns a "no" into a "yes". Filters only.
    pub monotone: bool,
    /// The verdict is "no" exactly where the node has no room, as [`Fit`](crate::plugins::Fit) has
    /// it. The node has no room for one pod more than it may have, or for a request above the free
    /// amount of a resource. A search then counts instead of calling it. Filters only.
    pub room: bool,
    /// The preparation is [`Incremental`](super::Incremental): it is kept, and called once a
    /// class of nodes. Without it, a plugin that reads beyond the node is called for every
    /// node for every pod.
    pub grained: bool,
    /// Pods that are being deleted do not count. [`Incremental`](super::Incremental) is not shown
    /// them; when a pod begins to be deleted, it is shown the pod as one that left.
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
            reads_claims: false,
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

    /// States that the pod's resource claims are read.
    #[must_use]
    pub fn reading_claims(mut self) -> Declaration {
        self.reads_claims = true;
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

    /// Promises that what is prepared is [`Incremental`](super::Incremental), and tells nodes apart
    /// as its classes say.
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

    /// Whether the answer for a node changes with that node alone. If so, it reads no pods of other
    /// nodes, no counts that the framework keeps, and no other nodes.
    ///
    /// [`Reach::Static`] or [`Reach::Node`], no counters, and not [`reads_nodes`](Self::reads_nodes).
    pub fn is_node_local(&self) -> bool {
        self.is_pod_local() && !self.reads_nodes
    }

    /// Whether pods that come to or leave *other* nodes never change the answer for a node. Nodes
    /// that come, go or change may, if [`reads_nodes`](Self::reads_nodes).
    ///
    /// [`Reach::Static`] or [`Reach::Node`], no counters, and not
    /// [`reads_feasible`](Self::reads_feasible): a pod elsewhere can make its node infeasible.
    pub fn is_pod_local(&self) -> bool {
        matches!(self.reach, Reach::Static | Reach::Node)
            && self.counters.is_empty()
            && !self.reads_feasible
    }

    /// Whether no pod that comes or goes changes the answer, be it on the node itself.
    ///
    /// [`Reach::Static`] and no counters.
    pub fn is_pod_independent(&self) -> bool {
        self.reach == Reach::Static && self.counters.is_empty()
    }

    /// Whether an answer may be kept from one request to the next. If so, it does not depend on the
    /// group or the time, which a request brings along beside the shape.
    pub fn is_cacheable(&self) -> bool {
        !self.reads_group && !self.reads_time
    }

    /// Whether a filter's "no" for a node stays "no" while pods are placed, wherever they go. Its
    /// verdicts and its [capacity](super::Capacity), taken now, then bound how many pods each node
    /// takes, whatever else is placed.
    ///
    /// [`is_pod_independent`](Self::is_pod_independent), which cannot change at all, or
    /// [`is_pod_local`](Self::is_pod_local) and [`monotone`](Self::monotone).
    pub fn is_counting_bound(&self) -> bool {
        self.is_pod_independent() || (self.is_pod_local() && self.monotone)
    }

    /// Adds a count that the framework keeps.
    #[must_use]
    pub fn counting(mut self, counter: CounterSpec) -> Declaration {
        self.counters.push(counter);
        self
    }
}

impl From<Reach> for Declaration {
    /// The declaration of a plugin with this reach that reads neither the group nor the time.
    fn from(reach: Reach) -> Declaration {
        match reach {
            Reach::Static => Declaration::constant(),
            Reach::Cluster => Declaration::cluster(),
            reach => Declaration::with_reach(reach),
        }
    }
}

#[cfg(test)]
mod tests;
