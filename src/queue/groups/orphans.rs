//! Pods whose group is not known yet.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::model::Pod;
use crate::queue::groups::full_name;

/// Pods whose group is not known yet. Each waits for one group: the last that it named.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Orphans {
    /// By full name of the group, then by number of arrival.
    groups: BTreeMap<String, BTreeMap<u64, Pod>>,
    /// Group and number of each pod, by its full name.
    pods: BTreeMap<String, (String, u64)>,
}

impl Orphans {
    /// Adds a pod, or replaces it. A pod that named another group moves to the end of this one.
    pub(in crate::queue) fn put(&mut self, group: String, pod: Pod) {
        let name = full_name(&pod);
        if let Some((old, number)) = self.pods.get(&name)
            && *old == group
        {
            if let Some(place) = self.groups.get_mut(old).and_then(|pods| pods.get_mut(number)) {
                *place = pod;
            }
            return;
        }
        self.remove(&name);
        let pods = self.groups.entry(group.clone()).or_default();
        let number = pods.last_key_value().map_or(0, |(last, _)| last + 1);
        pods.insert(number, pod);
        self.pods.insert(name, (group, number));
    }

    /// Removes a pod, by its full name. O(log pods).
    pub(in crate::queue) fn remove(&mut self, name: &str) {
        let Some((group, number)) = self.pods.remove(name) else { return };
        let Some(pods) = self.groups.get_mut(&group) else { return };
        pods.remove(&number);
        if pods.is_empty() {
            self.groups.remove(&group);
        }
    }

    /// Removes the pods of a group, in order of arrival.
    pub(in crate::queue) fn take(&mut self, group: &str) -> Vec<Pod> {
        let pods: Vec<Pod> = self.groups.remove(group).unwrap_or_default().into_values().collect();
        for pod in &pods {
            self.pods.remove(&full_name(pod));
        }
        pods
    }

    /// The pods of each group, in order of arrival.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn to_lists(&self) -> BTreeMap<String, Vec<Pod>> {
        let lists = self.groups.iter();
        lists.map(|(group, pods)| (group.clone(), pods.values().cloned().collect())).collect()
    }
}

impl Extend<(String, Vec<Pod>)> for Orphans {
    fn extend<T: IntoIterator<Item = (String, Vec<Pod>)>>(&mut self, lists: T) {
        for (group, pods) in lists {
            for pod in pods {
                self.put(group.clone(), pod);
            }
        }
    }
}

/// A pod that waited for its group, as a member of the leaf of this full name.
pub(in crate::queue) fn in_leaf(mut pod: Pod, leaf: &str) -> Pod {
    // The leaf is of the pod's namespace, which may have slashes.
    pod.group = leaf.get(pod.namespace().len() + 1..).map(ToOwned::to_owned);
    pod
}

#[cfg(test)]
mod tests;
