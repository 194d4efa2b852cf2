//! Pods of a store, as the scheduler is shown them.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::entries::PodEntry;
use super::store::Store;
use super::update::Update;
use crate::base::ObjectName;
use crate::kubernetes::koordinator;
use crate::model::PodGroup;
use crate::state::Event;

impl Store {
    /// Takes a pod that appeared or changed.
    pub(super) fn put_pod(&mut self, key: &str, mut entry: PodEntry, updates: &mut Vec<Update>) {
        match self.pods.get_mut(key) {
            Some(old) if old.group == entry.group && old.object == entry.object => {
                entry.shown = core::mem::take(&mut old.shown);
                if old.inline == entry.inline
                    && old.pod.priority == entry.pod.priority
                    && old.local_queue == entry.local_queue
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

    pub(super) fn remove_pod(&mut self, key: &str, updates: &mut Vec<Update>) {
        let group = self.leave_group(key);
        let Some(entry) = self.pods.remove(key) else { return };
        if self.blind.contains_key(key) {
            self.set_blind(key, None);
            self.layout_changed(updates);
        }
        let (namespace, name) = (entry.pod.namespace().to_owned(), entry.pod.name.clone());
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
        if let Some(group) = group {
            self.refresh(&group, updates);
        }
    }

    /// Shows the scheduler a pod as it is now, unless it knows it so.
    pub(super) fn show(&mut self, key: &str, updates: &mut Vec<Update>) {
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
        let leaf = match &entry.group {
            None => Some(entry.alone_name()),
            Some(_) => instance.and_then(|instance| instance.leaf(entry)),
        };
        let alone = entry.group.is_none();
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
                    let mut pod = entry.in_leaf(leaf, None);
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
            let pod = entry.in_leaf(leaf.filter(|_| !alone || entry.waits()), refusal);
            if entry.shown.pod.as_ref() != Some(&pod) {
                entry.shown.pod = Some(pod.clone());
                entry.shown.told = true;
                if alone && entry.waits() {
                    entry.shown.alone = true;
                    let mut group = PodGroup::basic(entry.alone_name()).in_namespace(&*namespace);
                    group.queue = queue.unwrap_or_default();
                    let mut group = group.priority(pod.priority).pod(pod);
                    koordinator::take_quota(&mut group);
                    updates.push(Update::Group(group));
                } else {
                    updates.push(Update::Event(Event::PodChanged { pod, version: 0 }));
                }
            }
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
}
