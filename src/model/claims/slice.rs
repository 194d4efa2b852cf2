//! Slices as drivers publish them: devices of a pool with attributes and capacities.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::{Quantity, Time};
use crate::model::affinity::NodeSelector;
use crate::model::taint::Taint;

/// A class of devices: a name for what all of its selectors hold of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct DeviceClass {
    /// The name.
    pub name: String,
    /// Expressions that must all hold of a device.
    pub selectors: Vec<String>,
    /// The resource of nodes that claims on the class serve, where nodes have none of it.
    pub extended_resource: Option<String>,
    /// When it was made. Of two classes for one resource the later one serves it.
    pub created: Time,
}

/// A part of a pool of devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct ResourceSlice {
    /// The name.
    pub name: String,
    /// The driver that publishes it.
    pub driver: String,
    /// The pool, among those of the driver.
    pub pool: String,
    /// The generation of the pool. Slices of the highest one count.
    pub generation: i64,
    /// How many slices the pool has in this generation.
    pub slice_count: i64,
    /// The nodes that reach its devices.
    pub nodes: NodeReach,
    /// Devices, in the order in which they are tried.
    pub devices: Vec<SliceDevice>,
    /// Counters that devices of the pool share.
    pub counters: Vec<CounterSet>,
}

/// The nodes that reach a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum NodeReach {
    /// None.
    #[default]
    Nowhere,
    /// One, by name.
    Node(String),
    /// Nodes that a selector matches.
    Selector(NodeSelector),
    /// All.
    All,
    /// Each device says so itself.
    PerDevice,
}

/// A device of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct SliceDevice {
    /// The name; unique in its pool.
    pub name: String,
    /// Attributes by name. A name without a domain is of the driver's.
    pub attributes: BTreeMap<String, Attribute>,
    /// Capacities by name.
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// Shared counters that it uses up while it is allocated.
    pub consumes: Vec<CounterUse>,
    /// The nodes that reach it, in a slice that leaves this to its devices.
    pub nodes: NodeReach,
    /// Marks that keep requests away which do not tolerate them.
    pub taints: Vec<Taint>,
    /// Whether a claim that holds it is confined to the node that it was allocated for.
    pub binds_to_node: bool,
    /// Whether several claims may each hold a part of its capacity.
    pub shareable: bool,
    /// Conditions to wait for before pods start. Pools with such devices are tried last.
    pub binding_conditions: Vec<String>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum Attribute {
    /// A whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// A version by semver 2.0.0, as text.
    Version(String),
}

/// How much a device has of a capacity, and in which portions it is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct DeviceCapacity {
    /// The amount.
    pub value: Quantity,
    /// The portions; `None` allows any.
    pub policy: Option<RequestPolicy>,
}

/// The portions in which a capacity is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct RequestPolicy {
    /// The amount for a request that names none; `None` is all.
    pub default: Option<Quantity>,
    /// The amounts allowed.
    pub rule: PolicyRule,
}

/// The amounts of a capacity that are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum PolicyRule {
    /// Any.
    #[default]
    Any,
    /// These, in ascending order. Others are rounded up.
    Values(Vec<Quantity>),
    /// Amounts of a range.
    Range {
        /// The least; lower ones are raised to it.
        min: Option<Quantity>,
        /// The largest.
        max: Option<Quantity>,
        /// The distance between amounts, from the least. Others are rounded up.
        step: Option<Quantity>,
    },
}

/// Counters that devices of a pool share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CounterSet {
    /// The name; unique in the pool.
    pub name: String,
    /// Totals by counter.
    pub counters: BTreeMap<String, Quantity>,
}

/// The share of a counter set that a device uses up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CounterUse {
    /// The name of the set.
    pub set: String,
    /// How much, by counter.
    pub counters: BTreeMap<String, Quantity>,
}

impl CounterSet {
    /// Counters by their totals.
    pub fn new(name: impl Into<String>, counters: BTreeMap<String, Quantity>) -> CounterSet {
        CounterSet { name: name.into(), counters }
    }
}

impl CounterUse {
    /// A share of a set.
    pub fn new(set: impl Into<String>, counters: BTreeMap<String, Quantity>) -> CounterUse {
        CounterUse { set: set.into(), counters }
    }
}

impl DeviceClass {
    /// A class that any device is of.
    pub fn new(name: impl Into<String>) -> DeviceClass {
        DeviceClass { name: name.into(), ..DeviceClass::default() }
    }

    /// Confines it to devices that an expression holds of, too.
    #[must_use]
    pub fn selector(mut self, expression: impl Into<String>) -> DeviceClass {
        self.selectors.push(expression.into());
        self
    }
}

impl ResourceSlice {
    /// The only slice of a pool on one node, of the first generation. The pool is named after the
    /// node.
    pub fn on(node: impl Into<String>, driver: impl Into<String>) -> ResourceSlice {
        let (node, driver) = (node.into(), driver.into());
        let mut slice = ResourceSlice::new(alloc::format!("{node}-{driver}"), driver, node.clone());
        slice.nodes = NodeReach::Node(node);
        slice
    }

    /// The only slice of a pool that all nodes reach, of the first generation.
    pub fn new(
        name: impl Into<String>,
        driver: impl Into<String>,
        pool: impl Into<String>,
    ) -> ResourceSlice {
        ResourceSlice {
            name: name.into(),
            driver: driver.into(),
            pool: pool.into(),
            generation: 1,
            slice_count: 1,
            nodes: NodeReach::All,
            ..ResourceSlice::default()
        }
    }

    /// Adds a device.
    #[must_use]
    pub fn device(mut self, device: SliceDevice) -> ResourceSlice {
        self.devices.push(device);
        self
    }

    /// Sets the nodes that reach the devices.
    #[must_use]
    pub fn reached_by(mut self, nodes: NodeReach) -> ResourceSlice {
        self.nodes = nodes;
        self
    }
}

impl SliceDevice {
    /// A device without attributes.
    pub fn new(name: impl Into<String>) -> SliceDevice {
        SliceDevice { name: name.into(), ..SliceDevice::default() }
    }

    /// Sets an attribute.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Attribute>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Sets a capacity that is given in any portions.
    #[must_use]
    pub fn capacity(mut self, name: impl Into<String>, value: impl Into<Quantity>) -> Self {
        let capacity = DeviceCapacity { value: value.into(), policy: None };
        self.capacity.insert(name.into(), capacity);
        self
    }

    /// The value of an attribute by its full name, `domain/id`. A device of a driver has those
    /// without a domain in the domain of the driver's name.
    pub fn attribute_of(&self, driver: &str, full: &str) -> Option<&Attribute> {
        self.attributes.get(full).or_else(|| {
            let (domain, id) = full.rsplit_once('/')?;
            if domain == driver { self.attributes.get(id) } else { None }
        })
    }
}

impl From<i64> for Attribute {
    fn from(value: i64) -> Attribute {
        Attribute::Int(value)
    }
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Attribute {
        Attribute::Bool(value)
    }
}

impl From<&str> for Attribute {
    fn from(value: &str) -> Attribute {
        Attribute::Text(value.into())
    }
}
