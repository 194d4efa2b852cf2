//! kube-scheduler's default profile.

use alloc::string::String;

use super::{
    AllocationScore, BalancedAllocation, DomainAllocation, Fit, FitIgnoring, ImageLocality,
    InterPodAffinity, LeastAllocated, NodeAffinityPlugin, NodeName, NodePorts, NodeUnschedulable,
    PodGroupPodsCount, PodTopologySpread, SpreadDefaults, TaintToleration,
};
#[cfg(feature = "devices")]
use super::{DeviceFit, DynamicResources, ZoneFit};
#[cfg(feature = "volumes")]
use super::{
    NodeVolumeLimits, StorageCapacityScore, Utilization, VolumeBinding, VolumeRestrictions,
    VolumeZone,
};
#[cfg(feature = "devices")]
use crate::claims::SelectorEvaluator;
use crate::framework::{Framework, FrameworkBuilder, Strategy};
use crate::model;
use crate::model::{CPU, MEMORY};

/// The default profile of kube-scheduler 1.36, with the arguments its plugins take.
///
/// Filters, in order: `NodeUnschedulable`, `NodeName`, `TaintToleration`, `NodeAffinity`,
/// `NodePorts`, `NodeResourcesFit`, `VolumeRestrictions`, `NodeVolumeLimits`, `VolumeBinding`,
/// `VolumeZone`, `PodTopologySpread`, `InterPodAffinity`. Then come [`DeviceFit`] for pods with device
/// requests, and [`ZoneFit`] for pods that nodes with NUMA zones align. Scores, with weights:
/// `TaintToleration` 3, `NodeAffinity` 2, `NodeResourcesFit` 1, `PodTopologySpread` 2,
/// `InterPodAffinity` 2, `NodeResourcesBalancedAllocation` 1, `ImageLocality` 1. Domain scores:
/// `NodeResourcesFit` 1, `PodGroupPodsCount` 1.
///
/// ```
/// use phalanx::plugins::{KubernetesProfile, MostAllocated};
///
/// let packing = MostAllocated::of([("nvidia.com/gpu", 5), ("cpu", 1), ("memory", 1)]);
/// let framework = KubernetesProfile::new().fit_strategy(packing).framework();
/// assert_eq!(framework.filter_names().nth(5), Some("NodeResourcesFit"));
/// ```
///
/// Source: kube-scheduler, `apis/config/v1/default_plugins.go`.
#[derive(Debug, Clone)]
#[must_use]
pub struct KubernetesProfile {
    fit: AllocationScore,
    ignoring: FitIgnoring,
    balanced: BalancedAllocation,
    added_affinity: model::NodeAffinity,
    spread: SpreadDefaults,
    company: InterPodAffinity,
    #[cfg(feature = "volumes")]
    storage: Option<Utilization>,
    #[cfg(feature = "devices")]
    claims: Option<DynamicResources>,
}

impl Default for KubernetesProfile {
    fn default() -> KubernetesProfile {
        KubernetesProfile {
            fit: LeastAllocated::of([(CPU, 1), (MEMORY, 1)]),
            ignoring: FitIgnoring::default(),
            balanced: BalancedAllocation::default(),
            added_affinity: model::NodeAffinity::default(),
            spread: SpreadDefaults::default(),
            company: InterPodAffinity::default(),
            #[cfg(feature = "volumes")]
            storage: None,
            #[cfg(feature = "devices")]
            claims: None,
        }
    }
}

impl KubernetesProfile {
    /// With kube-scheduler's own defaults.
    pub fn new() -> KubernetesProfile {
        KubernetesProfile::default()
    }

    /// Sets how `NodeResourcesFit` scores (`scoringStrategy`).
    pub fn fit_strategy(mut self, strategy: AllocationScore) -> KubernetesProfile {
        self.fit = strategy;
        self
    }

    /// Sets the extended resources that the `NodeResourcesFit` filter does not look at, by name
    /// and by group (`ignoredResources`, `ignoredResourceGroups`).
    pub fn ignoring<R: Into<String>, G: Into<String>>(
        mut self,
        resources: impl IntoIterator<Item = R>,
        groups: impl IntoIterator<Item = G>,
    ) -> KubernetesProfile {
        self.ignoring = Fit.ignoring(resources, groups);
        self
    }

    /// Sets the resources of `NodeResourcesBalancedAllocation`.
    pub fn balanced_resources<S: Into<String>>(
        mut self,
        resources: impl IntoIterator<Item = S>,
    ) -> KubernetesProfile {
        self.balanced = BalancedAllocation::of(resources);
        self
    }

    /// Sets the node affinity required for every pod (`addedAffinity`).
    pub fn added_affinity(mut self, affinity: model::NodeAffinity) -> KubernetesProfile {
        self.added_affinity = affinity;
        self
    }

    /// Sets the spread constraints of pods that have none (`defaultConstraints`,
    /// `defaultingType`).
    pub fn default_constraints(mut self, defaults: SpreadDefaults) -> KubernetesProfile {
        self.spread = defaults;
        self
    }

    /// Sets `hardPodAffinityWeight`.
    pub fn hard_pod_affinity_weight(mut self, weight: u8) -> KubernetesProfile {
        self.company = self.company.hard_weight(weight);
        self
    }

    /// Sets `ignorePreferredTermsOfExistingPods`.
    pub fn ignore_preferred_terms_of_existing_pods(mut self) -> KubernetesProfile {
        self.company = self.company.ignore_preferred_terms_of_existing_pods();
        self
    }

    /// Scores nodes by what the claims of a pod take of their storage (the gate
    /// `StorageCapacityScoring`, and `shape`; kube-scheduler's own is 10 at 0 percent and 0 at 100).
    #[cfg(feature = "volumes")]
    pub fn storage_capacity_scoring(mut self, shape: Utilization) -> KubernetesProfile {
        self.storage = Some(shape);
        self
    }

    /// Adds `DynamicResources`, as a filter after `InterPodAffinity` and as a score of weight 2, with
    /// who evaluates the selectors of claims.
    #[cfg(feature = "devices")]
    pub fn claims(mut self, selectors: impl SelectorEvaluator + 'static) -> KubernetesProfile {
        self.claims = Some(DynamicResources::new(selectors));
        self
    }

    /// The framework.
    pub fn framework(self) -> Framework {
        let filters = self.filters();
        let fit = self.fit.named("NodeResourcesFit");
        let domain_fit = DomainAllocation::like(&fit);
        #[cfg(feature = "volumes")]
        let filters = match self.storage {
            Some(shape) => filters.score(1, StorageCapacityScore::new(shape)),
            None => filters,
        };
        #[cfg(feature = "devices")]
        let claims = self.claims;
        let framework = filters
            .score(3, TaintToleration)
            .score(2, NodeAffinityPlugin::with_added(self.added_affinity))
            .score(1, fit)
            .score(2, PodTopologySpread::with_defaults(self.spread))
            .score(2, self.company)
            .score(1, self.balanced)
            .score(1, ImageLocality);
        #[cfg(feature = "devices")]
        let framework = match claims {
            None => framework,
            Some(claims) => {
                let evaluator = claims.evaluator();
                framework.score(2, claims).selectors(evaluator)
            }
        };
        framework
            .domain_score(1, domain_fit)
            .domain_score(1, PodGroupPodsCount)
            .strategy(Strategy::Kubernetes)
            .build_sound()
    }

    /// All filters, in order.
    pub(super) fn filters(&self) -> FrameworkBuilder {
        let filters = Framework::builder()
            .filter(NodeUnschedulable)
            .filter(NodeName)
            .filter(TaintToleration)
            .filter(NodeAffinityPlugin::with_added(self.added_affinity.clone()))
            .filter(NodePorts)
            .filter(self.ignoring.clone());
        #[cfg(feature = "volumes")]
        let filters = filters
            .filter(VolumeRestrictions)
            .filter(NodeVolumeLimits)
            .filter(VolumeBinding)
            .filter(VolumeZone);
        let filters = filters
            .filter(PodTopologySpread::with_defaults(self.spread.clone()))
            .filter(self.company);
        #[cfg(feature = "devices")]
        let filters = match &self.claims {
            None => filters,
            Some(claims) => filters.filter(claims.clone()),
        }
        .filter(DeviceFit)
        .filter(ZoneFit);
        filters
    }
}

#[cfg(test)]
mod tests;
