//! Layout of a store's cluster: tiers of nodes and cards on them, which objects of other dialects say.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::entries::PodEntry;
use super::event::Kind;
use super::store::Store;
use super::update::Update;
use crate::kubernetes::devices::NodeCards;
use crate::kubernetes::field::{Fault, Field};
use crate::model::Node;
use crate::state::Event;

impl Store {
    /// Declares the topology keys of the scheduler's cluster, coarsest first. Without it groups may
    /// require a level of another dialect, and prefer none.
    #[must_use]
    pub fn with_levels<S: Into<String>>(mut self, levels: impl IntoIterator<Item = S>) -> Store {
        self.topologies.set_levels(levels.into_iter().map(Into::into).collect());
        self
    }

    /// The cards of a node by which pods ask for parts of one; `None` if none are registered. Their
    /// plugin reads the choice of a plan from [`NodeCards::annotations`].
    pub fn node_devices(&self, node: &str) -> Option<&NodeCards> {
        self.cards.of_node(node)
    }

    /// Reads the cards of a node, or of the object that registers them.
    pub(super) fn read_cards(&mut self, kind: Kind, name: &str, root: &Field<'_>) -> Fault<()> {
        let before = self.cards.of_node(name).cloned();
        let (group, word) = kind.layout_names();
        self.cards.forget(name, kind == Kind::Device);
        self.cards.take(group, word, root)?;
        if self.cards.of_node(name) != before.as_ref() {
            self.changed_cards.insert(name.to_owned());
        }
        Ok(())
    }

    /// Tells of a node as it stands now, unless the scheduler knows it so.
    pub(super) fn tell_node(&mut self, raw: Node, updates: &mut Vec<Update>) {
        let mut node = raw.clone();
        self.topologies.label(core::slice::from_mut(&mut node));
        if self.cards.of_node(&node.name).is_some() {
            self.cards.settle(core::slice::from_mut(&mut node));
            if self.blind.values().any(|on| *on == node.name) {
                // It is not known how many of them are taken.
                node.devices.clear();
            }
        }
        if node == raw {
            self.raw_nodes.remove(&raw.name);
        } else {
            self.raw_nodes.insert(raw.name.clone(), raw);
        }
        if self.nodes.get(&node.name) != Some(&node) {
            self.nodes.insert(node.name.clone(), node.clone());
            updates.push(Update::Event(Event::NodeChanged { node, version: 0 }));
        }
    }

    fn retell_node(&mut self, name: &str, updates: &mut Vec<Update>) {
        let raw = self.raw_nodes.get(name).or_else(|| self.nodes.get(name));
        if let Some(raw) = raw.cloned() {
            self.tell_node(raw, updates);
        }
    }

    /// Takes a change of the layout in, once no list of it is under way: lists would tell of every node
    /// again for each object.
    pub(super) fn layout_changed(&mut self, updates: &mut Vec<Update>) {
        let kinds = [Kind::Node, Kind::Pod, Kind::HyperNode, Kind::Device, Kind::KaiTopology];
        if kinds.iter().any(|kind| self.listing[kind.index()]) {
            return;
        }
        if core::mem::take(&mut self.topology_changed) {
            for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
                self.retell_node(&name, updates);
            }
            let groups = self.instances.keys().cloned().collect::<Vec<_>>();
            for group in groups {
                self.refresh(&group, updates);
            }
        }
        if self.changed_cards.is_empty() {
            return;
        }
        let changed = core::mem::take(&mut self.changed_cards);
        let sizes = self.cards.sizes();
        let all = sizes != self.card_sizes;
        self.card_sizes = sizes;
        let asking = self.pods.iter().filter(|(_, entry)| {
            let on = |node: &String| changed.contains(node);
            entry.asking.is_some() && (all || entry.pod.node.as_ref().is_some_and(on))
        });
        for key in asking.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            let Some(mut entry) = self.pods.remove(&key) else { continue };
            self.ask_for_cards(&key, &mut entry);
            self.pods.insert(key.clone(), entry);
            self.show(&key, updates);
        }
        for name in changed.into_iter().chain(core::mem::take(&mut self.changed_cards)) {
            self.retell_node(&name, updates);
        }
    }

    /// Makes device requests of a pod's asks for cards, and finds the cards that it holds. Of a node on
    /// which a pod holds unknown cards none is given away.
    pub(super) fn ask_for_cards(&mut self, key: &str, entry: &mut PodEntry) {
        let Some(asking) = &entry.asking else { return };
        entry.card_fault = None;
        let mut is_blind = false;
        match self.cards.shape(&asking.shape, &asking.asks) {
            Ok(shape) => {
                let pod = core::mem::take(&mut entry.pod).with_shape(shape.into());
                entry.pod = self.interned(pod);
                entry.pod.device_indexes.clear();
                if entry.pod.node.is_some() && !entry.pod.shape().devices.is_empty() {
                    match self.cards.indexes(&entry.pod, asking.held.as_ref()) {
                        Some(indexes) => entry.pod.device_indexes = indexes,
                        None => is_blind = true,
                    }
                }
            }
            Err(reason) => entry.card_fault = Some(reason),
        }
        self.own_claims_of_group(entry);
        self.set_blind(key, entry.pod.node.clone().filter(|_| is_blind && !entry.finished));
    }

    /// Notes the node on which a pod holds unknown cards, if there is one.
    pub(super) fn set_blind(&mut self, key: &str, node: Option<String>) {
        let before = match &node {
            Some(node) => self.blind.insert(key.to_string(), node.clone()),
            None => self.blind.remove(key),
        };
        if before != node {
            self.changed_cards.extend(before.into_iter().chain(node).collect::<BTreeSet<_>>());
        }
    }
}
