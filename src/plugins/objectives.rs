//! Domain scores by room alone.

use alloc::string::String;
use alloc::vec::Vec;

use crate::framework::{DomainContext, DomainScore, Normalization};
use crate::state::Row;

/// Likes the domain in which the least of a resource is left free: the tightest that does, so that
/// roomy domains stay whole (best fit).
///
/// The raw score is what is free over the nodes of the domain, less what the proposed pods request;
/// it is scaled against the roomiest candidate, reversed.
///
/// O(pods), and O(nodes of the domain) where the planner keeps no sums.
///
/// Source: Kueue's `LeastFreeCapacity`, with capacity after the placement.
#[derive(Debug, Clone)]
pub struct LeastFree {
    resource: String,
}

impl LeastFree {
    /// Counts this resource.
    pub fn of(resource: impl Into<String>) -> LeastFree {
        LeastFree { resource: resource.into() }
    }
}

impl DomainScore for LeastFree {
    fn name(&self) -> &'static str {
        "LeastFree"
    }

    fn score(&self, cx: &DomainContext<'_>) -> i64 {
        let resource = cx.cluster.resource(&self.resource);
        let free = resource.map_or(0, |resource| cx.totals(resource).free);
        free.saturating_sub(cx.proposed_sum(|shape| shape.requests.of(&self.resource)))
    }

    fn reads_places(&self) -> bool {
        false
    }

    fn reads_beyond(&self) -> bool {
        false
    }

    fn normalization(&self) -> Normalization {
        Normalization::MaxReversed
    }
}

/// Likes the domain in which the proposed pods are in the fewest domains of a finer level.
///
/// Nodes without the level count as a domain each. The search strategy asks before pods have
/// nodes, so there it decides nothing; see [`Strategy::Search`](crate::Strategy::Search).
///
/// O(pods · log pods).
#[derive(Debug, Clone)]
pub struct FewestDomains {
    level: String,
}

impl FewestDomains {
    /// Counts domains of this level, by its node label key.
    pub fn of(level: impl Into<String>) -> FewestDomains {
        FewestDomains { level: level.into() }
    }
}

impl DomainScore for FewestDomains {
    fn name(&self) -> &'static str {
        "FewestDomains"
    }

    fn score(&self, cx: &DomainContext<'_>) -> i64 {
        let key = cx.cluster.label_key(&self.level);
        let domain = |&(_, row): &(_, Row)| {
            let value = key.and_then(|key| cx.cluster.view(row)?.label_value(key));
            (value, value.is_none().then_some(row))
        };
        let mut domains: Vec<_> = cx.proposed.iter().map(domain).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.len() as i64
    }

    fn normalization(&self) -> Normalization {
        Normalization::MaxReversed
    }
}

#[cfg(test)]
mod tests;
