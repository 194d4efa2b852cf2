//! Knowledge of running work beside the cluster: its groups and the budgets that protect it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::budget::DisruptionBudget;
use crate::model::{ModelError, PodGroup};

/// The groups that running pods belong to, and disruption budgets.
///
/// A [`Cluster`](crate::Cluster) knows of a bound pod which group it names; how that group may be
/// disrupted is said here. The embedder keeps it up to date beside its cluster. A pod whose group
/// is not known is a unit of its own.
///
/// ```
/// use phalanx::preempt::RunningWork;
/// use phalanx::PodGroup;
///
/// let mut running = RunningWork::new();
/// running.set_group(&PodGroup::gang("trainer", 8).priority(10).evicted_whole())?;
/// assert_eq!(running.group("default", "trainer").unwrap().priority, 10);
/// # Ok::<(), phalanx::ModelError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RunningWork {
    /// By the namespace and the name of the root.
    roots: BTreeMap<(String, String), Tree>,
    /// How many groups there are, by priority.
    priorities: BTreeMap<i32, usize>,
    /// By namespace and name.
    budgets: BTreeMap<(String, String), DisruptionBudget>,
    /// Another with every change, of this or any other value; 0 for what is empty.
    stamp: usize,
}

/// A group, and the groups inside.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    /// The group alone: without pods, and without groups inside.
    pub(crate) group: Arc<PodGroup>,
    pub(crate) inside: Vec<Tree>,
}

impl RunningWork {
    /// Nothing known.
    pub fn new() -> RunningWork {
        RunningWork::default()
    }

    fn change(&mut self) {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        self.stamp = NEXT.fetch_add(1, Ordering::Relaxed);
    }

    /// Equal stamps mean equal contents.
    pub(crate) fn stamp(&self) -> usize {
        self.stamp
    }

    /// Sets a tree of groups, in place of one with that root. Of its pods nothing is kept: those
    /// that run are in the cluster.
    ///
    /// # Errors
    /// The tree is nested too deep.
    pub fn set_group(&mut self, group: &PodGroup) -> Result<(), ModelError> {
        group.check_depth()?;
        let key = (group.namespace.clone(), group.name.clone());
        let tree = Tree::of(group);
        self.count(&tree, true);
        if let Some(old) = self.roots.insert(key, tree) {
            self.count(&old, false);
        }
        self.change();
        Ok(())
    }

    /// Forgets a tree of groups, by its root. Returns whether it was known.
    pub fn remove_group(&mut self, namespace: &str, name: &str) -> bool {
        let Some(tree) = self.roots.remove(&(namespace.into(), name.into())) else { return false };
        self.count(&tree, false);
        self.change();
        true
    }

    fn count(&mut self, tree: &Tree, more: bool) {
        let count = self.priorities.entry(tree.group.priority).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.priorities.remove(&tree.group.priority);
        }
        for inner in &tree.inside {
            self.count(inner, more);
        }
    }

    /// The lowest priority of a group.
    pub(crate) fn lowest_priority(&self) -> Option<i32> {
        self.priorities.keys().next().copied()
    }

    /// The root of a tree of groups by its name: the group alone, without what is inside.
    pub fn group(&self, namespace: &str, name: &str) -> Option<&PodGroup> {
        self.roots.get(&(namespace.into(), name.into())).map(|tree| &*tree.group)
    }

    /// The roots, by namespace and name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &PodGroup> {
        self.roots.values().map(|tree| &*tree.group)
    }

    pub(crate) fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.roots.values()
    }

    /// Sets a budget, in place of one of that name.
    pub fn set_budget(&mut self, budget: DisruptionBudget) {
        self.budgets.insert((budget.namespace.clone(), budget.name.clone()), budget);
        self.change();
    }

    /// Forgets a budget. Returns whether it was known.
    pub fn remove_budget(&mut self, namespace: &str, name: &str) -> bool {
        let known = self.budgets.remove(&(namespace.into(), name.into())).is_some();
        if known {
            self.change();
        }
        known
    }

    /// The budgets, by namespace and name.
    pub fn budgets(&self) -> impl ExactSizeIterator<Item = &DisruptionBudget> {
        self.budgets.values()
    }
}

impl Tree {
    fn of(group: &PodGroup) -> Tree {
        let alone = PodGroup {
            namespace: group.namespace.clone(),
            name: group.name.clone(),
            key: group.key,
            policy: group.policy,
            min_pods: group.min_pods,
            priority: group.priority,
            queue: group.queue.clone(),
            disruption: group.disruption,
            non_preemptible: group.non_preemptible,
            min_run_time: group.min_run_time,
            topology: group.topology.clone(),
            leader: group.leader,
            attributes: group.attributes.clone(),
            ..PodGroup::default()
        };
        let inside = group.groups.iter().map(Tree::of).collect();
        Tree { group: Arc::new(alone), inside }
    }
}
