//! The order of nodes with equal totals.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::changes::NodeEvent;
use crate::place::request::tie;
use crate::state::journal::NodeChange;
use crate::state::order::rank_between;
use crate::state::{Cluster, Row};

/// The ranks that decide between equal totals, lower first: the cluster's own, or those of a salt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranks {
    salted: Option<Salted>,
}

#[derive(Debug, Clone)]
struct Salted {
    /// By row.
    ranks: Arc<Vec<u32>>,
    /// Rows in use, in order.
    order: Arc<Vec<u32>>,
}

impl Ranks {
    /// The rank of a row.
    #[inline]
    pub(crate) fn of(&self, cluster: &Cluster, row: Row) -> u32 {
        match &self.salted {
            None => cluster.columns.rank[row],
            Some(salted) => salted.ranks[row],
        }
    }

    /// Whether rows are known to be in the order of their ranks.
    pub(crate) fn in_row_order(&self, cluster: &Cluster) -> bool {
        self.salted.is_none() && cluster.order.in_row_order
    }

    /// The ranks by row, unless they are the cluster's own.
    #[inline]
    pub(crate) fn salted(&self) -> Option<&[u32]> {
        self.salted.as_ref().map(|salted| &salted.ranks[..])
    }

    /// The rows in use in order, unless that is the cluster's own.
    #[inline]
    pub(crate) fn order(&self) -> Option<&[u32]> {
        self.salted.as_ref().map(|salted| &salted.order[..])
    }
}

/// Identity of an order among equals: the salt, and how often its ranks were renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OrderStamp {
    pub(crate) salt: u64,
    pub(crate) epoch: u64,
}

/// The order under a salt: by the salted hash of the name, then by the cluster's own rank.
///
/// Ranks have gaps, so that a node that is added changes no other rank, but rarely.
#[derive(Debug)]
pub(crate) struct SaltedOrder {
    pub(crate) salt: u64,
    /// Grows when ranks that were given are given anew.
    pub(crate) epoch: u64,
    /// How many changes of nodes are taken in.
    pub(crate) cursor: u64,
    /// When it was used last, in requests.
    pub(crate) last_use: u64,
    /// By row, of rows in use.
    hashes: Vec<u64>,
    ranks: Arc<Vec<u32>>,
    order: Arc<Vec<u32>>,
}

impl SaltedOrder {
    /// Ranks all nodes; `epoch` is one that no order has had before. O(n log n).
    pub(crate) fn new(cluster: &Cluster, salt: u64, (cursor, epoch): (u64, u64)) -> SaltedOrder {
        let mut order: Vec<u32> = cluster.nodes().map(|node| node.row().as_u32()).collect();
        let mut hashes = alloc::vec![0; cluster.rows()];
        for &row in &order {
            hashes[Row::from(row)] = tie(cluster, Row::from(row), salt);
        }
        // Nodes come in order of their own ranks, and the sort keeps that of equal hashes.
        order.sort_by_key(|&row| hashes[Row::from(row)]);
        let (ranks, order) = (Arc::new(alloc::vec![0; cluster.rows()]), Arc::new(order));
        let mut salted = SaltedOrder { salt, epoch, cursor, last_use: 0, hashes, ranks, order };
        salted.number();
        salted
    }

    fn number(&mut self) {
        let ranks = Arc::make_mut(&mut self.ranks);
        let step = ((1_u64 << 32) - 1) / (self.order.len() as u64 + 1);
        for (place, &row) in self.order.iter().enumerate() {
            ranks[Row::from(row)] = ((place as u64 + 1) * step) as u32;
        }
        self.epoch += 1;
    }

    /// The ranks, and which order they are of.
    pub(crate) fn ranks(&self) -> (Ranks, OrderStamp) {
        let stamp = OrderStamp { salt: self.salt, epoch: self.epoch };
        let (ranks, order) = (Arc::clone(&self.ranks), Arc::clone(&self.order));
        (Ranks { salted: Some(Salted { ranks, order }) }, stamp)
    }

    /// Takes changes of nodes in. O(log n), and moving what comes after it, for each node that came,
    /// went or has another place among equals.
    pub(crate) fn follow(&mut self, cluster: &Cluster, events: &[NodeEvent]) {
        self.cursor += events.len() as u64;
        if self.hashes.len() < cluster.rows() {
            self.hashes.resize(cluster.rows(), 0);
            Arc::make_mut(&mut self.ranks).resize(cluster.rows(), 0);
        }
        let moves =
            NodeChange::ADDED.and(NodeChange::REMOVED, true).and(NodeChange::TIE_RANK, true);
        for event in events.iter().filter(|event| event.change.has(moves)) {
            let (number, row) = (event.row, Row::from(event.row));
            let (order, ranks) = (Arc::make_mut(&mut self.order), Arc::make_mut(&mut self.ranks));
            let old = ranks[row];
            let at = order.partition_point(|&other| ranks[Row::from(other)] < old);
            // A row that was not in use may have a rank that another has now.
            if order.get(at) == Some(&number) {
                order.remove(at);
            }
            if cluster.view(row).is_none() {
                continue;
            }
            self.hashes[row] = tie(cluster, row, self.salt);
            let key = |row: Row| (self.hashes[row], cluster.columns.rank[row]);
            let own = key(row);
            let at = order.partition_point(|&other| key(Row::from(other)) < own);
            let rank = |at: Option<usize>| Some(ranks[Row::from(*order.get(at?)?)]);
            let free = rank_between(rank(at.checked_sub(1)), rank(Some(at)));
            order.insert(at, number);
            match free {
                Some(free) => ranks[row] = free,
                None => self.number(),
            }
        }
    }
}
