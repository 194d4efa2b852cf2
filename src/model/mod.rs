//! Input types: nodes, pods, groups of pods, workloads.
//!
//! Plain data with builders. Nothing here knows of a cluster; names are strings, and amounts are
//! integers (thousandths for `cpu`, whole units for everything else).

pub(crate) mod affinity;
pub(crate) mod claims;
pub(crate) mod device;
#[cfg(feature = "kubernetes")]
pub(crate) mod effective;
pub(crate) mod error;
pub(crate) mod group;
pub(crate) mod node;
#[cfg(feature = "usage")]
pub(crate) mod overcommit;
pub(crate) mod pod;
pub(crate) mod qos;
pub(crate) mod resources;
pub(crate) mod selector;
pub(crate) mod shape;
pub(crate) mod spread;
pub(crate) mod taint;
pub(crate) mod usage;
pub(crate) mod volume;
pub(crate) mod workload;

pub use affinity::{
    NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinityTerm, PreferredNodeTerm,
    WeightedPodAffinityTerm,
};
#[cfg(feature = "kubernetes")]
pub use effective::{Container, EffectiveRequests, PodResources, Quantities};
pub use error::Problem;
pub use group::{DisruptionMode, GroupPolicy, Owner, Slice, TopologyRequest};
pub use node::Image;
pub use pod::PreemptionPolicy;
pub use resources::{
    Amounts, CPU, DEFAULT_CPU, DEFAULT_MEMORY, EPHEMERAL_STORAGE, IntoQuantity, MEMORY, PODS,
};
pub use selector::{LabelSelector, Operator, Requirement, SelectorError};
pub use shape::{HostPort, PodShape};
pub use spread::{NodeInclusion, SpreadConstraint, WhenUnsatisfiable};
pub use taint::{Effect, Taint, Toleration, TolerationOperator};

#[cfg(not(feature = "devices"))]
pub(crate) use of_devices::*;
#[cfg(feature = "devices")]
pub use of_devices::*;

/// Names that are public with the feature `devices`.
mod of_devices {
    pub use super::claims::{
        AllocatedDevice, Allocation, Attribute, AttributeRule, ClaimAllocation, ClaimConstraint,
        ClaimRequest, ClaimSource, ClaimSpec, CounterSet, CounterUse, DeviceAmount, DeviceCapacity,
        DeviceClass, DeviceDemand, ExtendedRequest, NodeReach, PodClaim, PolicyRule, RequestChoice,
        RequestPolicy, ResourceClaim, ResourceSlice, SliceDevice, SubRequest,
    };
    pub use super::device::partition::{DeviceSet, Partitions};
    pub use super::device::zone::{
        NodeZones, Zone, ZoneAsk, ZonePart, ZonePolicy, ZoneScope, ZoneShare,
    };
    pub use super::device::{Beside, Device, DeviceAsk, DeviceRequest, IslandRule};
}

#[cfg(not(feature = "usage"))]
pub(crate) use of_usage::*;
#[cfg(feature = "usage")]
pub use of_usage::*;

/// Names that are public with the feature `usage`.
mod of_usage {
    #[cfg(feature = "usage")]
    pub use super::overcommit::{CalculatePolicy, NodePod, Overcommit, overcommitted};
    pub use super::qos::{
        KubernetesQos, PRIORITY_CLASS_LABEL, PriorityBand, QOS_LABEL, QUOTA_LABEL, QosClass,
        eviction_priority, is_evictable, is_preemptible, preemption_policy, priority_or_default,
    };
    pub use super::usage::{
        AggregatedThresholds, AggregatedUsage, HostUsage, NodeUsage, PodUsage, UsageThresholds,
    };
}

#[cfg(not(feature = "volumes"))]
pub(crate) use of_volumes::*;
#[cfg(feature = "volumes")]
pub use of_volumes::*;

/// Names that are public with the feature `volumes`.
mod of_volumes {
    pub use super::volume::{
        AccessMode, AttachLimits, BindingMode, ClaimRef, DriverVolume, InlineDisk, MigratedVolume,
        PodVolume, StorageCapacity, StorageClass, StorageDriver, Volume, VolumeAttachment,
        VolumeBindings, VolumeClaim, VolumeMode,
    };
}

// Public at the root of the crate.
pub(crate) use error::ModelError;
pub(crate) use group::PodGroup;
pub(crate) use node::Node;
pub(crate) use pod::Pod;
pub(crate) use workload::Workload;

/// String-keyed strings, in order of key: labels, node selectors, attributes.
pub type Labels = alloc::collections::BTreeMap<alloc::string::String, alloc::string::String>;
