//! The fast engine of the sequential strategy: one score table per pod shape, and an overlay of
//! placements.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::engine::{Confinement, Engine};
use super::run::{Run, Takers};
use crate::framework::Framework;
use crate::model::{PodGroup, PodShape};
use crate::place::cache::domains::Raws;
use crate::place::cache::tables::{PlannerCache, TooFew};
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::Member;
use crate::place::request::Request;
use crate::place::scoring::prepared::is_too_large;
use crate::place::scoring::scratch::{Overflow, Scratch, is_hopeless};
use crate::place::scoring::table::ScoreTable;
#[cfg(feature = "parallel")]
use crate::place::topology::partition::all_rows;
use crate::place::topology::partition::{Candidate, partition};
use crate::place::topology::pinned::running;
use crate::state::{Cluster, Devices, LabelKey, Overlay, Row};

/// Domains that are fewer than one in so many are counted row by row.
const SHARE: usize = 4;

/// The tables of a request's shapes, with the scratch state of its placement.
pub(crate) struct TableEngine<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    gang: &'a Gang,
    tables: Tables<'a>,
}

enum Tables<'a> {
    /// The planner's own, which follow what is placed.
    Kept {
        cache: &'a mut PlannerCache,
        run: &'a mut Run,
        /// The index of the table of each shape.
        indices: SmallVec<[usize; 4]>,
    },
    /// Read by several threads at once, each with a scratch of its own: pods are placed within
    /// domains only.
    #[cfg(feature = "parallel")]
    Shared { tables: Vec<&'a ScoreTable>, scratch: alloc::boxed::Box<Scratch> },
}

/// Whether the table engine can serve a request.
pub(crate) enum Opened<'a> {
    /// It can.
    Fast(TableEngine<'a>),
    /// Counts show that the group does not fit.
    TooFew,
    /// The request needs the reference engine: a plugin's answers cannot be kept, a group is
    /// confined to an island, or a sum could overflow.
    Unsupported,
}

/// The only shape of a group without subgroups, and how many of its pods must be placed.
struct Uniform<'a> {
    shape: &'a Arc<PodShape>,
    wanted: usize,
}

impl<'a> Uniform<'a> {
    fn of(cluster: &Cluster, gang: &'a Gang) -> Option<Uniform<'a>> {
        let group = gang.group();
        let ([shape], true) = (gang.all_shapes(), group.groups.is_empty()) else { return None };
        let minimum = group.policy.minimum() as usize;
        Some(Uniform { shape, wanted: minimum.saturating_sub(running(cluster, group)) })
    }

    /// Whether too few pods fit by what is known without a table.
    fn is_refused(
        &self,
        cache: &mut PlannerCache,
        cluster: &Cluster,
        framework: &Framework,
    ) -> bool {
        let Uniform { shape, wanted } = *self;
        if cache.refusals.refuses(cluster, framework, shape, wanted) {
            return true;
        }
        let too_large = wanted > cluster.rows() && is_too_large(framework, cluster, shape, wanted);
        if too_large {
            cache.refusals.note(cluster, framework, shape, wanted);
        }
        too_large
    }
}

impl<'a> TableEngine<'a> {
    /// Opens the tables of a request's shapes, brought up to date with the cluster.
    pub(crate) fn open(
        cache: &'a mut PlannerCache,
        run: &'a mut Run,
        cluster: &'a Cluster,
        framework: &'a Framework,
        gang: &'a Gang,
        request: &Request<'_>,
    ) -> Opened<'a> {
        if gang.group().any(&PodGroup::wants_island) {
            return Opened::Unsupported;
        }
        let uniform = Uniform::of(cluster, gang);
        if uniform.as_ref().is_some_and(|uniform| uniform.is_refused(cache, cluster, framework)) {
            return Opened::TooFew;
        }
        let wanted = uniform.map_or(0, |uniform| uniform.wanted);
        let pods = (gang.all_shapes(), gang.members());
        match open_tables(cache, (cluster, framework), request.salt, pods, wanted) {
            Some(Ok(indices)) => {
                let tables = Tables::Kept { cache, run, indices };
                Opened::Fast(TableEngine { cluster, framework, gang, tables })
            }
            Some(Err(TooFew)) => Opened::TooFew,
            None => Opened::Unsupported,
        }
    }
}

/// The indices of the tables of some shapes, in the cache that is brought up to date, with the scratch
/// ready for them. `None` if they cannot answer for so many members; `Err` if fewer than `wanted` pods
/// fit.
pub(super) fn open_tables(
    cache: &mut PlannerCache,
    (cluster, framework): (&Cluster, &Framework),
    salt: u64,
    (shapes, members): (&[Arc<PodShape>], usize),
    wanted: usize,
) -> Option<Result<SmallVec<[usize; 4]>, TooFew>> {
    cache.sync(cluster, framework, salt);
    cache.affinity = shapes.iter().any(|shape| shape.has_pod_affinity());
    #[cfg(feature = "parallel")]
    cache.prebuild(cluster, framework, shapes);
    let mut indices = SmallVec::<[usize; 4]>::with_capacity(shapes.len());
    for shape in shapes {
        let Ok(index) = cache.table(cluster, framework, shape, wanted)? else {
            cache.refusals.note(cluster, framework, shape, wanted);
            return Some(Err(TooFew));
        };
        indices.push(index);
    }
    // Tables show plugins the sums of what was placed, not the pods themselves.
    if members > 1 && indices.iter().any(|&index| cache.reads_pods(index)) {
        return None;
    }
    cache.has_non_local = indices.iter().any(|&index| cache.tables[index].has_non_local());
    if !indices.iter().all(|&index| cache.tables[index].resolve(cluster, members)) {
        return None;
    }
    let PlannerCache { scratch, tables, .. } = cache;
    scratch.shapes.clear();
    scratch.shapes.extend_from_slice(shapes);
    scratch.takes.clear();
    scratch.takes.extend(indices.iter().map(|&index| Arc::clone(&tables[index].takes)));
    Some(Ok(indices))
}

impl TableEngine<'_> {
    #[inline]
    fn scratch(&self) -> &Scratch {
        match &self.tables {
            Tables::Kept { cache, .. } => &cache.scratch,
            #[cfg(feature = "parallel")]
            Tables::Shared { scratch, .. } => scratch,
        }
    }

    #[inline]
    fn scratch_mut(&mut self) -> &mut Scratch {
        match &mut self.tables {
            Tables::Kept { cache, .. } => &mut cache.scratch,
            #[cfg(feature = "parallel")]
            Tables::Shared { scratch, .. } => scratch,
        }
    }

    /// The table of a shape.
    #[inline]
    fn table(&self, shape: u32) -> &ScoreTable {
        match &self.tables {
            Tables::Kept { cache, indices, .. } => &cache.tables[indices[shape as usize]],
            #[cfg(feature = "parallel")]
            Tables::Shared { tables, .. } => tables[shape as usize],
        }
    }

    /// The best of all rows for a shape.
    #[inline]
    fn best(&mut self, shape: u32) -> Option<Row> {
        match &mut self.tables {
            Tables::Kept { cache, indices, .. } => {
                let index = indices[shape as usize];
                cache.flush(self.cluster, self.framework, index);
                let PlannerCache { tables, scratch, classes, .. } = &mut **cache;
                let view = scratch.view(self.framework, self.cluster);
                tables[index].best_of_all(classes, view, &scratch.changes)
            }
            #[cfg(feature = "parallel")]
            Tables::Shared { .. } => None,
        }
    }

    /// The best of the rows of a domain for a shape. `cursor` is `None` at the shape's first member.
    fn best_within(&mut self, rows: &[Row], shape: u32, cursor: &mut Option<u64>) -> Option<Row> {
        let (cluster, framework) = (self.cluster, self.framework);
        let (table, scratch) = match &mut self.tables {
            Tables::Kept { cache, indices, .. } => {
                let PlannerCache { tables, scratch, classes, .. } = &mut **cache;
                let table = &mut tables[indices[shape as usize]];
                if table.has_non_local() {
                    let mut within = scratch.within(rows, shape, cursor);
                    let view = scratch.view(framework, cluster);
                    let best = table.best_within(classes, view, &scratch.changes, &mut within);
                    scratch.changes.look();
                    return best;
                }
                (&*table, scratch)
            }
            #[cfg(feature = "parallel")]
            Tables::Shared { tables, scratch } => (tables[shape as usize], &mut **scratch),
        };
        let best = scratch.best_within(framework, cluster, table, rows, shape, cursor);
        scratch.changes.look();
        best
    }

    /// Places one pod of a shape on the row found best; see [`Scratch::settle`].
    #[inline]
    fn settle(&mut self, row: Row, shape: u32) -> Option<Result<Option<Devices>, Overflow>> {
        let (cluster, framework) = (self.cluster, self.framework);
        match &mut self.tables {
            Tables::Kept { cache, indices, .. } => {
                let PlannerCache { tables, scratch, .. } = &mut **cache;
                let table = &tables[indices[shape as usize]];
                let settled = scratch.settle(cluster, framework, table, row, shape)?;
                if settled.is_ok() {
                    record_placed(cache, row, shape);
                }
                Some(settled)
            }
            #[cfg(feature = "parallel")]
            Tables::Shared { tables, scratch } => {
                scratch.settle(cluster, framework, tables[shape as usize], row, shape)
            }
        }
    }

    /// Places members one after another, each on the best of `rows` (`None`: of all), and skips
    /// those that fit nowhere. Members come with their shapes; gated ones with none.
    fn fill_members(
        &mut self,
        members: impl Iterator<Item = (u32, Option<u32>)>,
        rows: Option<&[Row]>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        let cluster = self.cluster;
        #[cfg(feature = "parallel")]
        let all;
        #[cfg(feature = "parallel")]
        let rows = match (&self.tables, rows) {
            (Tables::Shared { .. }, None) => {
                all = all_rows(cluster);
                Some(&all[..])
            }
            _ => rows,
        };
        // The end of the log that the ranking of each shape accounts for; `None` before its first
        // member.
        let mut cursors = SmallVec::<[Option<u64>; 4]>::new();
        if let Some(rows) = rows {
            self.scratch_mut().note_positions(cluster, rows);
            cursors.resize(self.gang.shapes(), None);
        }
        let mut filled = Ok(());
        for (number, shape) in members {
            let Some(shape) = shape else { continue };
            let best = match rows {
                None => self.best(shape),
                Some(rows) => self.best_within(rows, shape, &mut cursors[shape as usize]),
            };
            let Some(row) = best else { continue };
            match self.settle(row, shape) {
                Some(Ok(devices)) => placed.push(Member { number, row, devices }),
                Some(Err(overflow)) => {
                    filled = Err(self.scratch().overflow(cluster, overflow, self.gang));
                    break;
                }
                None => {}
            }
        }
        if let Some(rows) = rows {
            self.scratch_mut().forget_positions(rows);
        }
        filled
    }

    /// Places members given by number, in order, each on the best row of `rows`; those that fit
    /// nowhere are skipped.
    pub(crate) fn fill_numbers(
        &mut self,
        numbers: &[u32],
        rows: Option<&[Row]>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        let gang = self.gang;
        let shape = |&number: &u32| (number, Some(gang.shape_of()[number as usize]));
        self.fill_members(numbers.iter().map(shape), rows, placed)
    }

    /// Places the members of a gang of one shape that is a single leaf, as a run. Returns false,
    /// with nothing placed, if that is not possible. The overlay does not have what is placed.
    fn fill_run(
        &mut self,
        leaf: &PodGroup,
        rows: Option<&[Row]>,
        placed: &mut Vec<Member>,
    ) -> bool {
        let (cluster, framework) = (self.cluster, self.framework);
        let pods = leaf.pods.len();
        if self.gang.members() != pods || self.gang.shapes() != 1 || !is_ungated(leaf) {
            return false;
        }
        // A fork, too, could place a run; but it has no buffers for it.
        #[cfg_attr(not(feature = "parallel"), allow(irrefutable_let_patterns))]
        let Tables::Kept { cache, run, indices } = &mut self.tables else {
            return false;
        };
        let ([index], [takes]) = (&indices[..], &cache.scratch.takes[..]) else { return false };
        let (index, takes, table) = (*index, Arc::clone(takes), &cache.tables[*index]);
        if cache.scratch.overlay.mark() > 0
            || cache.has_non_local
            || !table.prepared.is_plain()
            || table.prepared.reads_pods
            || takes.is_chosen_for()
            || !cache.scratch.cannot_overflow(cluster, pods)
        {
            return false;
        }
        cache.flush(cluster, framework, index);
        let table = &mut cache.tables[index];
        let mut place = |number: usize, row: Row| {
            placed.push(Member { number: number as u32, row, devices: None });
        };
        match (pods, rows) {
            (0, _) => {}
            (1, None) => {
                if let Some(row) = table.ranking.best() {
                    place(0, Row::new(row));
                }
            }
            _ => {
                let takers = Takers { framework, cluster, takes: &takes };
                let rows = run.rows(table, takers, rows, pods);
                rows.enumerate().for_each(|(number, row)| place(number, row));
            }
        }
        true
    }
}

/// Records a pod that was placed for plugins that read beyond the node, if there are any.
#[inline]
fn record_placed(cache: &mut PlannerCache, row: Row, shape: u32) {
    if cache.has_non_local {
        let Scratch { changes, shapes, .. } = &mut cache.scratch;
        changes.pods.placed(row.as_u32(), &shapes[shape as usize]);
    }
}

fn is_ungated(leaf: &PodGroup) -> bool {
    leaf.pods.iter().all(|pod| pod.scheduling_gates.is_empty())
}

impl Engine for TableEngine<'_> {
    #[cfg(feature = "parallel")]
    type Fork<'f>
        = TableEngine<'f>
    where
        Self: 'f;

    fn state(&self) -> (&Cluster, Option<&Overlay>) {
        (self.cluster, Some(&self.scratch().overlay))
    }

    fn mark(&self) -> usize {
        self.scratch().overlay.mark()
    }

    fn rollback(&mut self, mark: usize) -> Result<(), PlaceError> {
        let cluster = self.cluster;
        self.scratch_mut().rollback(cluster, mark);
        match &mut self.tables {
            Tables::Kept { cache, .. } => cache.scratch.changes.pods.rollback(mark),
            #[cfg(feature = "parallel")]
            Tables::Shared { .. } => {}
        }
        Ok(())
    }

    fn take(&mut self, member: &Member) -> Result<(), PlaceError> {
        let (cluster, gang) = (self.cluster, self.gang);
        self.scratch_mut().take_member(cluster, gang, member)?;
        match &mut self.tables {
            Tables::Kept { cache, .. } => {
                record_placed(cache, member.row, gang.shape_of()[member.number as usize]);
            }
            #[cfg(feature = "parallel")]
            Tables::Shared { .. } => {}
        }
        Ok(())
    }

    fn fill(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        within: Confinement<'_>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        placed.reserve(leaf.pods.len());
        if self.fill_run(leaf, within.rows, placed) {
            return Ok(());
        }
        let shapes = self.gang.shapes_of(leaf, first);
        let members = shapes.enumerate().map(|(at, shape)| ((first + at) as u32, shape));
        self.fill_members(members, within.rows, placed)
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
            self.table(shape).is_closed(rows, &self.scratch().overlay)
        })
    }

    fn counts(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        candidates: &[Candidate],
    ) -> Option<Vec<usize>> {
        let (cluster, framework) = (self.cluster, self.framework);
        let pods = leaf.pods.len();
        let shapes = &self.gang.shape_of()[first..first + pods];
        let shape = *shapes.first()?;
        if !is_ungated(leaf) || shapes.iter().any(|other| *other != shape) {
            return None;
        }
        #[cfg_attr(not(feature = "parallel"), allow(irrefutable_let_patterns))]
        let Tables::Kept { cache, indices, .. } = &mut self.tables else {
            return None;
        };
        let index = indices[shape as usize];
        if cache.has_non_local
            || !cache.tables[index].prepared.counts
            || cache.scratch.takes[shape as usize].is_chosen_for()
            || !cache.scratch.cannot_overflow(cluster, self.gang.members())
        {
            return None;
        }
        cache.flush(cluster, framework, index);
        let PlannerCache { scratch, tables, partitions, requests, .. } = &mut **cache;
        let (view, table) = (scratch.view(framework, cluster), &tables[index]);
        let mut rooms = Vec::new();
        let all_feasible = table.ranking.feasible() == cluster.rows();
        // Rows of a few domains are looked at by themselves.
        let mut count = |candidate: &Candidate, domains: usize| {
            let rows = candidate.rows(None).unwrap_or(&[]);
            let feasible = || rows.iter().filter(|row| table.ranking.is_feasible((**row).index()));
            let enough = || all_feasible || feasible().take(pods).count() == pods;
            if rows.len() >= pods && enough() {
                return pods;
            }
            let few = domains * SHARE < candidates.len();
            let mut room = 0;
            for &row in feasible() {
                if rooms.is_empty() && !few {
                    table.prepared.rooms(view, &mut rooms);
                }
                let own = if few { table.prepared.room(view, row) } else { rooms[row] };
                room += own.clamp(1, pods as i64) as usize;
                if room >= pods {
                    return pods;
                }
            }
            room
        };
        let all = candidates.len();
        Some(match partitions.iter_mut().find(|known| known.are(candidates)) {
            Some(known) => {
                let of = ((table.made, pods), *requests);
                known.counts(cluster, &scratch.changes, of, count)
            }
            None => candidates.iter().map(|candidate| count(candidate, all)).collect(),
        })
    }

    fn kept_scores(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        candidates: &[Candidate],
        running: usize,
    ) -> Option<&mut Vec<Raws>> {
        let plugins = self.framework.domain_scores().len();
        let shape = *self.gang.shape_of().get(first)?;
        #[cfg_attr(not(feature = "parallel"), allow(irrefutable_let_patterns))]
        let Tables::Kept { cache, indices, .. } = &mut self.tables else {
            return None;
        };
        let of = (cache.tables[indices[shape as usize]].made, leaf.pods.len());
        let known = cache.partitions.iter_mut().find(|known| known.are(candidates))?;
        known.raws(of, running, plugins)
    }

    fn partition(&mut self, rows: Option<&[Row]>, keys: &[LabelKey]) -> Arc<[Candidate]> {
        let cluster = self.cluster;
        match (rows, &mut self.tables) {
            (Some(rows), _) => partition(cluster, rows, keys),
            (None, Tables::Kept { cache, .. }) => cache.partition(cluster, keys),
            #[cfg(feature = "parallel")]
            (None, Tables::Shared { .. }) => partition(cluster, &all_rows(cluster), keys),
        }
    }

    #[cfg(feature = "parallel")]
    fn fork(&self) -> Option<TableEngine<'_>> {
        let Tables::Kept { cache, indices, .. } = &self.tables else { return None };
        let tables: Vec<&ScoreTable> = indices.iter().map(|&index| &cache.tables[index]).collect();
        let end = cache.scratch.changes.end();
        if cache.has_non_local || self.mark() > 0 || tables.iter().any(|table| table.cursor != end)
        {
            return None;
        }
        let tables = Tables::Shared { tables, scratch: cache.scratch.fork().into() };
        let TableEngine { cluster, framework, gang, .. } = *self;
        Some(TableEngine { cluster, framework, gang, tables })
    }

    #[cfg(feature = "parallel")]
    fn count_calls(&mut self, more: u64) -> u64 {
        let scratch = self.scratch_mut();
        scratch.calls += more;
        scratch.calls
    }
}
