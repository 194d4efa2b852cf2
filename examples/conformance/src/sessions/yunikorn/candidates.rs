//! Candidates for victims: beyond the fence of the queue that asks nothing is taken.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use super::input::{Allocation, Attempt};
use phalanx::quota::yunikorn::{Guarantees, QueueState, YuniKornPreemptionPolicy, resources};

/// The way from the queue that asks up to its fence, with the priority that counts at each.
fn fence(attempt: &Attempt) -> (Option<&QueueState>, BTreeMap<&str, i64>) {
    let mut priorities = BTreeMap::new();
    let mut priority = i64::from(attempt.ask.priority);
    let mut path = attempt.queues.path(&attempt.ask.queue);
    let mut last = None;
    while let Some(queue) = path.pop() {
        let rule = queue.priority;
        let offset = i64::from(rule.offset);
        priority = if rule.fence { offset } else { priority + offset };
        priorities.insert(queue.path.as_str(), priority);
        last = Some(queue);
        let full = !attempt.queues.fits(&queue.path, &attempt.ask.resource);
        if queue.preemption == YuniKornPreemptionPolicy::Fence || full {
            break;
        }
    }
    (last, priorities)
}

/// Allocations that could be victims, in the order of their queues and keys.
pub(super) fn candidates<'a>(attempt: &'a Attempt, left: &Guarantees) -> Vec<&'a Allocation> {
    let (Some(root), priorities) = fence(attempt) else { return Vec::new() };
    let Some(&priority) = priorities.get(root.path.as_str()) else { return Vec::new() };
    let mut found = Vec::new();
    let mut search = Search { attempt, left, priorities, found: &mut found };
    search.below(root, priority, false, attempt.queues.iter().count());
    found
}

struct Search<'s, 'a> {
    attempt: &'a Attempt,
    left: &'s Guarantees,
    priorities: BTreeMap<&'a str, i64>,
    found: &'s mut Vec<&'a Allocation>,
}

impl<'a> Search<'_, 'a> {
    fn below(&mut self, queue: &'a QueueState, priority: i64, fenced: bool, depth: usize) {
        if queue.path == self.attempt.ask.queue || depth == 0 {
            return;
        }
        if queue.leaf {
            self.leaf(queue, priority, fenced);
            return;
        }
        let children: Vec<&QueueState> = self
            .attempt
            .queues
            .iter()
            .filter(|child| child.parent.as_ref() == Some(&queue.path))
            .collect();
        for child in children {
            let offset = i64::from(child.priority.offset);
            let (priority, fence) = match self.priorities.get(child.path.as_str()) {
                Some(own) => (*own, false),
                // Nothing of what is fenced above the ask's priority is taken.
                None if child.priority.fence && offset > priority => continue,
                None if child.priority.fence => (priority, true),
                None => (priority - offset, false),
            };
            self.below(child, priority, fenced || fence, depth - 1);
        }
    }

    fn leaf(&mut self, queue: &'a QueueState, priority: i64, fenced: bool) {
        let left = self.left.remaining(&queue.path);
        let within = left.is_some() && !resources::has_negative(left.as_ref());
        if queue.preemption == YuniKornPreemptionPolicy::Disabled || within {
            return;
        }
        let ask = Some(&self.attempt.ask.resource);
        let may = |own: &&Allocation| {
            own.queue == queue.path
                && own.known
                && resources::match_any(ask, Some(&own.resource))
                && !own.required_node
                && !own.released
                && (fenced || i64::from(own.priority) <= priority)
        };
        let mut own: Vec<&Allocation> = self.attempt.allocations.iter().filter(may).collect();
        own.sort_by(|a, b| a.key.cmp(&b.key));
        self.found.extend(own);
    }
}

/// The order of victims: those that have opted in, then those that are not the first of their
/// application, then the newest.
pub(super) fn sort(allocations: &mut [&Allocation]) {
    allocations.sort_by(|a, b| {
        (!a.allow_preempt_self, a.originator)
            .cmp(&(!b.allow_preempt_self, b.originator))
            .then(b.created.cmp(&a.created))
    });
}

/// Candidates by node, each list in the order of victims.
pub(super) fn by_node<'a>(candidates: &[&'a Allocation]) -> BTreeMap<String, Vec<&'a Allocation>> {
    let mut nodes: BTreeMap<String, Vec<&Allocation>> = BTreeMap::new();
    for own in candidates {
        nodes.entry(own.node.clone()).or_default().push(own);
    }
    for own in nodes.values_mut() {
        sort(own);
    }
    nodes
}
