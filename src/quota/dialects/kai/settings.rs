//! Settings of KAI's dialect.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use super::min_runtime::ReclaimMethod;

/// How long work of a queue runs before it may be taken back; `None`: what the queue above says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
pub struct QueueMinRuntime {
    /// Before work of the same queue may preempt.
    pub preempt: Option<Duration>,
    /// Before work of other queues may reclaim.
    pub reclaim: Option<Duration>,
}

/// Settings of [`Tenants::kai_with`](crate::quota::Tenants::kai_with).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct KaiSettings {
    /// Amounts of the whole cluster, by resource. For others, the sum of the uppermost queues that
    /// state what they deserve.
    pub capacity: BTreeMap<String, i64>,
    /// The whole of a resource, in which its surplus is divided; 1 where there is none.
    pub units: BTreeMap<String, i64>,
    /// Work below this priority is preemptible, if it does not say. Default 100.
    pub preemptible_below: i64,
    /// How much better served siblings have to stay, in thousandths; at least 1000, the default.
    pub saturation: u64,
    /// Minimum run times, by queue.
    pub min_runtimes: BTreeMap<String, QueueMinRuntime>,
    /// Minimum run times where no queue says; default none.
    pub default_min_runtime: QueueMinRuntime,
    /// The queue whose minimum protects from reclaim.
    pub reclaim_method: ReclaimMethod,
    /// The half-life of past usage, for time-based fair share; `None`, the default: it does not count.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub half_life: Option<Duration>,
    /// How much past usage counts against the weight, in billionths (KAI's `kValue`); default one.
    pub usage_factor: u64,
}

impl Default for KaiSettings {
    fn default() -> KaiSettings {
        KaiSettings {
            capacity: BTreeMap::new(),
            units: BTreeMap::new(),
            preemptible_below: 100,
            saturation: 1000,
            min_runtimes: BTreeMap::new(),
            default_min_runtime: QueueMinRuntime::default(),
            reclaim_method: ReclaimMethod::default(),
            half_life: None,
            usage_factor: 1_000_000_000,
        }
    }
}

impl KaiSettings {
    /// Sets what there is of a resource in all.
    #[must_use]
    pub fn capacity(mut self, resource: impl Into<String>, amount: i64) -> KaiSettings {
        self.capacity.insert(resource.into(), amount);
        self
    }

    /// Sets the whole of a resource: 1000 for devices that are counted in thousandths.
    #[must_use]
    pub fn unit(mut self, resource: impl Into<String>, amount: i64) -> KaiSettings {
        self.units.insert(resource.into(), amount.max(1));
        self
    }

    /// Sets the half-life of past usage, and how much of it counts, in billionths. In the division of
    /// the surplus a weight w of W becomes max(0, w/W + k·(w/W − usage)). The
    /// usage is an average over the whole cluster, in which usage counts half as much for each half-life since.
    #[must_use]
    pub fn half_life(mut self, half_life: Duration, factor: u64) -> KaiSettings {
        (self.half_life, self.usage_factor) = (Some(half_life), factor);
        self
    }

    /// Sets the minimum run times of a queue.
    #[must_use]
    pub fn min_runtime(
        mut self,
        queue: impl Into<String>,
        runtime: QueueMinRuntime,
    ) -> KaiSettings {
        self.min_runtimes.insert(queue.into(), runtime);
        self
    }
}
