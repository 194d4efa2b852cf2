//! Devices of a node, and the device requests of a pod.

pub(crate) mod partition;
pub(crate) mod zone;

use alloc::string::String;
use alloc::vec::Vec;

use super::resources::Amounts;

/// A device of a node: one GPU, one network card.
///
/// Capacities are amounts of its own units, such as `compute` in thousandths or `memory` in bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Device {
    /// The kind, by which pods ask for it: `gpu`.
    pub kind: String,
    /// The model: `A100`.
    pub model: String,
    /// Capacity, by unit.
    pub capacity: Amounts,
    /// The group of devices it is closely linked with, such as an `NVLink` island.
    pub island: Option<String>,
    /// The NUMA node it is attached to.
    pub numa: Option<u32>,
}

/// A pod's request for devices of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceRequest {
    /// The kind of device.
    pub kind: String,
    /// The models allowed, in order of name; empty means any.
    #[cfg_attr(feature = "serde", serde(default))]
    pub models: Vec<String>,
    /// How much of how many devices.
    pub ask: DeviceAsk,
    /// The names of the islands allowed, in order of name; empty means any, and devices without
    /// one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub islands: Vec<String>,
    /// Whether the devices are to be of one island. One device alone always is.
    #[cfg_attr(feature = "serde", serde(default))]
    pub island: IslandRule,
    /// Whether the devices are to be attached to one NUMA node. One device alone always is.
    #[cfg_attr(feature = "serde", serde(default))]
    pub numa: IslandRule,
    /// The profile of the set that the devices are to be. `None`: no profile.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub profile: Option<String>,
    /// Whether the devices are to be a set of the highest score that the node's partition table has
    /// for as many devices. It matters where the table binds.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
    pub best_set: bool,
    /// The request beside whose devices they are to lie.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub beside: Option<Beside>,
}

/// How much of how many devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum DeviceAsk {
    /// So many whole devices, each used by this pod alone.
    Whole {
        /// How many devices; at least 1.
        count: u32,
    },
    /// These amounts of each of so many different devices.
    Shares {
        /// How many devices; at least 1.
        count: u32,
        /// Amount requested of each device, by unit.
        each: Amounts,
    },
}

/// Whether the devices of a request are to be of one group: an island, or those of a NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum IslandRule {
    /// No matter.
    #[default]
    Any,
    /// All of one group, if possible.
    Preferred,
    /// All of one group, or none. Devices without a group do not count.
    Required,
}

/// Devices of a request that are to lie beside those of another one of the same pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Beside {
    /// The place of the other request among those of the pod; one before this.
    pub request: u32,
    /// Whether both are to have the same islands. Otherwise each of this one is to be of an island
    /// of the other.
    pub same: bool,
}

impl Beside {
    /// Devices of the islands of another request.
    pub fn request(request: u32) -> Beside {
        Beside { request, same: false }
    }

    /// Wants the same islands of both.
    #[must_use]
    pub fn same(mut self) -> Beside {
        self.same = true;
        self
    }
}

impl Device {
    /// A device of a kind and a model, without capacities.
    pub fn new(kind: impl Into<String>, model: impl Into<String>) -> Device {
        Device { kind: kind.into(), model: model.into(), ..Device::default() }
    }

    /// Sets what it has of a unit.
    #[must_use]
    pub fn capacity(mut self, unit: &str, amount: i64) -> Device {
        self.capacity.set(unit, amount);
        self
    }

    /// Sets the island.
    #[must_use]
    pub fn island(mut self, island: impl Into<String>) -> Device {
        self.island = Some(island.into());
        self
    }

    /// Sets the NUMA node.
    #[must_use]
    pub fn numa(mut self, node: u32) -> Device {
        self.numa = Some(node);
        self
    }
}

impl DeviceRequest {
    /// So many whole devices of a kind.
    ///
    /// ```
    /// use phalanx::model::{DeviceRequest, IslandRule};
    /// use phalanx::Pod;
    ///
    /// let training = Pod::new().device(
    ///     DeviceRequest::whole("gpu", 4).model("H100").model("A100").island(IslandRule::Required),
    /// );
    /// let inference = Pod::new().device(DeviceRequest::share("gpu", "memory", 8 << 30));
    /// assert!(training.check().is_ok() && inference.check().is_ok());
    /// ```
    pub fn whole(kind: impl Into<String>, count: u32) -> DeviceRequest {
        DeviceRequest::new(kind, DeviceAsk::Whole { count })
    }

    /// An amount of a unit of one device of a kind.
    pub fn share(kind: impl Into<String>, unit: &str, amount: i64) -> DeviceRequest {
        DeviceRequest::shares(kind, 1, unit, amount)
    }

    /// An amount of a unit of each of so many different devices of a kind.
    pub fn shares(kind: impl Into<String>, count: u32, unit: &str, amount: i64) -> DeviceRequest {
        let mut each = Amounts::new();
        each.set(unit, amount);
        DeviceRequest::new(kind, DeviceAsk::Shares { count, each })
    }

    fn new(kind: impl Into<String>, ask: DeviceAsk) -> DeviceRequest {
        DeviceRequest {
            kind: kind.into(),
            models: Vec::new(),
            ask,
            islands: Vec::new(),
            island: IslandRule::Any,
            numa: IslandRule::Any,
            profile: None,
            best_set: false,
            beside: None,
        }
    }

    /// Asks for a further unit of each device. Whole devices are not changed by it.
    #[must_use]
    pub fn and(mut self, unit: &str, amount: i64) -> DeviceRequest {
        if let DeviceAsk::Shares { each, .. } = &mut self.ask {
            each.set(unit, amount);
        }
        self
    }

    /// Allows a model, beside those allowed already.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> DeviceRequest {
        let model = model.into();
        if let Err(at) = self.models.binary_search(&model) {
            self.models.insert(at, model);
        }
        self
    }

    /// Allows an island by name, beside those allowed already.
    #[must_use]
    pub fn in_island(mut self, name: impl Into<String>) -> DeviceRequest {
        let name = name.into();
        if let Err(at) = self.islands.binary_search(&name) {
            self.islands.insert(at, name);
        }
        self
    }

    /// Sets whether the devices are to be of one island.
    #[must_use]
    pub fn island(mut self, rule: IslandRule) -> DeviceRequest {
        self.island = rule;
        self
    }

    /// Sets whether the devices are to be attached to one NUMA node.
    #[must_use]
    pub fn numa(mut self, rule: IslandRule) -> DeviceRequest {
        self.numa = rule;
        self
    }

    /// Asks for a set of a profile; the number of devices is that of the set.
    ///
    /// ```
    /// use phalanx::model::{Device, DeviceRequest, DeviceSet};
    /// use phalanx::{Node, Pod};
    ///
    /// // A card of seven slices, of which a profile takes two that are side by side.
    /// let slice = || Device::new("mig", "A100");
    /// let node = (0..7).fold(Node::new("n1"), |node, _| node.device(slice()));
    /// let node = (0..3).fold(node, |node, at| {
    ///     node.device_set(DeviceSet::new([2 * at, 2 * at + 1]).profile("2g.10gb"))
    /// });
    /// let pod = Pod::new().device(DeviceRequest::whole("mig", 2).of_profile("2g.10gb"));
    /// assert!(node.check().is_ok() && pod.check().is_ok());
    /// ```
    #[must_use]
    pub fn of_profile(mut self, profile: impl Into<String>) -> DeviceRequest {
        self.profile = Some(profile.into());
        self
    }

    /// Takes nothing but sets of the highest score.
    #[must_use]
    pub fn best_set(mut self) -> DeviceRequest {
        self.best_set = true;
        self
    }

    /// Asks for devices beside those of another request.
    ///
    /// ```
    /// use phalanx::model::{Beside, DeviceRequest};
    /// use phalanx::Pod;
    ///
    /// // Two GPUs, and a network card on each of their PCIe switches.
    /// let pod = Pod::new()
    ///     .device(DeviceRequest::whole("gpu", 2))
    ///     .device(DeviceRequest::whole("nic", 2).beside(Beside::request(0).same()));
    /// assert!(pod.check().is_ok());
    /// ```
    #[must_use]
    pub fn beside(mut self, other: Beside) -> DeviceRequest {
        self.beside = Some(other);
        self
    }

    /// Whether it says itself which devices go together.
    pub(crate) fn names_group(&self) -> bool {
        let free = (IslandRule::Any, IslandRule::Any) == (self.island, self.numa);
        !free || self.profile.is_some() || self.best_set
    }

    /// Whether whole devices are requested.
    pub fn is_whole(&self) -> bool {
        matches!(self.ask, DeviceAsk::Whole { .. })
    }

    /// How many devices are requested.
    pub fn count(&self) -> u32 {
        let (DeviceAsk::Whole { count } | DeviceAsk::Shares { count, .. }) = self.ask;
        count
    }
}
