//! The capacity of each node for one pod shape: how many pods it takes if it gets nothing else.
//!
//! Node-local filters whose rejections stand while pods are placed are evaluated once for each node.
//! Filters that promise to judge room are replaced by comparing amounts. All others are left out,
//! so what does not fit here does not fit at all.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::Time;
use crate::framework::prepared::{MANY, PreparedFilters};
use crate::framework::{Block, Context, Declaration, Framework};
use crate::model::{PodGroup, PodShape};
use crate::state::{Cluster, ResourceId, Row};

/// The bounds on the pods of a shape on a node.
#[derive(Debug)]
pub(crate) struct Fits {
    pub(crate) shape: Arc<PodShape>,
    filters: PreparedFilters,
    /// Whether the pods request something that no node has.
    never: bool,
    /// Amounts of one pod beside its place, where a filter judges room.
    ask: Option<Vec<(ResourceId, i64)>>,
}

/// The group and the time of a request, which few filters read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) leaf: &'a PodGroup,
    pub(crate) now: Time,
}

/// Whether a filter is evaluated once for each node.
pub(crate) fn is_evaluated(declaration: &Declaration) -> bool {
    let by_amounts = declaration.room && !declaration.is_pod_independent();
    declaration.is_counting_bound() && !by_amounts
}

impl Fits {
    /// Whether the capacities hold for every request, and until a node's pods change.
    pub(crate) fn lasts(framework: &Framework, shape: &PodShape) -> bool {
        framework.filters().iter().map(|filter| filter.declare(shape)).all(|declaration| {
            !is_evaluated(&declaration) || declaration.is_cacheable() && !declaration.reads_affinity
        })
    }

    pub(crate) fn new(
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        asker: Option<Asker<'_>>,
    ) -> Fits {
        let cx = context(cluster, shape, asker);
        let mut fits = Fits {
            shape: Arc::clone(shape),
            filters: PreparedFilters::new(framework, &cx, is_evaluated),
            never: false,
            ask: None,
        };
        if framework.judges_room(shape) {
            let mut ask = Vec::new();
            for (name, amount) in shape.requests.iter().filter(|(_, amount)| *amount > 0) {
                match cluster.resource(name) {
                    Some(id) => ask.push((id, amount)),
                    None => fits.never = true,
                }
            }
            fits.ask = Some(ask);
        }
        fits
    }

    /// Prepares the filters again after nodes have changed. Returns whether one of them reads
    /// other nodes than the one it evaluates, so that all capacities are void.
    pub(crate) fn follow_nodes(&mut self, cluster: &Cluster, framework: &Framework) -> bool {
        *self = Fits::new(cluster, framework, &self.shape, None);
        let mut declarations = framework.filters().iter().map(|filter| filter.declare(&self.shape));
        declarations.any(|declaration| is_evaluated(&declaration) && declaration.reads_nodes)
    }

    /// The capacity of one row.
    pub(crate) fn count(&self, cluster: &Cluster, asker: Option<Asker<'_>>, row: Row) -> i64 {
        let Some(node) = cluster.view(row) else { return 0 };
        if self.never {
            return 0;
        }
        let mut room = MANY;
        if let Some(ask) = &self.ask {
            room = room.min(node.free_pods().max(0));
            for &(resource, amount) in ask {
                room = room.min(node.free(resource).max(0) / amount);
            }
        }
        if room == 0 {
            return 0;
        }
        let cx = context(cluster, &self.shape, asker);
        room.min(self.filters.capacity(cx, node))
    }

    /// The capacities of a block of rows.
    pub(crate) fn read(
        &self,
        cluster: &Cluster,
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
        let cx = context(cluster, &self.shape, Some(asker));
        self.filters.lower_capacity_block(cx, block, out);
    }
}

fn context<'a>(cluster: &'a Cluster, shape: &'a PodShape, asker: Option<Asker<'a>>) -> Context<'a> {
    let now = asker.map_or(Time::ZERO, |asker| asker.now);
    Context { group: asker.map(|asker| asker.leaf), now, ..Context::new(cluster, shape) }
}
