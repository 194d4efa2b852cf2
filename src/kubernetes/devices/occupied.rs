//! Cards of KAI's that groups and pods hold in a cluster that is followed.
//!
//! Nothing says which card of its node a group has. A group gets a card when its first pod is seen, and
//! keeps it until its last pod goes; so does a pod with whole cards.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::asks::Ask;
use super::fractions::groups_of;
use super::written::Held;
use crate::model::Pod;

/// Namespace and name of a pod.
pub(super) type Name = (String, String);

/// The holder of a card.
#[derive(Debug)]
enum Holder {
    /// A group, by its name, and its pods.
    Group(String, BTreeSet<Name>),
    /// A pod that has the whole card.
    Pod(Name),
}

/// Holders by node and number of the card.
#[derive(Debug, Default)]
pub(super) struct Occupied {
    nodes: BTreeMap<String, BTreeMap<u32, Holder>>,
    pods: BTreeMap<Name, String>,
}

impl Occupied {
    /// The group that has a card.
    pub(super) fn group(&self, node: &str, card: u32) -> Option<&str> {
        match self.nodes.get(node)?.get(&card)? {
            Holder::Group(group, _) => Some(group),
            Holder::Pod(_) => None,
        }
    }

    /// Gives a pod that runs the cards that it asks for, of so many: request by request. A pod that is
    /// known keeps its cards; one that a plan of this crate placed says which it has. `None` if too few
    /// are free.
    pub(super) fn put(
        &mut self,
        pod: &Pod,
        asks: &[Ask],
        held: Option<&Held>,
        have: u32,
    ) -> Option<Vec<Vec<u32>>> {
        let node = pod.node.as_deref()?;
        let name = (pod.namespace().to_string(), pod.name.clone());
        let mut own = self.cards_of(&name, node);
        own.retain(|card| *card < have);
        let hints = held.map(Held::numbers).unwrap_or_default();
        self.remove(&name);
        self.pods.insert(name.clone(), node.to_string());
        let cards = self.nodes.entry(node.to_string()).or_default();
        let mut own = own.into_iter().chain(hints);
        let lists = asks.iter().map(|ask| -> Option<Vec<u32>> {
            if ask.is_fraction() {
                let groups = groups_of(pod).into_iter();
                return groups.map(|group| join(cards, node, group, &name, have)).collect();
            }
            let mut list = Vec::new();
            for _ in 0..ask.count {
                let free = |card: &u32| *card < have && !cards.contains_key(card);
                let card = own.by_ref().find(free).or_else(|| (0..have).find(free))?;
                cards.insert(card, Holder::Pod(name.clone()));
                list.push(card);
            }
            list.sort_unstable();
            Some(list)
        });
        lists.collect()
    }

    /// The cards that a pod has on a node by itself.
    fn cards_of(&self, name: &Name, node: &str) -> Vec<u32> {
        let cards = self.nodes.get(node).into_iter().flatten();
        let own = cards.filter(|(_, holder)| matches!(holder, Holder::Pod(own) if own == name));
        own.map(|(card, _)| *card).collect()
    }

    /// Takes the cards of a pod back, and those of groups without another pod. Returns its node.
    pub(super) fn remove(&mut self, name: &Name) -> Option<String> {
        let node = self.pods.remove(name)?;
        let cards = self.nodes.get_mut(&node)?;
        cards.retain(|_, holder| match holder {
            Holder::Group(_, pods) => {
                pods.remove(name);
                !pods.is_empty()
            }
            Holder::Pod(own) => own != name,
        });
        if cards.is_empty() {
            self.nodes.remove(&node);
        }
        Some(node)
    }
}

/// The card of a group, with a pod more: its own, else that of which it has the name, else the first
/// that is free.
fn join(
    cards: &mut BTreeMap<u32, Holder>,
    node: &str,
    group: &str,
    pod: &Name,
    have: u32,
) -> Option<u32> {
    let own = cards.iter_mut().find_map(|(card, holder)| match holder {
        Holder::Group(name, pods) if name == group => Some((*card, pods)),
        _ => None,
    });
    if let Some((card, pods)) = own {
        pods.insert(pod.clone());
        return (card < have).then_some(card);
    }
    let named = group.strip_prefix(node).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
    let free = |card: &u32| *card < have && !cards.contains_key(card);
    let card = named.filter(free).or_else(|| (0..have).find(free))?;
    cards.insert(card, Holder::Group(group.to_string(), BTreeSet::from([pod.clone()])));
    Some(card)
}
