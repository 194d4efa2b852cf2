//! Gangs with claims, over score tables of their pods without claims.
//!
//! The filter for claims is asked last, and only on the row that is best by all other plugins. If the
//! row has no devices for the pod, it is closed to pods of this kind, and the next best one is asked.
//! The outcome is that of the plain loop, since no score depends on which nodes are feasible.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::framework::Framework;
use crate::model::{ClaimSource, ClaimSpec, PodShape, RequestChoice, TopologyRequest};
use crate::place::cache::Caches;
use crate::place::cache::offers::{Guests, Offers};
use crate::place::cache::tables::PlannerCache;
use crate::place::gang::{Bare, Gang};
use crate::place::layout::{Layout, Member};
use crate::place::request::Task;
use crate::place::sequential::workspace::Workspace;
use crate::place::topology::pinned::running;
use crate::state::{Cluster, Devices, Row};

/// The filter that is asked last.
const FILTER: &str = "DynamicResources";

/// The layout of a group of pods, some of which have claims of their own. `None` if it has to be
/// found another way; `Some(None)` if too few pods fit.
#[allow(clippy::option_option, reason = "no answer, and the answer that there is no layout")]
pub(super) fn attempt(task: Task<'_>, workspace: &mut Workspace) -> Option<Option<Layout>> {
    let Task { cluster, framework, gang, request } = task;
    let group = gang.group();
    let is_plain = group.groups.is_empty()
        && !group.leader
        && group.topology == TopologyRequest::default()
        && request.within.is_none();
    let bare = gang.bare().filter(|_| is_plain)?;
    let reads_claims = |shape: &Arc<PodShape>| {
        let mut filters = framework.filters().iter().filter(|own| own.name() != FILTER);
        let mut scores = framework.scores().iter().filter(|(_, own)| own.name() != FILTER);
        filters.any(|own| own.declare(shape).reads_claims)
            || scores.any(|(_, own)| own.declare(shape).reads_claims)
    };
    if !framework.filters().iter().any(|own| own.name() == FILTER)
        || bare.shapes.iter().any(reads_claims)
    {
        return None;
    }
    let Caches { tables, offers, .. } = &mut workspace.caches;
    if !offers.sync(cluster, framework) {
        return None;
    }
    let kinds = kinds(cluster, framework, gang, offers)?;
    tables.sync(cluster, framework, request.salt);
    let tables = Tables::open(tables, cluster, framework, (gang, bare))?;
    let mut filling = Filling {
        cluster,
        framework,
        offers,
        tables,
        guests: Guests::default(),
        closed: bare.shapes.iter().map(|_| Closed::default()).collect(),
    };
    let mut members = core::mem::take(&mut workspace.spare);
    members.reserve(gang.members());
    let shapes = gang.shapes_of(group, 0);
    for (number, shape) in shapes.enumerate() {
        let Some(shape) = shape else { continue };
        let place = (bare.of[shape as usize] as usize, kinds[shape as usize]);
        if let Some((row, devices)) = filling.best(place) {
            if !filling.take(row, place, devices.clone()) {
                filling.reopen_all();
                return None;
            }
            members.push(Member { number: number as u32, row, devices });
        }
    }
    filling.reopen_all();
    let placed = members.len();
    let enough = placed + running(cluster, group) >= group.policy.minimum() as usize;
    if enough && placed > 0 {
        return Some(Some(Layout { members, domains: Vec::new() }));
    }
    members.clear();
    workspace.spare = members;
    Some(None)
}

/// The kind of the claims of each shape; `None` in its place for a shape without claims. `None` for
/// all if a claim is shared, has its devices, has alternatives or stands for a resource.
fn kinds(
    cluster: &Cluster,
    framework: &Framework,
    gang: &Gang,
    offers: &mut Offers,
) -> Option<SmallVec<[Option<u32>; 4]>> {
    let book = cluster.claims();
    let mut names: Vec<(&str, &str)> = Vec::new();
    let mut kinds = SmallVec::with_capacity(gang.shapes());
    let mut pods = SmallVec::<[u32; 4]>::from_elem(0, gang.shapes());
    for &shape in gang.shape_of() {
        pods[shape as usize] += 1;
    }
    for (shape, pods) in gang.all_shapes().iter().zip(pods) {
        if !(shape.devices.is_empty() && shape.zones.is_empty()) {
            return None;
        }
        let mut specs = SmallVec::<[(&str, &Arc<ClaimSpec>); 4]>::new();
        for own in &shape.claims {
            let spec = match &own.source {
                ClaimSource::Own(spec) => spec,
                ClaimSource::Unmade | ClaimSource::Extended(_) => return None,
                ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                    let record = book.claim(&shape.namespace, name)?;
                    let claim = record.claim()?;
                    let is_own = match &own.source {
                        ClaimSource::Made { owners, .. } => owners.contains(&claim.owner),
                        _ => true,
                    };
                    let is_open = record.allocation().is_none() && record.holders() == 0;
                    if !is_own || !is_open || claim.deleting || pods > 1 {
                        return None;
                    }
                    names.push((&shape.namespace, name));
                    &claim.spec
                }
            };
            let ranked =
                |choice: &RequestChoice| matches!(choice, RequestChoice::FirstAvailable(_));
            if spec.requests.iter().any(|request| ranked(&request.choice)) {
                return None;
            }
            specs.push((&own.name, spec));
        }
        let kind = (!specs.is_empty()).then(|| offers.kind(cluster, framework, &specs));
        kinds.push(kind);
    }
    names.sort_unstable();
    let is_shared = names.windows(2).any(|two| two[0] == two[1]);
    (!is_shared).then_some(kinds)
}

/// The tables of shapes without claims.
struct Tables<'a> {
    cache: &'a mut PlannerCache,
    indices: SmallVec<[usize; 4]>,
}

impl<'a> Tables<'a> {
    /// `None` if the tables cannot answer for the gang, or a score depends on feasible nodes.
    fn open(
        cache: &'a mut PlannerCache,
        cluster: &Cluster,
        framework: &Framework,
        (gang, bare): (&Gang, &Bare),
    ) -> Option<Tables<'a>> {
        cache.affinity = bare.shapes.iter().any(|shape| shape.has_pod_affinity());
        let mut indices = SmallVec::<[usize; 4]>::with_capacity(bare.shapes.len());
        for shape in &bare.shapes {
            indices.push(cache.table(cluster, framework, shape, 0)?.ok()?);
        }
        let suits = indices.iter().all(|&index| {
            let table = &mut cache.tables[index];
            table.prepared.is_plain()
                && !table.has_non_local()
                && !(gang.members() > 1 && table.prepared.reads_pods)
                && table.resolve(cluster, gang.members())
        });
        if !suits {
            return None;
        }
        cache.has_non_local = false;
        let PlannerCache { scratch, tables, .. } = &mut *cache;
        scratch.shapes.clear();
        scratch.shapes.extend_from_slice(&bare.shapes);
        scratch.takes.clear();
        scratch.takes.extend(indices.iter().map(|&index| Arc::clone(&tables[index].takes)));
        Some(Tables { cache, indices })
    }
}

/// The rows of a table that are closed, and to which kind.
#[derive(Debug, Default)]
struct Closed {
    kind: Option<u32>,
    rows: Vec<Row>,
}

/// A group that is being placed.
struct Filling<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    offers: &'a mut Offers,
    tables: Tables<'a>,
    guests: Guests,
    /// By table.
    closed: SmallVec<[Closed; 4]>,
}

impl Filling<'_> {
    /// The best row for a pod of a table and a kind, with its devices.
    fn best(&mut self, (table, kind): (usize, Option<u32>)) -> Option<(Row, Option<Devices>)> {
        if self.closed[table].kind != kind {
            self.reopen(table);
            self.closed[table].kind = kind;
        }
        let (cache, index) = (&mut *self.tables.cache, self.tables.indices[table]);
        cache.flush(self.cluster, self.framework, index);
        loop {
            let ranking = &mut cache.tables[index].ranking;
            let row = Row::new(ranking.best()?);
            let Some(kind) = kind else { return Some((row, None)) };
            if let Some(devices) = self.offers.find(self.cluster, (row, kind), &self.guests) {
                return Some((row, Some(devices)));
            }
            ranking.set_plain(row.index(), 0);
            self.closed[table].rows.push(row);
        }
    }

    /// Places a pod. False if a sum overflows.
    fn take(
        &mut self,
        row: Row,
        (table, kind): (usize, Option<u32>),
        devices: Option<Devices>,
    ) -> bool {
        let scratch = &mut self.tables.cache.scratch;
        let fits = scratch.take(self.cluster, row, table as u32, None);
        if let (true, Some(kind), Some(devices)) = (fits, kind, devices) {
            self.guests.add(row, kind, devices);
        }
        fits
    }

    /// Opens the closed rows of a table: they are judged again.
    fn reopen(&mut self, table: usize) {
        for row in self.closed[table].rows.drain(..) {
            self.tables.cache.scratch.changes.note(row.as_u32());
        }
    }

    fn reopen_all(&mut self) {
        (0..self.closed.len()).for_each(|table| self.reopen(table));
    }
}
