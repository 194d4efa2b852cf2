//! The pools whose devices a node reaches.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::model::{
    Allocation, NodeReach, NodeSelector, NodeSelectorTerm, Operator, Requirement, ResourceSlice,
};
use crate::state::{ClaimBook, NodeView, PoolKey, pool_key};

/// A pool as far as a node reaches it.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) driver: &'a str,
    pub(super) name: &'a str,
    /// Its slices that concern the node, of one generation, in order of name.
    pub(super) slices: Vec<&'a ResourceSlice>,
    /// Whether slices are yet to be published.
    pub(super) incomplete: bool,
    /// Whether names clash, or counters are missing.
    pub(super) invalid: bool,
}

impl Pool<'_> {
    /// Whether devices may be taken from it.
    pub(super) fn is_sound(&self) -> bool {
        !self.incomplete && !self.invalid
    }

    pub(super) fn full_name(&self) -> String {
        alloc::format!("{}/{}", self.driver, self.name)
    }
}

/// The pools that a node reaches, in the order in which they are tried.
pub(super) fn pools<'a>(book: &'a ClaimBook, node: NodeView<'_>) -> Vec<Pool<'a>> {
    let published = book.published();
    let mut found: BTreeMap<(&str, &str), Vec<&ResourceSlice>> = BTreeMap::new();
    let own = published.by_node.get(node.name()).map_or(&[][..], |slices| slices);
    let roaming = published.roaming.iter().filter(|slice| reaches(slice, node));
    for slice in own.iter().chain(roaming) {
        found.entry((&slice.driver, &slice.pool)).or_default().push(slice);
    }
    // Slices with counters concern every node. Of pools that it reaches no device of, they matter
    // only while slices are missing.
    if !published.counted.is_empty() {
        let counted = |key: &PoolKey| published.counted.get(key).map_or(&[][..], |all| all);
        for ((driver, name), slices) in &mut found {
            slices.extend(counted(&pool_key(driver, name)).iter().map(|slice| &**slice));
        }
        for key in &published.incomplete {
            let of_key = || counted(key).iter().map(|slice| &**slice).collect();
            found.entry((&*key.0, &*key.1)).or_insert_with(of_key);
        }
    }
    let (mut pools, mut last) = (Vec::new(), Vec::new());
    for ((driver, name), mut slices) in found {
        let generation = slices.iter().map(|slice| slice.generation).max().unwrap_or(0);
        slices.retain(|slice| slice.generation == generation);
        slices.sort_by(|a, b| a.name.cmp(&b.name));
        let Some(incomplete) = published.is_incomplete(&slices) else { continue };
        let invalid = !incomplete && is_invalid(&slices);
        let mut devices = slices.iter().flat_map(|slice| &slice.devices);
        let waits = devices.any(|device| !device.binding_conditions.is_empty());
        let pool = Pool { driver, name, slices, incomplete, invalid };
        if waits { last.push(pool) } else { pools.push(pool) }
    }
    pools.extend(last);
    pools
}

pub(super) fn is_invalid(slices: &[&ResourceSlice]) -> bool {
    let (mut devices, mut sets) = (BTreeSet::new(), BTreeMap::new());
    // Most pools are one slice of devices in order of name.
    let in_order = match slices {
        [only] => only.devices.is_sorted_by(|a, b| a.name < b.name),
        _ => false,
    };
    let twice = slices.iter().any(|slice| {
        !in_order && slice.devices.iter().any(|device| !devices.insert(&*device.name))
            || slice.counters.iter().any(|set| sets.insert(&*set.name, set).is_some())
    });
    twice
        || slices.iter().flat_map(|slice| &slice.devices).any(|device| {
            device.consumes.iter().any(|used| {
                let set = sets.get(&*used.set);
                let known = |counter| set.is_some_and(|set| set.counters.contains_key(counter));
                set.is_none() || !used.counters.keys().all(known)
            })
        })
}

/// Whether a node reaches some device of a slice.
fn reaches(slice: &ResourceSlice, node: NodeView<'_>) -> bool {
    match &slice.nodes {
        NodeReach::PerDevice => slice.devices.iter().any(|device| reach(&device.nodes, node)),
        nodes => reach(nodes, node),
    }
}

/// Whether a node is among those that reach something.
pub(super) fn reach(nodes: &NodeReach, node: NodeView<'_>) -> bool {
    match nodes {
        NodeReach::Node(name) => name == node.name(),
        NodeReach::Selector(selector) => selects(selector, node),
        NodeReach::All => true,
        NodeReach::Nowhere | NodeReach::PerDevice => false,
    }
}

/// Whether a node selector matches a node. Terms that are empty or malformed match none.
pub(super) fn selects(selector: &NodeSelector, node: NodeView<'_>) -> bool {
    let label = |rule: &Requirement| rule.check().is_ok() && rule.matches(node.label(&rule.key));
    let field = |rule: &Requirement| {
        let value = if rule.key == "metadata.name" { node.name() } else { "" };
        match (&rule.operator, &*rule.values) {
            (Operator::In, [only]) => only == value,
            (Operator::NotIn, [only]) => only != value,
            _ => false,
        }
    };
    selector.terms.iter().any(|term| {
        !term.is_empty()
            && term.match_expressions.iter().all(label)
            && term.match_fields.iter().all(field)
    })
}

/// Whether devices can be used from a node.
pub(crate) fn can_use(allocation: &Allocation, node: NodeView<'_>) -> bool {
    allocation.nodes.as_ref().is_none_or(|nodes| selects(nodes, node))
}

/// The name of the only node that a selector matches, if it names one.
pub(crate) fn only_node(selector: &NodeSelector) -> Option<&str> {
    let [term] = &selector.terms[..] else { return None };
    let ([], [rule]) = (&term.match_expressions[..], &term.match_fields[..]) else { return None };
    match (&rule.operator, &rule.values[..]) {
        (Operator::In, [name]) if rule.key == "metadata.name" => Some(name),
        _ => None,
    }
}

/// The node of this name alone.
pub(super) fn only(node: &str) -> NodeSelector {
    let key = String::from("metadata.name");
    let rule = Requirement { key, operator: Operator::In, values: [node.to_string()].into() };
    NodeSelector::any_of([NodeSelectorTerm::default().field(rule)])
}
