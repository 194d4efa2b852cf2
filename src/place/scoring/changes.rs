//! The change log of a planner: changes since its results were made.
//!
//! It follows the cluster's journal on behalf of the planner, and takes in the pods that the decision
//! under way places and takes back. Results that are kept hold cursors into its three lists:
//!
//! | list | entry | read by |
//! |---|---|---|
//! | rows | a row whose node or pods changed | rankings of rows: the row is evaluated again |
//! | nodes | a row, and what of its node changed | whatever was prepared from nodes: plugins, partitions, orders among equals |
//! | pods | a pod of a shape came to a row, or left it | plugins that count pods by class |

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::model::PodShape;
use crate::state::journal::{Change, Moment, NodeChange};
use crate::state::{Cluster, PlacedPods, Row};

/// Changes of nodes and events of pods remembered at least; results that are further behind are
/// computed again.
const REMEMBERED: usize = 4_096;

/// A change of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeEvent {
    pub(crate) row: u32,
    pub(crate) change: NodeChange,
}

/// A pod of a shape came to a row, or left it.
#[derive(Debug, Clone)]
pub(crate) struct PodEvent {
    pub(crate) row: u32,
    pub(crate) shape: Arc<PodShape>,
    pub(crate) deleting: bool,
    pub(crate) came: bool,
}

/// Rows, nodes and pods that changed.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    moment: Moment,
    /// Oldest first; `start` were dropped before the first.
    rows: Vec<u32>,
    start: u64,
    /// The end of the rows when they were read last.
    seen: u64,
    /// The end of the rows when a result that outlives the decision read them last.
    kept: u64,
    nodes: Vec<NodeEvent>,
    nodes_start: u64,
    /// How often labels of namespaces changed.
    namespaces: u64,
    /// Rows of the cluster that was followed last.
    width: usize,
    pub(crate) pods: PodEvents,
    /// Pods of the cluster, without the decision under way.
    pub(crate) placed: PlacedPods,
}

impl ChangeLog {
    /// Takes in what has changed in a cluster since the last request. False if that is not known:
    /// the log begins anew then, and every result is void.
    ///
    /// Rows of nodes that a transaction added and took back are in its cluster and not in the one it
    /// is a copy of. Results that have seen such rows are void there.
    pub(crate) fn sync(&mut self, cluster: &Cluster) -> bool {
        self.pods.begin();
        let is_narrower = cluster.rows() < core::mem::replace(&mut self.width, cluster.rows());
        let known = !is_narrower && (cluster.moment() == self.moment || self.follow(cluster));
        self.moment = cluster.moment();
        if !known {
            self.forget();
        }
        trim(&mut self.nodes, &mut self.nodes_start, 2 * REMEMBERED);
        trim(&mut self.rows, &mut self.start, 4 * cluster.rows() + 4_096);
        self.seen = self.seen.max(self.start);
        known
    }

    /// Takes in what has changed in a cluster that was followed, and takes it for what it was at
    /// another moment, which it is equal to.
    pub(crate) fn rebase(&mut self, visited: &Cluster, moment: Moment) {
        if self.moment.is_of(visited.moment()) {
            let known = self.sync(visited);
            // Shapes may have other numbers there.
            self.placed = PlacedPods::default();
            self.moment = if known { moment } else { Moment::default() };
        }
    }

    fn follow(&mut self, cluster: &Cluster) -> bool {
        let Some(changes) = cluster.journal.since(self.moment) else { return false };
        for change in changes {
            match change {
                Change::Pods { row, shape, added, deleting } => {
                    self.note(row);
                    self.placed.change(shape, Row::from(row), deleting, added);
                    if self.pods.listened {
                        let Some(entry) = cluster.shape_entry(shape) else { return false };
                        let shape = Arc::clone(&entry.shape);
                        let event = PodEvent { row, shape, deleting, came: added };
                        self.pods.list.push_back(event);
                    }
                }
                Change::Node { row, change } => {
                    self.note(row);
                    self.nodes.push(NodeEvent { row, change });
                }
                Change::Namespaces => self.namespaces += 1,
                // Plugins that read storage or claims judge anew for each request.
                Change::Storage | Change::Claims | Change::Parked => {}
            }
        }
        true
    }

    /// A log without changes whose rows go on where these end.
    #[cfg(feature = "parallel")]
    pub(crate) fn fork(&self) -> ChangeLog {
        let end = self.end();
        ChangeLog { start: end, seen: end, kept: end, ..ChangeLog::default() }
    }

    /// Begins anew. Cursors into the log must not be used again.
    pub(crate) fn forget(&mut self) {
        self.rows.clear();
        (self.start, self.seen, self.kept) = (0, 0, 0);
        self.nodes_start = self.nodes_end();
        self.nodes.clear();
        self.pods.forget();
        self.placed = PlacedPods::default();
    }

    /// The end of the rows.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.rows.len() as u64
    }

    /// Whether all rows since a cursor are known.
    pub(crate) fn reaches(&self, cursor: u64) -> bool {
        cursor >= self.start
    }

    /// The rows since a cursor, which must be known.
    pub(crate) fn since(&self, cursor: u64) -> &[u32] {
        &self.rows[(cursor - self.start) as usize..]
    }

    /// The rows from one cursor to another.
    pub(crate) fn between(&self, from: u64, to: u64) -> &[u32] {
        &self.rows[(from - self.start) as usize..(to - self.start) as usize]
    }

    /// Adds a row, unless it is the last one and has not been read since.
    #[inline]
    pub(crate) fn note(&mut self, row: u32) {
        if self.end() == self.seen || self.rows.last() != Some(&row) {
            self.rows.push(row);
        }
    }

    /// Notes that a result of the decision under way has read all rows.
    pub(crate) fn look(&mut self) {
        self.seen = self.end();
    }

    /// Notes that a result that outlives the decision has read all rows.
    pub(crate) fn look_to_keep(&mut self) {
        (self.seen, self.kept) = (self.end(), self.end());
    }

    /// Takes the rows since a cursor back that a decision added, if no result that is kept has
    /// read them: it is as if nothing had been.
    pub(crate) fn rollback(&mut self, cursor: u64) {
        if self.kept <= cursor {
            self.rows.truncate((cursor - self.start) as usize);
            self.seen = self.seen.min(cursor);
        }
    }

    /// The end of the changes of nodes.
    pub(crate) fn nodes_end(&self) -> u64 {
        self.nodes_start + self.nodes.len() as u64
    }

    /// The changes of nodes since a cursor; `None` if they are not all known.
    pub(crate) fn nodes_since(&self, cursor: u64) -> Option<&[NodeEvent]> {
        self.nodes.get(usize::try_from(cursor.checked_sub(self.nodes_start)?).ok()?..)
    }

    /// How often labels of namespaces have changed.
    pub(crate) fn namespaces(&self) -> u64 {
        self.namespaces
    }
}

/// Drops the older half of a list that is longer than `most`.
fn trim<T>(list: &mut Vec<T>, start: &mut u64, most: usize) {
    if list.len() > most {
        let spare = list.len() / 2;
        *start += spare as u64;
        list.drain(..spare);
    }
}

/// Pods that came and went on the cluster and in the decision under way.
///
/// Nothing is recorded until a result that follows them is kept.
#[derive(Debug, Default)]
pub(crate) struct PodEvents {
    list: VecDeque<PodEvent>,
    start: u64,
    history: u64,
    listened: bool,
    /// Pods placed by the decision under way, in order.
    flight: Vec<(u32, Arc<PodShape>)>,
}

impl PodEvents {
    /// Whether all events of a history since a cursor are known.
    pub(crate) fn reach(&self, history: u64, cursor: u64) -> bool {
        self.history == history && cursor >= self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.list.len() as u64
    }

    /// Identity of the history: a preparation for another cannot be brought up to date.
    pub(crate) fn history(&self) -> u64 {
        self.history
    }

    pub(crate) fn since(&self, cursor: u64) -> impl Iterator<Item = &PodEvent> {
        self.list.range((cursor - self.start) as usize..)
    }

    /// Records events from now on. Nothing may be in flight.
    pub(crate) fn listen(&mut self) {
        self.listened = true;
    }

    /// Begins a request: what the last one placed is taken back.
    fn begin(&mut self) {
        self.rollback(0);
        let spare = self.list.len().saturating_sub(REMEMBERED);
        if spare > 0 {
            self.list.drain(..spare);
            self.start += spare as u64;
        }
    }

    /// Begins another history.
    fn forget(&mut self) {
        self.start = self.end();
        self.list.clear();
        self.flight.clear();
        self.history += 1;
    }

    /// Adds a pod that was placed.
    #[inline]
    pub(crate) fn placed(&mut self, row: u32, shape: &Arc<PodShape>) {
        if self.listened {
            self.flight.push((row, Arc::clone(shape)));
            let shape = Arc::clone(shape);
            self.list.push_back(PodEvent { row, shape, deleting: false, came: true });
        }
    }

    /// Takes back what was placed since a mark.
    pub(crate) fn rollback(&mut self, mark: usize) {
        while self.flight.len() > mark
            && let Some((row, shape)) = self.flight.pop()
        {
            self.list.push_back(PodEvent { row, shape, deleting: false, came: false });
        }
    }
}
