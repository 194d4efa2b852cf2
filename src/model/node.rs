//! Nodes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Labels;
use super::claims::ResourceSlice;
use super::device::Device;
use super::device::IslandRule;
use super::device::partition::{DeviceSet, Partitions};
use super::device::zone::{NodeZones, Zone, ZonePolicy, ZoneScope};
use super::error::{Defect, ModelError, Problem};
use super::resources::{Amounts, IntoQuantity, amount_of};
use super::taint::Taint;

/// A machine that runs pods.
///
/// ```
/// use phalanx::Node;
///
/// let node = Node::new("n1")
///     .capacity("cpu", "64")
///     .capacity("nvidia.com/gpu", 8)
///     .label("topology.kubernetes.io/zone", "a");
/// assert_eq!(node.allocatable.of("cpu"), 64_000);
/// assert!(node.check().is_ok());
/// assert!(Node::new("n2").capacity("cpu", "sixty").check().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Node {
    /// The name; unique in a cluster.
    pub name: String,
    /// A number of the embedder's own, handed back untouched.
    pub key: u64,
    /// Where the node stands among equals: lower first, then by name.
    pub tie_rank: i64,
    /// Labels.
    pub labels: Labels,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Whether new pods are kept away.
    pub unschedulable: bool,
    /// Capacity of the machine.
    pub capacity: Amounts,
    /// Amounts that pods may use.
    pub allocatable: Amounts,
    /// Container images present.
    pub images: Vec<Image>,
    /// Devices with details of their own, in order of index.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub devices: Vec<Device>,
    /// Slices of devices that are published with the node when it is added: those of a node that does
    /// not exist yet, such as a template. They get the node's name as node and pool. A pool that is
    /// published already stays as it is.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub slices: Vec<ResourceSlice>,
    /// Sets of devices that go together.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Partitions::is_empty"))]
    pub partitions: Partitions,
    /// NUMA zones, and how resources are aligned with them.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "NodeZones::is_empty"))]
    pub zones: NodeZones,
    #[cfg_attr(feature = "serde", serde(skip))]
    defect: Defect,
}

/// A container image that a node has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Image {
    /// The names it is known by.
    pub names: Vec<String>,
    /// Its size in bytes.
    pub size: i64,
}

impl Image {
    /// An image by its names.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>, size: i64) -> Image {
        Image { names: names.into_iter().map(Into::into).collect(), size }
    }
}

impl Node {
    /// A node without capacity.
    pub fn new(name: impl Into<String>) -> Node {
        Node { name: name.into(), ..Node::default() }
    }

    /// Adds a slice of devices that comes with the node.
    ///
    /// ```
    /// use phalanx::model::{ResourceSlice, SliceDevice};
    /// use phalanx::{Cluster, Node};
    ///
    /// let gpus = ResourceSlice::on("template", "gpu.example.com").device(SliceDevice::new("gpu-0"));
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n1").slice(gpus))?;
    /// assert_eq!(cluster.claims().slices().next().unwrap().pool, "n1");
    /// # Ok::<(), phalanx::StateError>(())
    /// ```
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn slice(mut self, slice: ResourceSlice) -> Node {
        self.slices.push(slice);
        self
    }

    /// Sets what the machine has of a resource, and what pods may use of it unless
    /// [`Node::allocatable`] says otherwise.
    #[must_use]
    pub fn capacity(mut self, resource: &str, quantity: impl IntoQuantity) -> Node {
        if let Some(amount) = self.amount("capacity", resource, quantity) {
            self.capacity.set(resource, amount);
            if !self.allocatable.lists(resource) {
                self.allocatable.set(resource, amount);
            }
        }
        self
    }

    /// Sets what pods may use of a resource.
    #[must_use]
    pub fn allocatable(mut self, resource: &str, quantity: impl IntoQuantity) -> Node {
        if let Some(amount) = self.amount("allocatable", resource, quantity) {
            self.allocatable.set(resource, amount);
        }
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Node {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, taint: Taint) -> Node {
        self.taints.push(taint);
        self
    }

    /// Keeps new pods away.
    #[must_use]
    pub fn unschedulable(mut self) -> Node {
        self.unschedulable = true;
        self
    }

    /// Adds an image with one name.
    #[must_use]
    pub fn image(mut self, name: impl Into<String>, size: i64) -> Node {
        self.images.push(Image { names: alloc::vec![name.into()], size });
        self
    }

    /// Adds a device; its index is the number of devices before it.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn device(mut self, device: Device) -> Node {
        self.devices.push(device);
        self
    }

    /// Adds a set of devices that go together.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn device_set(mut self, set: DeviceSet) -> Node {
        self.partitions.sets.push(set);
        self
    }

    /// Sets whether whole devices of a request are to be one of the sets.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn partitioned(mut self, rule: IslandRule) -> Node {
        self.partitions.rule = rule;
        self
    }

    /// Adds a NUMA zone.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn zone(mut self, zone: Zone) -> Node {
        self.zones.list.push(zone);
        self
    }

    /// Sets how resources of containers are aligned with the zones.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn aligning(mut self, policy: ZonePolicy, scope: ZoneScope) -> Node {
        (self.zones.policy, self.zones.scope) = (policy, scope);
        self
    }

    /// Sets the place among equals.
    #[must_use]
    pub fn tie_rank(mut self, rank: i64) -> Node {
        self.tie_rank = rank;
        self
    }

    /// Sets the embedder's own number.
    #[must_use]
    pub fn key(mut self, key: u64) -> Node {
        self.key = key;
        self
    }

    /// Whether a cluster can take the node.
    ///
    /// # Errors
    /// The name is empty, a quantity given to the builder was malformed, or an amount is negative.
    /// A set of devices names one that is not there or names one twice. Zones are more than
    /// [`NodeZones::MOST`] or not in order of number.
    pub fn check(&self) -> Result<(), ModelError> {
        let object = || format!("node {}", self.name);
        self.defect.check(object)?;
        if self.name.is_empty() {
            return Err(ModelError::new("node", "name", Problem::Required));
        }
        for (field, amounts) in [("capacity", &self.capacity), ("allocatable", &self.allocatable)] {
            if let Some((resource, _)) = amounts.iter().find(|(_, amount)| *amount < 0) {
                let field = format!("{field}.{resource}");
                return Err(ModelError::new(object(), field, Problem::Negative));
            }
        }
        for (index, device) in self.devices.iter().enumerate() {
            let field = || format!("devices[{index}]");
            if device.kind.is_empty() {
                return Err(ModelError::new(object(), field() + ".kind", Problem::Required));
            }
            if device.capacity.iter().any(|(_, amount)| amount < 0) {
                return Err(ModelError::new(object(), field() + ".capacity", Problem::Negative));
            }
        }
        self.check_sets(object)?;
        self.check_zones(object)
    }

    fn check_sets(&self, object: impl Fn() -> String) -> Result<(), ModelError> {
        for (index, set) in self.partitions.sets.iter().enumerate() {
            let fail = |text: &str| {
                let field = format!("partitions.sets[{index}]");
                Err(ModelError::new(object(), field, Problem::Invalid(text.into())))
            };
            if set.devices.is_empty() {
                return fail("must have a device");
            }
            if !set.devices.is_sorted_by(|one, next| one < next) {
                return fail("must name each device once, in order");
            }
            if set.devices.last().is_some_and(|last| *last as usize >= self.devices.len()) {
                return fail("names a device that the node does not have");
            }
        }
        Ok(())
    }

    fn check_zones(&self, object: impl Fn() -> String) -> Result<(), ModelError> {
        let zones = &self.zones.list;
        let fail = |text: &str| {
            Err(ModelError::new(object(), "zones.list", Problem::Invalid(text.into())))
        };
        if zones.len() > NodeZones::MOST {
            return fail("has more than 8 zones");
        }
        if !zones.is_sorted_by(|one, next| one.number < next.number) {
            return fail("must be in order of number, each once");
        }
        for (index, zone) in zones.iter().enumerate() {
            let amounts = zone.capacity.iter().chain(zone.taken.iter());
            if amounts.map(|(_, amount)| amount).any(|amount| amount < 0) {
                let field = format!("zones.list[{index}].capacity");
                return Err(ModelError::new(object(), field, Problem::Negative));
            }
        }
        Ok(())
    }

    fn amount(&mut self, field: &str, resource: &str, quantity: impl IntoQuantity) -> Option<i64> {
        let parsed = quantity.into_quantity().map_err(Problem::from);
        match parsed.and_then(|quantity| amount_of(resource, quantity)) {
            Ok(amount) => Some(amount),
            Err(problem) => {
                self.defect.note(format!("{field}.{resource}"), problem);
                None
            }
        }
    }
}
