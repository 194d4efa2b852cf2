//! How many pods of a class have room, node by node, kept in step with the cluster.

use alloc::collections::{BTreeMap, BTreeSet};

use super::line::{Alike, ClassId};
use crate::base::Row;
use crate::framework::Framework;
use crate::queue::capacity::CapacityBound;
use crate::queue::wake::bucket::CapacityByDomain;
use crate::state::Cluster;
use crate::state::journal::Moment;

/// An upper bound on the pods of a class that fit, by domain.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Room {
    seen: Moment,
    capacity: CapacityByDomain,
}

/// The bounds of those classes that have room in all.
pub(in crate::queue) type Rooms = BTreeMap<ClassId, Room>;

impl Room {
    /// The bound in the best domain. O(what has changed), the first time O(nodes). A copy of a
    /// cluster is one that has changed.
    pub(super) fn read(&mut self, cluster: &Cluster, framework: &Framework, alike: &Alike) -> u64 {
        let rows = cluster.journal.rows_since(self.seen);
        self.seen = cluster.journal.now();
        if rows.as_ref().is_some_and(BTreeSet::is_empty) {
            return self.capacity.most();
        }
        let bound = CapacityBound::new(cluster, framework, &alike.shape);
        let level = alike.level();
        match rows {
            Some(rows) => rows.into_iter().for_each(|row| self.capacity.count(&bound, level, row)),
            None => self.capacity = CapacityByDomain::of(&bound, level, Row::all(cluster.rows())),
        }
        self.capacity.most()
    }
}

impl Alike {
    /// The label key within one domain of which all pods go.
    pub(super) fn level(&self) -> Option<&str> {
        self.topology.require.as_deref().filter(|_| self.topology.prefer.is_none())
    }

    /// How many pods must have room.
    pub(super) fn needed(&self) -> u64 {
        u64::from(self.policy.minimum()).max(1)
    }
}
