//! Load-aware placement: nodes are judged by measured use, not by promises.
//!
//! Source: Koordinator, `scheduler/plugins/loadaware`.

mod estimate;
mod filter;
mod score;

use alloc::string::String;
use core::time::Duration;

use crate::Time;
use crate::model::{AggregatedThresholds, Amounts, CPU, Labels, MEMORY, UsageThresholds};

pub use filter::LoadAwareFilter;
pub use score::LoadAwareScore;

/// The attribute of pods that state factors of their own, as JSON of percentages by resource.
pub(super) const FACTORS: &str = "scheduling.koordinator.sh/load-estimated-scaling-factors";
/// The attribute of pods that are estimated for so many seconds after they were scheduled.
const AFTER_SCHEDULED: &str =
    "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled";
/// The attribute of pods that are estimated for so many seconds after they were initialised.
const AFTER_INITIALIZED: &str =
    "scheduling.koordinator.sh/load-estimated-seconds-after-initialized";

/// The settings that [`LoadAwareFilter`] and [`LoadAwareScore`] share, and their estimates. An
/// estimate is the node's usage once all pods placed on it have reached theirs.
///
/// A pod is estimated at a part of the larger of its request and its limit until reports of the node
/// cover it; from then on what is measured counts. Reports come as
/// [`Event::NodeUsageChanged`](crate::Event::NodeUsageChanged). The band of a pod, and its limits, are
/// read from its shape: see [`Pod::in_band`](crate::Pod::in_band).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct LoadAware {
    /// How much of a node may be in use. Default: 65 % of CPU and 95 % of memory.
    pub thresholds: UsageThresholds,
    /// Whether nodes with old reports are not judged by them. Default: yes.
    pub filter_expired: bool,
    /// How old a report may be; `None`: any. Default: 180 seconds.
    pub expiration: Option<Duration>,
    /// Whether nodes with old reports take pods. Default: no.
    pub schedule_when_expired: bool,
    /// The weights of resources in the score. Default: 1 for CPU and for memory.
    pub weights: Amounts,
    /// The weight of the resource that most is used of. Default: 0.
    pub dominant_weight: i64,
    /// Estimate of a pod, in percent of the larger of its request and its limit. Default: 85
    /// of CPU and 70 of memory.
    pub factors: Amounts,
    /// By which measure and over how long nodes are scored; `None`: by the last report.
    pub score_measure: Option<(String, Duration)>,
    /// Whether pods of the band `prod` are scored by what that band uses alone.
    pub score_by_prod: bool,
    /// Whether what the system uses counts as of the band `prod`.
    pub prod_includes_system: bool,
    /// How long a pod is estimated after it was scheduled, whatever reports say.
    pub estimate_after_scheduled: Option<Duration>,
    /// How long a pod is estimated after it was initialised, whatever reports say; known of a pod, it
    /// counts in place of the time since it was scheduled.
    pub estimate_after_initialized: Option<Duration>,
    /// Whether attributes of pods count before these settings.
    pub customized: bool,
}

fn amounts(cpu: i64, memory: i64) -> Amounts {
    let mut amounts = Amounts::new();
    amounts.set(CPU, cpu);
    amounts.set(MEMORY, memory);
    amounts
}

impl Default for LoadAware {
    fn default() -> LoadAware {
        LoadAware {
            thresholds: UsageThresholds { node: amounts(65, 95), ..UsageThresholds::default() },
            filter_expired: true,
            expiration: Some(Duration::from_secs(180)),
            schedule_when_expired: false,
            weights: amounts(1, 1),
            dominant_weight: 0,
            factors: amounts(85, 70),
            score_measure: None,
            score_by_prod: false,
            prod_includes_system: false,
            estimate_after_scheduled: None,
            estimate_after_initialized: None,
            customized: false,
        }
    }
}

impl LoadAware {
    /// Until when a pod is estimated whatever reports say; `None`: it is not.
    pub fn estimated_until(
        &self,
        attributes: &Labels,
        scheduled: Option<Time>,
        initialized: Option<Time>,
    ) -> Option<Time> {
        let seconds = |name: &str, own: Option<Duration>| {
            let custom = attributes.get(name).filter(|_| self.customized);
            let custom = custom.and_then(|text| text.parse::<i64>().ok());
            let custom = custom.and_then(|seconds| u64::try_from(seconds).ok());
            custom.map(Duration::from_secs).or(own).filter(|span| !span.is_zero())
        };
        let after_initialized = seconds(AFTER_INITIALIZED, self.estimate_after_initialized);
        let after_scheduled = seconds(AFTER_SCHEDULED, self.estimate_after_scheduled);
        if let (Some(at), Some(span)) = (initialized, after_initialized) {
            return Some(at.after(span));
        }
        Some(scheduled?.after(after_scheduled?))
    }

    /// The thresholds of a node: its own where it states some, else these.
    pub fn thresholds_of(&self, own: Option<&UsageThresholds>) -> UsageThresholds {
        let Some(own) = own else { return self.thresholds.clone() };
        let or = |own: &Amounts, common: &Amounts| {
            if own.is_empty() { common.clone() } else { own.clone() }
        };
        let stated = own.aggregated.clone().filter(AggregatedThresholds::is_stated);
        UsageThresholds {
            node: or(&own.node, &self.thresholds.node),
            prod: or(&own.prod, &self.thresholds.prod),
            aggregated: stated.or_else(|| self.thresholds.aggregated.clone()),
        }
    }
}
