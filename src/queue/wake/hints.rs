//! What groups sleep on, what moves, and those who sleep without a count.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::model::PodShape;
use crate::queue::queued_group::UnitId;
use crate::state::{Cluster, Row};

/// What a sleeping group waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Watched {
    #[default]
    Nothing,
    /// Room for so many pods of a shape in one domain of a label key, or anywhere.
    Room { shape: Arc<PodShape>, level: Option<String>, needed: u64 },
    /// A change on a node that has, of one of these resources, as much as is given here.
    Nodes(Vec<(Box<str>, i64)>),
    /// Any change.
    Anything,
}

/// What changed since the sleepers were looked at last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Moved {
    /// Nodes whose pods changed, by name.
    pub(crate) nodes: BTreeSet<String>,
    /// Nodes that appeared or changed themselves, by name.
    pub(crate) changed: BTreeSet<String>,
    /// Rows of nodes that are gone.
    pub(crate) gone: BTreeSet<Row>,
    /// Something that concerns everybody: a node went or changed, a namespace changed.
    pub(crate) anything: bool,
}

impl Moved {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.changed.is_empty() && self.gone.is_empty() && !self.anything
    }
}

/// By resource, and by the amount requested of it.
type ByRequest = BTreeMap<Box<str>, BTreeMap<i64, BTreeSet<UnitId>>>;

/// Those who sleep without a count.
#[derive(Debug, Default)]
pub(crate) struct Loose {
    nodes: ByRequest,
    anything: BTreeSet<UnitId>,
}

impl Loose {
    pub(crate) fn subscribe(&mut self, unit: UnitId, watched: &Watched) {
        match watched {
            Watched::Nothing | Watched::Room { .. } => {}
            Watched::Anything => {
                self.anything.insert(unit);
            }
            Watched::Nodes(requests) => {
                for (resource, amount) in requests {
                    let amounts = self.nodes.entry(resource.clone()).or_default();
                    amounts.entry(*amount).or_default().insert(unit);
                }
            }
        }
    }

    pub(crate) fn unsubscribe(&mut self, unit: UnitId, watched: &Watched) {
        match watched {
            Watched::Nothing | Watched::Room { .. } => {}
            Watched::Anything => {
                self.anything.remove(&unit);
            }
            Watched::Nodes(requests) => {
                for (resource, amount) in requests {
                    drop_from(&mut self.nodes, resource, *amount, unit);
                }
            }
        }
    }

    /// Whom what moved may help.
    pub(crate) fn wake(&self, cluster: &Cluster, moved: &Moved) -> BTreeSet<UnitId> {
        let mut woken = BTreeSet::new();
        if moved.anything {
            woken.extend(self.nodes.values().flat_map(BTreeMap::values).flatten());
        } else {
            for node in moved.nodes.iter().filter_map(|name| cluster.node(name)) {
                for (resource, amounts) in &self.nodes {
                    let has = cluster.resource(resource).map_or(0, |id| node.allocatable(id));
                    woken.extend(amounts.range(..=has).flat_map(|(_, units)| units));
                }
            }
        }
        if !moved.is_empty() {
            woken.extend(&self.anything);
        }
        woken
    }
}

fn drop_from(index: &mut ByRequest, resource: &str, amount: i64, unit: UnitId) {
    let Some(amounts) = index.get_mut(resource) else { return };
    if let Some(units) = amounts.get_mut(&amount) {
        units.remove(&unit);
        if units.is_empty() {
            amounts.remove(&amount);
        }
    }
    if amounts.is_empty() {
        index.remove(resource);
    }
}
