//! Pods of a store, as the scheduler is shown them: spread over their owners, in their queues.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entries::{GroupKey, PodEntry, Terms};
use super::event::Kind;
use super::groups::application_of;
use super::store::{ObjectRef, Store};
use super::update::Update;
use crate::base::ObjectName;
use crate::kubernetes::groups::QUEUE_NAME;
use crate::kubernetes::koordinator;
use crate::kubernetes::membership::{Family, WorkloadKind};
use crate::kubernetes::queues::LocalQueues;
use crate::model::{LabelSelector, Labels, PodGroup};
use crate::state::Event;

/// Kinds whose lists are awaited before pods are told of.
const OWNER_LISTS: [Kind; 5] = [
    Kind::Pod,
    Kind::Service,
    Kind::ReplicationController,
    Kind::ReplicaSet,
    Kind::Submitted(WorkloadKind::StatefulSet),
];

impl Store {
    /// Takes a pod that appeared or changed.
    pub(super) fn put_pod(&mut self, key: &str, mut entry: PodEntry, updates: &mut Vec<Update>) {
        self.spread_by_owners(key, &mut entry);
        let described = application_of(&entry);
        self.begin_application(&entry, updates);
        let before = self.pods.get(key).and_then(application_of);
        if let Some(before) = before.filter(|before| Some(before) != described.as_ref()) {
            self.forget_description(key, &before, updates);
            self.put_entry(key, entry, updates);
            self.end_application(&before, updates);
        } else {
            self.put_entry(key, entry, updates);
        }
        if described.is_some() {
            self.describe(key, updates);
        }
    }

    fn put_entry(&mut self, key: &str, mut entry: PodEntry, updates: &mut Vec<Update>) {
        self.leave_role(key, &entry, updates);
        match self.pods.get_mut(key) {
            Some(old) if old.group == entry.group && old.object == entry.object => {
                entry.shown = core::mem::take(&mut old.shown);
                if old.ours == entry.ours
                    && old.inline == entry.inline
                    && old.pod.priority == entry.pod.priority
                    && old.local_queue == entry.local_queue
                    && (old.run_time == entry.run_time || !self.reads_run_times)
                {
                    *old = entry;
                    self.show(key, updates);
                    return;
                }
                self.leave_group(key);
            }
            Some(_) => self.remove_pod(key, updates),
            None => {}
        }
        self.pods.insert(key.to_owned(), entry);
        let group = self.join_group(key);
        if let Some(group) = group {
            self.refresh(&group, updates);
        }
        self.show(key, updates);
    }

    /// Tells of the end of a pod that goes into another role of its group: to the scheduler it is another
    /// pod.
    fn leave_role(&mut self, key: &str, entry: &PodEntry, updates: &mut Vec<Update>) {
        let Some(old) = self.pods.get_mut(key) else { return };
        let stays = old.group == entry.group && old.object == entry.object;
        if !stays || old.role == entry.role || !core::mem::take(&mut old.shown.told) {
            return;
        }
        (old.shown.pod, old.shown.finished) = (None, false);
        let (namespace, name) = (old.pod.namespace().to_owned(), old.pod.name.clone());
        updates.push(Update::Event(Event::PodDeleted { namespace, name, version: 0 }));
        if let Some(old) = self.pods.get(key) {
            self.keep_allocated(old, updates);
        }
    }

    pub(super) fn remove_pod(&mut self, key: &str, updates: &mut Vec<Update>) {
        let group = self.leave_group(key);
        let Some(entry) = self.pods.remove(key) else { return };
        let described = application_of(&entry);
        if let Some(application) = &described {
            self.forget_description(key, application, updates);
        }
        if self.blind.contains_key(key) {
            self.set_blind(key, None);
            self.layout_changed(updates);
        }
        if let Some(unreported) = entry.pod.node.as_ref().and_then(|on| self.unreported.get_mut(on))
        {
            unreported.remove(key);
        }
        let (namespace, name) = (entry.pod.namespace().to_owned(), entry.pod.name.clone());
        self.cards.vacate(&namespace, &name);
        if entry.shown.told {
            let namespace = namespace.clone();
            let deleted = Event::PodDeleted { namespace, name: name.clone(), version: 0 };
            updates.push(Update::Event(deleted));
        }
        if entry.shown.alone {
            let group = ObjectName::new(&namespace, &entry.alone_name());
            updates.push(Update::GroupRemoved { group });
        }
        self.keep_allocated(&entry, updates);
        if let Some(group) = &group {
            self.refresh(group, updates);
        }
        for application in described.iter().chain(&group) {
            self.end_application(application, updates);
        }
    }

    /// Shows the scheduler a pod as it is now, unless it knows it so.
    pub(super) fn show(&mut self, key: &str, updates: &mut Vec<Update>) {
        let reads_run_times = self.reads_run_times;
        let Some(entry) = self.pods.get(key) else { return };
        let queue = match &entry.group {
            None => self.queue_of(entry.pod.namespace(), entry.local_queue.as_deref(), ""),
            Some(_) => Ok(String::new()),
        };
        let fault = self.claim_fault(entry).or_else(|| entry.card_fault.clone());
        let Some(entry) = self.pods.get_mut(key) else { return };
        let instance = entry.group.as_ref().and_then(|group| self.instances.get(group));
        let refusal = match &queue {
            Ok(_) => instance.and_then(|instance| instance.refusal.as_deref()),
            Err(reason) => Some(reason.as_str()),
        };
        let refusal = fault.as_deref().or(refusal);
        let reason = entry.refusal.as_deref().or(refusal);
        let mut has_ended = false;
        let (namespace, name) = (entry.pod.namespace().to_owned(), entry.pod.name.clone());
        if let Some(reason) = reason.filter(|_| entry.waits())
            && entry.shown.left_alone.as_deref() != Some(reason)
        {
            let reason = reason.to_string();
            entry.shown.left_alone = Some(reason.clone());
            let (namespace, name) = (namespace.clone(), name.clone());
            updates.push(Update::LeftAlone { namespace, name, reason });
        }
        let policy = instance.and_then(|instance| instance.preemption);
        let leaf = match &entry.group {
            None => Some(entry.alone_name()),
            Some(_) => instance.and_then(|instance| instance.leaf(entry)),
        };
        let alone = entry.group.is_none();
        // The scheduler drops a member whose role its group has no longer.
        let leaf_is_missing = leaf.is_none();
        if entry.finished {
            if alone || leaf.is_none() {
                entry.shown.pod = None;
                if core::mem::take(&mut entry.shown.told) {
                    has_ended = true;
                    let (namespace, name) = (namespace.clone(), name);
                    updates.push(Update::Event(Event::PodDeleted { namespace, name, version: 0 }));
                }
            } else if !entry.shown.finished {
                if entry.shown.pod.take().is_none() {
                    let mut pod = entry.in_leaf(leaf, None, policy);
                    pod.node = None;
                    updates.push(Update::Event(Event::PodChanged { pod, version: 0 }));
                }
                has_ended = true;
                entry.shown.finished = true;
                entry.shown.told = true;
                let namespace = namespace.clone();
                updates.push(Update::PodFinished { namespace, name });
            }
        } else if entry.pod.node.is_some() || entry.waits() && leaf.is_some() {
            let pod = entry.in_leaf(leaf.filter(|_| !alone || entry.waits()), refusal, policy);
            let mut terms = Terms::default();
            if alone && entry.waits() {
                let run_time = entry.run_time.filter(|_| reads_run_times);
                terms = Terms { queue: queue.unwrap_or_default(), run_time };
            }
            let terms = Some(terms).filter(|terms| *terms != Terms::default()).map(Box::new);
            if entry.shown.pod.as_ref() != Some(&pod) || entry.shown.terms != terms {
                entry.shown.pod = Some(pod.clone());
                entry.shown.told = true;
                entry.shown.terms = terms;
                if alone && entry.waits() {
                    entry.shown.alone = true;
                    let mut group = PodGroup::basic(entry.alone_name()).in_namespace(&*namespace);
                    if let Some(terms) = &entry.shown.terms {
                        group.queue.clone_from(&terms.queue);
                        group.run_time_estimate = terms.run_time;
                    }
                    let mut group = group.priority(pod.priority).pod(pod);
                    koordinator::take_quota(&mut group);
                    updates.push(Update::Group(group));
                } else {
                    updates.push(Update::Event(Event::PodChanged { pod, version: 0 }));
                }
            }
        }
        if !alone && leaf_is_missing && entry.waits() {
            entry.hide();
        }
        if entry.shown.alone && !entry.waits() {
            // The pod runs; as a group it is done with.
            entry.shown.alone = false;
            let group = ObjectName::new(&namespace, &entry.alone_name());
            updates.push(Update::GroupRemoved { group });
        }
        if has_ended && let Some(entry) = self.pods.get(key) {
            self.keep_allocated(entry, updates);
        }
    }

    /// Gives a pod that waits the selector of its owners. One that runs keeps the selector by which it
    /// was placed, so that its binding is no news.
    pub(super) fn spread_by_owners(&mut self, key: &str, entry: &mut PodEntry) {
        let selector = if entry.waits() {
            self.owners.selector(entry.pod.shape(), entry.controller.as_deref())
        } else {
            let known = self.pods.get(key).filter(|known| known.pod.uid == entry.pod.uid);
            known.and_then(|known| known.pod.shape().owner_selector.clone())
        };
        self.set_owner_selector(entry, selector);
    }

    /// Sets the selector by which a pod is spread.
    fn set_owner_selector(&mut self, entry: &mut PodEntry, selector: Option<LabelSelector>) {
        if entry.pod.shape().owner_selector == selector {
            return;
        }
        if let Some(asking) = &mut entry.asking {
            Arc::make_mut(&mut asking.shape).owner_selector.clone_from(&selector);
        }
        entry.pod.shape_mut().owner_selector = selector;
        let pod = core::mem::take(&mut entry.pod);
        entry.pod = self.interned(pod);
    }

    /// Takes a change of a service or a controller in.
    pub(super) fn owner_changed(&mut self, key: &str, updates: &mut Vec<Update>) {
        let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
        self.changed_owners.insert(namespace.to_owned());
        self.tell_spread(updates);
    }

    /// Forgets a service or a controller.
    pub(super) fn remove_owner(&mut self, owner: &str, key: &str, updates: &mut Vec<Update>) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        self.owners.forget(owner, namespace, name);
        self.owner_changed(key, updates);
    }

    /// Tells of the pods whose owners have changed, once no list of owners or pods is under way: lists
    /// would tell of every pod again for each object. O(pods of the namespaces).
    pub(super) fn tell_spread(&mut self, updates: &mut Vec<Update>) {
        if OWNER_LISTS.iter().any(|kind| self.listing[kind.index()]) {
            return;
        }
        for namespace in core::mem::take(&mut self.changed_owners) {
            let first = format!("{namespace}/");
            let pods = self.pods.range(first.clone()..);
            let pods = pods.take_while(|(key, _)| key.starts_with(&first));
            let changed = pods.filter(|(_, entry)| {
                let own = &entry.pod.shape().owner_selector;
                let controller = entry.controller.as_deref();
                entry.waits() && self.owners.selector(entry.pod.shape(), controller) != *own
            });
            for key in changed.map(|(key, _)| key.clone()).collect::<Vec<String>>() {
                let Some(mut entry) = self.pods.remove(&key) else { continue };
                let selector = self.owners.selector(entry.pod.shape(), entry.controller.as_deref());
                self.set_owner_selector(&mut entry, selector);
                self.pods.insert(key.clone(), entry);
                self.show(&key, updates);
            }
        }
    }

    /// Replaces the rule by which groups find the queues of tenants, when queues change. Groups whose
    /// queue changes, or that have one now, are shown anew. O(groups and pods).
    pub fn set_queues(&mut self, queues: LocalQueues) -> Vec<Update> {
        self.queues = Some(queues);
        let mut updates = Vec::new();
        for group in self.instances.keys().cloned().collect::<Vec<_>>() {
            self.refresh(&group, &mut updates);
        }
        let alone = self.pods.iter().filter(|(_, entry)| entry.group.is_none());
        for pod in alone.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.show(&pod, &mut updates);
        }
        updates
    }

    /// Puts the groups of a namespace in their queues anew: a queue may take it now.
    pub(super) fn namespace_changed(&mut self, namespace: &str, updates: &mut Vec<Update>) {
        if self.queues.is_none() {
            return;
        }
        let first = GroupKey::of_name(namespace, "");
        let groups = self.instances.range(&first..).map(|(key, _)| key);
        let groups = groups.take_while(|key| key.namespace == namespace);
        for group in groups.cloned().collect::<Vec<_>>() {
            self.refresh(&group, updates);
        }
        let first = format!("{namespace}/");
        let pods = self.pods.range(first.clone()..).take_while(|(key, _)| key.starts_with(&first));
        let alone = pods.filter(|(_, entry)| entry.group.is_none()).map(|(key, _)| key.clone());
        for pod in alone.collect::<Vec<_>>() {
            self.show(&pod, updates);
        }
    }

    /// The queue of a group that has a label for it, or names one itself, or neither.
    ///
    /// # Errors
    /// The reason for which it is in no queue.
    pub(super) fn queue_of(
        &self,
        namespace: &str,
        label: Option<&str>,
        own: &str,
    ) -> Result<String, String> {
        let none = Labels::new();
        let is_local = label.is_some() || own.is_empty();
        let Some(queues) = self.queues.as_ref().filter(|_| is_local) else {
            return Ok(own.to_owned());
        };
        let local = label.unwrap_or("default");
        let labels = self.namespaces.get(namespace).unwrap_or(&none);
        let queue = queues.cluster_queue(namespace, labels, local);
        queue.map(str::to_owned).ok_or_else(|| match label {
            Some(_) => format!(
                "queue {namespace}/{local} is not there, is stopped, or does not take the namespace"
            ),
            None => format!("it names no queue by the label {QUEUE_NAME}"),
        })
    }
}

/// Questions: pods, members of groups, and why some are missing.
impl Store {
    /// The uid of a pod; `None` if it is not known.
    pub fn pod_uid(&self, namespace: &str, name: &str) -> Option<&str> {
        let pod = self.pods.get(&format!("{namespace}/{name}"))?;
        Some(&pod.pod.uid)
    }

    /// A pod; `None` if it is not known.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<ObjectRef> {
        let uid = self.pod_uid(namespace, name)?.to_owned();
        Some(ObjectRef { namespace: namespace.to_owned(), name: name.to_owned(), uid })
    }

    /// The waiting pods of a group of the scheduler, by its full name: those that it may place.
    pub fn waiting_pods(&self, group: &str) -> Vec<ObjectRef> {
        let mut pods = Vec::new();
        let mut add = |entry: &PodEntry| {
            if entry.waits() {
                let (namespace, name) = (entry.pod.namespace().to_owned(), entry.pod.name.clone());
                pods.push(ObjectRef { namespace, name, uid: entry.pod.uid.clone() });
            }
        };
        let Some((namespace, name)) = group.split_once('/') else { return pods };
        let key = GroupKey::of_name(namespace, name);
        if let Some(pod) = name.strip_prefix("pod:") {
            self.pods.get(&format!("{namespace}/{pod}")).into_iter().for_each(&mut add);
        } else if key.family == Family::Composite {
            let leaves = self.trees.leaves(&key).filter_map(|leaf| self.instances.get(leaf));
            let members = leaves.flat_map(|instance| &instance.members);
            members.filter_map(|pod| self.pods.get(pod)).for_each(add);
        } else if let Some(instance) = self.instances.get(&key) {
            instance.members.iter().filter_map(|pod| self.pods.get(pod)).for_each(add);
        }
        pods
    }

    /// A member of a group of pods, by its full name in the scheduler, that waits and is left alone,
    /// with the reason: its partners wait for it. `None` if there is none.
    pub fn left_alone(&self, group: &str) -> Option<(ObjectRef, &str)> {
        let (namespace, name) = group.split_once('/')?;
        let instance = self.instances.get(&GroupKey::of_name(namespace, name))?;
        let members = instance.members.iter().filter_map(|pod| self.pods.get(pod));
        let refusal = instance.refusal.as_deref();
        let mut waiting = members.filter(|entry| entry.waits());
        waiting.find_map(|entry| {
            let reason = entry.refusal.as_deref().or(refusal)?;
            let (namespace, name) = (entry.pod.namespace().to_owned(), entry.pod.name.clone());
            Some((ObjectRef { namespace, name, uid: entry.pod.uid.clone() }, reason))
        })
    }

    /// The pod groups of `scheduling.k8s.io` behind a group of the scheduler, by its full name: one,
    /// or those in the tree of a composite group; none for other groups.
    pub fn pod_groups(&self, group: &str) -> Vec<ObjectRef> {
        let Some((namespace, name)) = group.split_once('/') else { return Vec::new() };
        let key = GroupKey::of_name(namespace, name);
        if key.family != Family::Composite {
            return self.pod_group(group).into_iter().collect();
        }
        let names = self.trees.leaves(&key).map(|leaf| format!("{}/{}", leaf.namespace, leaf.name));
        names.filter_map(|name| self.pod_group(&name)).collect()
    }

    /// A `ResourceQuota` that keeps a further member of a group from being made, in words: as much as the
    /// first known member requests is not left of it. `None` if there is none, or no member is known.
    ///
    /// A group whose members are missing waits for its controller, which cannot make them. Quotas with scopes
    /// are not looked at.
    pub fn quota_in_the_way(&self, group: &str) -> Option<String> {
        let (namespace, name) = group.split_once('/')?;
        let instance = self.instances.get(&GroupKey::of_name(namespace, name))?;
        let member = self.pods.get(instance.members.first()?)?;
        let first = format!("{namespace}/");
        let own = self.quotas.range(first.clone()..).take_while(|(key, _)| key.starts_with(&first));
        own.flat_map(|(key, quota)| quota.lacks(member.pod.shape()).map(move |text| (key, text)))
            .map(|(key, text)| format!("ResourceQuota {key} allows no other: {text}"))
            .next()
    }
}
