//! Wake conditions of unschedulable groups.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::model::PodShape;

/// The condition that wakes an unschedulable group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum WakeCondition {
    #[default]
    Never,
    /// Capacity for a number of pods of a shape, in one domain of a label key or anywhere.
    Capacity { shape: Arc<PodShape>, level: Option<String>, needed: u64 },
    /// A change on a node that allocates at least this amount of one of these resources.
    Nodes(Vec<(Box<str>, i64)>),
    /// Any change.
    AnyChange,
    /// Quota at a queue, so much of a resource in a flavor; from the whole tree's pool where it is
    /// `pooled`. With an empty name, another quota.
    Quota {
        inner: bool,
        queue: String,
        flavor: String,
        resource: String,
        needed: i64,
        pooled: bool,
    },
}
