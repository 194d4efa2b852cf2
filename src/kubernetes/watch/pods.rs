//! Pods of a store: what is known of each, and what of it the scheduler knows.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::groups::GroupKey;
use super::store::Store;
use super::update::Update;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::{InlineGang, Membership};
use crate::kubernetes::metadata;
use crate::kubernetes::pod::{self, Fate, PodRecord};
use crate::model::{Pod, PodGroup};
use crate::state::Event;

/// A pod as its last event describes it.
#[derive(Debug)]
pub(super) struct PodEntry {
    pub(super) pod: Pod,
    pub(super) scheduler: Option<String>,
    /// Whether it names the scheduler of the store.
    pub(super) ours: bool,
    finished: bool,
    /// The group that it names.
    pub(super) group: Option<GroupKey>,
    /// The object that describes its group.
    pub(super) object: Option<GroupKey>,
    pub(super) role: Option<String>,
    pub(super) inline: Option<InlineGang>,
    /// The reason to leave it alone.
    refusal: Option<String>,
    shown: Shown,
}

/// What the scheduler knows of a pod.
#[derive(Debug, Default)]
struct Shown {
    pod: Option<Pod>,
    /// Whether it is a group of one there.
    alone: bool,
    finished: bool,
    left_alone: Option<String>,
}

impl PodEntry {
    /// Reads a pod; `None` if it has failed, or is being deleted before it ran.
    pub(super) fn read(root: &Field<'_>) -> Fault<Option<PodEntry>> {
        let succeeded = match root.get("status")? {
            Some(status) => status.text_of("phase")? == "Succeeded",
            None => false,
        };
        let record = match pod::pod(root)? {
            Fate::Kept(record) => *record,
            Fate::Finished if succeeded => {
                let mut record = pod::template(root, metadata::namespace(root)?)?;
                record.pod.name = metadata::name(root)?;
                record
            }
            Fate::Finished | Fate::Abandoned => return Ok(None),
        };
        Ok(Some(PodEntry::new(record, succeeded)))
    }

    fn new(record: PodRecord, finished: bool) -> PodEntry {
        let PodRecord { mut pod, priority, scheduler, membership, unmodelled, .. } = record;
        pod.priority = priority.unwrap_or(0);
        let key = |membership: &Membership, name: &str| GroupKey {
            family: membership.family,
            namespace: pod.namespace().to_owned(),
            name: name.to_owned(),
        };
        let group = membership.as_deref().map(|of| key(of, &of.group));
        let object = membership.as_deref().map(|of| key(of, &of.object));
        let (role, inline) =
            membership.map_or((None, None), |of| (of.role, of.inline.map(|inline| *inline)));
        let refusal = (!unmodelled.is_empty() && pod.node.is_none())
            .then(|| format!("{} not supported by this scheduler", unmodelled.join(" and ")));
        let scheduler = scheduler.map(str::into_string);
        let shown = Shown::default();
        PodEntry {
            pod,
            scheduler,
            ours: false,
            finished,
            group,
            object,
            role,
            inline,
            refusal,
            shown,
        }
    }

    /// Whether it waits for the scheduler of the store.
    pub(super) fn waits(&self) -> bool {
        self.ours && self.pod.node.is_none() && !self.finished
    }

    /// Whether the scheduler counts it as a member now.
    pub(super) fn is_member(&self) -> bool {
        !self.finished && (self.ours || self.pod.node.is_some())
    }

    /// The pod as a member of a leaf, and records that the scheduler knows it so.
    pub(super) fn show_in(&mut self, leaf: Option<String>, refusal: Option<&str>) -> Pod {
        let pod = self.in_leaf(leaf, refusal);
        self.shown.pod = Some(pod.clone());
        pod
    }

    fn in_leaf(&self, leaf: Option<String>, refusal: Option<&str>) -> Pod {
        let mut pod = self.pod.clone();
        pod.group = leaf;
        let refusal = self.refusal.as_deref().or(refusal);
        if let Some(reason) = refusal.filter(|_| pod.node.is_none()) {
            pod.scheduling_gates.push(reason.to_owned());
        }
        pod
    }

    /// Records that the scheduler has forgotten the group of the pod.
    pub(super) fn hide(&mut self) {
        if self.shown.pod.as_ref().is_some_and(|pod| pod.node.is_none()) {
            self.shown.pod = None;
        }
        self.shown.finished = false;
    }

    fn alone_name(&self) -> String {
        format!("pod:{}", self.pod.name)
    }
}

impl Store {
    /// Takes a pod that appeared or changed.
    pub(super) fn put_pod(&mut self, key: &str, mut entry: PodEntry, updates: &mut Vec<Update>) {
        match self.pods.get_mut(key) {
            Some(old) if old.group == entry.group && old.object == entry.object => {
                entry.shown = core::mem::take(&mut old.shown);
                if old.inline == entry.inline && old.pod.priority == entry.pod.priority {
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
        let (namespace, name) = (entry.pod.namespace().to_owned(), entry.pod.name.clone());
        if entry.shown.pod.is_some() || entry.shown.finished {
            let namespace = namespace.clone();
            let deleted = Event::PodDeleted { namespace, name: name.clone(), version: 0 };
            updates.push(Update::Event(deleted));
        }
        if entry.shown.alone {
            let group = format!("{namespace}/{}", entry.alone_name());
            updates.push(Update::GroupRemoved { group });
        }
        if let Some(group) = group {
            self.refresh(&group, updates);
        }
    }

    /// Shows the scheduler a pod as it is now, unless it knows it so.
    pub(super) fn show(&mut self, key: &str, updates: &mut Vec<Update>) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        let instance = entry.group.as_ref().and_then(|group| self.instances.get(group));
        let refusal = instance.and_then(|instance| instance.refusal.as_deref());
        let reason = entry.refusal.as_deref().or(refusal);
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
                if entry.shown.pod.take().is_some() {
                    let (namespace, name) = (namespace.clone(), name);
                    updates.push(Update::Event(Event::PodDeleted { namespace, name, version: 0 }));
                }
            } else if !entry.shown.finished {
                if entry.shown.pod.take().is_none() {
                    let mut pod = entry.in_leaf(leaf, None);
                    pod.node = None;
                    updates.push(Update::Event(Event::PodChanged { pod, version: 0 }));
                }
                entry.shown.finished = true;
                let namespace = namespace.clone();
                updates.push(Update::PodFinished { namespace, name });
            }
        } else if entry.pod.node.is_some() || entry.waits() && leaf.is_some() {
            let pod = entry.in_leaf(leaf.filter(|_| !alone || entry.waits()), refusal);
            if entry.shown.pod.as_ref() != Some(&pod) {
                entry.shown.pod = Some(pod.clone());
                if alone && entry.waits() {
                    entry.shown.alone = true;
                    let group = PodGroup::basic(entry.alone_name()).in_namespace(&*namespace);
                    updates.push(Update::Group(group.priority(pod.priority).pod(pod)));
                } else {
                    updates.push(Update::Event(Event::PodChanged { pod, version: 0 }));
                }
            }
        }
        if entry.shown.alone && !entry.waits() {
            // The pod runs; as a group it is done with.
            entry.shown.alone = false;
            let group = format!("{namespace}/{}", entry.alone_name());
            updates.push(Update::GroupRemoved { group });
        }
    }
}
