//! Waiting groups, queue by queue, and the first group that may be tried over all queues.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use crate::queue::settings::HeadOfLine;
use crate::queue::terms::ids::QueueKey;

/// Waiting groups by queue.
#[derive(Debug, Default)]
pub(in crate::queue) struct WaitingQueues {
    queues: BTreeMap<String, WaitingQueue>,
    /// The head of each queue that has one.
    heads: BTreeSet<QueueKey>,
    /// Queues whose head has changed, where that is tracked.
    changed: BTreeSet<String>,
    tracked: bool,
}

/// The waiting groups of one queue.
#[derive(Debug, Default)]
struct WaitingQueue {
    waiting: BTreeSet<QueueKey>,
    ready: BTreeSet<QueueKey>,
    /// The first ready group, if the rule of the queue allows to try it now.
    head: Option<QueueKey>,
}

impl WaitingQueues {
    /// Adds a group to a queue, or updates whether it is ready. O(log groups).
    pub(in crate::queue) fn put(
        &mut self,
        queue: &str,
        key: &QueueKey,
        is_ready: bool,
        rule: HeadOfLine,
    ) {
        if !self.queues.contains_key(queue) {
            self.queues.insert(queue.to_owned(), WaitingQueue::default());
        }
        let Some(entry) = self.queues.get_mut(queue) else { return };
        entry.waiting.insert(key.clone());
        if is_ready {
            entry.ready.insert(key.clone());
        } else {
            entry.ready.remove(key);
        }
        self.update_head(queue, rule);
    }

    /// Removes a group from a queue. O(log groups).
    pub(in crate::queue) fn remove(&mut self, queue: &str, key: &QueueKey, rule: HeadOfLine) {
        let Some(entry) = self.queues.get_mut(queue) else { return };
        entry.waiting.remove(key);
        entry.ready.remove(key);
        self.update_head(queue, rule);
        if self.queues.get(queue).is_some_and(|entry| entry.waiting.is_empty()) {
            self.queues.remove(queue);
        }
    }

    fn update_head(&mut self, queue: &str, rule: HeadOfLine) {
        let Some(entry) = self.queues.get_mut(queue) else { return };
        let first = entry.ready.first();
        let head = match rule {
            HeadOfLine::BestEffort => first,
            HeadOfLine::StrictFifo => first.filter(|first| entry.waiting.first() == Some(first)),
        };
        if entry.head.as_ref() == head {
            return;
        }
        if self.tracked {
            self.changed.insert(queue.to_owned());
        }
        let head = head.cloned();
        if let Some(old) = core::mem::replace(&mut entry.head, head.clone()) {
            self.heads.remove(&old);
        }
        self.heads.extend(head);
    }

    /// The first group, over all queues, that may be tried. O(log queues).
    pub(in crate::queue) fn first_ready(&self) -> Option<&QueueKey> {
        self.heads.first()
    }

    /// The first group that may be tried, over some queues. O(queues).
    pub(in crate::queue) fn first_ready_of(
        &self,
        mut of: impl FnMut(&str) -> bool,
    ) -> Option<QueueKey> {
        let queues = self.queues.iter().filter(|(_, queue)| queue.head.is_some());
        let heads = queues.filter(|(name, _)| of(name)).filter_map(|(_, queue)| queue.head.clone());
        heads.min()
    }

    /// The group of a queue that may be tried.
    pub(in crate::queue) fn head(&self, queue: &str) -> Option<&QueueKey> {
        self.queues.get(queue)?.head.as_ref()
    }

    /// Starts to track which heads change.
    pub(in crate::queue) fn track(&mut self) {
        self.tracked = true;
        self.touch_all();
    }

    /// Queues whose head has changed since they were last taken.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn changed(&self) -> &BTreeSet<String> {
        &self.changed
    }

    /// Counts the heads of some queues as changed, of those that have one, and no others.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn set_changed(
        &mut self,
        changed: BTreeSet<String>,
        or: impl Fn(&str) -> bool,
    ) {
        self.changed = changed;
        let heads = self.queues.iter().filter(|(_, queue)| queue.head.is_some());
        self.changed.extend(heads.map(|(name, _)| name.clone()).filter(|name| or(name)));
    }

    /// Counts the heads of all queues as changed.
    pub(in crate::queue) fn touch_all(&mut self) {
        self.changed.extend(self.queues.keys().cloned());
    }

    /// Queues whose head has changed since this was last asked.
    pub(in crate::queue) fn take_changed(&mut self) -> BTreeSet<String> {
        core::mem::take(&mut self.changed)
    }

    /// The waiting groups of a queue, in queue order.
    pub(in crate::queue) fn waiting(&self, queue: &str) -> impl Iterator<Item = &QueueKey> {
        self.queues.get(queue).into_iter().flat_map(|queue| &queue.waiting)
    }

    /// The first waiting groups of each queue, in order over all queues.
    pub(in crate::queue) fn first_of_each(&self, count: usize) -> BTreeSet<QueueKey> {
        let queues = self.queues.values();
        queues.flat_map(|queue| queue.waiting.iter().take(count)).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
