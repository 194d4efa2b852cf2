//! Nodes with taints, and nodes that keep new pods away: few as a rule.

use alloc::sync::Arc;

use super::columns::Rare;
use crate::base::{Row, RowSet};
use crate::model::Effect;

/// The rows of nodes that are not open to every pod, or not preferred.
#[derive(Debug, Clone, Default)]
pub(super) struct Specials {
    tainted: Marked,
    unschedulable: Marked,
    /// How many nodes have a taint with effect `PreferNoSchedule`.
    softly_tainted: usize,
}

/// Some rows, counted.
#[derive(Debug, Clone, Default)]
struct Marked {
    rows: Arc<RowSet>,
    count: usize,
}

impl Marked {
    fn set(&mut self, row: Row, present: bool) {
        if self.rows.contains(row) != present {
            Arc::make_mut(&mut self.rows).set(row, present);
            self.count = if present { self.count + 1 } else { self.count - 1 };
        }
    }
}

impl Specials {
    /// Takes a node in (1), or out (-1).
    pub(super) fn count(&mut self, row: Row, node: &Rare, sign: i32) {
        let comes = sign > 0;
        if !node.taints.is_empty() {
            self.tainted.set(row, comes);
        }
        if node.unschedulable {
            self.unschedulable.set(row, comes);
        }
        if node.taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule) {
            self.softly_tainted = self.softly_tainted.saturating_add_signed(sign as isize);
        }
    }

    pub(super) fn tainted(&self) -> usize {
        self.tainted.count
    }

    pub(super) fn tainted_rows(&self) -> &RowSet {
        &self.tainted.rows
    }

    pub(super) fn softly_tainted(&self) -> usize {
        self.softly_tainted
    }

    pub(super) fn unschedulable(&self) -> usize {
        self.unschedulable.count
    }

    pub(super) fn unschedulable_rows(&self) -> &RowSet {
        &self.unschedulable.rows
    }
}
