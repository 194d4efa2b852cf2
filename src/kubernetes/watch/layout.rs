//! Layout of a store's cluster: tiers of nodes and cards on them, which objects of other dialects say.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entries::PodEntry;
use super::event::Kind;
use super::store::Store;
use super::update::Update;
use crate::kubernetes::devices::{CardFraction, NodeCards, PREDICTED, zones_written};
use crate::kubernetes::field::{Fault, Field};
use crate::model::Node;
use crate::state::{Assignment, Event};

/// Kinds whose lists are awaited before nodes are told of.
const LISTS: [Kind; 6] = [
    Kind::Node,
    Kind::Pod,
    Kind::HyperNode,
    Kind::Device,
    Kind::KaiTopology,
    Kind::NodeResourceTopology,
];

const NO_BINDER: &str = "parts of cards are not in force: nothing says that KAI's binder is asked";

impl Store {
    /// Shows pods that ask for fractions of cards as KAI has them. The embedder must hand each to KAI's
    /// binder instead of binding it: [`Store::card_fraction`] is what the binder is asked for. Without
    /// it such pods are left alone.
    #[must_use]
    pub fn with_fractions(mut self) -> Store {
        self.follows_fractions = true;
        self
    }

    /// The annotations with which a pod of a plan is bound, empty for most pods. They name its cards as
    /// the plugin of the node reads them, and the amounts of NUMA zones that are predicted for it.
    ///
    /// The prediction (`phalanx.dev/zones`) counts until the node's `NodeResourceTopology` is reported
    /// anew after the pod was seen to run.
    pub fn binding_annotations(&self, assignment: Assignment<'_>) -> BTreeMap<String, String> {
        let node = assignment.node();
        let cards = self.node_devices(node);
        let cards = cards.map(|own| own.annotations(node, assignment.pod(), assignment.devices()));
        let mut annotations = cards.unwrap_or_default();
        if !assignment.zone_shares().is_empty() {
            annotations.insert(PREDICTED.to_owned(), zones_written(assignment.zone_shares()));
        }
        annotations
    }

    /// The fraction of cards that KAI's binder is to be asked for; `None` for a pod that is bound as any.
    pub fn card_fraction(&self, assignment: Assignment<'_>) -> Option<CardFraction> {
        let cards = self.node_devices(assignment.node())?;
        cards.fraction(assignment.pod(), assignment.devices())
    }

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

    /// Reads the zones of a node. They count what runs there by now.
    pub(super) fn read_zones(&mut self, name: &str, root: &Field<'_>) -> Fault<()> {
        let before = self.cards.zones_of(name).cloned();
        let (group, word) = Kind::NodeResourceTopology.layout_names();
        self.cards.take(group, word, root)?;
        if self.cards.zones_of(name) != before.as_ref() {
            self.changed_cards.insert(name.to_owned());
        }
        let Some(pods) = self.unreported.get_mut(name) else { return Ok(()) };
        let known = &mut self.pods;
        let mut reported = false;
        pods.retain(|key| {
            let entry = known.get_mut(key).filter(|entry| entry.runs);
            let Some(entry) = entry else { return known.contains_key(key) };
            entry.predicted.clear();
            entry.pod.zone_shares.clear();
            self.changed_zones.insert(key.clone());
            reported = true;
            false
        });
        if reported {
            self.changed_cards.insert(name.to_owned());
        }
        Ok(())
    }

    /// Counts the amounts of zones that were predicted for a pod, until its node reports them. Of a pod
    /// that runs when it is first seen they are reported already.
    pub(super) fn predict_zones(&mut self, key: &str, entry: &mut PodEntry) {
        if entry.predicted.is_empty() {
            return;
        }
        let known = self.pods.get(key).filter(|known| known.pod.uid == entry.pod.uid);
        let is_reported = match known {
            Some(known) => known.pod.node.is_some() && known.predicted.is_empty(),
            None => entry.runs,
        };
        let Some(node) = entry.pod.node.clone().filter(|_| !is_reported) else {
            entry.predicted.clear();
            return;
        };
        entry.pod.zone_shares.clone_from(&entry.predicted);
        self.unreported.entry(node).or_default().insert(key.to_owned());
    }

    /// Tells of a node as it stands now, unless the scheduler knows it so.
    pub(super) fn tell_node(&mut self, raw: Node, updates: &mut Vec<Update>) {
        let mut node = raw.clone();
        self.topologies.label(core::slice::from_mut(&mut node));
        if self.cards.has(&node.name) {
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

    /// A node is gone, and its cards with it: requests of pods depend on those of all nodes.
    pub(super) fn forget_node(&mut self, name: String, updates: &mut Vec<Update>) {
        self.raw_nodes.remove(&name);
        if self.cards.of_node(&name).is_some() {
            self.changed_cards.insert(name.clone());
        }
        self.cards.forget(&name, false);
        updates.push(Update::Event(Event::NodeRemoved { name, version: 0 }));
        self.layout_changed(updates);
    }

    /// Takes a change of the layout in, once no list of it is under way: lists would tell of every node
    /// again for each object.
    pub(super) fn layout_changed(&mut self, updates: &mut Vec<Update>) {
        if LISTS.iter().any(|kind| self.listing[kind.index()]) {
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
        for key in core::mem::take(&mut self.changed_zones) {
            self.show(&key, updates);
        }
        let changed = core::mem::take(&mut self.changed_cards);
        let basis = self.cards.basis();
        let all = basis != self.card_basis;
        self.card_basis = basis;
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

    /// Makes requests of what a pod asks of cards and zones, and finds the cards that it holds. Of a node
    /// on which a pod holds unknown cards none is given away.
    pub(super) fn ask_for_cards(&mut self, key: &str, entry: &mut PodEntry) {
        let Some(asking) = &entry.asking else { return };
        let is_plain = Arc::ptr_eq(entry.pod.shape(), &asking.shape);
        if is_plain && asking.asks.is_empty() && self.cards.is_even() {
            return;
        }
        entry.card_fault = None;
        let mut is_blind = false;
        let is_reservation = self.cards.is_reservation(&entry.pod);
        let asks = if is_reservation { &[][..] } else { &asking.asks[..] };
        match self.cards.shape(&asking.shape, asks) {
            Ok(shape) => {
                let shape = self.cards.aligned(&shape, &asking.parts).unwrap_or(shape);
                let pod = core::mem::take(&mut entry.pod).with_shape(shape.into());
                entry.pod = self.interned(pod);
                entry.pod.device_indexes.clear();
                if entry.finished {
                    self.cards.vacate(entry.pod.namespace(), &entry.pod.name);
                } else if entry.pod.node.is_some() && !entry.pod.shape().devices.is_empty() {
                    self.cards.occupy(&entry.pod, asks, asking.held.as_ref());
                    match self.cards.indexes(&entry.pod, asking.held.as_ref()) {
                        Some(indexes) => entry.pod.device_indexes = indexes,
                        None => is_blind = true,
                    }
                }
            }
            Err(reason) => entry.card_fault = Some(reason),
        }
        if !self.follows_fractions && entry.has_fraction() {
            entry.card_fault = Some(NO_BINDER.to_owned());
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
