//! Devices that claims have.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::Quantity;
use crate::model::affinity::NodeSelector;

/// The devices of a claim, and the nodes they can be used on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Allocation {
    /// The devices, in the order of the requests.
    pub devices: Vec<AllocatedDevice>,
    /// The nodes; `None` is all.
    pub nodes: Option<NodeSelector>,
}

/// A device of a claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct AllocatedDevice {
    /// The request, as `request` or `request/alternative`.
    pub request: String,
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: String,
    /// The device.
    pub device: String,
    /// Whether it may be used by others too, and does not count as in use by this claim.
    pub admin: bool,
    /// Amounts of its capacities, for a device that several claims share; `None` for a device that
    /// is taken whole.
    pub share: Option<BTreeMap<String, Quantity>>,
}

/// The devices that a pod got for one of its claims.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClaimAllocation {
    /// The name of the claim in the pod.
    pub claim: String,
    /// Its devices.
    pub allocation: Arc<Allocation>,
}
