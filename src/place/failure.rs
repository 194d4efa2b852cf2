//! Failures of Kueue's assignment, as data.

use crate::base::clip::clip;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

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
    #[error("no node has the level {:?}", clip(.level))]
    NoDomains {
        /// The level searched.
        level: String,
    },
    /// The pod set asks for no topology at all.
    #[error("the pod set names no topology level")]
    NoLevel,
    /// The requested level is not one of the topology.
    #[error("the topology has no level {:?}", clip(.level))]
    UnknownLevel {
        /// The level asked for.
        level: String,
    },
    /// The level of the slices is not one of the topology.
    #[error("the topology has no level {:?} for slices", clip(.level))]
    UnknownSliceLevel {
        /// The level asked for.
        level: String,
    },
    /// The slices are coarser than the request they are part of.
    #[error("the slice level {:?} is above the requested level {:?}", clip(.level), clip(.requested))]
    SliceLevelAboveRequest {
        /// The level of the slices.
        level: String,
        /// The level of the request.
        requested: String,
    },
    /// A slice layer has no size, or the size 0.
    #[error("the slices at {:?} have no size", clip(.level))]
    NoSliceSize {
        /// The level of the layer.
        level: String,
    },
    /// An inner slice layer is not finer than the layer before.
    #[error("the slice layer {:?} is not finer than the layer before", clip(.level))]
    SliceLayerNotFiner {
        /// The level of the inner layer.
        level: String,
    },
    /// The size of an inner slice layer does not divide the size of the layer before.
    #[error("slices of {outer} cannot be cut into slices of {size} at {:?}", clip(.level))]
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
    #[error("the affinity expression on {:?} has values that its operator cannot take", clip(.key))]
    InvalidAffinity {
        /// The label key of the expression.
        key: String,
    },
    /// A group that is not a set of workers and a one-pod leader.
    #[error("the group {:?} is not one pod set and a leader of one pod", clip(.group))]
    GroupShape {
        /// The name of the group.
        group: String,
    },
    /// A pod runs in a domain that is not there any more, so nothing can be repaired.
    #[error("the previous assignment uses {:?}, which is not in the topology", clip(.domain))]
    StaleAssignment {
        /// The first label value of the domain.
        domain: String,
    },
    /// The host to replace carries no pod of the pod set.
    #[error("nothing to place again for node {:?}", clip(.node))]
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
    #[error("no node of {domain:?} takes pod {}", clip(.pod))]
    NoNode {
        /// The pod.
        pod: String,
        /// The domain, as the values of an assignment.
        domain: Vec<String>,
    },
    /// Running members are in another domain of the required level than Kueue chose for the rest.
    /// They are on nodes that it does not see, or in slices that the rest do not fill. Given by
    /// [`Strategy::Kueue`](crate::Strategy::Kueue) only.
    #[error("members that run are in another domain of {level:?}")]
    RunningElsewhere {
        /// The level required.
        level: String,
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
            Failure::RunningElsewhere { .. } => "running-elsewhere",
        }
    }
}

/// How much of a pod set had room, and which nodes were out of the question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NoFit {
    /// The room there was.
    pub room: KueueRoom,
    /// Leaves looked at: hosts if the hostname is the finest level.
    pub nodes_considered: u64,
    /// Leaves left out, by reason. Empty if the room was too small for another reason.
    pub excluded: Exclusions,
}

/// The room there was for a pod set that did not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum KueueRoom {
    /// A request with at most one slice layer.
    Whole {
        /// Units with room: for required requests in the best domain, else over all domains.
        fits: u64,
        /// Units asked for.
        of: u64,
        /// The unit counted.
        unit: Unit,
    },
    /// A request with several slice layers: slices with room in the best domain, by layer from
    /// the coarsest.
    Layers(Vec<LayerRoom>),
}

/// The room for one slice layer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LayerRoom {
    /// The level of the layer.
    pub level: String,
    /// Slices with room.
    pub fits: u64,
    /// Slices asked for.
    pub of: u64,
}

/// The unit that [`KueueRoom`] counts.
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
#[non_exhaustive]
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
            KueueRoom::Whole { fits, of, unit } => {
                let unit = match unit {
                    Unit::Pod => "pods",
                    Unit::Slice => "slices",
                };
                write!(f, "{fits} of {of} {unit} fit")?;
            }
            KueueRoom::Layers(layers) => {
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

#[cfg(test)]
mod tests;
