//! Allocations of the devices that a search has found.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::base::Quantity;
use crate::claims::pools::only;
use crate::claims::wanted::demand_of;
use crate::model::{
    AllocatedDevice, Allocation, ClaimRequest, NodeReach, NodeSelector, NodeSelectorTerm,
    ResourceSlice, SliceDevice,
};

/// A device that is given to an alternative of a request.
pub(super) struct Given<'a> {
    pub(super) slice: &'a ResourceSlice,
    pub(super) device: &'a SliceDevice,
    pub(super) request: &'a ClaimRequest,
    pub(super) choice: usize,
    /// Capacities that are taken of it, if any are.
    pub(super) takes: Option<&'a BTreeMap<String, Quantity>>,
}

/// The allocation of a claim on a node.
pub(super) fn allocation(node: &str, given: &[Given<'_>]) -> Allocation {
    let devices = given.iter().map(|given| {
        let Given { slice, device, request, choice, takes } = given;
        let (choice, demand) = demand_of(request, *choice);
        let request: Cow<'_, str> = match choice {
            None => Cow::Borrowed(&*request.name),
            Some(choice) => Cow::Owned(format!("{}/{choice}", request.name)),
        };
        AllocatedDevice {
            request: request.into_owned(),
            driver: slice.driver.clone(),
            pool: slice.pool.clone(),
            device: device.name.clone(),
            admin: demand.admin,
            share: device.shareable.then(|| takes.cloned().unwrap_or_default()),
        }
    });
    Allocation { devices: devices.collect(), nodes: nodes(node, given) }
}

/// The nodes that reach all devices.
fn nodes(node: &str, given: &[Given<'_>]) -> Option<NodeSelector> {
    let mut all: Option<NodeSelectorTerm> = None;
    for Given { slice, device, .. } in given {
        let per_device = slice.nodes == NodeReach::PerDevice;
        let nodes = if per_device { &device.nodes } else { &slice.nodes };
        if matches!(nodes, NodeReach::Node(_)) || device.binds_to_node {
            return Some(only(node));
        }
        let NodeReach::Selector(selector) = nodes else { continue };
        for term in &selector.terms {
            let all = all.get_or_insert_default();
            for rule in &term.match_expressions {
                if !all.match_expressions.contains(rule) {
                    all.match_expressions.push(rule.clone());
                }
            }
            for rule in &term.match_fields {
                if !all.match_fields.contains(rule) {
                    all.match_fields.push(rule.clone());
                }
            }
        }
    }
    all.map(|term| NodeSelector::any_of([term]))
}
