//! Input types: nodes, pods, groups of pods, workloads.
//!
//! Plain data with builders. Nothing here knows of a cluster; names are strings, and amounts are
//! integers (thousandths for `cpu`, whole units for everything else).

pub mod affinity;
pub mod device;
pub mod effective;
pub mod error;
pub mod group;
pub mod node;
pub mod pod;
pub mod resources;
pub mod selector;
pub mod shape;
pub mod spread;
pub mod taint;
pub mod workload;

pub use affinity::{
    NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinityTerm, PreferredNodeTerm,
    WeightedPodAffinityTerm,
};
pub use device::{Device, DeviceAsk, DeviceRequest, IslandRule};
pub use effective::{Container, PodResources};
pub use error::{ModelError, Problem};
pub use group::{DisruptionMode, GroupPolicy, PodGroup, Slice, TopologyRequest};
pub use node::{Image, Node};
pub use pod::{Pod, PreemptionPolicy};
pub use resources::{Amounts, IntoQuantity};
pub use selector::{LabelSelector, Operator, Requirement, SelectorError};
pub use shape::{HostPort, PodShape};
pub use spread::{NodeInclusion, SpreadConstraint, WhenUnsatisfiable};
pub use taint::{Effect, Taint, Toleration, TolerationOperator};
pub use workload::Workload;

/// String-keyed strings, in order of key: labels, node selectors, attributes.
pub type Labels = alloc::collections::BTreeMap<alloc::string::String, alloc::string::String>;
