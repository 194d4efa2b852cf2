//! Devices as drivers publish them, and the nodes that reach them.

use alloc::vec::Vec;

use crate::model::{
    NodeReach, NodeSelector, NodeSelectorTerm, Operator, Requirement, ResourceSlice, SliceDevice,
};
use crate::state::{Cluster, NodeView};

/// The newest slices of a pool.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    slices: Vec<&'a ResourceSlice>,
}

impl<'a> Pool<'a> {
    /// O(slices).
    pub(super) fn of(cluster: &'a Cluster, driver: &str, name: &str) -> Pool<'a> {
        let own = |slice: &&ResourceSlice| slice.driver == driver && slice.pool == name;
        let all: Vec<&ResourceSlice> = cluster.claims().slices().filter(own).collect();
        let newest = all.iter().map(|slice| slice.generation).max();
        let slices = all.into_iter().filter(|slice| Some(slice.generation) == newest);
        Pool { slices: slices.collect() }
    }

    /// All devices, each with its slice.
    pub(super) fn devices(&self) -> impl Iterator<Item = (&'a ResourceSlice, &'a SliceDevice)> {
        self.slices.iter().flat_map(|slice| slice.devices.iter().map(move |own| (*slice, own)))
    }

    /// The device of a name. `None` if there is none or several, or slices are missing.
    pub(super) fn device(&self, name: &str) -> Option<(&'a ResourceSlice, &'a SliceDevice)> {
        let count = self.slices.len() as i64;
        let complete = self.slices.iter().all(|slice| slice.slice_count <= count);
        let mut found = self.devices().filter(|(_, device)| device.name == name);
        let device = found.next().filter(|_| complete)?;
        found.next().is_none().then_some(device)
    }

    /// How much of a counter there is.
    pub(super) fn counter(&self, set: &str, name: &str) -> Option<i128> {
        let mut sets = self.slices.iter().flat_map(|slice| &slice.counters);
        let set = sets.find(|own| own.name == set)?;
        set.counters.get(name).map(|amount| amount.nanos())
    }
}

/// Whether a node reaches a device of a slice.
pub(super) fn reaches(slice: &ResourceSlice, device: &SliceDevice, node: NodeView<'_>) -> bool {
    match home(slice, device) {
        NodeReach::Node(name) => name == node.name(),
        NodeReach::Selector(selector) => is_among(selector, node),
        NodeReach::All => true,
        NodeReach::Nowhere | NodeReach::PerDevice => false,
    }
}

/// The nodes that reach a device.
pub(super) fn home<'a>(slice: &'a ResourceSlice, device: &'a SliceDevice) -> &'a NodeReach {
    if slice.nodes == NodeReach::PerDevice { &device.nodes } else { &slice.nodes }
}

/// Whether a selector matches a node.
pub(super) fn is_among(selector: &NodeSelector, node: NodeView<'_>) -> bool {
    selector.terms.iter().any(|term| is_of_term(term, node))
}

fn is_of_term(term: &NodeSelectorTerm, node: NodeView<'_>) -> bool {
    let by_label = |rule: &Requirement| rule.check().is_ok() && rule.matches(node.label(&rule.key));
    let by_name = |rule: &Requirement| {
        let name = if rule.key == "metadata.name" { node.name() } else { "" };
        let [value] = &rule.values[..] else { return false };
        match rule.operator {
            Operator::In => value == name,
            Operator::NotIn => value != name,
            _ => false,
        }
    };
    let (labels, fields) = (&term.match_expressions, &term.match_fields);
    let is_empty = labels.is_empty() && fields.is_empty();
    !is_empty && labels.iter().all(by_label) && fields.iter().all(by_name)
}
