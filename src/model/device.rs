//! Devices of a node, and what a pod asks of them.

use alloc::string::String;
use alloc::vec::Vec;

use super::resources::Amounts;

/// A device of a node: one GPU, one network card.
///
/// Capacities are amounts of its own units, such as `compute` in thousandths or `memory` in bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Device {
    /// What it is, as pods ask for it: `gpu`.
    pub kind: String,
    /// Which one it is: `A100`.
    pub model: String,
    /// What it has, by unit.
    pub capacity: Amounts,
    /// The group of devices it is closely linked with, such as an `NVLink` island.
    pub island: Option<String>,
    /// The NUMA node it is attached to.
    pub numa: Option<u32>,
}

/// What a pod asks of the devices of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceRequest {
    /// The kind of device.
    pub kind: String,
    /// The models allowed, in order of name; empty means any.
    #[cfg_attr(feature = "serde", serde(default))]
    pub models: Vec<String>,
    /// How much of how many devices.
    pub ask: DeviceAsk,
    /// Whether the devices are to be of one island.
    #[cfg_attr(feature = "serde", serde(default))]
    pub island: IslandRule,
}

/// How much of how many devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum DeviceAsk {
    /// So many devices that nobody else uses, all of each.
    Whole {
        /// How many devices; at least 1.
        count: u32,
    },
    /// These amounts of each of so many different devices.
    Shares {
        /// How many devices; at least 1.
        count: u32,
        /// What is taken of each, by unit.
        each: Amounts,
    },
}

/// Whether the devices of a pod are to be of one island.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum IslandRule {
    /// No matter.
    #[default]
    Any,
    /// Of one island if possible.
    Preferred,
    /// Of one island, or not at all.
    Required,
}
