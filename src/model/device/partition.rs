//! Sets of devices that go together: partitions of linked GPUs, profiles of one that is cut up.

use alloc::string::String;
use alloc::vec::Vec;

use super::IslandRule;

/// Devices that go together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct DeviceSet {
    /// Indexes of the node's devices, ascending.
    pub devices: Vec<u32>,
    /// The name by which requests ask for it, such as a MIG profile; empty for a set that serves
    /// any request for as many whole devices.
    pub profile: String,
    /// Higher is better, among sets that serve a request.
    pub score: i64,
}

impl DeviceSet {
    /// A set of devices, by index.
    pub fn new(devices: impl IntoIterator<Item = u32>) -> DeviceSet {
        let mut devices: Vec<u32> = devices.into_iter().collect();
        devices.sort_unstable();
        DeviceSet { devices, profile: String::new(), score: 0 }
    }

    /// Names the profile that it is.
    #[must_use]
    pub fn profile(mut self, profile: impl Into<String>) -> DeviceSet {
        self.profile = profile.into();
        self
    }

    /// Sets its score.
    #[must_use]
    pub fn score(mut self, score: i64) -> DeviceSet {
        self.score = score;
        self
    }
}

/// The partition table of a node: which sets of its devices go together.
///
/// A table of profiles says which parts of a card fit beside which: two sets that share a device
/// exclude each other.
///
/// ```
/// use phalanx::model::{Device, DeviceRequest, DeviceSet, IslandRule};
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang};
///
/// // Four GPUs that are linked in pairs.
/// let gpu = || Device::new("gpu", "H100");
/// let node = Node::new("n1").capacity("cpu", 8).device(gpu()).device(gpu()).device(gpu()).device(gpu());
/// let node = node
///     .device_set(DeviceSet::new([0, 1]))
///     .device_set(DeviceSet::new([2, 3]))
///     .partitioned(IslandRule::Required);
/// let mut cluster = Cluster::new();
/// cluster.add_node(node)?;
///
/// let one = Pod::new().device(DeviceRequest::whole("gpu", 3));
/// let group = PodGroup::of("three", 1, one);
/// let outcome = place_gang(&cluster, &Framework::default(), &group)?;
/// assert!(outcome.plan().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Partitions {
    /// The sets.
    pub sets: Vec<DeviceSet>,
    /// Whether whole devices of a request without a profile are to be one of the sets without a
    /// profile. Requests with a profile always are one of its sets.
    pub rule: IslandRule,
}

impl Partitions {
    pub(crate) const NONE: Partitions = Partitions { sets: Vec::new(), rule: IslandRule::Any };

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Partitions::NONE
    }
}
