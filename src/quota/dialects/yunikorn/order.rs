//! The order of queues, and of applications in one.
//!
//! Source: YuniKorn's `pkg/scheduler/objects/sorters.go`.

use alloc::string::String;
use core::cmp::Ordering;

use super::resource::Resource;
use super::resources;

/// How siblings are ordered (`application.sort.policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SortPolicy {
    /// By fair shares; otherwise as they came (`fifo`).
    pub fair: bool,
    /// Whether priorities count before that; otherwise after it, and not at all between queues of
    /// `fifo`.
    pub by_priority: bool,
}

/// Properties of a queue for an order of queues.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueStanding {
    /// The name.
    pub name: String,
    /// Its usage.
    pub allocated: Option<Resource>,
    /// Its guarantee.
    pub guaranteed: Option<Resource>,
    /// Its waiting requests.
    pub pending: Option<Resource>,
    /// The priority that it publishes.
    pub priority: i32,
}

impl QueueStanding {
    /// The fair share, over the guarantee or a fair maximum.
    pub fn share(&self, fair_max: Option<&Resource>) -> f64 {
        resources::fair_share(self.allocated.as_ref(), self.guaranteed.as_ref(), fair_max)
    }
}

impl SortPolicy {
    /// Compares two queues: `Less` if the first goes first; each with the fair maximum it is judged
    /// by. Equal queues stay as they were.
    pub fn compare_queues(
        self,
        (one, one_max): (&QueueStanding, Option<&Resource>),
        (other, other_max): (&QueueStanding, Option<&Resource>),
    ) -> Ordering {
        let by_priority = || other.priority.cmp(&one.priority);
        if !self.fair {
            return if self.by_priority { by_priority() } else { Ordering::Equal };
        }
        let by_share = || {
            let (a, b) = (one.share(one_max), other.share(other_max));
            a.partial_cmp(&b).unwrap_or(Ordering::Equal)
        };
        let first = if self.by_priority {
            by_priority().then_with(by_share)
        } else {
            by_share().then_with(by_priority)
        };
        first.then_with(|| {
            let waits_more = |a: &QueueStanding, b: &QueueStanding| {
                let more = resources::subtract(a.pending.as_ref(), b.pending.as_ref());
                resources::is_positive(Some(&more))
            };
            waits_more(other, one).cmp(&waits_more(one, other))
        })
    }
}

/// Properties of an application for an order of applications.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ApplicationStanding {
    /// The name.
    pub id: String,
    /// Its usage.
    pub allocated: Option<Resource>,
    /// Its waiting requests. An application without any is not in the order.
    pub pending: Option<Resource>,
    /// The highest priority of its asks.
    pub priority: i32,
    /// Since when it waits.
    pub submitted: i64,
}

impl SortPolicy {
    /// Compares two applications: `Less` if the first goes first. Equal ones stay as they were.
    pub fn compare_applications(
        self,
        one: &ApplicationStanding,
        other: &ApplicationStanding,
        total: Option<&Resource>,
    ) -> Ordering {
        let by_priority = || other.priority.cmp(&one.priority);
        let by_policy = || {
            if self.fair {
                let (a, b) = (one.allocated.as_ref(), other.allocated.as_ref());
                resources::compare_usage(a, b, total)
            } else {
                one.submitted.cmp(&other.submitted)
            }
        };
        if self.by_priority {
            by_priority().then_with(by_policy)
        } else {
            by_policy().then_with(by_priority)
        }
    }
}

#[cfg(test)]
mod tests;
