//! Ledger: removals by number, and the ways to find them.
//!
//! Each change of an entry keeps the indexes in step, O(log entries). Pods are looked at again where
//! the cluster's journal names their node.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::removal::{Removal, pod_name};
use crate::base::{ObjectName, Time};
use crate::preempt::EvictedPod;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::state::Cluster;
use crate::state::journal::{Change, Moment, NodeChange};

/// The number of an entry: entries go by the order of the decisions, and within a decision by its own.
pub(super) type Number = u64;

/// A pod of an entry: its place in the unit.
type Place = (Number, usize);

/// The entries with their indexes.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: BTreeMap<Number, Removal>,
    next: Number,
    /// By decision and name of the unit.
    units: BTreeMap<Ticket, BTreeMap<ObjectName, BTreeSet<Number>>>,
    /// By the group that room is made for.
    makes_room: BTreeMap<GroupId, BTreeSet<Number>>,
    /// By full name.
    pods: BTreeMap<String, BTreeSet<Place>>,
    /// By node.
    nodes: BTreeMap<String, BTreeSet<Place>>,
    /// By the full name of the root group, of this scheduler or another.
    roots: BTreeMap<String, BTreeSet<Number>>,
    /// The next deadline of each entry that has one, by decision.
    deadlines: BTreeMap<Ticket, BTreeSet<(Time, Number)>>,
    /// Entries that were not asked for yet.
    later: BTreeSet<Number>,
    /// Entries that have begun.
    begun: BTreeSet<Number>,
    /// Entries that were asked for and have not begun, by the group of this scheduler.
    open: BTreeMap<GroupId, BTreeSet<Number>>,
    /// The moment up to which pods were looked at.
    seen: Moment,
    /// Entries that were added since.
    new: BTreeSet<Number>,
}

impl Ledger {
    /// The entries, in the order of the decisions.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Removal> {
        self.entries.values()
    }

    pub(super) fn numbers(&self) -> Vec<Number> {
        self.entries.keys().copied().collect()
    }

    pub(super) fn get(&self, number: Number) -> Option<&Removal> {
        self.entries.get(&number)
    }

    /// The entries that have begun, in the order of the decisions.
    pub(super) fn begun(&self) -> impl Iterator<Item = &Removal> {
        self.begun.iter().filter_map(|number| self.entries.get(number))
    }

    /// Numbers of the entries of a group that were asked for and have not begun.
    pub(super) fn open_of(&self, root: GroupId) -> impl Iterator<Item = Number> {
        self.open.get(&root).into_iter().flatten().copied()
    }

    /// Numbers of the entries of a decision, in its order.
    pub(super) fn numbers_of(&self, ticket: Ticket) -> BTreeSet<Number> {
        let units = self.units.get(&ticket).into_iter().flat_map(BTreeMap::values);
        units.flatten().copied().collect()
    }

    /// Numbers of the entries of a unit.
    pub(super) fn numbers_of_unit(&self, ticket: Ticket, name: &str) -> Vec<Number> {
        let numbers = self.units.get(&ticket).and_then(|units| units.get(name));
        numbers.into_iter().flatten().copied().collect()
    }

    /// Numbers of the entries of a root group, by its full name.
    pub(super) fn numbers_of_root(&self, root: &str) -> Vec<Number> {
        self.roots.get(root).into_iter().flatten().copied().collect()
    }

    /// Numbers of the entries that make room for a group.
    pub(super) fn numbers_by(&self, id: GroupId) -> Vec<Number> {
        self.makes_room.get(&id).into_iter().flatten().copied().collect()
    }

    /// Numbers of the entries of a decision whose deadline is over, in its order.
    pub(super) fn numbers_due(&self, ticket: Ticket, now: Time) -> BTreeSet<Number> {
        let all = self.deadlines.get(&ticket).into_iter();
        let due = all.flat_map(|all| all.range(..=(now, Number::MAX)));
        due.map(|(_, number)| *number).collect()
    }

    /// Entries of a decision whose deadline is over, by deadline.
    pub(super) fn over(&self, ticket: Ticket, now: Time) -> impl Iterator<Item = &Removal> {
        let all = self.deadlines.get(&ticket).into_iter();
        let over = all.flat_map(move |all| all.range(..=(now, Number::MAX)));
        over.filter_map(|(_, number)| self.entries.get(number))
    }

    /// The next deadline of a decision.
    pub(super) fn next_deadline(&self, ticket: Ticket) -> Option<Time> {
        self.deadlines.get(&ticket)?.first().map(|(deadline, _)| *deadline)
    }

    /// The entries of a root group, by its full name.
    pub(super) fn of_root(&self, root: &str) -> impl Iterator<Item = &Removal> {
        let numbers = self.roots.get(root).into_iter().flatten();
        numbers.filter_map(|number| self.entries.get(number))
    }

    /// The entries that were not asked for yet.
    pub(super) fn later(&self) -> impl Iterator<Item = &Removal> {
        self.later.iter().filter_map(|number| self.entries.get(number))
    }

    /// The entries that make room for a group, in the order of the decisions.
    pub(super) fn by(&self, id: GroupId) -> impl Iterator<Item = &Removal> {
        let numbers = self.makes_room.get(&id).into_iter().flatten();
        numbers.filter_map(|number| self.entries.get(number))
    }

    /// Whether a unit of a decision is to leave.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.units.contains_key(&ticket)
    }

    /// The number of the first entry of a unit.
    pub(super) fn unit(&self, ticket: Ticket, name: &str) -> Option<Number> {
        self.units.get(&ticket)?.get(name)?.first().copied()
    }

    /// The entries of a pod, in the order of the decisions.
    pub(super) fn of_pod(&self, name: &str) -> impl Iterator<Item = (&Removal, &EvictedPod)> {
        let places = self.pods.get(name).into_iter().flatten();
        places.filter_map(|(number, at)| {
            let own = self.entries.get(number)?;
            Some((own, own.pod(*at)?))
        })
    }

    /// Adds an entry, unless all of its pods have gone.
    pub(super) fn add(&mut self, own: Removal) {
        if own.has_gone() {
            return;
        }
        let number = self.next;
        self.next += 1;
        for (at, pod) in own.placed() {
            self.pods.entry(pod_name(pod)).or_default().insert((number, at));
            self.nodes.entry(pod.node.clone()).or_default().insert((number, at));
        }
        let units = self.units.entry(own.ticket).or_default();
        units.entry(own.unit.name.clone()).or_default().insert(number);
        self.makes_room.entry(own.by).or_default().insert(number);
        if let Some(root) = &own.root_name {
            self.roots.entry(root.clone()).or_default().insert(number);
        }
        self.new.insert(number);
        self.enter_stage(number, &own);
        self.entries.insert(number, own);
    }

    /// More pods of an entry are to leave with it.
    pub(super) fn add_pods(&mut self, number: Number, pods: Vec<EvictedPod>) {
        let Some(own) = self.entries.get_mut(&number) else { return };
        for pod in pods {
            let (name, node) = (pod_name(&pod), pod.node.clone());
            let at = own.add_pod(pod);
            self.pods.entry(name).or_default().insert((number, at));
            self.nodes.entry(node).or_default().insert((number, at));
        }
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, number: Number) -> Option<Removal> {
        let own = self.entries.remove(&number)?;
        self.leave_stage(number, &own);
        for (at, pod) in own.placed() {
            self.forget_pod(pod, (number, at));
        }
        self.new.remove(&number);
        if let Some(numbers) = self.makes_room.get_mut(&own.by) {
            numbers.remove(&number);
        }
        self.makes_room.retain_one(&own.by);
        if let Some(root) = &own.root_name {
            if let Some(numbers) = self.roots.get_mut(root) {
                numbers.remove(&number);
            }
            self.roots.retain_one(root);
        }
        if let Some(units) = self.units.get_mut(&own.ticket) {
            if let Some(numbers) = units.get_mut(&own.unit.name) {
                numbers.remove(&number);
            }
            units.retain_one(&own.unit.name);
            if units.is_empty() {
                self.units.remove(&own.ticket);
            }
        }
        Some(own)
    }

    /// Changes how far an entry has come. Its pods stay.
    pub(super) fn change<T>(
        &mut self,
        number: Number,
        change: impl FnOnce(&mut Removal) -> T,
    ) -> Option<T> {
        let mut own = self.entries.remove(&number)?;
        self.leave_stage(number, &own);
        let answer = change(&mut own);
        self.enter_stage(number, &own);
        self.entries.insert(number, own);
        Some(answer)
    }

    /// A pod of an entry is not to leave any more. The entry ends with the last of them.
    pub(super) fn drop_pod(&mut self, number: Number, at: usize) -> Option<EvictedPod> {
        let own = self.entries.get_mut(&number)?;
        let pod = own.drop_pod(at)?;
        let has_gone = own.has_gone();
        self.forget_pod(&pod, (number, at));
        if has_gone {
            self.remove(number);
        }
        Some(pod)
    }

    /// The places of pods that may have changed since this was last asked, by entry.
    pub(super) fn take_changed(&mut self, cluster: &Cluster) -> BTreeMap<Number, BTreeSet<usize>> {
        let nodes = self.changed_nodes(cluster);
        self.seen = cluster.moment();
        let new = core::mem::take(&mut self.new);
        let mut changed: BTreeMap<Number, BTreeSet<usize>> = BTreeMap::new();
        let whole: Vec<Number> = match &nodes {
            Some(_) => new.into_iter().collect(),
            None => self.numbers(),
        };
        for number in whole {
            let places = self.entries.get(&number).into_iter().flat_map(Removal::placed);
            changed.insert(number, places.map(|(at, _)| at).collect());
        }
        let named = nodes.into_iter().flatten();
        for &(number, at) in named.filter_map(|node| self.nodes.get(&node)).flatten() {
            changed.entry(number).or_default().insert(at);
        }
        changed
    }

    /// The nodes whose pods have changed; `None` if that is not known, or nodes came or went.
    fn changed_nodes(&self, cluster: &Cluster) -> Option<BTreeSet<String>> {
        let mut nodes = BTreeSet::new();
        for change in cluster.journal.since(self.seen)? {
            match change {
                Change::Pods { row, .. } => {
                    nodes.insert(cluster.view(row.into())?.name().to_owned());
                }
                Change::Node { change, .. }
                    if change.has(NodeChange::ADDED.and(NodeChange::REMOVED, true)) =>
                {
                    return None;
                }
                // A group may wait for a resource claim that is of no node.
                Change::Claims => return None,
                Change::Node { .. } | Change::Namespaces | Change::Storage | Change::Parked => {}
            }
        }
        Some(nodes)
    }

    fn forget_pod(&mut self, pod: &EvictedPod, place: Place) {
        let name = pod_name(pod);
        for (index, key) in [(&mut self.pods, &name), (&mut self.nodes, &pod.node)] {
            if let Some(places) = index.get_mut(key) {
                places.remove(&place);
            }
            index.retain_one(key);
        }
    }

    fn enter_stage(&mut self, number: Number, own: &Removal) {
        if let Some(deadline) = own.deadline() {
            self.deadlines.entry(own.ticket).or_default().insert((deadline, number));
        } else {
            self.later.insert(number);
        }
        if own.has_begun() {
            self.begun.insert(number);
        } else if let Some(root) = own.root.filter(|_| !own.is_later()) {
            self.open.entry(root).or_default().insert(number);
        }
    }

    fn leave_stage(&mut self, number: Number, own: &Removal) {
        self.begun.remove(&number);
        self.later.remove(&number);
        if let Some(deadline) = own.deadline() {
            if let Some(deadlines) = self.deadlines.get_mut(&own.ticket) {
                deadlines.remove(&(deadline, number));
            }
            self.deadlines.retain_one(&own.ticket);
        }
        if let Some(root) = own.root {
            if let Some(open) = self.open.get_mut(&root) {
                open.remove(&number);
            }
            self.open.retain_one(&root);
        }
    }
}

/// An index that keeps no empty sets.
trait Index<K> {
    /// Drops the set of a key if it is empty.
    fn retain_one(&mut self, key: &K);
}

impl<K: Ord, V: Ord> Index<K> for BTreeMap<K, BTreeSet<V>> {
    fn retain_one(&mut self, key: &K) {
        if self.get(key).is_some_and(BTreeSet::is_empty) {
            self.remove(key);
        }
    }
}
