//! How many pods of a class have room, node by node, kept in step with the cluster.

use alloc::collections::{BTreeMap, BTreeSet};

use super::line::{Alike, ClassId};
use crate::base::Row;
use crate::framework::Framework;
use crate::queue::capacity::{CapacityBound, has_capacity_bound};
use crate::queue::scheduler::Scheduler;
use crate::queue::wake::bucket::CapacityByDomain;
use crate::state::Cluster;
use crate::state::journal::{Change, Moment};

/// An upper bound on the pods of a class that fit, by domain.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Room {
    seen: Moment,
    capacity: CapacityByDomain,
}

/// The bounds of those classes that have room in all.
pub(in crate::queue) type Rooms = BTreeMap<ClassId, Room>;

/// The most classes that are counted at a time.
const MOST: usize = 64;

impl Room {
    /// The bound in the best domain. O(what has changed), the first time O(nodes). A copy of a
    /// cluster is one that has changed.
    pub(super) fn read(&mut self, cluster: &Cluster, framework: &Framework, alike: &Alike) -> u64 {
        let rows = cluster.journal.since(self.seen).map(|changes| {
            let row = |change| match change {
                Change::Pods { row, .. } | Change::Node { row, .. } => Some(Row::new(row as usize)),
                Change::Namespaces => None,
            };
            changes.filter_map(row).collect::<BTreeSet<Row>>()
        });
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

impl Scheduler {
    /// The pods of a class that have room, where fewer have than must have.
    pub(super) fn too_little_room(&mut self, class: ClassId) -> Option<u64> {
        let Scheduler { backfill, cluster, framework, .. } = self;
        let alike = backfill.line.alike(class)?;
        if !has_capacity_bound(framework, &alike.shape) {
            return None;
        }
        if backfill.rooms.len() >= MOST && !backfill.rooms.contains_key(&class) {
            backfill.rooms.clear();
        }
        let room = backfill.rooms.entry(class).or_default();
        Some(room.read(cluster, framework, alike)).filter(|room| *room < alike.needed())
    }

    /// The bound of a class, to be followed in a working copy.
    pub(super) fn room_of(&self, class: ClassId) -> Option<Room> {
        self.backfill.rooms.get(&class).cloned()
    }

    /// Whether as many pods of a class have room in a working copy as must have.
    pub(super) fn has_room_later(&self, class: ClassId, room: &mut Room, later: &Cluster) -> bool {
        let alike = self.backfill.line.alike(class);
        alike.is_none_or(|alike| room.read(later, &self.framework, alike) >= alike.needed())
    }

    /// What of a class has room by the sums.
    pub(super) fn room_in_sums(&mut self, class: ClassId) -> Option<u64> {
        let free = self.free_now();
        let alike = self.backfill.line.alike(class)?;
        let one = self.backfill.numbers.of_shape(&alike.shape);
        Some(free.holds(&one))
    }
}
