//! The sum of free resources, kept in step with the cluster.

use alloc::vec::Vec;

use super::demand::Demand;
use crate::base::Row;
use crate::state::{Cluster, NodeView, ResourceId};

/// Sums of the free resources of nodes. A node that has less than nothing free counts as full.
#[derive(Debug, Default)]
pub(in crate::queue) struct Free {
    resources: Vec<Option<ResourceId>>,
    /// The part of each row, a resource after the other.
    by_row: Vec<i64>,
    sum: Vec<i64>,
}

impl Free {
    /// Brings the sums in step: on some rows, or on all of them. O(rows · resources).
    pub(in crate::queue) fn read(
        &mut self,
        cluster: &Cluster,
        resources: Vec<Option<ResourceId>>,
        rows: Option<impl Iterator<Item = Row>>,
    ) {
        let count = resources.len();
        if let Some(rows) = rows.filter(|_| resources == self.resources) {
            self.by_row.resize(cluster.rows() * count, 0);
            for row in rows {
                self.read_row(cluster, row);
            }
        } else {
            let by_row = alloc::vec![0; cluster.rows() * count];
            *self = Free { resources, by_row, sum: alloc::vec![0; count] };
            for row in Row::all(cluster.rows()) {
                self.read_row(cluster, row);
            }
        }
    }

    fn read_row(&mut self, cluster: &Cluster, row: Row) {
        let (node, count) = (cluster.view(row), self.resources.len());
        let own = self.by_row.iter_mut().skip(row.index() * count);
        for ((own, sum), id) in own.zip(&mut self.sum).zip(&self.resources) {
            let free = node.zip(*id).map_or(0, |(node, id)| node.free(id).max(0));
            *sum = sum.saturating_sub(*own).saturating_add(free);
            *own = free;
        }
    }

    /// The sums.
    pub(in crate::queue) fn sum(&self) -> Demand {
        Demand::of_amounts(self.sum.iter().copied())
    }
}

/// Free resources of each row, pods first.
pub(in crate::queue) fn free_by_row<'a>(
    cluster: &'a Cluster,
    resources: &'a [Option<ResourceId>],
) -> impl Iterator<Item = Demand> + 'a {
    Row::all(cluster.rows()).map(|row| {
        let node = cluster.view(row);
        let free = |id: &Option<ResourceId>| node.zip(*id).map_or(0, |(node, id)| node.free(id));
        let pods = node.map_or(0, NodeView::free_pods);
        Demand::of_amounts(core::iter::once(pods).chain(resources.iter().map(free)))
    })
}
