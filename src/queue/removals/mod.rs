//! Removals: the ledger of units that are to leave their nodes, for whom, and until when.
//!
//! A victim and a unit that moves are entries of one kind. The minimum that is left of a group,
//! budgets and the order of moves are decided here.

mod budgets;
mod ledger;
mod minimum;
mod removal;
mod steps;
mod surplus;
mod takeable;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
#[cfg(feature = "serde")]
use alloc::vec::Vec;

#[cfg(feature = "serde")]
use self::budgets::KnownBudget;
use self::budgets::Work;
use self::ledger::Ledger;
pub(in crate::queue) use self::removal::{Removal, Stage, Why, is_there, pod_name};
pub(in crate::queue) use self::steps::Among;
pub(in crate::queue) use self::surplus::{Surplus, SurplusGang};
pub(in crate::queue) use self::takeable::{Takeable, parted};
use crate::base::Time;
use crate::model::{Pod, PodGroup};
use crate::preempt::{DisruptionBudget, EvictedPod, RunningWork};
use crate::queue::groups::{Groups, full_name};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::state::{Cluster, Plan};

/// The ledger of removals.
#[derive(Debug, Default)]
pub(in crate::queue) struct Removals {
    entries: Ledger,
    /// Plans that decisions were made for.
    plans: BTreeMap<Ticket, Plan>,
    /// Pods whose eviction failed, by full name, and the time until which no other is asked for.
    refused: BTreeMap<String, Time>,
    /// Pods of units that have begun to go, by full name, that count as terminating though nobody
    /// reported it, or the other way round: they are late.
    assumed: BTreeSet<String>,
    /// Pods that a claim is about to ask for, by root group.
    coming: BTreeMap<String, BTreeSet<String>>,
    work: Work,
    /// Whether a change may help groups for which no victims were found.
    searches_due: bool,
}

/// A ledger as it is saved.
#[cfg(feature = "serde")]
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::queue) struct SavedRemovals {
    pub(in crate::queue) entries: Vec<Removal>,
    plans: Vec<(Ticket, Plan)>,
    refused: BTreeMap<String, Time>,
    assumed: BTreeSet<String>,
    budgets: BTreeMap<String, KnownBudget>,
    running: BTreeMap<String, PodGroup>,
    searches_due: bool,
}

impl Removals {
    /// Removals, in the order of the decisions.
    pub(in crate::queue) fn iter(&self) -> impl Iterator<Item = &Removal> {
        self.entries.iter()
    }

    /// Removals of one decision.
    pub(in crate::queue) fn of(&self, ticket: Ticket) -> impl Iterator<Item = &Removal> {
        let numbers = self.entries.numbers_of(ticket).into_iter();
        numbers.filter_map(|number| self.entries.get(number))
    }

    /// Units of a decision whose deadline is over, or that are due to be asked for again.
    pub(in crate::queue) fn due(
        &self,
        ticket: Ticket,
        now: Time,
    ) -> impl Iterator<Item = &Removal> {
        let numbers = self.entries.numbers_due(ticket, now).into_iter();
        numbers.filter_map(|number| self.entries.get(number))
    }

    /// Removals that make room for one group. O(log groups) and its removals.
    pub(in crate::queue) fn by(&self, id: GroupId) -> impl Iterator<Item = &Removal> {
        self.entries.by(id)
    }

    /// A unit of a decision, by its name.
    pub(in crate::queue) fn unit(&self, ticket: Ticket, name: &str) -> Option<&Removal> {
        self.entries.get(self.entries.unit(ticket, name)?)
    }

    /// The plan that a decision was made for, while a unit of it is to leave.
    pub(in crate::queue) fn plan(&self, ticket: Ticket) -> Option<&Plan> {
        self.plans.get(&ticket)
    }

    /// Whether a unit of a decision is to go now, as named there.
    pub(in crate::queue) fn is_open(&self, ticket: Ticket, name: &str) -> bool {
        self.unit(ticket, name).is_some_and(|own| own.retry_at().is_none())
    }

    /// The removals of a pod, by its full name, with the pod as it was named. O(log pods).
    pub(in crate::queue) fn of_pod(
        &self,
        name: &str,
    ) -> impl Iterator<Item = (&Removal, &EvictedPod)> {
        self.entries.of_pod(name)
    }

    /// Removals that have begun.
    pub(in crate::queue) fn begun(&self) -> impl Iterator<Item = &Removal> {
        self.entries.begun()
    }

    /// The root groups and members whose pods are to go. `find` returns those of a pod.
    pub(in crate::queue) fn members(
        &self,
        find: impl Fn(&str) -> Option<(GroupId, u64)>,
    ) -> BTreeMap<GroupId, BTreeSet<u64>> {
        let mut members: BTreeMap<GroupId, BTreeSet<u64>> = BTreeMap::new();
        for own in self.entries.iter().filter(|own| !own.is_later()) {
            for (id, seq) in own.names().filter_map(|name| find(&name)) {
                members.entry(id).or_default().insert(seq);
            }
        }
        members
    }

    /// The members of a group whose pods are to go. O(members · log pods).
    pub(in crate::queue) fn going(&self, groups: &Groups, root: GroupId) -> BTreeSet<u64> {
        let members = groups.get(&root).into_iter().flat_map(|own| own.members().iter());
        let goes = |pod: &Pod| self.of_pod(&full_name(pod)).any(|(own, _)| !own.is_later());
        members.filter(|(_, member)| goes(member.pod())).map(|(seq, _)| *seq).collect()
    }

    /// Whether the eviction of a pod has failed, and no other is to be asked for.
    pub(in crate::queue) fn refused_until(&self, pod: &str) -> Option<Time> {
        self.refused.get(pod).copied()
    }

    /// Whether a pod terminates by the embedder's word.
    fn terminates(&self, cluster: &Cluster, pod: &EvictedPod) -> bool {
        let view = cluster.pod(&pod.namespace, &pod.name);
        view.is_some_and(|view| view.deleting() != self.assumed.contains(&pod_name(pod)))
    }

    /// Sets whether a pod counts as terminating against what was reported, or turns that round. Returns
    /// whether it changed.
    pub(in crate::queue) fn set_assumed(&mut self, pod: String, assumed: Option<bool>) -> bool {
        let assumed = assumed.unwrap_or_else(|| !self.assumed.contains(&pod));
        if assumed { self.assumed.insert(pod) } else { self.assumed.remove(&pod) }
    }

    /// A search for victims may find what it did not before.
    pub(in crate::queue) fn set_searches_due(&mut self) {
        self.searches_due = true;
    }

    pub(in crate::queue) fn take_searches_due(&mut self) -> bool {
        core::mem::take(&mut self.searches_due)
    }

    /// A pod has left its node, whatever became of evictions before.
    pub(in crate::queue) fn forget_refusal(&mut self, pod: &str) {
        self.refused.remove(pod);
    }

    /// Time has passed for which a search for victims waited.
    pub(in crate::queue) fn forget_refused(&mut self, now: Time) {
        self.refused.retain(|_, until| *until > now);
        self.searches_due = true;
    }

    /// Running work, as searches read it.
    pub(in crate::queue) fn running_work(&self) -> &RunningWork {
        self.work.known()
    }

    /// Charges budgets with pods that are to go.
    pub(in crate::queue) fn charge<'a>(
        &mut self,
        cluster: &Cluster,
        pods: impl IntoIterator<Item = &'a EvictedPod>,
    ) {
        self.work.charge(cluster, pods);
        self.searches_due = true;
    }

    /// Gives back what budgets were charged for pods that stay.
    pub(in crate::queue) fn give_back<'a>(
        &mut self,
        pods: impl IntoIterator<Item = &'a EvictedPod>,
    ) {
        self.work.give_back(pods);
        self.searches_due = true;
    }

    /// Sets a budget. What it was charged for is kept as long as its pods are to go and it does not
    /// count them itself: their eviction has not begun.
    pub(in crate::queue) fn set_budget(&mut self, budget: DisruptionBudget) {
        let is_open = |pod: &str| self.entries.of_pod(pod).any(|(own, _)| !own.has_begun());
        self.work.set_budget(budget, is_open);
        self.searches_due = true;
    }

    pub(in crate::queue) fn remove_budget(&mut self, namespace: &str, name: &str) {
        self.work.remove_budget(namespace, name);
        self.searches_due = true;
    }

    /// A group of this scheduler appeared or changed.
    pub(in crate::queue) fn put_own_group(&mut self, root: &PodGroup) -> Result<(), QueueError> {
        self.searches_due = true;
        self.work.put_own_group(root)
    }

    pub(in crate::queue) fn remove_own_group(&mut self, root: &PodGroup) {
        self.work.remove_own_group(root);
    }

    /// A root group that another scheduler runs.
    pub(in crate::queue) fn put_running_group(
        &mut self,
        group: &PodGroup,
    ) -> Result<(), QueueError> {
        self.work.put_running_group(group)?;
        self.searches_due = true;
        Ok(())
    }

    pub(in crate::queue) fn remove_running_group(&mut self, namespace: &str, name: &str) {
        self.work.remove_running_group(namespace, name);
    }

    /// Puts a group of this scheduler in that continues from a save.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn restore_group(&mut self, root: &PodGroup) -> Result<(), QueueError> {
        self.work.restore_group(root)
    }

    /// Continues from a save; groups of this scheduler are to be put in before.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn restore_work(&mut self) {
        self.work.restore();
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn save(&self) -> SavedRemovals {
        let (budgets, running) = self.work.save();
        SavedRemovals {
            entries: self.entries.iter().map(Removal::save).collect(),
            plans: self.plans.iter().map(|(ticket, plan)| (*ticket, plan.clone())).collect(),
            refused: self.refused.clone(),
            assumed: self.assumed.clone(),
            budgets,
            running,
            searches_due: self.searches_due,
        }
    }

    /// A ledger that continues from a save, but for [`Removals::restore_work`].
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn restore(saved: SavedRemovals) -> Removals {
        let mut entries = Ledger::default();
        saved.entries.into_iter().for_each(|own| entries.add(own.restore()));
        Removals {
            entries,
            plans: saved.plans.into_iter().collect(),
            refused: saved.refused,
            assumed: saved.assumed,
            coming: BTreeMap::new(),
            work: Work::of(saved.budgets, saved.running),
            searches_due: saved.searches_due,
        }
    }
}
