//! How many pods of a shape a node takes that gets nothing else.
//!
//! Filters that read only the node, and whose "no" stays a "no", are asked once for each node.
//! Filters that promise to judge room are replaced by comparing amounts. All others are left out,
//! so what does not fit here does not fit at all.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::capacity::MANY;
use crate::base::chunks::CHUNK;
use crate::base::{RowSet, Time};
use crate::framework::{Block, Context, Declaration, Framework, Preparation, Prepared, Reach};
use crate::model::{PodGroup, PodShape};
use crate::state::{Cluster, ResourceId, Row};

/// What bounds the pods of a shape on a node.
#[derive(Debug)]
pub(crate) struct Fits {
    pub(crate) shape: Arc<PodShape>,
    /// The filters asked, by their place in the framework.
    stages: Vec<(usize, Prepared)>,
    only: Option<RowSet>,
    /// A filter lets the pods nowhere, or they request something that no node has.
    never: bool,
    /// What one pod takes beside its place, where a filter judges room.
    ask: Option<Vec<(ResourceId, i64)>>,
}

/// Who asks, beside the shape: what few filters read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) leaf: &'a PodGroup,
    pub(crate) now: Time,
}

/// Whether a filter is asked once for each node.
fn is_near(declaration: &Declaration) -> bool {
    let lasting = match declaration.reach {
        Reach::Static => true,
        Reach::Node => declaration.monotone && !declaration.room,
        Reach::Domain(_) | Reach::Cluster => false,
    };
    lasting && declaration.counters.is_empty()
}

/// Whether some filter judges room for a shape.
pub(crate) fn judges_room(framework: &Framework, shape: &PodShape) -> bool {
    framework.filters().iter().any(|filter| filter.declare(shape).room)
}

impl Fits {
    /// Whether the answers hold for whoever asks, and until a node's pods change.
    pub(crate) fn lasts(framework: &Framework, shape: &PodShape) -> bool {
        framework.filters().iter().map(|filter| filter.declare(shape)).all(|declaration| {
            let more =
                declaration.reads_group || declaration.reads_time || declaration.reads_affinity;
            !is_near(&declaration) || !more
        })
    }

    pub(crate) fn new(
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        asker: Asker<'_>,
    ) -> Fits {
        let mut fits = Fits {
            shape: Arc::clone(shape),
            stages: Vec::new(),
            only: None,
            never: false,
            ask: None,
        };
        if judges_room(framework, shape) {
            let mut ask = Vec::new();
            for (name, amount) in shape.requests.iter().filter(|(_, amount)| *amount > 0) {
                match cluster.resource(name) {
                    Some(id) => ask.push((id, amount)),
                    None => fits.never = true,
                }
            }
            fits.ask = Some(ask);
        }
        for (plugin, filter) in framework.filters().iter().enumerate() {
            if !is_near(&filter.declare(shape)) {
                continue;
            }
            match filter.prepare(&context(cluster, shape, Some(asker))) {
                Preparation::Ready(prepared) => fits.stages.push((plugin, prepared)),
                Preparation::Narrow(prepared, rows) => {
                    fits.stages.push((plugin, prepared));
                    match &mut fits.only {
                        Some(only) => only.intersect(&rows),
                        only => *only = Some(rows),
                    }
                }
                Preparation::Reject(_) => fits.never = true,
                _ => {}
            }
        }
        fits
    }

    /// The count of one row.
    pub(crate) fn count(
        &self,
        cluster: &Cluster,
        framework: &Framework,
        asker: Option<Asker<'_>>,
        row: Row,
    ) -> i64 {
        let Some(node) = cluster.view(row) else { return 0 };
        if self.never || self.only.as_ref().is_some_and(|only| !only.contains(row)) {
            return 0;
        }
        let mut room = MANY;
        if let Some(ask) = &self.ask {
            room = room.min(node.pod_limit().saturating_sub(node.pod_count()).max(0));
            for &(resource, amount) in ask {
                room = room.min(node.free(resource).max(0) / amount);
            }
        }
        if room == 0 {
            return 0;
        }
        for (plugin, prepared) in &self.stages {
            let cx = Context { prepared, ..context(cluster, &self.shape, asker) };
            let filter = &framework.filters()[*plugin];
            if !filter.filter(&cx, node).passes() {
                return 0;
            }
            // A node that passes takes one pod, whatever the bound says.
            room = room.min(filter.room(&cx, node).max(1));
        }
        room
    }

    /// The counts of a block of rows.
    pub(crate) fn read(
        &self,
        cluster: &Cluster,
        framework: &Framework,
        asker: Asker<'_>,
        block: &Block<'_>,
        out: &mut [i64],
    ) {
        if self.never {
            return out.fill(0);
        }
        out.fill(MANY);
        if let Some(ask) = &self.ask {
            for ((out, limit), count) in
                out.iter_mut().zip(block.pod_limit()).zip(block.pod_count())
            {
                *out = (*out).min(limit.saturating_sub(*count).max(0));
            }
            for &(resource, amount) in ask {
                let columns = block.allocatable(resource).iter().zip(block.used(resource));
                for (out, (all, used)) in out.iter_mut().zip(columns) {
                    *out = (*out).min(all.saturating_sub(*used).max(0) / amount);
                }
            }
        }
        let mut verdicts = [0_i64; CHUNK];
        let verdicts = &mut verdicts[..block.len()];
        for (at, (verdict, room)) in verdicts.iter_mut().zip(&*out).enumerate() {
            let out = |only: &RowSet| !only.contains(block.row(at));
            if *room == 0 || block.node(at).is_none() || self.only.as_ref().is_some_and(out) {
                *verdict = -1;
            }
        }
        for (plugin, prepared) in &self.stages {
            let cx = Context { prepared, ..context(cluster, &self.shape, Some(asker)) };
            framework.filters()[*plugin].filter_block(&cx, block, verdicts);
        }
        let mut bound = [0_i64; CHUNK];
        let bound = &mut bound[..block.len()];
        for (plugin, prepared) in &self.stages {
            let cx = Context { prepared, ..context(cluster, &self.shape, Some(asker)) };
            bound.fill(i64::MAX);
            framework.filters()[*plugin].room_block(&cx, block, bound);
            for (out, bound) in out.iter_mut().zip(&*bound) {
                *out = (*out).min((*bound).max(1));
            }
        }
        for (out, verdict) in out.iter_mut().zip(&*verdicts) {
            if *verdict < 0 {
                *out = 0;
            }
        }
    }
}

fn context<'a>(cluster: &'a Cluster, shape: &'a PodShape, asker: Option<Asker<'a>>) -> Context<'a> {
    let now = asker.map_or(Time::ZERO, |asker| asker.now);
    Context { group: asker.map(|asker| asker.leaf), now, ..Context::new(cluster, shape) }
}
