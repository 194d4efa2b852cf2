//! Filters, scores and permits that most schedulers want. One judgement a file, written with
//! nothing an outsider could not use: a test holds their imports to public names. (The profiles,
//! which put plugins together, skip the checks of
//! [`build`](crate::framework::FrameworkBuilder::build): their names and weights are sound.)
//!
//! A plugin that mirrors one of kube-scheduler says which, and answers as it does, bit for bit;
//! [`KubernetesProfile`] puts them together. Where a plugin can tell beforehand that it has
//! nothing to say about a pod, it skips itself, so a large profile costs little.

mod allocation;
mod balanced_allocation;
#[cfg(feature = "devices")]
mod devices;
mod domain_scores;
#[cfg(feature = "devices")]
mod dynamic_resources;
mod fit;
#[cfg(feature = "usage")]
mod fit_plus;
mod image_locality;
#[cfg(test)]
mod incremental_tests;
mod inter_pod_affinity;
mod kubernetes_profile;
#[cfg(feature = "usage")]
mod load_aware;
mod minimum_count;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_rules;
mod node_unschedulable;
#[cfg(test)]
mod numeric_limits_tests;
mod objectives;
mod pod_rules;
mod profiles;
#[cfg(feature = "usage")]
mod scarce_resource;
mod taint_toleration;
mod tally;
#[cfg(test)]
mod testing;
mod topology_spread;
mod utilization;
#[cfg(feature = "volumes")]
mod volumes;

pub use allocation::{AllocationScore, LeastAllocated, MostAllocated, RequestedToCapacityRatio};
pub use balanced_allocation::BalancedAllocation;
#[cfg(feature = "devices")]
pub use devices::{
    BestFit, DeviceFit, DevicePool, DotProduct, Fgd, GpuClustering, GpuPacking, LowestIndex,
    OpportunityCost, ShadowPrices, SpreadDevices, TypicalPod, TypicalPods, WholeSets,
    ZoneAlignment, ZoneFit,
};
pub use domain_scores::{DomainAllocation, PodGroupPodsCount};
#[cfg(feature = "devices")]
pub use dynamic_resources::DynamicResources;
pub use fit::{Fit, FitIgnoring};
#[cfg(feature = "usage")]
pub use fit_plus::{NodeResourcesFitPlus, ResourceStrategy};
pub use image_locality::ImageLocality;
pub use inter_pod_affinity::InterPodAffinity;
pub use kubernetes_profile::KubernetesProfile;
#[cfg(feature = "usage")]
pub use load_aware::{LoadAware, LoadAwareFilter, LoadAwareScore};
pub use minimum_count::MinimumCount;
pub use node_affinity::NodeAffinityPlugin;
pub use node_name::NodeName;
pub use node_ports::NodePorts;
pub use node_unschedulable::NodeUnschedulable;
pub use objectives::{FewestDomains, LeastFree};
#[cfg(feature = "usage")]
pub use scarce_resource::ScarceResourceAvoidance;
pub use taint_toleration::TaintToleration;
pub use topology_spread::{PodTopologySpread, SpreadDefaults};
pub use utilization::{Utilization, UtilizationError};
#[cfg(feature = "volumes")]
pub use volumes::{
    NodeVolumeLimits, StorageCapacityScore, VolumeBinding, VolumeRestrictions, VolumeZone,
};
