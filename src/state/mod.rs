//! Cluster state: nodes, bound pods, transactions over them, and plans to change them.

mod bind;
mod builder;
mod check;
pub mod cluster;
pub(crate) mod columns;
pub mod devices;
pub mod error;
pub mod event;
mod held;
pub mod ids;
pub(crate) mod journal;
#[cfg(test)]
mod journal_tests;
mod link;
mod nodes;
mod objects;
pub(crate) mod order;
pub(crate) mod overlay;
mod parked;
pub(crate) mod parts;
pub mod plan;
mod pods;
mod read;
pub(crate) mod roster;
mod shapes;
#[cfg(feature = "serde")]
mod snapshot;
mod table;
mod tombstones;
pub mod txn;
pub mod view;

pub use builder::ClusterBuilder;
pub use cluster::Cluster;
pub use devices::{DeviceNeed, DeviceTerm, NodeDevices};
pub use error::StateError;
pub use event::{Applied, Event};
pub use ids::{LabelKey, LabelValue, NodeId, PodId, ResourceId, Row, ShapeId};
pub(crate) use overlay::{Overlay, Takes};
pub use plan::{Assignment, Plan, PlanDomain};
pub(crate) use pods::{Devices, GroupSums};
pub use txn::{Checkpoint, Txn};
pub(crate) use view::RowUsage;
pub use view::{NodeView, PodView};
