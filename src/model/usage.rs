//! Measurements by a node's agents.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::Amounts;
use super::qos::PriorityBand;
use crate::base::Time;

/// How long after a report the next one comes, unless it says so.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Usage of a node, as its agent reported it: Koordinator's `NodeMetric`. Amounts are
/// thousandths for `cpu` and whole units for all else.
///
/// It comes as [`Event::NodeUsageChanged`](crate::Event::NodeUsageChanged), and plugins read it by
/// [`NodeView::measured`](crate::state::NodeView::measured).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct NodeUsage {
    /// When it was measured; `None`: never.
    pub updated: Option<Time>,
    /// How often it is; `None`: every 60 seconds.
    pub report_interval: Option<Duration>,
    /// Usage of the whole node; `None`: nothing was measured.
    pub node: Option<Amounts>,
    /// Its usage over some time.
    pub aggregated: Vec<AggregatedUsage>,
    /// Usage of the system, beside pods.
    pub system: Amounts,
    /// Usage of each pod.
    pub pods: Vec<PodUsage>,
    /// Usage of programs on the node that are no pods.
    pub host_applications: Vec<HostUsage>,
    /// Amounts promised to services and predicted unused; `None`: there is no prediction.
    pub prod_reclaimable: Option<Amounts>,
    /// Amounts kept for the system, beside the difference of capacity and allocatable
    /// keeps.
    pub reserved: Amounts,
    /// Allocatable amounts before amplification, of amplified resources.
    pub raw_allocatable: Amounts,
    /// Thresholds of the node's own.
    pub thresholds: Option<UsageThresholds>,
}

/// Usage of a node over some time, by one measure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct AggregatedUsage {
    /// Over how long.
    pub over: Duration,
    /// The measure: `avg`, `p50`, `p90`, `p95`, `p99`.
    pub measure: String,
    /// The amounts.
    pub usage: Amounts,
}

/// Usage of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct PodUsage {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The band, as the agent saw it.
    pub band: Option<PriorityBand>,
    /// The amounts.
    pub usage: Amounts,
}

/// Usage of a program on the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct HostUsage {
    /// The name.
    pub name: String,
    /// The band.
    pub band: Option<PriorityBand>,
    /// The amounts.
    pub usage: Amounts,
}

/// How much of a node may be in use for it to take more pods, in percent by resource. Empty lists say
/// nothing; 0 is no threshold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct UsageThresholds {
    /// Limits of the whole node.
    pub node: Amounts,
    /// Limits of the band `prod` alone, for pods of that band.
    pub prod: Amounts,
    /// Limits of the whole node over some time, in place of `node`.
    pub aggregated: Option<AggregatedThresholds>,
}

/// Thresholds of use over some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct AggregatedThresholds {
    /// In percent, by resource.
    pub thresholds: Amounts,
    /// The measure.
    pub measure: String,
    /// Over how long; 0: the longest time that the measure is known of.
    pub over: Duration,
}

impl AggregatedThresholds {
    /// Whether it says anything.
    pub fn is_stated(&self) -> bool {
        !self.thresholds.is_empty() && !self.measure.is_empty()
    }
}

impl NodeUsage {
    /// A report of what the whole node uses.
    pub fn new(updated: Time, node: Amounts) -> NodeUsage {
        NodeUsage { updated: Some(updated), node: Some(node), ..NodeUsage::default() }
    }

    /// Adds what a pod of a priority band, or of none, uses.
    #[must_use]
    pub fn pod(
        mut self,
        namespace: impl Into<String>,
        name: impl Into<String>,
        band: impl Into<Option<PriorityBand>>,
        usage: Amounts,
    ) -> NodeUsage {
        let (namespace, name) = (namespace.into(), name.into());
        self.pods.push(PodUsage { namespace, name, band: band.into(), usage });
        self
    }

    /// How long after it the next report comes.
    pub fn interval(&self) -> Duration {
        self.report_interval.unwrap_or(REPORT_INTERVAL)
    }

    /// Usage of a pod, if it is known.
    pub fn of_pod(&self, namespace: &str, name: &str) -> Option<&PodUsage> {
        // The last of several counts.
        let mut own = self.pods.iter().rev();
        own.find(|pod| pod.name == name && pod.namespace == namespace && !pod.usage.is_empty())
    }

    /// Usage of the node over some time, by a measure; with a time of 0 over the longest that the
    /// measure is known of, or else now.
    pub fn over(&self, measure: &str, over: Duration) -> Option<&Amounts> {
        let mut known = self.aggregated.iter().filter(|usage| {
            usage.measure == measure && !usage.usage.is_empty() && self.node.is_some()
        });
        if !over.is_zero() {
            return known.rfind(|usage| usage.over == over).map(|usage| &usage.usage);
        }
        let longest = known.filter(|usage| !usage.over.is_zero()).max_by_key(|usage| usage.over);
        longest.map(|usage| &usage.usage).or(self.node.as_ref())
    }

    /// Whether it is older than so much, or was never measured.
    pub fn is_older(&self, now: Time, than: Duration) -> bool {
        self.updated.is_none_or(|updated| !than.is_zero() && now.since(updated) >= than)
    }
}

#[cfg(test)]
mod tests;
