//! The change log of a cluster: changed rows, the kind of change, and pods that came and went.
//!
//! # What a follower does
//!
//! A follower keeps results that it computed from a cluster, together with the [`Moment`] it read
//! them at. [`Journal::since`] lists what has changed since, oldest first. Without a list (too far
//! behind, or another lineage) every result is void. With one, replaying it in order is enough:
//!
//! | change | what has changed | what a follower does |
//! |---|---|---|
//! | [`Change::Pods`] | one pod came to a row or left it | the sums and the list of pods of that row are read again, or counted up and down by the shape; a pod that was updated is one that left and one that came |
//! | [`Change::Node`] | what [`NodeChange`] names of one row | results about the row are computed again where they read what is named |
//! | [`Change::Namespaces`] | labels of a namespace | results that read labels of namespaces are void |
//! | [`Change::Storage`] | claims, volumes and what they are | results for shapes with volumes are void |
//! | [`Change::Claims`] | a device class, a slice or a claim | results for pods with claims are void; none are kept |
//! | [`Change::Parked`] | a pod that waits for its node came or went | nothing: it is on no row; a copy of the cluster is behind |
//!
//! Beside the row itself, a change of a node reaches
//! - the domains of its labels: [`NodeChange::label`] tests whether the value of a key may be another;
//! - counts over all nodes, for plugins that read them: the number of nodes
//!   ([`NodeChange::ADDED`], [`NodeChange::REMOVED`]), how many have an image
//!   ([`NodeChange::IMAGES`]), taints ([`NodeChange::TAINTS`]) or are unschedulable
//!   ([`NodeChange::UNSCHEDULABLE`]). An addition and a removal name what the node has of these.
//!
//! **Rows.** A node keeps its row while it exists. An added node has a row that was free, or a new
//! one: then [`Cluster::rows`](super::Cluster::rows) has grown, and columns by row are to be
//! extended before the list is replayed. A row that is not in use has no view, no pods, and zeros
//! in the columns. Pods of a node that goes leave the row before it does; pods that waited for a
//! node come to the row after it.
//!
//! **Ranks.** `Cluster::rank_epoch` moves only when ranks that were given are given anew; then all
//! orders among equals are void. An addition that finds a rank between its neighbours leaves it.
//! The rank of one row alone changes with [`NodeChange::ADDED`] and [`NodeChange::TIE_RANK`].
//! `Cluster::order.in_row_order` may change with either.
//!
//! **Names.** Numbers of resources, label keys and label values are never given anew, and names get
//! one when they are first mentioned, by a node or by a pod. What was resolved to no number is to be
//! resolved again when `Cluster::names` has grown.
//!
//! **Shapes.** A shape keeps its number, and `Cluster::shape_entry` finds it, for as long as the
//! journal remembers a change that names it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::ids::{LabelKey, NONE, ShapeId};
use crate::base::Row;
use crate::base::chunks::CHUNK;

/// How many changes are remembered at least; a follower that is further behind starts anew.
pub(super) const REMEMBERED: usize = 4_096;
/// With more rows than that many times this, one change is remembered for every so many rows.
/// Bringing a result up to date with them then costs a small part of computing it again.
const ROWS_A_CHANGE: usize = 32;

/// A point in the history of a cluster: which history, and how many changes into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moment {
    lineage: usize,
    pub(crate) generation: u64,
}

impl Moment {
    /// Whether both are of one history.
    pub(crate) fn is_of(self, other: Moment) -> bool {
        self.lineage == other.lineage
    }
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A pod came to a row, or left it.
    Pods { row: u32, shape: ShapeId, added: bool, deleting: bool },
    /// A node came, went or changed.
    Node { row: u32, change: NodeChange },
    /// Labels of a namespace changed, or a namespace came or went.
    Namespaces,
    /// A storage object came, went or changed, or a commit has bound a claim.
    Storage,
    /// A device class, a slice or a claim changed, came or went.
    Claims,
    /// A pod that waits for its node came or went.
    Parked,
}

impl Change {
    /// The row of the node that changed, or of the one whose pods did.
    pub(crate) fn row(self) -> Option<Row> {
        match self {
            Change::Pods { row, .. } | Change::Node { row, .. } => Some(Row::from(row)),
            Change::Namespaces | Change::Storage | Change::Claims | Change::Parked => None,
        }
    }
}

/// The fields of a node that may have changed: a set of kinds, and which label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeChange {
    kinds: u16,
    /// The number of the one label key whose value changed; `NONE` for several, or one that had no
    /// number.
    key: u32,
}

impl NodeChange {
    /// The empty set.
    pub(crate) const NOTHING: NodeChange = NodeChange { kinds: 0, key: NONE };
    /// The row is in use now. Comes with the kinds of all that the node has.
    pub(crate) const ADDED: NodeChange = NodeChange::kind(0);
    /// The row is not in use any longer. Comes with the kinds of all that the node had.
    pub(crate) const REMOVED: NodeChange = NodeChange::kind(1);
    /// Labels; [`NodeChange::label`] tests for one.
    pub(crate) const LABELS: NodeChange = NodeChange::kind(2);
    pub(crate) const TAINTS: NodeChange = NodeChange::kind(3);
    pub(crate) const UNSCHEDULABLE: NodeChange = NodeChange::kind(4);
    /// Allocatable amounts, capacity, or the limit of pods.
    pub(crate) const RESOURCES: NodeChange = NodeChange::kind(5);
    /// Devices, and with them what is left of them.
    pub(crate) const DEVICES: NodeChange = NodeChange::kind(6);
    pub(crate) const IMAGES: NodeChange = NodeChange::kind(7);
    /// The place among equals.
    pub(crate) const TIE_RANK: NodeChange = NodeChange::kind(8);
    /// The embedder's own number.
    pub(crate) const KEY: NodeChange = NodeChange::kind(9);
    /// The node was measured.
    pub(crate) const USAGE: NodeChange = NodeChange::kind(10);

    const fn kind(bit: u16) -> NodeChange {
        NodeChange { kinds: 1 << bit, key: NONE }
    }

    /// The labels of one key, or of several.
    pub(super) fn labels(key: Option<LabelKey>) -> NodeChange {
        NodeChange { key: key.map_or(NONE, |key| key.0), ..NodeChange::LABELS }
    }

    /// This and another, if `also` holds.
    pub(crate) fn and(self, other: NodeChange, also: bool) -> NodeChange {
        let key = if other.has(NodeChange::LABELS) { other.key } else { self.key };
        if also { NodeChange { kinds: self.kinds | other.kinds, key } } else { self }
    }

    /// Whether one of the kinds of another is among its own.
    pub(crate) fn has(self, any: NodeChange) -> bool {
        self.kinds & any.kinds != 0
    }

    /// Whether the value of a label may have changed.
    pub(crate) fn label(self, key: LabelKey) -> bool {
        self.has(NodeChange::LABELS) && (self.key == NONE || self.key == key.0)
    }
}

/// The last changes of a cluster, of 16 bytes each: at most [`REMEMBERED`], or, of many rows, one
/// for every [`ROWS_A_CHANGE`].
///
/// A clone shares its original's history up to the moment it was made. Its first own change
/// begins a history of its own, so that equal moments always mean equal states.
#[derive(Debug)]
pub(crate) struct Journal {
    now: Moment,
    /// Where this history branched off another.
    origin: Moment,
    shared: bool,
    /// How many changes are remembered, in full chunks.
    most: usize,
    /// The last changes but those of `tail`, in full chunks, oldest first.
    chunks: Vec<Arc<[Change]>>,
    /// The changes after those: at most one chunk. A plain vector, so that a record is a push.
    tail: Vec<Change>,
}

fn new_lineage() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Default for Journal {
    fn default() -> Journal {
        let now = Moment { lineage: new_lineage(), generation: 0 };
        let (chunks, tail) = (Vec::new(), Vec::new());
        Journal { now, origin: now, shared: false, most: REMEMBERED, chunks, tail }
    }
}

impl Clone for Journal {
    fn clone(&self) -> Journal {
        Journal {
            now: self.now,
            origin: self.origin,
            shared: true,
            most: self.most,
            chunks: self.chunks.clone(),
            tail: self.tail.clone(),
        }
    }
}

impl Journal {
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// How many changes are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.most
    }

    /// Remembers as many changes as suits so many rows. They never become fewer.
    pub(super) fn suit(&mut self, rows: usize) {
        self.most = self.most.max((rows / ROWS_A_CHANGE).next_multiple_of(CHUNK));
    }

    /// Records a change and returns its generation.
    #[inline]
    pub(crate) fn record(&mut self, change: Change) -> u64 {
        if self.shared {
            self.shared = false;
            self.origin = self.now;
            self.now.lineage = new_lineage();
        }
        if self.tail.len() == CHUNK {
            self.close_chunk();
        }
        self.tail.push(change);
        self.now.generation += 1;
        self.now.generation
    }

    /// Makes a chunk of the tail, and drops the oldest chunk if the others are enough.
    #[cold]
    fn close_chunk(&mut self) {
        if self.chunks.len() >= self.most / CHUNK {
            self.chunks.remove(0);
        }
        self.chunks.push(Arc::from(&self.tail[..]));
        self.tail.clear();
    }

    /// The changes since a moment, oldest first; `None` if they are not all known.
    pub(crate) fn since(&self, then: Moment) -> Option<impl Iterator<Item = Change> + '_> {
        let known = then.lineage == self.now.lineage && then.generation >= self.origin.generation
            || then.lineage == self.origin.lineage && then.generation <= self.origin.generation;
        let missed = usize::try_from(self.now.generation.checked_sub(then.generation)?).ok()?;
        let kept = self.chunks.len() * CHUNK + self.tail.len();
        let first = kept.checked_sub(missed).filter(|_| known && missed <= self.most)?;
        let at = |place: usize| match self.chunks.get(place / CHUNK) {
            Some(chunk) => chunk[place % CHUNK],
            None => self.tail[place - self.chunks.len() * CHUNK],
        };
        Some((first..kept).map(at))
    }

    /// The rows that have changed since a moment, in order; `None` if they are not all known.
    pub(crate) fn rows_since(&self, then: Moment) -> Option<Vec<Row>> {
        let mut rows: Vec<Row> = self.since(then)?.filter_map(Change::row).collect();
        rows.sort_unstable();
        rows.dedup();
        Some(rows)
    }
}

#[cfg(test)]
mod tests;
