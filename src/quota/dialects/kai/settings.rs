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
