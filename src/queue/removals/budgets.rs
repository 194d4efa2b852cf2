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
    /// Groups that other schedulers run, by full name.
    running: BTreeMap<String, PodGroup>,
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

    /// Charges budgets with pods that are to go.
    pub(super) fn charge<'a>(
        &mut self,
        cluster: &Cluster,
        pods: impl IntoIterator<Item = &'a EvictedPod>,
    ) {
        for pod in pods {
            let Some(view) = cluster.pod(&pod.namespace, &pod.name) else { continue };
            for known in self.budgets.values_mut() {
                if known.budget.is_charged_for(view) {
                    known.charged.insert(pod_name(pod));
                }
            }
        }
    }

    /// Gives back what budgets were charged for pods that stay.
    pub(super) fn give_back<'a>(&mut self, pods: impl IntoIterator<Item = &'a EvictedPod>) {
        for pod in pods {
            let name = pod_name(pod);
            for known in self.budgets.values_mut() {
                known.charged.remove(&name);
            }
        }
    }

    /// Whether the eviction of pods, beside what is charged, breaks a budget.
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
    pub(super) fn set_budget(&mut self, budget: DisruptionBudget, open: &BTreeSet<String>) {
        let name = format!("{}/{}", budget.namespace, budget.name);
        let mut charged = self.budgets.remove(&name).map(|known| known.charged).unwrap_or_default();
        charged.retain(|pod| {
            let short = pod.split_once('/').map_or("", |(_, name)| name);
            open.contains(pod) && !budget.disrupted_pods.contains(short)
        });
        self.budgets.insert(name, KnownBudget { budget, charged });
        self.pass_budgets_on();
    }

    pub(super) fn remove_budget(&mut self, namespace: &str, name: &str) {
        self.budgets.remove(&format!("{namespace}/{name}"));
        self.known.remove_budget(namespace, name);
        self.pass_budgets_on();
    }

    /// Passes on what budgets allow now.
    pub(super) fn pass_budgets_on(&mut self) {
        for known in self.budgets.values() {
            self.known.set_budget(known.left());
        }
    }

    /// A group of this scheduler appeared or changed.
    pub(super) fn put_own_group(&mut self, root: &PodGroup) -> Result<(), QueueError> {
        self.running.remove(root.full_name().as_str());
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
        self.running.insert(group.full_name().into(), alone);
        Ok(())
    }

    pub(super) fn remove_running_group(&mut self, namespace: &str, name: &str) {
        if self.running.remove(&format!("{namespace}/{name}")).is_some() {
            self.known.remove_group(namespace, name);
        }
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
        Work { budgets, running, known: RunningWork::new() }
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
