//! Parked pods: bound pods whose node does not exist.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Slots of pods by the name of the node they wait for. None waits for two.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parked {
    by_node: BTreeMap<Arc<str>, Vec<u32>>,
    by_slot: BTreeMap<u32, Arc<str>>,
}

impl Parked {
    /// The pods that wait for a node.
    pub(crate) fn waiting(&self, node: &str) -> &[u32] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// The node that a pod waits for.
    pub(crate) fn node_of(&self, slot: u32) -> Option<&str> {
        self.by_slot.get(&slot).map(|node| &**node)
    }

    /// The number of pods that wait.
    pub(crate) fn len(&self) -> usize {
        self.by_slot.len()
    }

    /// Pods and the nodes they wait for, in order of node.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.by_node.iter().flat_map(|(node, slots)| slots.iter().map(|&slot| (&**node, slot)))
    }

    /// Lets pods wait that do not wait yet.
    pub(crate) fn park(&mut self, node: &Arc<str>, slots: impl IntoIterator<Item = u32>) {
        let waiting = self.by_node.entry(Arc::clone(node)).or_default();
        for slot in slots {
            waiting.push(slot);
            self.by_slot.insert(slot, Arc::clone(node));
        }
    }

    /// Forgets all pods that wait for a node, as it exists now.
    pub(crate) fn release(&mut self, node: &str) {
        for slot in self.by_node.remove(node).unwrap_or_default() {
            self.by_slot.remove(&slot);
        }
    }

    /// A pod waits no longer. O(log pods), and the pods that wait for the same node.
    pub(crate) fn leave(&mut self, slot: u32) {
        let Some(node) = self.by_slot.remove(&slot) else { return };
        if let Some(slots) = self.by_node.get_mut(&node) {
            slots.retain(|&other| other != slot);
            if slots.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }
}
