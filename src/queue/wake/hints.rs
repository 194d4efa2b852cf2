//! What groups sleep on, what moves, and those who sleep without a count.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::model::PodShape;
use crate::queue::ids::GroupId;
use crate::state::{Cluster, Row};

/// What a sleeping group waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum WakeCondition {
    #[default]
    Never,
    /// Room for so many pods of a shape in one domain of a label key, or anywhere.
    Capacity { shape: Arc<PodShape>, level: Option<String>, needed: u64 },
    /// A change on a node that has, of one of these resources, as much as is given here.
    Nodes(Vec<(Box<str>, i64)>),
    /// Any change.
    AnyChange,
}

/// What changed since the sleepers were looked at last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Changes {
    /// Nodes whose pods changed, by name.
    pub(crate) pods: BTreeSet<String>,
    /// Nodes that appeared or changed themselves, by name.
    pub(crate) nodes: BTreeSet<String>,
    /// Rows of nodes that are gone.
    pub(crate) removed: BTreeSet<Row>,
    /// Something that concerns everybody: a node went or changed, a namespace changed.
    pub(crate) all: bool,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.nodes.is_empty() && self.removed.is_empty() && !self.all
    }
}

/// By resource, and by the amount requested of it.
type ByRequest = BTreeMap<Box<str>, BTreeMap<i64, BTreeSet<GroupId>>>;

/// Those who sleep without a count.
#[derive(Debug, Default)]
pub(crate) struct WakeHints {
    nodes: ByRequest,
    anything: BTreeSet<GroupId>,
}

impl WakeHints {
    pub(crate) fn subscribe(&mut self, queued: GroupId, wake_on: &WakeCondition) {
        match wake_on {
            WakeCondition::Never | WakeCondition::Capacity { .. } => {}
            WakeCondition::AnyChange => {
                self.anything.insert(queued);
            }
            WakeCondition::Nodes(requests) => {
                for (resource, amount) in requests {
                    let amounts = self.nodes.entry(resource.clone()).or_default();
                    amounts.entry(*amount).or_default().insert(queued);
                }
            }
        }
    }

    pub(crate) fn unsubscribe(&mut self, queued: GroupId, wake_on: &WakeCondition) {
        match wake_on {
            WakeCondition::Never | WakeCondition::Capacity { .. } => {}
            WakeCondition::AnyChange => {
                self.anything.remove(&queued);
            }
            WakeCondition::Nodes(requests) => {
                for (resource, amount) in requests {
                    drop_from(&mut self.nodes, resource, *amount, queued);
                }
            }
        }
    }

    /// Whom what moved may help.
    pub(crate) fn wake(&self, cluster: &Cluster, changes: &Changes) -> BTreeSet<GroupId> {
        let mut woken = BTreeSet::new();
        if changes.all {
            woken.extend(self.nodes.values().flat_map(BTreeMap::values).flatten());
        } else {
            for node in changes.pods.iter().filter_map(|name| cluster.node(name)) {
                for (resource, amounts) in &self.nodes {
                    let has = cluster.resource(resource).map_or(0, |id| node.allocatable(id));
                    woken.extend(amounts.range(..=has).flat_map(|(_, groups)| groups));
                }
            }
        }
        if !changes.is_empty() {
            woken.extend(&self.anything);
        }
        woken
    }
}

fn drop_from(index: &mut ByRequest, resource: &str, amount: i64, queued: GroupId) {
    let Some(amounts) = index.get_mut(resource) else { return };
    if let Some(groups) = amounts.get_mut(&amount) {
        groups.remove(&queued);
        if groups.is_empty() {
            amounts.remove(&amount);
        }
    }
    if amounts.is_empty() {
        index.remove(resource);
    }
}
