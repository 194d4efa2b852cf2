//! Elastic quotas as they are stated, and their sums.

use alloc::string::String;

use crate::model::Amounts;

/// The quota above all others. Its own numbers are sums; it has no maximum.
pub const ROOT_QUOTA: &str = "koordinator-root-quota";
/// The quota of pods of the system. What it uses is no other quota's.
pub const SYSTEM_QUOTA: &str = "koordinator-system-quota";
/// The quota of pods that name none. What it uses is no other quota's.
pub const DEFAULT_QUOTA: &str = "koordinator-default-quota";

/// One quota, as it is stated. Amounts are thousandths for `cpu` and whole units for all else.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct ElasticQuota {
    /// The name, unique in a tree.
    pub name: String,
    /// The quota it stands in.
    pub parent: String,
    /// Whether quotas may stand in it.
    pub is_parent: bool,
    /// Whether others may use what it is promised and does not request.
    pub allow_lent: bool,
    /// The tree it is of; empty: the only one.
    pub tree_id: String,
    /// Whether it is the top of a tree: the sum of minima in it is not held to its own.
    pub is_tree_root: bool,
    /// Whether it is taken though minima do not add up.
    pub force_update: bool,
    /// Its promised amounts.
    pub min: Amounts,
    /// The most it may use. What is not listed has no bound, and no runtime.
    pub max: Amounts,
    /// The weights in the division of what is left above the minima; empty or zero: `max`.
    pub shared_weight: Amounts,
    /// Its least amounts, if they are more than `min`.
    pub guaranteed: Amounts,
}

impl ElasticQuota {
    /// A quota right below the root that lends, and is promised nothing.
    pub fn new(name: impl Into<String>) -> ElasticQuota {
        ElasticQuota {
            name: name.into(),
            parent: ROOT_QUOTA.into(),
            is_parent: false,
            allow_lent: true,
            tree_id: String::new(),
            is_tree_root: false,
            force_update: false,
            min: Amounts::new(),
            max: Amounts::new(),
            shared_weight: Amounts::new(),
            guaranteed: Amounts::new(),
        }
    }

    /// The weights that count: those stated, or `max` where all of them are zero.
    pub fn weights(&self) -> &Amounts {
        let stated = self.shared_weight.iter().any(|(_, weight)| weight != 0);
        if stated { &self.shared_weight } else { &self.max }
    }
}

/// Requests to a quota, and its usage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct QuotaSums {
    /// The requests of its own pods and the limited requests of the quotas in it.
    pub child_request: Amounts,
    /// The same, and the minimum at least, if the quota does not lend.
    pub request: Amounts,
    /// Usage by its pods, and by those of quotas in it.
    pub used: Amounts,
    /// The part of the requests that may not be preempted.
    pub non_preemptible_request: Amounts,
    /// The part of what is used that may not be preempted.
    pub non_preemptible_used: Amounts,
    /// The requests of its own pods.
    pub self_request: Amounts,
    /// Usage by its own pods.
    pub self_used: Amounts,
    /// The part of `self_request` that may not be preempted.
    pub self_non_preemptible_request: Amounts,
    /// The part of `self_used` that may not be preempted.
    pub self_non_preemptible_used: Amounts,
    /// The minimum, scaled down where the siblings' minima exceed what there is; as of the last
    /// [`ElasticQuotas::refresh`](super::ElasticQuotas::refresh).
    pub scaled_min: Amounts,
    /// Amounts that it may use; as of the last
    /// [`ElasticQuotas::refresh`](super::ElasticQuotas::refresh).
    pub runtime: Amounts,
}

/// Whether a quota takes no part in the division: what it uses is no other quota's.
pub(super) fn is_apart(name: &str) -> bool {
    [SYSTEM_QUOTA, DEFAULT_QUOTA].contains(&name)
}

#[cfg(test)]
mod tests;
