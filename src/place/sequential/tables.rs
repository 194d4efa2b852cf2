//! The ground of the fast way: tables of all nodes by shape, an overlay of what was placed.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::Engine;
#[cfg(feature = "parallel")]
use super::Layout;
use crate::framework::Framework;
use crate::model::PodGroup;
use crate::place::cache::tables::{PlannerCache, TooFew};
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::Member;
use crate::place::request::Request;
use crate::place::scoring::prepared::is_too_large;
use crate::place::scoring::scratch::is_hopeless;
use crate::place::topology::candidates::{Candidate, partition, running};
use crate::state::{Cluster, Devices, LabelKey, Overlay, Row};

pub(crate) struct TableEngine<'a> {
    pub(crate) memory: &'a mut PlannerCache,
    pub(crate) cluster: &'a Cluster,
    pub(crate) framework: &'a Framework,
    pub(crate) gang: &'a Gang,
    /// The table of each shape.
    pub(crate) tables: SmallVec<[usize; 4]>,
}

/// Whether a request can go the fast way.
pub(crate) enum Opened<'a> {
    /// It can.
    Fast(TableEngine<'a>),
    /// It is clear from counts that the group does not fit.
    TooFew,
    /// A plugin has to be asked about every node again and again, or a group is confined to an
    /// island.
    Unsupported,
}

impl<'a> TableEngine<'a> {
    pub(crate) fn open(
        memory: &'a mut PlannerCache,
        cluster: &'a Cluster,
        framework: &'a Framework,
        gang: &'a Gang,
        request: &Request<'_>,
    ) -> Opened<'a> {
        let group = gang.group();
        if request.salt != 0 || group.any(&PodGroup::wants_island) {
            return Opened::Unsupported;
        }
        let only = match gang.all_shapes() {
            [shape] if group.groups.is_empty() => Some(shape),
            _ => None,
        };
        let minimum = group.policy.minimum() as usize;
        let wanted = only.map_or(0, |_| minimum.saturating_sub(running(cluster, group)));
        if let Some(shape) = only {
            if memory.refusals.refuses(cluster, framework, shape, wanted) {
                return Opened::TooFew;
            }
            if wanted > cluster.rows() && is_too_large(framework, cluster, shape, wanted) {
                memory.refusals.note(cluster, framework, shape, wanted);
                return Opened::TooFew;
            }
        }
        memory.sync(cluster, framework);
        memory.affinity = gang.all_shapes().iter().any(|shape| shape.has_pod_affinity());
        #[cfg(feature = "parallel")]
        memory.prebuild(cluster, framework, gang.all_shapes());
        let mut tables = SmallVec::<[usize; 4]>::with_capacity(gang.shapes());
        for shape in gang.all_shapes() {
            match memory.table(cluster, framework, shape, wanted) {
                Some(Ok(table)) => tables.push(table),
                Some(Err(TooFew)) => {
                    memory.refusals.note(cluster, framework, shape, wanted);
                    return Opened::TooFew;
                }
                None => return Opened::Unsupported,
            }
        }
        // Tables know sums; plugins that look at the pods of a node want to see the real thing.
        let deep = tables.iter().any(|&table| memory.reads_pods(table));
        if deep && gang.members() > 1 {
            return Opened::Unsupported;
        }
        memory.far = tables.iter().any(|&table| memory.tables[table].is_far());
        memory.scratch.shapes.clear();
        memory.scratch.shapes.extend_from_slice(gang.all_shapes());
        for &table in &tables {
            if !memory.tables[table].resolve(cluster, gang.members()) {
                return Opened::Unsupported;
            }
        }
        memory.scratch.takes.clear();
        memory
            .scratch
            .takes
            .extend(tables.iter().map(|&table| Arc::clone(&memory.tables[table].takes)));
        Opened::Fast(TableEngine { memory, cluster, framework, gang, tables })
    }
}

impl TableEngine<'_> {
    /// Places members given by number, in order, each on the best row of `rows`; those that fit
    /// nowhere are left out.
    pub(crate) fn fill_numbers(
        &mut self,
        numbers: &[u32],
        rows: Option<&[Row]>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        let shapes = numbers.iter().map(|&number| Some(self.gang.shape_of()[number as usize]));
        let tell = |index: usize, row: Row, devices: Option<Devices>| {
            placed.push(Member { number: numbers[index], row, devices });
        };
        let filled =
            self.memory.fill((self.cluster, self.framework), &self.tables, rows, shapes, tell);
        filled.map_err(|overflow| self.memory.scratch.overflow(self.cluster, overflow, self.gang))
    }
}

impl Engine for TableEngine<'_> {
    fn cluster(&self) -> &Cluster {
        self.cluster
    }

    fn state(&self) -> &Cluster {
        self.cluster
    }

    fn overlay(&self) -> Option<&Overlay> {
        Some(&self.memory.scratch.overlay)
    }

    fn mark(&self) -> usize {
        self.memory.scratch.overlay.mark()
    }

    fn unconfined(&mut self) -> Arc<[Candidate]> {
        let whole = &mut self.memory.whole;
        Arc::clone(whole.get_or_insert_with(|| Arc::from([Candidate::whole()])))
    }

    fn spare(&mut self) -> Vec<Member> {
        core::mem::take(&mut self.memory.spare)
    }

    fn rollback(&mut self, mark: usize) -> Result<(), PlaceError> {
        self.memory.rollback(self.cluster, mark);
        Ok(())
    }

    fn take(&mut self, member: &Member) -> Result<(), PlaceError> {
        self.memory.take(self.cluster, self.gang, member)
    }

    fn fill(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        rows: Option<&[Row]>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        let shapes = self.gang.shapes_of(leaf, first);
        placed.reserve(leaf.pods.len());
        let pods = leaf.pods.len();
        let alone = self.gang.members() == pods;
        let ungated = || leaf.pods.iter().all(|pod| pod.scheduling_gates.is_empty());
        if alone
            && self.gang.shapes() == 1
            && self.memory.can_run(self.cluster, self.tables[0], pods)
            && ungated()
        {
            let (cluster, framework) = (self.cluster, self.framework);
            self.memory.run(cluster, framework, self.tables[0], rows, pods, |member, row| {
                placed.push(Member { number: member as u32, row, devices: None });
            });
            return Ok(());
        }
        let tell = |index: usize, row: Row, devices: Option<Devices>| {
            placed.push(Member { number: (first + index) as u32, row, devices });
        };
        let filled =
            self.memory.fill((self.cluster, self.framework), &self.tables, rows, shapes, tell);
        filled.map_err(|overflow| self.memory.scratch.overflow(self.cluster, overflow, self.gang))
    }

    fn is_hopeless(
        &self,
        first: usize,
        members: usize,
        wanted: usize,
        rows: Option<&[Row]>,
    ) -> bool {
        let shapes = &self.gang.shape_of()[first..first + members];
        is_hopeless(shapes, wanted, rows, |shape, rows| {
            let table = &self.memory.tables[self.tables[shape as usize]];
            table.is_closed(rows, &self.memory.scratch.overlay)
        })
    }

    #[cfg(feature = "parallel")]
    fn trials(
        &mut self,
        leaf: (&PodGroup, usize),
        candidates: (&[Candidate], Option<&[Row]>),
        prune: bool,
    ) -> Option<Result<Vec<Option<Layout>>, PlaceError>> {
        self.side_by_side(leaf, candidates, prune)
    }

    fn counts(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        candidates: &[Candidate],
    ) -> Option<Vec<usize>> {
        let pods = leaf.pods.len();
        let shapes = &self.gang.shape_of()[first..first + pods];
        let shape = *shapes.first()?;
        let ungated = leaf.pods.iter().all(|pod| pod.scheduling_gates.is_empty());
        if !ungated || shapes.iter().any(|other| *other != shape) {
            return None;
        }
        let table = self.tables[shape as usize];
        let pods = (pods, self.gang.members());
        self.memory.counts(self.cluster, self.framework, (table, shape), pods, candidates)
    }

    fn partition(&mut self, rows: Option<&[Row]>, key: LabelKey) -> Arc<[Candidate]> {
        match rows {
            None => self.memory.partition(self.cluster, key),
            Some(rows) => partition(self.cluster, rows, key).into(),
        }
    }
}
