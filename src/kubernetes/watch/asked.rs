//! Questions to a store: pods, members of groups, and why some are missing.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::entries::{GroupKey, PodEntry};
use super::store::{ObjectRef, Store};
use crate::kubernetes::membership::Family;

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
