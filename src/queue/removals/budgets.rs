//! Running work: the groups of this scheduler and of others, and disruptions that budgets allow.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;

use super::removal::pod_name;
use crate::model::PodGroup;
use crate::preempt::{DisruptionBudget, EvictedPod, RunningWork};
use crate::queue::terms::error::QueueError;
use crate::state::Cluster;

/// A budget as it was passed in, and the evictions that it does not count yet.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct KnownBudget {
    budget: DisruptionBudget,
    /// Full names of pods.
    charged: BTreeSet<String>,
}

impl KnownBudget {
    /// The budget with what it allows now.
    fn left(&self) -> DisruptionBudget {
        let charged = i64::try_from(self.charged.len()).unwrap_or(i64::MAX);
        let mut left = self.budget.clone();
        left.disruptions_allowed = left.disruptions_allowed.saturating_sub(charged);
        left
    }
}

/// Running work: groups of this scheduler and of others, and disruption budgets.
#[derive(Debug, Default)]
pub(in crate::queue) struct Work {
    /// By full name.
    budgets: BTreeMap<String, KnownBudget>,
    /// Budgets that were charged for a pod, by its full name.
    charged: BTreeMap<String, BTreeSet<String>>,
    /// Budgets that allow more or less than was passed on.
    changed: BTreeSet<String>,
    /// Groups that other schedulers run, by full name.
    running: BTreeMap<String, PodGroup>,
    /// Roots of the groups that other schedulers run, by the full name of each group in them.
    roots: BTreeMap<String, BTreeSet<String>>,
    /// The groups of this scheduler and of others, with the budgets, as searches read them.
    known: RunningWork,
}

impl Work {
    /// Running work, as searches read it.
    pub(in crate::queue) fn known(&self) -> &RunningWork {
        &self.known
    }

    /// The groups that other schedulers run.
    pub(super) fn running(&self) -> &BTreeMap<String, PodGroup> {
        &self.running
    }

    /// The root of a group that another scheduler runs, by full names: the first of several. O(log groups).
    pub(super) fn root_of(&self, group: &str) -> Option<&str> {
        self.roots.get(group)?.first().map(String::as_str)
    }

    /// Charges budgets with pods that are to go. O(pods · budgets of their namespaces).
    pub(super) fn charge<'a>(
        &mut self,
        cluster: &Cluster,
        pods: impl IntoIterator<Item = &'a EvictedPod>,
    ) {
        for pod in pods {
            let Some(view) = cluster.pod(&pod.namespace, &pod.name) else { continue };
            for (name, known) in of_namespace_mut(&mut self.budgets, &pod.namespace) {
                if known.budget.is_charged_for(view) && known.charged.insert(pod_name(pod)) {
                    self.charged.entry(pod_name(pod)).or_default().insert(name.clone());
                    self.changed.insert(name.clone());
                }
            }
        }
        self.pass_budgets_on();
    }

    /// Gives back what budgets were charged for pods that stay. O(log budgets) each.
    pub(super) fn give_back<'a>(&mut self, pods: impl IntoIterator<Item = &'a EvictedPod>) {
        for pod in pods {
            let pod = pod_name(pod);
            for name in self.charged.remove(&pod).unwrap_or_default() {
                if let Some(known) = self.budgets.get_mut(&name) {
                    known.charged.remove(&pod);
                }
                self.changed.insert(name);
            }
        }
        self.pass_budgets_on();
    }

    /// A budget is charged for no pod any more but for those of `kept`.
    fn uncharge(&mut self, name: &str, before: &BTreeSet<String>, kept: &BTreeSet<String>) {
        for pod in before.difference(kept) {
            let Some(names) = self.charged.get_mut(pod) else { continue };
            names.remove(name);
            if names.is_empty() {
                self.charged.remove(pod);
            }
        }
    }

    /// Whether the eviction of pods, beside what is charged, breaks a budget. O(pods · budgets).
    pub(super) fn breaks(&self, cluster: &Cluster, pods: &[EvictedPod]) -> bool {
        let breaks = |known: &KnownBudget| {
            let is_charged = |pod: &&EvictedPod| {
                let view = cluster.pod(&pod.namespace, &pod.name);
                !known.charged.contains(&pod_name(pod))
                    && view.is_some_and(|view| known.budget.is_charged_for(view))
            };
            let charged = pods.iter().filter(is_charged).count();
            let charged = i64::try_from(charged).unwrap_or(i64::MAX);
            charged > 0 && charged > known.left().disruptions_allowed
        };
        self.budgets.values().any(breaks)
    }

    /// Sets a budget. What it was charged for is kept for pods that are `open`, to go and not begun, if
    /// it does not count them itself.
    pub(super) fn set_budget(&mut self, budget: DisruptionBudget, is_open: impl Fn(&str) -> bool) {
        let name = format!("{}/{}", budget.namespace, budget.name);
        let before = self.budgets.remove(&name).map(|known| known.charged).unwrap_or_default();
        let stays = |pod: &&String| {
            let short = pod.split_once('/').map_or("", |(_, name)| name);
            is_open(pod) && !budget.disrupted_pods.contains(short)
        };
        let charged: BTreeSet<String> = before.iter().filter(stays).cloned().collect();
        self.uncharge(&name, &before, &charged);
        self.budgets.insert(name.clone(), KnownBudget { budget, charged });
        self.changed.insert(name);
        self.pass_budgets_on();
    }

    pub(super) fn remove_budget(&mut self, namespace: &str, name: &str) {
        let full = format!("{namespace}/{name}");
        if let Some(known) = self.budgets.remove(&full) {
            self.uncharge(&full, &known.charged, &BTreeSet::new());
        }
        self.known.remove_budget(namespace, name);
    }

    /// Passes on what budgets allow now. O(budgets that have changed).
    fn pass_budgets_on(&mut self) {
        for name in core::mem::take(&mut self.changed) {
            if let Some(known) = self.budgets.get(&name) {
                self.known.set_budget(known.left());
            }
        }
    }

    /// A group of this scheduler appeared or changed.
    pub(super) fn put_own_group(&mut self, root: &PodGroup) -> Result<(), QueueError> {
        self.drop_running(root.full_name().as_str());
        Ok(self.known.set_group(root)?)
    }

    pub(super) fn remove_own_group(&mut self, root: &PodGroup) {
        self.known.remove_group(&root.namespace, &root.name);
    }

    /// A root group that another scheduler runs.
    pub(super) fn put_running_group(&mut self, group: &PodGroup) -> Result<(), QueueError> {
        let mut alone = group.clone();
        drop_pods(&mut alone);
        pass_down(&mut alone);
        self.known.set_group(&alone)?;
        let name = String::from(group.full_name());
        self.drop_running(&name);
        self.enter_running(name, alone);
        Ok(())
    }

    pub(super) fn remove_running_group(&mut self, namespace: &str, name: &str) {
        if self.drop_running(&format!("{namespace}/{name}")) {
            self.known.remove_group(namespace, name);
        }
    }

    fn enter_running(&mut self, name: String, root: PodGroup) {
        root.visit(&mut |group| {
            self.roots.entry(group.full_name().into()).or_default().insert(name.clone());
        });
        self.running.insert(name, root);
    }

    /// Returns whether it was known.
    fn drop_running(&mut self, name: &str) -> bool {
        let Some(root) = self.running.remove(name) else { return false };
        root.visit(&mut |group| {
            let group = group.full_name();
            let Some(roots) = self.roots.get_mut(group.as_str()) else { return };
            roots.remove(name);
            if roots.is_empty() {
                self.roots.remove(group.as_str());
            }
        });
        true
    }

    /// Budgets and groups of others, to be saved.
    #[cfg(feature = "serde")]
    pub(super) fn save(&self) -> (BTreeMap<String, KnownBudget>, BTreeMap<String, PodGroup>) {
        (self.budgets.clone(), self.running.clone())
    }

    /// Budgets and groups of others, as they were saved; they are entered by [`Work::restore`].
    #[cfg(feature = "serde")]
    pub(super) fn of(
        budgets: BTreeMap<String, KnownBudget>,
        running: BTreeMap<String, PodGroup>,
    ) -> Work {
        let mut work = Work { changed: budgets.keys().cloned().collect(), ..Work::default() };
        for (name, known) in &budgets {
            for pod in &known.charged {
                work.charged.entry(pod.clone()).or_default().insert(name.clone());
            }
        }
        work.budgets = budgets;
        for (name, root) in running {
            work.enter_running(name, root);
        }
        work
    }

    /// Puts a group of this scheduler in that continues from a save.
    #[cfg(feature = "serde")]
    pub(super) fn restore_group(&mut self, root: &PodGroup) -> Result<(), QueueError> {
        Ok(self.known.set_group(root)?)
    }

    /// Continues from a save; groups of this scheduler are to be put in before.
    #[cfg(feature = "serde")]
    pub(super) fn restore(&mut self) {
        for group in self.running.values() {
            let _ = self.known.set_group(group);
        }
        self.pass_budgets_on();
    }
}

/// Budgets of a namespace, by full name.
fn of_namespace_mut<'b>(
    budgets: &'b mut BTreeMap<String, KnownBudget>,
    namespace: &str,
) -> impl Iterator<Item = (&'b String, &'b mut KnownBudget)> {
    // The character after `/` in order.
    let (from, to) = (format!("{namespace}/"), format!("{namespace}0"));
    budgets.range_mut(from..to)
}

/// Passes on to the groups inside what a group says of all its members.
fn pass_down(group: &mut PodGroup) {
    for inner in &mut group.groups {
        inner.priority = inner.priority.max(group.priority);
        inner.non_preemptible |= group.non_preemptible;
        inner.min_run_time = inner.min_run_time.max(group.min_run_time);
        pass_down(inner);
    }
}

fn drop_pods(group: &mut PodGroup) {
    group.pods.clear();
    group.groups.iter_mut().for_each(drop_pods);
}
