//! Strategies: how a group is laid out over the cluster.

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
    /// As Kueue's Topology Aware Scheduling does: every group of equal pods gets domains by counts
    /// alone, one group after the other; then its pods go, in order, to the nodes of their domains,
    /// each to the feasible one with the best score. It never goes back, so a group it does not
    /// place may fit all the same. All pending members are placed or none; minima count for
    /// nothing. See [`place::kueue`](crate::place::kueue).
    Kueue,
    /// Complete search within a budget of steps: the sequential strategy first, then members
    /// hardest first with backtracking. A group it does not place does not fit, or the budget ran
    /// out, and it says which.
    ///
    /// Trees with a group that is confined to an island of devices are placed by the sequential
    /// strategy only. If that finds nothing, and counting shows that they would not fit without
    /// islands either, they are proven not to fit; else the answer is that a sequential strategy
    /// found none.
    #[default]
    Search,
}
