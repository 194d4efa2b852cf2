//! How many pods of a shape have room, node by node, kept in step with the cluster.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::line::{Alike, RoomId};
use crate::base::Row;
use crate::framework::Framework;
use crate::queue::line::capacity::CapacityBound;
use crate::queue::line::wake::bucket::CapacityByDomain;
use crate::state::Cluster;
use crate::state::journal::Moment;

/// An upper bound on the pods of a shape that fit, by domain.
#[derive(Debug, Clone, Default)]
pub(super) struct Room {
    seen: Moment,
    capacity: CapacityByDomain,
}

/// The bounds of shapes whose need is within the free sums.
pub(super) type Rooms = BTreeMap<RoomId, Room>;

impl Room {
    /// The bound in the best domain. O(what has changed), the first time O(nodes). A cloned cluster
    /// has its own journal, so the first read of a clone counts all nodes again.
    pub(super) fn read(&mut self, cluster: &Cluster, framework: &Framework, alike: &Alike) -> u64 {
        let rows = cluster.journal.rows_since(self.seen);
        self.seen = cluster.journal.now();
        if rows.as_ref().is_some_and(Vec::is_empty) {
            return self.capacity.most();
        }
        let bound = CapacityBound::new(cluster, framework, alike.shape());
        let level = alike.level();
        match rows {
            Some(rows) => rows.into_iter().for_each(|row| self.capacity.count(&bound, level, row)),
            None => self.capacity = CapacityByDomain::of(&bound, level, Row::all(cluster.rows())),
        }
        self.capacity.most()
    }

    /// Whether as many pods of a class have room in a working copy as must have.
    pub(super) fn suffices(
        &mut self,
        later: &Cluster,
        framework: &Framework,
        alike: &Alike,
    ) -> bool {
        self.read(later, framework, alike) >= alike.needed()
    }
}
