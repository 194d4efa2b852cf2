//! Order: which queue is next, and which claim of it.

use core::cmp::Ordering;

use super::share::{Share, ShareValue};
use super::tree::{QueueId, QueueTree};
use crate::Time;

/// Properties of a claim for an order of claims in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting<'a> {
    /// The priority.
    pub priority: i64,
    /// Since when it waits.
    pub since: Time,
    /// Decides ties, before the name.
    pub uid: &'a str,
    /// The name.
    pub name: &'a str,
}

/// The order of claims in one queue. It has to be total.
pub trait GroupOrder {
    /// `Less` if the first goes first.
    fn compare(&self, a: &Waiting<'_>, b: &Waiting<'_>) -> Ordering;
}

/// The higher priority first, then the older, then uid and name.
#[derive(Debug, Clone, Copy, Default)]
pub struct PriorityThenAge;

impl GroupOrder for PriorityThenAge {
    fn compare(&self, a: &Waiting<'_>, b: &Waiting<'_>) -> Ordering {
        (b.priority.cmp(&a.priority))
            .then(a.since.cmp(&b.since))
            .then(a.uid.cmp(b.uid))
            .then(a.name.cmp(b.name))
    }
}

/// The order of siblings in a tree. It has to be total.
pub trait QueueOrder {
    /// `Less` if the first goes first.
    fn compare(&self, tree: &QueueTree, a: QueueId, b: QueueId) -> Ordering;
}

/// The higher priority first, then the smaller share, then the name.
#[derive(Debug, Clone, Copy)]
pub struct ByShare<S> {
    /// The share.
    pub share: S,
    /// Whether the priority of queues counts.
    pub by_priority: bool,
}

impl<S: Share> QueueOrder for ByShare<S> {
    fn compare(&self, tree: &QueueTree, a: QueueId, b: QueueId) -> Ordering {
        let key = |queue: QueueId| {
            let spec = tree.spec(queue);
            let priority = spec.map_or(0, |spec| if self.by_priority { spec.priority } else { 0 });
            let share = spec.map_or(ShareValue::NONE, |_| self.share.share(tree, queue));
            (core::cmp::Reverse(priority), share, spec.map(|spec| (spec.kind, spec.name.as_str())))
        };
        key(a).cmp(&key(b))
    }
}
