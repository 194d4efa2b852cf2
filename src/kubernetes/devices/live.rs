//! Cards of a cluster that is followed: they come and go with nodes and with objects.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::supply::{DeviceDialect, NodeCards};
use super::{Ask, Cards};

impl Cards {
    /// The cards of a node; `None` if none are registered.
    pub(in crate::kubernetes) fn of_node(&self, node: &str) -> Option<&NodeCards> {
        self.nodes.get(node)
    }

    /// Forgets the cards of a node that an object of its own registered, or the node itself.
    pub(in crate::kubernetes) fn forget(&mut self, node: &str, by_object: bool) {
        let is_own = |devices: &NodeCards| devices.dialect == DeviceDialect::Koordinator;
        if self.nodes.get(node).is_some_and(|devices| is_own(devices) == by_object) {
            self.nodes.remove(node);
        }
    }

    /// Everything that a request depends on beside the node that it goes to: the dialects, and the sizes
    /// of their cards. O(cards).
    pub(in crate::kubernetes) fn sizes(&self) -> BTreeSet<(DeviceDialect, i64)> {
        let all = self.nodes.values();
        all.flat_map(|node| node.cards.iter().map(|card| (node.dialect, card.memory))).collect()
    }
}

/// Whether all that is asked is of cards that a watch can follow.
pub(in crate::kubernetes) fn is_followed(asks: &[Ask]) -> bool {
    let known = [DeviceDialect::Hami, DeviceDialect::Volcano, DeviceDialect::Koordinator];
    asks.iter().all(|ask| known.contains(&ask.dialect))
}

/// Requests of a pod for cards, and the cards that it holds, to be read anew whenever cards change.
#[derive(Debug, Clone)]
pub(in crate::kubernetes) struct Asking {
    pub(in crate::kubernetes) asks: Vec<Ask>,
    pub(in crate::kubernetes) held: Option<super::Held>,
    /// The shape without them.
    pub(in crate::kubernetes) shape: alloc::sync::Arc<crate::model::PodShape>,
}
