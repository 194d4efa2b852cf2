//! Profiles: frameworks ready to use.

use alloc::vec::Vec;

use super::{
    AllocationScore, DomainAllocation, InterPodAffinity, KubernetesProfile, LeastAllocated,
    MostAllocated, NodeAffinityPlugin, PodGroupPodsCount, PodTopologySpread, SpreadDefaults,
    TaintToleration,
};
use crate::framework::{Framework, Strategy};
use crate::model::{CPU, MEMORY};

/// Resources in the profiles that weigh devices before all else.
const WEIGHTS: [(&str, u32); 3] = [("nvidia.com/gpu", 20), (CPU, 1), (MEMORY, 1)];

impl Default for Framework {
    /// Packs tightly, GPUs before all else, so that whole nodes and domains stay free.
    ///
    /// All filters of [`Framework::kubernetes`]. Nodes and domains are scored by how full they
    /// would be ([`MostAllocated`] over GPUs with weight 20, CPU and memory with 1 each).
    /// Preferences of pods themselves count as in Kubernetes. Pods without spread constraints of
    /// their own are not spread.
    fn default() -> Framework {
        profile(MostAllocated::of(WEIGHTS), DomainAllocation::of(WEIGHTS))
    }
}

impl Framework {
    /// Spreads over nodes and domains: as [`Framework::default`], with [`LeastAllocated`] in place
    /// of [`MostAllocated`].
    pub fn spread() -> Framework {
        profile(LeastAllocated::of(WEIGHTS), DomainAllocation::of(WEIGHTS).reversed())
    }

    /// The default profile of kube-scheduler 1.36, strictly; see [`KubernetesProfile`].
    pub fn kubernetes() -> Framework {
        KubernetesProfile::new().framework()
    }
}

fn profile(nodes: AllocationScore, domains: DomainAllocation) -> Framework {
    let unspread = SpreadDefaults::List(Vec::new());
    KubernetesProfile::new()
        .default_constraints(unspread.clone())
        .filters()
        .score(3, TaintToleration)
        .score(2, NodeAffinityPlugin::new())
        .score(1, nodes)
        .score(2, PodTopologySpread::with_defaults(unspread))
        .score(2, InterPodAffinity::new())
        .domain_score(1, domains)
        .domain_score(1, PodGroupPodsCount)
        .strategy(Strategy::default())
        .build_sound()
}
