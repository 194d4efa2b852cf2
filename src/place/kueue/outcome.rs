//! What comes back: assignments, and reasons why there are none.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// A cluster that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The topology has no level.
    #[error("a topology needs at least one level")]
    NoLevels,
    /// The topology names a level twice.
    #[error("the topology has the level {0:?} twice")]
    DuplicateLevel(String),
    /// Two nodes share a name.
    #[error("two nodes are named {0:?}")]
    DuplicateNode(String),
}

/// Where the pods of a pod set go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Assignment {
    /// The label keys that the values belong to: the hostname alone if it is the finest level,
    /// else all levels.
    pub levels: Vec<String>,
    /// The leaves in use, in the order of their full paths.
    pub domains: Vec<AssignedDomain>,
}

/// A leaf of the topology and the number of pods on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AssignedDomain {
    /// The label values, one for each level of the assignment.
    pub values: Vec<String>,
    /// How many pods.
    pub count: u32,
}

impl Assignment {
    /// The number of pods over all domains.
    pub fn pods(&self) -> u64 {
        self.domains.iter().map(|domain| u64::from(domain.count)).sum()
    }
}

/// What became of one pod set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSetOutcome {
    /// The name of the pod set.
    pub name: String,
    /// Where its pods go, or why they do not.
    pub result: Result<Assignment, Failure>,
}

/// The answer for a list of pod sets, in the order in which they were placed.
///
/// The first failure stops: pod sets after it are missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The pod sets that were tried.
    pub pod_sets: Vec<PodSetOutcome>,
}

impl Outcome {
    /// The assignment of a pod set; `None` if it failed or was not tried.
    pub fn assignment(&self, pod_set: &str) -> Option<&Assignment> {
        self.pod_sets.iter().find(|one| one.name == pod_set)?.result.as_ref().ok()
    }

    /// The failure that stopped the placement, if there was one.
    pub fn failure(&self) -> Option<&Failure> {
        self.pod_sets.iter().find_map(|one| one.result.as_ref().err())
    }
}

/// Why a pod set has no assignment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", rename_all_fields = "camelCase"))]
#[non_exhaustive]
pub enum Failure {
    /// The domains have too little room.
    #[error("too little room: {0}")]
    NoFit(NoFit),
    /// No node of the flavor is in the topology.
    #[error("no node has the level {level:?}")]
    NoDomains {
        /// The level searched.
        level: String,
    },
    /// The pod set asks for no topology at all.
    #[error("the pod set names no topology level")]
    NoLevel,
    /// The requested level is not one of the topology.
    #[error("the topology has no level {level:?}")]
    UnknownLevel {
        /// The level asked for.
        level: String,
    },
    /// The level of the slices is not one of the topology.
    #[error("the topology has no level {level:?} for slices")]
    UnknownSliceLevel {
        /// The level asked for.
        level: String,
    },
    /// The slices are coarser than the request they are part of.
    #[error("the slice level {level:?} is above the requested level {requested:?}")]
    SliceLevelAboveRequest {
        /// The level of the slices.
        level: String,
        /// The level of the request.
        requested: String,
    },
    /// A slice layer has no size, or the size 0.
    #[error("the slices at {level:?} have no size")]
    NoSliceSize {
        /// The level of the layer.
        level: String,
    },
    /// An inner slice layer is not finer than the layer before.
    #[error("the slice layer {level:?} is not finer than the layer before")]
    SliceLayerNotFiner {
        /// The level of the inner layer.
        level: String,
    },
    /// The size of an inner slice layer does not divide the size of the layer before.
    #[error("slices of {outer} cannot be cut into slices of {size} at {level:?}")]
    SliceLayerSize {
        /// The level of the inner layer.
        level: String,
        /// Its size.
        size: u32,
        /// The size of the layer before.
        outer: u32,
    },
    /// The pods cannot be cut into whole slices. Kueue leaves the rest out without a word.
    #[error("{count} pods cannot be cut into slices of {size}")]
    CountNotDivisible {
        /// The number of pods to place.
        count: u32,
        /// The size of a slice.
        size: u32,
    },
    /// A node-affinity expression breaks the rules of its operator.
    #[error("the affinity expression on {key:?} has values that its operator cannot take")]
    InvalidAffinity {
        /// The label key of the expression.
        key: String,
    },
    /// A group that is not a set of workers and a one-pod leader.
    #[error("the group {group:?} is not one pod set and a leader of one pod")]
    GroupShape {
        /// The name of the group.
        group: String,
    },
    /// A pod runs in a domain that is not there any more, so nothing can be repaired.
    #[error("the previous assignment uses {domain:?}, which is not in the topology")]
    StaleAssignment {
        /// The first label value of the domain.
        domain: String,
    },
    /// The host to replace carries no pod of the pod set.
    #[error("nothing to place again for node {node:?}")]
    NoReplacement {
        /// The host.
        node: String,
    },
    /// The descent could not place all pods that a coarser level promised to hold. Kueue logs
    /// this and publishes what it placed.
    #[error("only {placed} of {of} pods found a leaf")]
    Incomplete {
        /// Pods with a leaf.
        placed: u64,
        /// Pods asked for.
        of: u64,
    },
    /// No node of the domain assigned takes a pod: its room is scattered over nodes, or a filter
    /// objects that Kueue does not know. Of [`Strategy::Kueue`](crate::Strategy::Kueue) only.
    #[error("no node of {domain:?} takes pod {pod}")]
    NoNode {
        /// The pod.
        pod: String,
        /// The domain, as the values of an assignment.
        domain: Vec<String>,
    },
}

impl Failure {
    /// The kind of failure as a word, stable across versions of the texts.
    pub const fn kind(&self) -> &'static str {
        match self {
            Failure::NoFit(_) => "no-fit",
            Failure::NoDomains { .. } => "no-domains",
            Failure::NoLevel => "no-level",
            Failure::UnknownLevel { .. } => "unknown-level",
            Failure::UnknownSliceLevel { .. } => "unknown-slice-level",
            Failure::SliceLevelAboveRequest { .. } => "slice-level-above-request",
            Failure::NoSliceSize { .. } => "no-slice-size",
            Failure::SliceLayerNotFiner { .. } => "slice-layer-not-finer",
            Failure::SliceLayerSize { .. } => "slice-layer-size",
            Failure::CountNotDivisible { .. } => "count-not-divisible",
            Failure::InvalidAffinity { .. } => "invalid-affinity",
            Failure::GroupShape { .. } => "group-shape",
            Failure::StaleAssignment { .. } => "stale-assignment",
            Failure::NoReplacement { .. } => "no-replacement",
            Failure::Incomplete { .. } => "incomplete",
            Failure::NoNode { .. } => "no-node",
        }
    }
}

/// How much of a pod set had room, and which nodes were out of the question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NoFit {
    /// What would have fitted.
    pub room: Room,
    /// Leaves looked at: hosts if the hostname is the finest level.
    pub nodes_considered: u64,
    /// Leaves left out, by reason. Empty if the room was too small for another reason.
    pub excluded: Exclusions,
}

/// What would have fitted of a pod set that did not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Room {
    /// A request with at most one slice layer.
    Whole {
        /// Units with room: for required requests in the best domain, else over all domains.
        fits: u64,
        /// Units asked for.
        of: u64,
        /// What is counted.
        unit: Unit,
    },
    /// A request with several slice layers: slices with room in the best domain, by layer from
    /// the coarsest.
    Layers(Vec<LayerRoom>),
}

/// The room for one slice layer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LayerRoom {
    /// The level of the layer.
    pub level: String,
    /// Slices with room.
    pub fits: u64,
    /// Slices asked for.
    pub of: u64,
}

/// What [`Room`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Unit {
    /// Single pods.
    Pod,
    /// Slices.
    Slice,
}

/// Leaves left out, by the first reason that applied, in this order: taint, node selector,
/// affinity, domain, resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Exclusions {
    /// By the first taint that is not tolerated, written `key=value:effect`.
    pub taints: BTreeMap<String, u64>,
    /// The node selector does not match.
    pub node_selector: u64,
    /// The required node affinity does not match.
    pub affinity: u64,
    /// Outside the domain to which a replacement is confined.
    pub topology_domain: u64,
    /// No room for a single pod, by the scarcest resource (the first by name on a tie).
    pub resources: BTreeMap<String, u64>,
}

impl Exclusions {
    /// Whether no leaf was left out.
    pub fn is_empty(&self) -> bool {
        *self == Exclusions::default()
    }
}

impl core::fmt::Display for NoFit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.room {
            Room::Whole { fits, of, unit } => {
                let unit = match unit {
                    Unit::Pod => "pods",
                    Unit::Slice => "slices",
                };
                write!(f, "{fits} of {of} {unit} fit")?;
            }
            Room::Layers(layers) => {
                for (at, layer) in layers.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(
                        f,
                        "{comma}{} of {} slices fit at {}",
                        layer.fits, layer.of, layer.level
                    )?;
                }
            }
        }
        if self.excluded.is_empty() {
            return Ok(());
        }
        write!(f, "; of {} nodes", self.nodes_considered)?;
        for (taint, nodes) in &self.excluded.taints {
            write!(f, ", {nodes} have the taint {taint}")?;
        }
        for (nodes, reason) in [
            (self.excluded.node_selector, "do not match the node selector"),
            (self.excluded.affinity, "do not match the affinity"),
            (self.excluded.topology_domain, "are outside the domain to repair"),
        ] {
            if nodes > 0 {
                write!(f, ", {nodes} {reason}")?;
            }
        }
        for (resource, nodes) in &self.excluded.resources {
            write!(f, ", {nodes} lack {resource}")?;
        }
        Ok(())
    }
}
