//! Settings of YuniKorn's dialect.

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::queues::{PriorityRule, YuniKornPreemptionPolicy};

/// Properties of a queue beside its amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
pub struct QueueRules {
    /// `priority.policy` and `priority.offset`.
    pub priority: PriorityRule,
    /// `preemption.policy`.
    pub preemption: YuniKornPreemptionPolicy,
}

/// Settings of [`Tenants::yunikorn_with`](crate::quota::Tenants::yunikorn_with).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
pub struct YuniKornSettings {
    /// Whether the queue with the smaller fair share goes first; otherwise the oldest head.
    pub fair: bool,
    /// The properties of queues, by name.
    pub rules: BTreeMap<String, QueueRules>,
}

impl Default for YuniKornSettings {
    fn default() -> YuniKornSettings {
        YuniKornSettings { fair: true, rules: BTreeMap::new() }
    }
}
