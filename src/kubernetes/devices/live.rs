//! Cards and zones of a cluster that is followed: they come and go with nodes and with objects.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::fractions::named;
use super::supply::{DeviceDialect, NodeCards};
use super::{Ask, Cards, Held};
use crate::model::{NodeZones, Pod, ZonePart};

impl Cards {
    /// The cards of a node; `None` if none are registered.
    pub(in crate::kubernetes) fn of_node(&self, node: &str) -> Option<&NodeCards> {
        self.nodes.get(node)
    }

    /// Forgets the cards of a node that an object of its own registered, or the node itself.
    pub(in crate::kubernetes) fn forget(&mut self, node: &str, by_object: bool) {
        if !by_object {
            self.plain.forget(node);
        }
        let is_own = |devices: &NodeCards| devices.dialect == DeviceDialect::Koordinator;
        if self.nodes.get(node).is_some_and(|devices| is_own(devices) == by_object) {
            self.nodes.remove(node);
        }
    }

    /// Everything that a request depends on beside the node that it goes to. O(cards).
    pub(in crate::kubernetes) fn basis(&self) -> Basis {
        let all = self.nodes.values();
        let sizes = all.flat_map(|node| {
            node.cards.iter().map(|card| (node.dialect, card.memory, card.model.clone()))
        });
        Basis { sizes: sizes.collect(), shared: self.shared, zoned: !self.zones.is_empty() }
    }

    /// Whether no node has zones.
    pub(in crate::kubernetes) fn is_even(&self) -> bool {
        self.zones.is_empty()
    }

    /// Whether a node has cards or zones.
    pub(in crate::kubernetes) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node) || self.zones.contains_key(node)
    }

    /// The zones of a node; `None` if nothing reports them.
    pub(in crate::kubernetes) fn zones_of(&self, node: &str) -> Option<&NodeZones> {
        self.zones.get(node)
    }

    /// Forgets the zones of a node; whether it had any.
    pub(in crate::kubernetes) fn forget_zones(&mut self, node: &str) -> bool {
        self.zones.remove(node).is_some()
    }

    /// Takes the GPUs that nodes count for cards from now on, because a pod has a fraction of one.
    /// Returns the nodes that have cards by it.
    pub(in crate::kubernetes) fn begin_sharing(&mut self) -> Vec<String> {
        if core::mem::replace(&mut self.shared, true) {
            return Vec::new();
        }
        let plain = self.plain.nodes().filter(|node| !self.nodes.contains_key(*node));
        let cards = plain.filter_map(|node| Some((String::from(node), self.shared_cards(node)?)));
        let cards: Vec<(String, NodeCards)> = cards.collect();
        let names = cards.iter().map(|(node, _)| node.clone()).collect();
        self.nodes.extend(cards);
        names
    }

    /// Gives a pod that runs its cards, where those of its node are told apart by groups alone.
    pub(in crate::kubernetes) fn occupy(&mut self, pod: &Pod, asks: &[Ask], held: Option<&Held>) {
        let Some(node) = pod.node.clone() else { return };
        let cards = self.nodes.get(&node).filter(|own| own.dialect == DeviceDialect::Kai);
        let Some(have) = cards.map(|own| own.cards.len() as u32) else { return };
        let lists = self.occupied.put(pod, asks, held, have);
        self.holdings.insert((pod.namespace().into(), pod.name.clone()), lists);
        self.rename(&node);
    }

    /// Takes the cards of a pod back that are told apart by groups alone.
    pub(in crate::kubernetes) fn vacate(&mut self, namespace: &str, name: &str) {
        let name = (String::from(namespace), String::from(name));
        self.holdings.remove(&name);
        if let Some(node) = self.occupied.remove(&name) {
            self.rename(&node);
        }
    }

    /// Calls the cards of a node by the groups that have them.
    fn rename(&mut self, node: &str) {
        let Some(own) = self.nodes.get_mut(node) else { return };
        if own.dialect == DeviceDialect::Kai {
            for card in &mut own.cards {
                card.id = named(node, card.minor, self.occupied.group(node, card.minor));
            }
        }
    }
}

/// Facts of a cluster by which requests of pods are read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::kubernetes) struct Basis {
    /// The dialects of cards, their memory and their models.
    sizes: BTreeSet<(DeviceDialect, i64, String)>,
    /// Whether GPUs that nodes count are cards.
    shared: bool,
    /// Whether any node has zones.
    zoned: bool,
}

/// Requests of a pod for cards and zones, and the cards that it holds, to be read anew whenever those of
/// nodes change.
#[derive(Debug, Clone)]
pub(in crate::kubernetes) struct Asking {
    pub(in crate::kubernetes) asks: Vec<Ask>,
    pub(in crate::kubernetes) held: Option<Held>,
    /// Amounts that nodes with NUMA zones align, by container.
    pub(in crate::kubernetes) parts: Vec<ZonePart>,
    /// The shape without them.
    pub(in crate::kubernetes) shape: alloc::sync::Arc<crate::model::PodShape>,
}
