//! Strategies: how a group is laid out over the cluster, and the options of each.

/// How a group is laid out over the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum Strategy {
    /// As kube-scheduler does: every candidate domain by itself; in it, the members in order, each
    /// on the best feasible node with those before it in place; then the best domain. It never
    /// goes back, so a group it does not place may fit all the same.
    Kubernetes,
    /// Kueue's Topology Aware Scheduling. Every group of equal pods gets domains by counts alone,
    /// one group after the other. Then its pods go, in order, to the nodes of their domains, each
    /// to the feasible node with the best score. It never goes back, so a group it does not place
    /// may fit all the same. All pending members are placed or none; minima count for nothing. See
    /// [`reference::kueue`](crate::reference::kueue).
    #[cfg(feature = "peers")]
    Kueue,
    /// Complete search within a budget of steps: the sequential strategy first, then members
    /// hardest first with backtracking. A group it does not place does not fit, or the budget ran
    /// out, and it says which.
    ///
    /// Trees with a group that is confined to an island of devices are placed by the sequential
    /// strategy only. If that finds nothing, a count without islands may prove that they do not
    /// fit; else the answer is that a sequential strategy found none.
    #[default]
    Search,
}

impl Strategy {
    /// Whether it is `Strategy::Kueue`, which the feature `peers` brings.
    pub(crate) fn is_kueue(self) -> bool {
        match self {
            #[cfg(feature = "peers")]
            Strategy::Kueue => true,
            Strategy::Kubernetes | Strategy::Search => false,
        }
    }
}

/// Options of [`Strategy::Kueue`]: Kueue's feature gates that change an answer. The default is
/// Kueue's.
#[cfg(feature = "peers")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a gate of Kueue")]
pub struct KueueGates {
    /// `TASProfileMixed`: unconstrained requests take the domains with least free capacity
    /// first. On by default; off means best fit everywhere.
    pub profile_mixed: bool,
    /// `TASMultiLayerTopology`: slices inside slices. On by default; off means that only the
    /// outermost layer counts.
    pub multi_layer: bool,
    /// `TASHandleOverlappingFlavors`: usage by other flavors counts. On by default.
    pub overlapping_flavors: bool,
    /// `TASBalancedPlacement`: preferred requests try an even spread first. Off by default.
    pub balanced_placement: bool,
    /// `TASRespectNodeAffinityPreferred`: preferred node affinity orders domains. Off by default.
    pub preferred_affinity: bool,
    /// `ElasticJobsViaWorkloadSlicesWithTAS`: elastic pod sets keep their pods in place. Off by
    /// default.
    pub elastic: bool,
}

#[cfg(feature = "peers")]
impl Default for KueueGates {
    fn default() -> KueueGates {
        KueueGates {
            profile_mixed: true,
            multi_layer: true,
            overlapping_flavors: true,
            balanced_placement: false,
            preferred_affinity: false,
            elastic: false,
        }
    }
}
