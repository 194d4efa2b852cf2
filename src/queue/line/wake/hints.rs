//! Recorded changes, and the index of groups that wait for a hint.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "serde")]
use alloc::string::String;

use crate::queue::terms::ids::GroupId;
use crate::queue::terms::wake::WakeCondition;
use crate::state::{Cluster, Row};

/// Changes of the cluster since the wait index was last updated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Rows of nodes whose pods changed.
    pub(crate) pods: BTreeSet<Row>,
    /// Rows of nodes that were added or changed themselves.
    pub(crate) nodes: BTreeSet<Row>,
    /// Rows of removed nodes.
    pub(crate) removed: BTreeSet<Row>,
    /// Whether a change concerns every group: a node or namespace changed or was removed.
    pub(crate) all: bool,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.nodes.is_empty() && self.removed.is_empty() && !self.all
    }
}

/// Changes by the names of nodes: a cluster that is read has rows of its own.
#[cfg(feature = "serde")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(in crate::queue) struct SavedChanges {
    pods: BTreeSet<String>,
    nodes: BTreeSet<String>,
    all: bool,
}

#[cfg(feature = "serde")]
impl SavedChanges {
    /// Rows of removed nodes count for what was counted before, and counts are not saved.
    pub(in crate::queue) fn of(changes: &Changes, cluster: &Cluster) -> SavedChanges {
        let name = |row: &Row| cluster.view(*row).map(|node| String::from(node.name()));
        SavedChanges {
            pods: changes.pods.iter().filter_map(name).collect(),
            nodes: changes.nodes.iter().filter_map(name).collect(),
            all: changes.all || !changes.removed.is_empty(),
        }
    }

    pub(in crate::queue) fn restore(&self, cluster: &Cluster) -> Changes {
        let row = |name: &String| cluster.row_of(name);
        Changes {
            pods: self.pods.iter().filter_map(row).collect(),
            nodes: self.nodes.iter().filter_map(row).collect(),
            removed: BTreeSet::new(),
            all: self.all,
        }
    }
}

/// Groups by resource and requested amount.
type ByRequest = BTreeMap<Box<str>, BTreeMap<i64, BTreeSet<GroupId>>>;

/// Groups that wait for a hint: a change that may help, without a count to tell.
#[derive(Debug, Default)]
pub(crate) struct WakeHints {
    nodes: ByRequest,
    any_change: BTreeSet<GroupId>,
}

impl WakeHints {
    pub(crate) fn subscribe(&mut self, group: GroupId, wake_on: &WakeCondition) {
        match wake_on {
            WakeCondition::Never | WakeCondition::Capacity { .. } | WakeCondition::Quota { .. } => {
            }
            WakeCondition::AnyChange => {
                self.any_change.insert(group);
            }
            WakeCondition::Nodes(requests) => {
                for (resource, amount) in requests {
                    let amounts = self.nodes.entry(resource.clone()).or_default();
                    amounts.entry(*amount).or_default().insert(group);
                }
            }
        }
    }

    pub(crate) fn unsubscribe(&mut self, group: GroupId, wake_on: &WakeCondition) {
        match wake_on {
            WakeCondition::Never | WakeCondition::Capacity { .. } | WakeCondition::Quota { .. } => {
            }
            WakeCondition::AnyChange => {
                self.any_change.remove(&group);
            }
            WakeCondition::Nodes(requests) => {
                for (resource, amount) in requests {
                    drop_from(&mut self.nodes, resource, *amount, group);
                }
            }
        }
    }

    /// The groups that the changes may help.
    pub(crate) fn wake(&self, cluster: &Cluster, changes: &Changes) -> BTreeSet<GroupId> {
        let mut woken = BTreeSet::new();
        if changes.all {
            woken.extend(self.nodes.values().flat_map(BTreeMap::values).flatten());
        } else {
            for node in changes.pods.iter().filter_map(|row| cluster.view(*row)) {
                for (resource, amounts) in &self.nodes {
                    let has = cluster.resource(resource).map_or(0, |id| node.allocatable(id));
                    woken.extend(amounts.range(..=has).flat_map(|(_, groups)| groups));
                }
            }
        }
        if !changes.is_empty() {
            woken.extend(&self.any_change);
        }
        woken
    }
}

fn drop_from(index: &mut ByRequest, resource: &str, amount: i64, group: GroupId) {
    let Some(amounts) = index.get_mut(resource) else { return };
    if let Some(groups) = amounts.get_mut(&amount) {
        groups.remove(&group);
        if groups.is_empty() {
            amounts.remove(&amount);
        }
    }
    if amounts.is_empty() {
        index.remove(resource);
    }
}
