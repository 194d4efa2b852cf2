//! Admission: how much more a queue may use.

use super::amount::{UNLIMITED, minus};
use super::tree::{FlavorResource, QueueId, QueueTree};

/// How much more a queue may use, and how much it ever could.
pub trait Admission {
    /// Amount that may still be used. Negative where more is used than may be.
    fn available(&self, tree: &QueueTree, queue: QueueId, of: FlavorResource) -> i64;

    /// Amount that could be used if nothing else were.
    fn potential(&self, tree: &QueueTree, queue: QueueId, of: FlavorResource) -> i64;
}

/// Guarantees that are lent and borrowed among cohorts, within limits on both: Kueue's available and
/// potential amounts, see [`QueueTree::available`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Lending;

impl Admission for Lending {
    fn available(&self, tree: &QueueTree, queue: QueueId, of: FlavorResource) -> i64 {
        tree.available(queue, of)
    }

    fn potential(&self, tree: &QueueTree, queue: QueueId, of: FlavorResource) -> i64 {
        tree.potential(queue, of)
    }
}

/// The limits of a queue and of all above it; a queue without a limit has none. `YuniKorn`'s headroom,
/// Koordinator's and KAI's limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathLimits;

impl PathLimits {
    fn least(
        tree: &QueueTree,
        queue: QueueId,
        of: FlavorResource,
        left: impl Fn(i64, i64) -> i64,
    ) -> i64 {
        let bounded = |at| {
            let limit = tree.quota(at, of)?.limit?;
            Some(left(limit, tree.sums(at, of).used))
        };
        tree.path(queue).filter_map(bounded).min().unwrap_or(UNLIMITED)
    }
}

impl Admission for PathLimits {
    fn available(&self, tree: &QueueTree, queue: QueueId, of: FlavorResource) -> i64 {
        PathLimits::least(tree, queue, of, minus)
    }

    fn potential(&self, tree: &QueueTree, queue: QueueId, of: FlavorResource) -> i64 {
        PathLimits::least(tree, queue, of, |limit, _| limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::{Queue, QueueKind, Quota};

    #[test]
    fn the_tightest_limit_of_the_path_counts() {
        let mut tree = QueueTree::new();
        let quota = |limit| Quota::nominal(0).limit(limit);
        let inner = Queue::inner("labs").quota("", "gpu", quota(10));
        tree.set_queue(inner).expect("sound");
        let mut ids = ["a", "b"].map(|name| {
            let leaf = Queue::leaf(name).parent("labs").quota("", "gpu", quota(8));
            tree.set_queue(leaf).expect("sound")
        });
        let gpu = tree.flavor_resource("", "gpu").expect("known");
        tree.charge(ids[0], gpu, 7).expect("in range");
        assert_eq!(PathLimits.available(&tree, ids[0], gpu), 1);
        assert_eq!(PathLimits.available(&tree, ids[1], gpu), 3);
        assert_eq!(PathLimits.potential(&tree, ids[1], gpu), 8);
        ids[0] = tree.queue(QueueKind::Inner, "labs").expect("there");
        assert_eq!(PathLimits.available(&tree, ids[0], gpu), 3);
    }
}
