//! How long work runs before it may be taken back.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// The minimum run times that a queue states.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuntimeQueue {
    /// The name.
    pub name: String,
    /// The place of the queue above.
    pub parent: Option<usize>,
    /// Before work of the same queue may preempt.
    pub preempt: Option<Duration>,
    /// Before work of other queues may reclaim.
    pub reclaim: Option<Duration>,
}

/// The queue whose minimum protects from reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum ReclaimMethod {
    /// The nearest from the child of the lowest queue above both, on the victim's side, upwards. If
    /// the two have nothing above them, only the victim's top queue counts.
    #[default]
    LowestCommonAncestor,
    /// The nearest from the victim's queue upwards.
    Queue,
}

/// Minimum run times of a tree of queues.
#[derive(Debug, Clone, Default)]
pub struct MinRuntime {
    /// The queues.
    pub queues: Vec<RuntimeQueue>,
    /// The minimum for preemption where no queue states anything.
    pub default_preempt: Duration,
    /// The minimum for reclaim where no queue states anything.
    pub default_reclaim: Duration,
    /// How the minimum for reclaim is found.
    pub method: ReclaimMethod,
}

impl MinRuntime {
    /// The place of a queue.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.queues.iter().position(|queue| queue.name == name)
    }

    fn path(&self, queue: usize) -> Vec<usize> {
        let next = |at: &usize| self.queues.get(*at).and_then(|queue| queue.parent);
        let path = core::iter::successors(self.queues.get(queue).map(|_| queue), next);
        path.take(self.queues.len()).collect()
    }

    /// How long work of a queue runs before others of it may preempt it.
    pub fn before_preempt(&self, victim: usize) -> Duration {
        let stated = self.path(victim).into_iter().find_map(|at| self.queues[at].preempt);
        stated.unwrap_or(self.default_preempt)
    }

    /// How long work of a queue runs before that of another may reclaim what it has.
    pub fn before_reclaim(&self, reclaimer: usize, victim: usize) -> Duration {
        let path = self.path(victim);
        let path = match self.method {
            ReclaimMethod::Queue => &path[..],
            ReclaimMethod::LowestCommonAncestor => {
                let other = self.path(reclaimer);
                let common =
                    path.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
                // Within one queue, the queue itself.
                let from = path.len().saturating_sub(common + 1);
                &path[from..]
            }
        };
        let stated = path.iter().find_map(|&at| self.queues[at].reclaim);
        stated.unwrap_or(self.default_reclaim)
    }
}

/// Whether work that has started so long ago is protected by a minimum; what has not started is not.
pub fn is_protected(running_for: Option<Duration>, minimum: Duration) -> bool {
    running_for.is_some_and(|running| running < minimum)
}

#[cfg(test)]
mod tests;
