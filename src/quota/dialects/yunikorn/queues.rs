//! Queues as YuniKorn has them: limits along the path, and priorities that are published upwards.
//!
//! Source: YuniKorn's `pkg/scheduler/objects/queue.go`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::resource::Resource;
use super::resources;

/// The priority of a queue without pending asks.
pub const MIN_PRIORITY: i32 = i32::MIN;

/// Who may preempt whose allocations (`preemption.policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum YuniKornPreemptionPolicy {
    /// Anywhere in the tree.
    #[default]
    Default,
    /// Asks below preempt nothing outside.
    Fence,
    /// Nothing of the queue is preempted.
    Disabled,
}

/// How a queue's priority becomes that of its parent (`priority.policy`, `priority.offset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
pub struct PriorityRule {
    /// Whether the offset takes the place of what is below, rather than being added.
    pub fence: bool,
    /// The offset.
    pub offset: i32,
}

impl PriorityRule {
    /// The published priority.
    pub fn published(self, priority: i32) -> i32 {
        match (priority, self.fence) {
            (MIN_PRIORITY, _) => priority,
            (_, true) => self.offset,
            (priority, false) => priority.saturating_add(self.offset),
        }
    }
}

/// One queue. Absent amounts were never set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueState {
    /// The full path, `root.parent.leaf`.
    pub path: String,
    /// The path of the queue above; `None` at the root.
    pub parent: Option<String>,
    /// Whether applications stand in it.
    pub leaf: bool,
    /// The most that it may use; the root's is what the nodes have.
    pub max: Option<Resource>,
    /// Amount that preemption leaves it, and may take for it.
    pub guaranteed: Option<Resource>,
    /// Usage in it and below.
    pub allocated: Option<Resource>,
    /// Waiting requests in it and below.
    pub pending: Option<Resource>,
    /// How its priority is published.
    pub priority: PriorityRule,
    /// Who may preempt whose.
    pub preemption: YuniKornPreemptionPolicy,
}

/// Queues by path.
///
/// ```
/// use phalanx::quota::yunikorn::{Queues, QueueState, Resource};
///
/// let of = |amount| Some(Resource::from([("vcore".to_string(), amount)]));
/// let root = QueueState { path: "root".into(), max: of(20), allocated: of(10), ..Default::default() };
/// let leaf = QueueState {
///     path: "root.dev".into(),
///     parent: Some("root".into()),
///     leaf: true,
///     max: of(12),
///     allocated: of(10),
///     ..Default::default()
/// };
/// let queues = Queues::new([root, leaf]);
/// assert_eq!(queues.headroom("root.dev"), of(2));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Queues(BTreeMap<String, QueueState>);

impl Queues {
    /// Queues, the last of those with one path.
    pub fn new(queues: impl IntoIterator<Item = QueueState>) -> Queues {
        Queues(queues.into_iter().map(|queue| (queue.path.clone(), queue)).collect())
    }

    /// A queue.
    pub fn get(&self, path: &str) -> Option<&QueueState> {
        self.0.get(path)
    }

    /// All queues, by path.
    pub fn iter(&self) -> impl Iterator<Item = &QueueState> {
        self.0.values()
    }

    /// A queue and all above it, from the root down; a circle is cut.
    pub fn path<'a>(&'a self, path: &str) -> Vec<&'a QueueState> {
        let mut all: Vec<&QueueState> = Vec::new();
        let mut next = self.get(path);
        while let Some(queue) = next.filter(|_| all.len() <= self.0.len()) {
            all.push(queue);
            next = queue.parent.as_deref().and_then(|parent| self.get(parent));
        }
        all.reverse();
        all
    }

    /// Amount that may still be used, within all limits of the path; `None` if there are none.
    pub fn headroom(&self, path: &str) -> Option<Resource> {
        let left = |queue: &QueueState| {
            resources::subtract_existing(queue.max.as_ref(), queue.allocated.as_ref())
        };
        self.along(path, 0, left)
    }

    /// [`Queues::headroom`] without what the nodes have, which is the limit of the root.
    pub fn max_headroom(&self, path: &str) -> Option<Resource> {
        let left = |queue: &QueueState| {
            resources::subtract_existing(queue.max.as_ref(), queue.allocated.as_ref())
        };
        self.along(path, 1, left)
    }

    /// The most that may be used: the least of the path, by type.
    pub fn max(&self, path: &str) -> Option<Resource> {
        self.along(path, 0, |queue| queue.max.clone())
    }

    /// [`Queues::max`] without what the nodes have.
    pub fn max_set(&self, path: &str) -> Option<Resource> {
        self.along(path, 1, |queue| queue.max.clone())
    }

    fn along(
        &self,
        path: &str,
        skip: usize,
        of: impl Fn(&QueueState) -> Option<Resource>,
    ) -> Option<Resource> {
        let amounts = self.path(path).into_iter().skip(skip).map(of);
        amounts.fold(None, |least, own| resources::least(least.as_ref(), own.as_ref()))
    }

    /// The denominator of a fair share where there is no guarantee. It is the amounts of the nodes,
    /// without the types that they have none of, and down the path the limit of each queue in its
    /// place, type by type.
    pub fn fair_max(&self, path: &str) -> Option<Resource> {
        let mut all = self.path(path).into_iter();
        let mut fair = all.next()?.max.clone()?;
        fair.retain(|_, amount| *amount != 0);
        for queue in all {
            if !fair.is_empty() {
                fair.extend(queue.max.iter().flatten().map(|(name, most)| (name.clone(), *most)));
            }
        }
        Some(fair)
    }

    /// Whether a queue itself may have so much more. The root refuses types that the nodes have none
    /// of; elsewhere a type without a limit is unlimited.
    pub fn fits(&self, path: &str, change: &Resource) -> bool {
        self.get(path).is_none_or(|queue| {
            let wanted = resources::add_existing(Some(change), queue.allocated.as_ref());
            match queue.parent {
                None => resources::fits(queue.max.as_ref(), wanted.as_ref()),
                Some(_) => resources::fits_limit(queue.max.as_ref(), wanted.as_ref()),
            }
        })
    }

    /// The priority that a queue publishes: the highest of what is below, with its offset, or by its
    /// fence. `asks` gives the highest priority of a leaf's pending asks.
    pub fn priority(&self, path: &str, asks: &BTreeMap<String, i32>) -> i32 {
        self.priority_within(path, asks, self.0.len())
    }

    fn priority_within(&self, path: &str, asks: &BTreeMap<String, i32>, depth: usize) -> i32 {
        let Some(queue) = self.get(path) else { return MIN_PRIORITY };
        let highest = if queue.leaf {
            asks.get(path).copied()
        } else {
            let below = |child: &&QueueState| child.parent.as_deref() == Some(path) && depth > 0;
            let children = self.0.values().filter(below);
            children.map(|child| self.priority_within(&child.path, asks, depth - 1)).max()
        };
        queue.priority.published(highest.unwrap_or(MIN_PRIORITY))
    }
}

#[cfg(test)]
mod tests;
