//! Cluster state: nodes, bound pods, transactions over them, and plans to change them.

mod bind;
mod builder;
mod check;
pub(crate) mod claims;
pub(crate) mod cluster;
pub(crate) mod columns;
pub(crate) mod devices;
pub(crate) mod error;
pub(crate) mod event;
mod held;
pub(crate) mod ids;
pub(crate) mod journal;
#[cfg(test)]
mod journal_tests;
mod link;
mod nodes;
mod objects;
pub(crate) mod order;
#[cfg(feature = "usage")]
mod overcommit;
pub(crate) mod overlay;
mod parked;
pub(crate) mod parts;
pub(crate) mod plan;
mod pods;
mod read;
pub(crate) mod roster;
mod shapes;
#[cfg(feature = "serde")]
mod snapshot;
mod specials;
pub(crate) mod storage;
mod table;
mod tombstones;
pub(crate) mod txn;
pub(crate) mod view;
mod volumes;

pub use builder::ClusterBuilder;
pub(crate) use claims::{MoreUsage, PoolKey, pool_key};
pub(crate) use devices::Devices;
pub use event::Applied;
pub use ids::{LabelKey, LabelValue, NodeId, PodId, ResourceId, ShapeId};
pub(crate) use overlay::{Overlay, Takes};
pub use plan::{Assignment, PlanDomain};
pub(crate) use pods::GroupSums;
pub(crate) use pods::placed::PlacedPods;
pub use txn::Checkpoint;
pub(crate) use view::RowUsage;
pub use view::{NodeView, PodView};

pub use crate::base::{Row, RowSet};

#[cfg(not(feature = "devices"))]
pub(crate) use of_devices::*;
#[cfg(feature = "devices")]
pub use of_devices::*;

/// Names that are public with the feature `devices`.
mod of_devices {
    pub use super::claims::{
        ClaimBook, ClaimKey, ClaimKind, ClaimObject, ClaimRecord, DeviceUsage,
    };
    pub use super::devices::{DeviceNeed, DeviceTerm, NodeDevices, ZoneRoom};
}

#[cfg(not(feature = "volumes"))]
pub(crate) use of_volumes::*;
#[cfg(feature = "volumes")]
pub use of_volumes::*;

/// Names that are public with the feature `volumes`.
mod of_volumes {
    pub use super::storage::{Storage, StorageKey, StorageKind, StorageObject};
    pub use super::volumes::{Provision, VolumeChoice, VolumeNeeds, VolumeRefusal};
}

// Public at the root of the crate.
pub(crate) use cluster::Cluster;
pub(crate) use error::StateError;
pub(crate) use event::Event;
pub(crate) use plan::Plan;
pub(crate) use txn::Txn;
