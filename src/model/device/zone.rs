//! NUMA zones of a node, and containers whose resources are to come from few of them.

use alloc::vec::Vec;

use crate::model::resources::Amounts;

/// One NUMA zone of a node: the part of its resources that is close to one memory controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Zone {
    /// The number that the machine gives it.
    pub number: u32,
    /// Amounts that pods may use, by resource: thousandths for `cpu`, whole units else. A
    /// resource that no zone of the node lists has no place, and is not aligned.
    pub capacity: Amounts,
    /// Amounts that are taken, beside those of pods of which the cluster knows what they hold of
    /// zones.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Amounts::is_empty"))]
    pub taken: Amounts,
}

impl Zone {
    /// A zone without resources.
    pub fn new(number: u32) -> Zone {
        Zone { number, ..Zone::default() }
    }

    /// Sets the amount of a resource, in the units of [`Zone::capacity`].
    #[must_use]
    pub fn capacity(mut self, resource: &str, amount: i64) -> Zone {
        self.capacity.set(resource, amount);
        self
    }

    /// Sets the amount of a resource that is taken already.
    #[must_use]
    pub fn taken(mut self, resource: &str, amount: i64) -> Zone {
        self.taken.set(resource, amount);
        self
    }
}

/// How strictly a node aligns the resources of a container: the policies of kubelet's topology
/// manager, from lax to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ZonePolicy {
    /// Nothing is aligned, and nothing is counted by zone.
    #[default]
    None,
    /// Aligned if possible; every container is admitted.
    BestEffort,
    /// Admitted only if each resource comes from the same zones, and from no more of them than it
    /// would need on an empty node.
    Restricted,
    /// Admitted only if all resources come from one zone.
    SingleNumaNode,
}

/// The unit that is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ZoneScope {
    /// Each container by itself, in the order in which they start.
    #[default]
    Container,
    /// The pod as a whole.
    Pod,
}

/// The zones of a node, and how it aligns containers with them.
///
/// ```
/// use phalanx::model::{Zone, ZonePolicy, ZoneScope};
/// use phalanx::Node;
///
/// let node = Node::new("n1")
///     .capacity("cpu", 16)
///     .zone(Zone::new(0).capacity("cpu", 8_000))
///     .zone(Zone::new(1).capacity("cpu", 8_000))
///     .aligning(ZonePolicy::SingleNumaNode, ZoneScope::Pod);
/// assert!(node.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct NodeZones {
    /// The zones, in order of number; at most [`NodeZones::MOST`].
    pub list: Vec<Zone>,
    /// The policy.
    pub policy: ZonePolicy,
    /// The unit that it is applied to.
    pub scope: ZoneScope,
}

impl NodeZones {
    /// How many zones a node may have: kubelet's own bound.
    pub const MOST: usize = 8;

    pub(crate) const NONE: NodeZones =
        NodeZones { list: Vec::new(), policy: ZonePolicy::None, scope: ZoneScope::Container };

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == NodeZones::NONE
    }
}

/// Resources of one container that are to come from few zones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct ZonePart {
    /// Amounts, by resource. Resources without a zone on the node do not matter.
    pub amounts: Amounts,
    /// Whether it gives its resources back before the next container starts: an init container.
    pub passing: bool,
}

impl ZonePart {
    /// A container without resources.
    pub fn new() -> ZonePart {
        ZonePart::default()
    }

    /// Sets the amount of a resource: thousandths for `cpu`, whole units else.
    #[must_use]
    pub fn amount(mut self, resource: &str, amount: i64) -> ZonePart {
        self.amounts.set(resource, amount);
        self
    }

    /// Makes it one that gives its resources back.
    #[must_use]
    pub fn passing(mut self) -> ZonePart {
        self.passing = true;
        self
    }
}

/// Resources of a pod that nodes with zones align, container by container.
///
/// ```
/// use phalanx::model::{ZonePart, ZonePolicy};
/// use phalanx::Pod;
///
/// let pod = Pod::new()
///     .request("cpu", 4)
///     .zone_part(ZonePart::new().amount("cpu", 4_000))
///     .aligned(ZonePolicy::Restricted);
/// assert!(pod.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct ZoneAsk {
    /// Containers, in the order in which they start.
    pub parts: Vec<ZonePart>,
    /// The laxest policy that the pod accepts of a node.
    pub least: ZonePolicy,
}

impl ZoneAsk {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.least == ZonePolicy::None
    }

    /// Amounts of the pod as a whole: those of the containers together, or of the largest that
    /// passes. Saturating.
    pub(crate) fn whole(&self) -> ZonePart {
        let mut sum = Amounts::new();
        for part in self.parts.iter().filter(|part| !part.passing) {
            for (resource, amount) in part.amounts.iter() {
                sum.set(resource, sum.of(resource).saturating_add(amount));
            }
        }
        for part in self.parts.iter().filter(|part| part.passing) {
            for (resource, amount) in part.amounts.iter() {
                sum.set(resource, sum.of(resource).max(amount));
            }
        }
        ZonePart { amounts: sum, passing: false }
    }
}

/// Amounts that a pod holds of one zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ZoneShare {
    /// The number of the zone.
    pub zone: u32,
    /// Amounts, by resource.
    pub amounts: Amounts,
}

impl ZoneShare {
    /// Amounts of a zone.
    pub fn new(zone: u32, amounts: Amounts) -> ZoneShare {
        ZoneShare { zone, amounts }
    }
}
