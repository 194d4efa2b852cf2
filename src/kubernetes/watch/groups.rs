//! Groups of a store, one by one: the objects that describe them, the pods that name them.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::entries::{GroupKey, Instance, PodEntry, family};
use super::event::Kind;
use super::store::Store;
use super::trees::{Place, composite_name, parent_of};
use super::update::Update;
use crate::base::ObjectName;
use crate::kubernetes::groups::{self, GroupObject};
use crate::kubernetes::membership::{Family, InlineGang};
use crate::model::{GroupPolicy, PodGroup};

impl Store {
    /// Adds a pod to the group that it names, and returns the group.
    pub(super) fn join_group(&mut self, pod: &str) -> Option<GroupKey> {
        let entry = self.pods.get(pod)?;
        let (group, object) = (entry.group.clone()?, entry.object.clone()?);
        let instance = self.instances.entry(group.clone()).or_insert_with(|| Instance {
            object,
            members: BTreeSet::new(),
            ours: 0,
            priorities: BTreeMap::new(),
            describing: BTreeSet::new(),
            shown: None,
            refusal: None,
            preemption: None,
            root: None,
        });
        instance.members.insert(pod.to_owned());
        instance.ours += usize::from(entry.ours);
        *instance.priorities.entry(entry.pod.priority).or_default() += 1;
        if entry.inline.is_some() {
            instance.describing.insert(pod.to_owned());
        }
        Some(group)
    }

    /// Takes a pod out of its group, and returns the group.
    pub(super) fn leave_group(&mut self, pod: &str) -> Option<GroupKey> {
        let entry = self.pods.get(pod)?;
        let group = entry.group.clone()?;
        let instance = self.instances.get_mut(&group)?;
        if instance.members.remove(pod) {
            instance.ours -= usize::from(entry.ours);
            instance.describing.remove(pod);
            if let Some(count) = instance.priorities.get_mut(&entry.pod.priority) {
                *count -= 1;
                if *count == 0 {
                    instance.priorities.remove(&entry.pod.priority);
                }
            }
        }
        Some(group)
    }

    /// Takes an object that describes a group.
    pub(super) fn put_object(&mut self, object: GroupObject, updates: &mut Vec<Update>) {
        let key = key_of(&object);
        let before = self.place(&key);
        let old = self.objects.insert(key.clone(), object);
        let parent = self.objects.get(&key).and_then(parent_of);
        self.trees.relink(&key, old.as_ref().and_then(parent_of), parent);
        self.object_changed(&key, before, updates);
    }

    /// Takes an object of Koordinator.
    pub(super) fn put_koordinator(&mut self, object: GroupObject, updates: &mut Vec<Update>) {
        let key = key_of(&object);
        self.koordinator.insert(key.clone(), object);
        self.refresh_described(&key, updates);
    }

    /// Removes the object of one group.
    pub(super) fn remove_object(&mut self, key: &GroupKey, updates: &mut Vec<Update>) {
        let before = self.place(key);
        let old = self.objects.remove(key);
        self.trees.relink(key, old.as_ref().and_then(parent_of), None);
        self.object_changed(key, before, updates);
    }

    /// Shows the scheduler the trees that an object was in and is in, and the groups that it
    /// describes.
    fn object_changed(&mut self, key: &GroupKey, before: Place, updates: &mut Vec<Update>) {
        for place in [before, self.place(key)] {
            if let Place::In(root) = place {
                self.refresh_tree(&root, updates);
            }
        }
        self.refresh_described(key, updates);
    }

    /// Says whether a kind of groups is served, which a server may begin or cease to do. Pods of
    /// groups that are not known, and of a kind that is not served, are left alone with that reason.
    pub fn set_served(&mut self, kind: Kind, served: bool) -> Vec<Update> {
        let mut updates = Vec::new();
        if !kind.is_of_groups() || self.unserved.contains(&kind) != served {
            return updates;
        }
        if served {
            self.unserved.remove(&kind);
        } else {
            self.unserved.insert(kind);
        }
        let families = [Family::Kubernetes, family(kind)];
        let groups = self.instances.keys().filter(|key| families.contains(&key.family));
        for group in groups.cloned().collect::<Vec<_>>() {
            self.refresh(&group, &mut updates);
        }
        updates
    }

    /// The reason to leave pods alone whose group is not known, if none of its kind is served.
    pub(super) fn unserved_reason(&self, of: Family) -> Option<String> {
        // Two kinds describe groups of one family.
        let is_served = of == Family::Coscheduling
            && !(self.unserved.contains(&Kind::Coscheduling)
                && self.unserved.contains(&Kind::Koordinator));
        let kind = self.unserved.iter().find(|kind| family(**kind) == of)?;
        (!is_served).then(|| format!("no {} are served to this scheduler", kind.resource()))
    }

    /// Removes what an object has described: one group, or those of a workload.
    pub(super) fn remove_objects(
        &mut self,
        kind: Kind,
        family: Family,
        key: &str,
        updates: &mut Vec<Update>,
    ) {
        let Some((namespace, name)) = key.split_once('/') else { return };
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        if kind == Kind::Kai {
            let name = composite_name(family, &name);
            let above = GroupKey { namespace: namespace.clone(), family: Family::Composite, name };
            self.remove_named(&above, updates);
        }
        let first = GroupKey { namespace, family, name };
        if kind == Kind::Koordinator {
            self.koordinator.remove(&first);
            self.refresh_described(&first, updates);
            return;
        }
        self.remove_named(&first, updates);
    }

    /// Removes the group of a name, and those of one object that have a name behind it.
    fn remove_named(&mut self, first: &GroupKey, updates: &mut Vec<Update>) {
        for key in self.named(first) {
            self.remove_object(&key, updates);
        }
    }

    /// The groups of an object, by the key of the first.
    fn named(&self, first: &GroupKey) -> Vec<GroupKey> {
        let several = matches!(first.family, Family::Workload | Family::Kai | Family::Composite);
        let is_of = |key: &&GroupKey| {
            let rest = key.name.strip_prefix(&first.name);
            (key.namespace == first.namespace && key.family == first.family)
                && rest.is_some_and(|rest| rest.is_empty() || several && rest.starts_with('/'))
        };
        let found = self.objects.range(first..).map(|(key, _)| key);
        found.take_while(|key| key.name.starts_with(&first.name)).filter(is_of).cloned().collect()
    }

    /// Removes the groups that an object of KAI's described, and describes no longer.
    pub(super) fn drop_others(&mut self, groups: &[GroupObject], updates: &mut Vec<Update>) {
        let Some(whole) = groups.first() else { return };
        let kept: BTreeSet<GroupKey> = groups.iter().map(key_of).collect();
        let (namespace, name) = (whole.namespace.clone(), whole.name.clone());
        let above = composite_name(Family::Kai, &name);
        let firsts = [(Family::Composite, above), (Family::Kai, name)];
        for (family, name) in firsts {
            let first = GroupKey { namespace: namespace.clone(), family, name };
            for key in self.named(&first).into_iter().filter(|key| !kept.contains(key)) {
                self.remove_object(&key, updates);
            }
        }
    }

    /// Gives groups the priority of their class anew.
    pub(super) fn class_changed(&mut self, updates: &mut Vec<Update>) {
        let objects = self.objects.iter().chain(&self.koordinator);
        let classed = objects.filter(|(_, object)| object.priority_class.is_some());
        let classed: Vec<GroupKey> = classed.map(|(key, _)| key.clone()).collect();
        for key in classed {
            self.refresh_described(&key, updates);
        }
    }

    /// Shows the scheduler the groups that an object describes.
    fn refresh_described(&mut self, object: &GroupKey, updates: &mut Vec<Update>) {
        if object.family == Family::Composite {
            self.refresh_composite(object, updates);
            return;
        }
        if object.family != Family::Workload {
            self.refresh(object, updates);
            return;
        }
        // Groups of a workload of 1.35 may have a replica key behind the object's name.
        let groups = self.instances.range(object..).map(|(key, _)| key);
        let groups: Vec<GroupKey> =
            groups.take_while(|key| key.name.starts_with(&object.name)).cloned().collect();
        for group in groups {
            self.refresh(&group, updates);
        }
    }

    /// Shows the scheduler a group as it is now, unless it knows it so.
    pub(super) fn refresh(&mut self, key: &GroupKey, updates: &mut Vec<Update>) {
        let Some(instance) = self.instances.get(key) else { return };
        if instance.members.is_empty() && instance.shown.is_none() {
            self.instances.remove(key);
            return;
        }
        if self.refresh_in_tree(key, updates) {
            return;
        }
        let Some(instance) = self.instances.get(key) else { return };
        let (frame, refusal) = self.frame(key, instance);
        let preemption = self.objects.get(&instance.object).and_then(|object| object.preemption);
        let Some(instance) = self.instances.get_mut(key) else { return };
        let is_same = instance.refusal == refusal && instance.preemption == preemption;
        if instance.shown == frame && is_same {
            return;
        }
        (instance.refusal, instance.preemption) = (refusal, preemption);
        let old = core::mem::replace(&mut instance.shown, frame.clone());
        let members: Vec<String> = instance.members.iter().cloned().collect();
        match (old, frame) {
            (None, Some(frame)) => self.show_group(key, frame, &members, updates),
            (Some(old), None) => {
                updates.push(Update::GroupRemoved { group: old.full_name() });
                for pod in &members {
                    self.pods.get_mut(pod).into_iter().for_each(PodEntry::hide);
                }
                if members.is_empty() {
                    self.instances.remove(key);
                }
            }
            (old, frame) => {
                if let Some(frame) = frame.filter(|frame| old.as_ref() != Some(frame)) {
                    updates.push(Update::Group(frame));
                }
            }
        }
        for pod in &members {
            self.show(pod, updates);
        }
    }

    /// Shows a group for the first time, with its members so far.
    fn show_group(
        &mut self,
        key: &GroupKey,
        mut tree: PodGroup,
        members: &[String],
        updates: &mut Vec<Update>,
    ) {
        let Some(instance) = self.instances.get(key) else { return };
        let refusal = instance.refusal.as_deref();
        for pod in members {
            let Some(entry) = self.pods.get_mut(pod).filter(|entry| entry.is_member()) else {
                continue;
            };
            let Some(leaf) = instance.leaf(entry) else { continue };
            let pod = entry.show_in(Some(leaf.clone()), refusal, instance.preemption);
            match tree.groups.iter_mut().find(|inner| inner.name == leaf) {
                Some(inner) => inner.pods.push(pod),
                None => tree.pods.push(pod),
            }
        }
        updates.push(Update::Group(tree));
    }

    /// A group without members as its object describes it, or the pods that name it do; and the
    /// reason to leave it alone.
    fn frame(&self, key: &GroupKey, instance: &Instance) -> (Option<PodGroup>, Option<String>) {
        let described = |gang: &InlineGang| {
            let (namespace, name) = (key.namespace.clone(), key.name.clone());
            let mut object = GroupObject::new(key.family, namespace, name, String::new());
            object.describe(gang);
            object
        };
        let object = self.objects.get(&instance.object);
        let object = object.or_else(|| self.koordinator.get(&instance.object)).cloned();
        let object = object.or_else(|| {
            let first = instance.describing.first()?;
            self.pods.get(first)?.inline.as_ref().map(described)
        });
        let Some(object) = object else {
            let undescribed = "no pod describes the task groups of its application";
            let is_undescribed = key.family == Family::YuniKorn;
            let reason = is_undescribed.then(|| undescribed.to_owned());
            return (None, reason.or_else(|| self.unserved_reason(key.family)));
        };
        if instance.ours == 0 {
            return (None, None);
        }
        let mut object = object;
        object.settle(&self.topologies);
        let mut frame = object.frame();
        let label = object.local_queue.as_deref().or_else(|| {
            let first = self.pods.get(instance.members.first()?)?;
            first.local_queue.as_deref()
        });
        let no_queue = match self.queue_of(&key.namespace, label, &frame.queue) {
            Ok(queue) => {
                frame.queue = queue;
                None
            }
            Err(reason) => Some(reason),
        };
        if self.reads_run_times {
            let first = instance.members.first().and_then(|pod| self.pods.get(pod));
            frame.run_time_estimate = first.and_then(|pod| pod.run_time);
        }
        frame.name = key.group_name();
        for partner in &mut frame.gang_group {
            if let Some((namespace, name)) = partner.split_once('/') {
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                let key = GroupKey { family: key.family, namespace, name };
                *partner = ObjectName::new(&key.namespace, &key.group_name());
            }
        }
        let class = object.priority_class.as_deref();
        let stated = object.priority.or_else(|| self.classes.value(class?));
        let highest = instance.priorities.last_key_value().map(|(priority, _)| *priority);
        frame.priority = stated.or(highest).unwrap_or(0);
        if object.has_roles() {
            let (required, sum) = object.required_roles();
            let wanted = frame.policy.minimum();
            frame.min_pods = (wanted > sum).then_some(wanted);
            frame.policy = GroupPolicy::Gang { min_count: required };
            for (role, min) in object.roles.iter().filter(|(_, min)| **min > 0) {
                let name = format!("{}-{role}", frame.name);
                let mut inner = PodGroup::gang(name, *min).in_namespace(&*frame.namespace);
                inner.queue.clone_from(&frame.queue);
                inner.disruption = frame.disruption;
                inner.leader = object.leader.as_ref() == Some(role);
                inner.priority = frame.priority;
                if let Some(topology) = object.role_topologies.get(role) {
                    inner.topology.clone_from(topology);
                }
                frame.groups.push(inner);
            }
        }
        let refused = (!object.refused.is_empty()).then(|| object.refused.join("; "));
        (Some(frame), refused.or(no_queue))
    }

    /// Takes the first description of an application, before the pod that makes it is shown.
    pub(super) fn begin_application(&mut self, entry: &PodEntry, updates: &mut Vec<Update>) {
        let Some(key) = application_of(entry) else { return };
        if !self.objects.contains_key(&key)
            && let Some(application) = entry.application.as_deref().cloned()
        {
            self.put_object(groups::application(application, &key.namespace), updates);
        }
    }

    /// Takes what a pod says of its application. Of several pods that describe one, the first by name
    /// counts.
    pub(super) fn describe(&mut self, pod: &str, updates: &mut Vec<Update>) {
        let Some(key) = self.pods.get(pod).and_then(application_of) else { return };
        self.applications.entry(key.clone()).or_default().insert(pod.to_owned());
        self.tell_application(&key, updates);
    }

    /// Forgets what a pod says of an application. The task groups stay while the application has pods.
    pub(super) fn forget_description(
        &mut self,
        pod: &str,
        key: &GroupKey,
        updates: &mut Vec<Update>,
    ) {
        let Some(pods) = self.applications.get_mut(key) else { return };
        pods.remove(pod);
        self.tell_application(key, updates);
    }

    /// Forgets an application that has no pods any more.
    pub(super) fn end_application(&mut self, key: &GroupKey, updates: &mut Vec<Update>) {
        let is_described = self.applications.get(key).is_some_and(|pods| !pods.is_empty());
        let has_members = self.instances.get(key).is_some_and(|own| !own.members.is_empty());
        if key.family == Family::YuniKorn && !is_described && !has_members {
            self.applications.remove(key);
            if self.objects.contains_key(key) {
                self.remove_object(key, updates);
            }
        }
    }

    fn tell_application(&mut self, key: &GroupKey, updates: &mut Vec<Update>) {
        let first = self.applications.get(key).and_then(|pods| pods.first());
        let described = first.and_then(|pod| self.pods.get(pod)?.application.as_deref());
        if let Some(application) = described.cloned() {
            self.put_object(groups::application(application, &key.namespace), updates);
        }
    }
}

/// The application whose task groups a pod describes.
pub(super) fn application_of(entry: &PodEntry) -> Option<GroupKey> {
    let application = entry.application.as_deref()?;
    let namespace = entry.pod.namespace().to_owned();
    Some(GroupKey { namespace, family: Family::YuniKorn, name: application.name.clone() })
}

/// The key of an object that describes a group.
fn key_of(object: &GroupObject) -> GroupKey {
    let namespace = object.namespace.clone();
    if object.composite() && matches!(object.family, Family::Kubernetes | Family::Kai) {
        let name = composite_name(object.family, &object.name);
        return GroupKey { namespace, family: Family::Composite, name };
    }
    GroupKey { namespace, family: object.family, name: object.name.clone() }
}
