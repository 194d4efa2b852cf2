//! The ground of the fast way: tables of all nodes by shape, an overlay of what was placed.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::domains::{Candidate, partition, running};
use super::error::PlaceError;
use super::fast::{Memory, Overflow, TooFew};
use super::gang::Gang;
use super::request::Request;
use super::sequential::{Ground, Member};
use crate::framework::Framework;
use crate::model::PodGroup;
use crate::state::{Cluster, DeviceTerm, Devices, LabelKey, Overlay, Row, StateError, Takes};

pub(crate) struct FastGround<'a> {
    memory: &'a mut Memory,
    cluster: &'a Cluster,
    framework: &'a Framework,
    gang: &'a Gang,
    /// The table of each shape.
    tables: Vec<usize>,
}

/// Whether a request can go the fast way.
pub(crate) enum Opened<'a> {
    /// It can.
    Fast(FastGround<'a>),
    /// It is clear from counts that the group does not fit.
    TooFew,
    /// A plugin has to be asked about every node again and again, or a group is confined to an
    /// island.
    Far,
}

impl<'a> FastGround<'a> {
    pub(crate) fn open(
        memory: &'a mut Memory,
        cluster: &'a Cluster,
        framework: &'a Framework,
        gang: &'a Gang,
        request: &Request<'_>,
    ) -> Opened<'a> {
        let group = gang.group();
        if request.salt != 0 || group.any(&PodGroup::wants_island) {
            return Opened::Far;
        }
        memory.sync(cluster, framework);
        memory.affinity = gang.all_shapes().iter().any(|shape| shape.has_pod_affinity());
        let wanted = if group.groups.is_empty() && gang.shapes() == 1 {
            (group.policy.minimum() as usize).saturating_sub(running(cluster, group))
        } else {
            0
        };
        #[cfg(feature = "parallel")]
        memory.prebuild(cluster, framework, gang.all_shapes());
        let mut tables = Vec::with_capacity(gang.shapes());
        for shape in gang.all_shapes() {
            match memory.table(cluster, framework, shape, wanted) {
                Some(Ok(table)) => tables.push(table),
                Some(Err(TooFew)) => return Opened::TooFew,
                None => return Opened::Far,
            }
        }
        // Tables know sums; plugins that look at the pods of a node want to see the real thing.
        let deep = tables.iter().any(|&table| memory.reads_pods(table));
        if deep && gang.members() > 1 {
            return Opened::Far;
        }
        memory.shapes.clear();
        memory.shapes.extend_from_slice(gang.all_shapes());
        memory.takes.clear();
        memory.takes.extend(gang.all_shapes().iter().map(|shape| Takes::of(shape, cluster)));
        Opened::Fast(FastGround { memory, cluster, framework, gang, tables })
    }
}

fn overflow(cluster: &Cluster, row: Row) -> PlaceError {
    let node = cluster.view(row).map_or_else(Default::default, |node| node.name().into());
    PlaceError::State(StateError::Overflow { node, resource: "a resource".into() })
}

impl Ground for FastGround<'_> {
    fn cluster(&self) -> &Cluster {
        self.cluster
    }

    fn state(&self) -> &Cluster {
        self.cluster
    }

    fn overlay(&self) -> Option<&Overlay> {
        Some(&self.memory.overlay)
    }

    fn mark(&self) -> usize {
        self.memory.overlay.mark()
    }

    fn rollback(&mut self, mark: usize) -> Result<(), PlaceError> {
        self.memory.rollback(self.cluster, mark);
        Ok(())
    }

    fn take(&mut self, member: &Member) -> Result<(), PlaceError> {
        let shape = self.gang.shape_of()[member.number as usize];
        let devices = member.devices.clone();
        let fits = self.memory.take(self.cluster, member.row, shape, devices);
        if fits { Ok(()) } else { Err(overflow(self.cluster, member.row)) }
    }

    fn fill(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        rows: Option<&[Row]>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        let shapes = self.gang.shape_of()[first..first + leaf.pods.len()]
            .iter()
            .zip(&leaf.pods)
            .map(|(&shape, pod)| pod.scheduling_gates.is_empty().then_some(shape));
        let tell = |index: usize, row: Row, devices: Option<Devices>| {
            placed.push(Member { number: (first + index) as u32, row, devices });
        };
        let filled =
            self.memory.fill(self.cluster, self.framework, &self.tables, rows, shapes, tell);
        filled.map_err(|Overflow(row)| overflow(self.cluster, row))
    }

    fn is_hopeless(
        &self,
        first: usize,
        members: usize,
        wanted: usize,
        rows: Option<&[Row]>,
    ) -> bool {
        let (Some(rows), true) = (rows, wanted > 0) else { return false };
        let shapes = &self.gang.shape_of()[first..first + members];
        // A domain where the first shape goes nowhere, and there is no other.
        shapes.iter().all(|shape| *shape == shapes[0])
            && self.memory.feasible_within(self.tables[shapes[0] as usize], rows) == 0
    }

    // Groups with islands do not come here.
    fn islands(
        &mut self,
        _: &PodGroup,
        _: Option<&[Row]>,
        _: bool,
    ) -> Result<Arc<[Candidate]>, PlaceError> {
        Ok(Arc::from([]))
    }

    fn confine(&mut self, _: Option<DeviceTerm>) {}

    fn confinement(&self) -> Option<DeviceTerm> {
        None
    }

    fn partition(&mut self, rows: Option<&[Row]>, key: LabelKey) -> Arc<[Candidate]> {
        match rows {
            None => self.memory.partition(self.cluster, key),
            Some(rows) => partition(self.cluster, rows, key).into(),
        }
    }
}
