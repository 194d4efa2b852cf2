//! How queues stand in each other, and which cells they have.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Group, GroupFlavor, QueueId, QueueTree, Slot};
use crate::quota::books::cells::NONE;
use crate::quota::model::queue::{Queue, QueueKind, Quota};

impl QueueTree {
    /// The slot of a name, made now if there is none.
    pub(super) fn slot_of(&mut self, kind: QueueKind, name: &str) -> u32 {
        if let Some(id) = self.queue(kind, name) {
            return id.slot;
        }
        let spec = match kind {
            QueueKind::Leaf => Queue::leaf(name),
            QueueKind::Inner => Queue::inner(name),
        };
        let slot = Slot {
            spec,
            generation: 0,
            parent: NONE,
            leaves: Vec::new(),
            inner: Vec::new(),
            place: 0,
            height: 0,
            cells: Vec::new(),
            groups: Vec::new(),
            implicit: true,
            draining: false,
            gone: false,
        };
        let at = if let Some(at) = self.free.pop() {
            let generation = self.slots[at as usize].generation.wrapping_add(1);
            self.slots[at as usize] = Slot { generation, ..slot };
            at
        } else {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        };
        if kind == QueueKind::Leaf {
            self.leaves.insert(name.into(), at);
            self.index.insert(name.into(), at);
        } else {
            self.inner.insert(name.into(), at);
        }
        at
    }

    /// The cell of a queue, made now, with those above, if there is none.
    pub(in crate::quota) fn cell_or_new(&mut self, at: u32, pair: u32) -> u32 {
        if let Some(cell) = self.slots[at as usize].cell(pair) {
            return cell;
        }
        self.shape += 1;
        let cell = self.cells.add(at, pair);
        let slot = &mut self.slots[at as usize];
        let place = slot.cells.partition_point(|(own, _)| *own < pair);
        slot.cells.insert(place, (pair, cell));
        let parent = slot.parent;
        if parent != NONE {
            let above = self.cell_or_new(parent, pair);
            self.cells.link(cell, above);
        }
        cell
    }

    /// Brings cells and groups in line with the queue's spec.
    pub(super) fn set_cells(&mut self, at: u32) {
        let spec = self.slots[at as usize].spec.groups.clone();
        let mut stated: Vec<(u32, Quota)> = Vec::new();
        let mut groups = Vec::new();
        for group in &spec {
            let mut names: Vec<&str> = group.covered_resources.iter().map(String::as_str).collect();
            let of_flavors = group.flavors.iter().flat_map(|flavor| &flavor.resources);
            names.extend(of_flavors.map(|(name, _)| name.as_str()));
            names.sort_unstable();
            names.dedup();
            let resources: Vec<u32> =
                names.iter().map(|name| self.resources.intern(name)).collect();
            let mut flavors = Vec::new();
            for quotas in &group.flavors {
                let flavor = self.flavors.intern(&quotas.name);
                let mut cells = Vec::new();
                for (name, &resource) in names.iter().zip(&resources) {
                    let pair = self.pair((flavor, resource));
                    cells.push(self.cell_or_new(at, pair));
                    let quota = quotas.resources.iter().find(|(own, _)| own == name);
                    if let Some((_, quota)) = quota {
                        stated.push((pair, quota.clone()));
                    }
                }
                flavors.push(GroupFlavor { flavor, cells });
            }
            groups.push(Group { resources, flavors });
        }
        self.slots[at as usize].groups = groups;
        stated.sort_by_key(|(pair, _)| *pair);
        for place in 0..self.slots[at as usize].cells.len() {
            let (pair, cell) = self.slots[at as usize].cells[place];
            let found = stated.binary_search_by_key(&pair, |(pair, _)| *pair).ok();
            let quota = found.map(|at| &stated[at].1);
            if quota.is_some() || self.cells[cell].stated {
                self.cells.set_quota(cell, quota);
            }
        }
    }

    /// Puts a queue below the parent that it names, and queues that wait for such a change.
    pub(super) fn settle(&mut self, at: u32) {
        self.link(at);
        let waiting = core::mem::take(&mut self.unlinked);
        for at in waiting {
            let slot = &self.slots[at as usize];
            if !slot.gone && slot.parent == NONE && slot.spec.parent.is_some() {
                self.link(at);
            }
        }
    }

    fn link(&mut self, at: u32) {
        self.unlink(at);
        let Some(name) = self.slots[at as usize].spec.parent.clone() else { return };
        let parent = self.slot_of(QueueKind::Inner, &name);
        let levels = 2 + self.slots[at as usize].height;
        let (mut above, mut depth) = (parent, 0);
        while above != NONE {
            if above == at || depth + levels > QueueTree::MAX_DEPTH {
                self.unlinked.push(at);
                return;
            }
            above = self.slots[above as usize].parent;
            depth += 1;
        }
        let leaf = self.slots[at as usize].spec.kind == QueueKind::Leaf;
        let slot = &mut self.slots[parent as usize];
        let siblings = if leaf { &mut slot.leaves } else { &mut slot.inner };
        siblings.push(at);
        let place = siblings.len() as u32 - 1;
        let own = &mut self.slots[at as usize];
        (own.parent, own.place) = (parent, place);
        self.set_heights(parent);
        for index in 0..self.slots[at as usize].cells.len() {
            let (pair, cell) = self.slots[at as usize].cells[index];
            let above = self.cell_or_new(parent, pair);
            self.cells.link(cell, above);
        }
    }

    fn unlink(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let leaf = slot.spec.kind == QueueKind::Leaf;
        let (parent, place) = (core::mem::replace(&mut slot.parent, NONE), slot.place);
        if parent == NONE {
            return;
        }
        for index in 0..self.slots[at as usize].cells.len() {
            let (_, cell) = self.slots[at as usize].cells[index];
            self.cells.link(cell, NONE);
        }
        let slot = &mut self.slots[parent as usize];
        let siblings = if leaf { &mut slot.leaves } else { &mut slot.inner };
        siblings.swap_remove(place as usize);
        if let Some(&other) = siblings.get(place as usize) {
            self.slots[other as usize].place = place;
        }
        self.set_heights(parent);
    }

    /// Sets the heights of a queue and those above.
    fn set_heights(&mut self, mut at: u32) {
        while at != NONE {
            let slot = &self.slots[at as usize];
            let highest = slot.inner.iter().map(|&at| self.slots[at as usize].height + 1).max();
            let height = highest.unwrap_or(u32::from(!slot.leaves.is_empty()));
            if slot.height == height {
                return;
            }
            let parent = slot.parent;
            self.slots[at as usize].height = height;
            at = parent;
        }
    }

    /// Drops an inner queue that only others named, and that none names any more; then its parent's.
    pub(super) fn drop_unused_parent(&mut self, name: &str) {
        let Some(&at) = self.inner.get(name) else { return };
        let slot = &self.slots[at as usize];
        let waited = |&at: &u32| self.slots[at as usize].spec.parent.as_deref() == Some(name);
        let used = !slot.leaves.is_empty() || !slot.inner.is_empty();
        if slot.implicit && !used && !self.unlinked.iter().any(waited) {
            let above = slot.spec.parent.clone();
            self.drop_slot(at);
            if let Some(above) = above {
                self.drop_unused_parent(&above);
            }
        }
    }

    /// Drops a leaf that drains and in which nothing is counted; whether it did.
    pub(in crate::quota) fn drop_drained(&mut self, queue: QueueId) -> bool {
        let Ok(at) = self.slot(queue) else { return false };
        let slot = &self.slots[at as usize];
        let idle = slot.draining && slot.cells.iter().all(|(_, cell)| self.cells[*cell].is_idle());
        if idle {
            let parent = slot.spec.parent.clone();
            self.drop_slot(at);
            if let Some(parent) = parent {
                self.drop_unused_parent(&parent);
            }
        }
        idle
    }

    fn drop_slot(&mut self, at: u32) {
        self.shape += 1;
        self.unlink(at);
        self.unlinked.retain(|other| *other != at);
        let slot = &mut self.slots[at as usize];
        slot.gone = true;
        let (name, leaf) = (slot.spec.name.clone(), slot.spec.kind == QueueKind::Leaf);
        for (_, cell) in core::mem::take(&mut slot.cells) {
            self.cells.remove(cell);
        }
        if leaf {
            self.leaves.remove(name.as_str());
            self.index.remove(name.as_str());
        } else {
            self.inner.remove(name.as_str());
        }
        self.free.push(at);
    }
}
