//! Workloads: groups that belong together.

use alloc::string::String;
use alloc::vec::Vec;

use super::group::PodGroup;

/// A job as a user submits it: its groups, the queue it waits in, its priority.
///
/// Placing a workload places all of its groups or none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Workload {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The queue it waits in; empty where there are no queues.
    pub queue: String,
    /// Higher goes first.
    pub priority: i32,
    /// Its groups, in order.
    pub groups: Vec<PodGroup>,
}

impl Workload {
    /// A workload without groups, in namespace `default`.
    pub fn new(name: impl Into<String>) -> Workload {
        Workload { namespace: "default".into(), name: name.into(), ..Workload::default() }
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: PodGroup) -> Workload {
        self.groups.push(group);
        self
    }

    /// Sets the queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Workload {
        self.queue = queue.into();
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Workload {
        self.priority = priority;
        self
    }

    /// The workload as one group: a gang of all its groups.
    pub fn into_group(self) -> PodGroup {
        let groups = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let mut root = PodGroup::gang(self.name, groups).in_namespace(self.namespace);
        root.priority = self.priority;
        root.queue = self.queue;
        root.groups = self.groups;
        root
    }
}
