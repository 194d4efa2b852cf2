//! Checked claims: those that were found to hold, until a node changes that this was judged by.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use crate::model::PodShape;
use crate::queue::terms::ids::GroupId;
use crate::state::Row;

/// The basis on which a claim was found to hold.
#[derive(Debug)]
pub(in crate::queue) struct Basis {
    /// Shapes of its pods. No row beyond those of the plan has room for one.
    pub(in crate::queue) shapes: Vec<Arc<PodShape>>,
    /// The rows of its plan.
    pub(in crate::queue) rows: Vec<Row>,
}

/// Rooms of groups: those to look at, and claims that need no look.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Whether claims are judged by the room of nodes alone: others are to be looked at always.
    by_room: bool,
    /// Rooms that are to be looked at after a change.
    open: BTreeSet<GroupId>,
    /// Claims that hold.
    claims: BTreeMap<GroupId, Basis>,
    by_row: BTreeMap<Row, BTreeSet<GroupId>>,
    by_shape: BTreeMap<Arc<PodShape>, BTreeSet<GroupId>>,
    /// Rows that have changed since claims were told last.
    changed: BTreeSet<Row>,
}

impl Checked {
    /// Rooms that are to be looked at.
    pub(super) fn open(&self) -> &BTreeSet<GroupId> {
        &self.open
    }

    /// A room is there, or has changed.
    pub(super) fn open_up(&mut self, id: GroupId) {
        if let Some(Basis { shapes, rows }) = self.claims.remove(&id) {
            for row in &rows {
                drop_from(&mut self.by_row, row, id);
            }
            for shape in &shapes {
                drop_from(&mut self.by_shape, shape, id);
            }
        }
        self.open.insert(id);
    }

    /// A room has ended.
    pub(super) fn remove(&mut self, id: GroupId) {
        self.open_up(id);
        self.open.remove(&id);
    }

    /// A claim holds. O((shapes + rows) · log claims).
    pub(super) fn put(&mut self, id: GroupId, basis: Basis) {
        if !self.by_room {
            return;
        }
        self.remove(id);
        for row in &basis.rows {
            self.by_row.entry(*row).or_default().insert(id);
        }
        for shape in &basis.shapes {
            self.by_shape.entry(Arc::clone(shape)).or_default().insert(id);
        }
        self.claims.insert(id, basis);
    }

    /// All rooms are to be looked at. O(checked claims).
    pub(super) fn open_all(&mut self) {
        self.open.extend(mem::take(&mut self.claims).into_keys());
        self.by_row.clear();
        self.by_shape.clear();
        self.changed.clear();
    }

    /// The pods on a row have changed.
    pub(super) fn note(&mut self, row: Row) {
        if !self.claims.is_empty() {
            self.changed.insert(row);
        }
    }

    /// Opens the claims that changes since the last call concern. A row of the plan has changed, or one
    /// that has room for a pod of a shape now. If more than room decides, all are opened. O(changed rows ·
    /// shapes).
    pub(super) fn tell(&mut self, by_room: bool, has_room: impl Fn(&PodShape, Row) -> bool) {
        self.by_room = by_room;
        if !by_room {
            return self.open_all();
        }
        let changed = mem::take(&mut self.changed);
        let mut concerned = BTreeSet::new();
        for (shape, claims) in &self.by_shape {
            if changed.iter().any(|row| has_room(shape, *row)) {
                concerned.extend(claims);
            }
        }
        concerned.extend(changed.iter().filter_map(|row| self.by_row.get(row)).flatten());
        for id in concerned {
            self.open_up(id);
        }
    }
}

/// Drops a claim from an index that keeps no empty sets.
fn drop_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<GroupId>>, key: &K, id: GroupId) {
    if let Some(claims) = index.get_mut(key) {
        claims.remove(&id);
        if claims.is_empty() {
            index.remove(key);
        }
    }
}
