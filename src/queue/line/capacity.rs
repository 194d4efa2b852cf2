//! Upper bounds on how many pods of one shape each node can take, from node-local filters.

use alloc::boxed::Box;

use crate::framework::prepared::{Plugin, PreparedFilters};
use crate::framework::{Context, Declaration, Framework};
use crate::model::PodShape;
use crate::model::resources::{CPU, MEMORY};
use crate::state::{Cluster, Row};

/// Upper bound on the number of pods of a shape that each node can take, whatever else is placed.
pub(in crate::queue) struct CapacityBound<'a> {
    pub(in crate::queue) cluster: &'a Cluster,
    shape: &'a PodShape,
    /// Filters that read static properties of the node alone.
    fixed: PreparedFilters,
    others: PreparedFilters,
}

/// Whether a rejection by the filter holds for every request until the node itself changes.
fn is_steady(declaration: &Declaration) -> bool {
    declaration.is_counting_bound() && declaration.is_node_local() && declaration.is_cacheable()
}

/// Whether some node-local filter bounds capacity by what a pod of this shape requests.
pub(in crate::queue) fn has_capacity_bound(framework: &Framework, shape: &PodShape) -> bool {
    framework.filters().iter().any(|filter| {
        let declaration = filter.declare(shape);
        declaration.room && is_steady(&declaration)
    })
}

/// Whether filters judge nothing of a shape but the node itself and its room, so that counting decides.
pub(in crate::queue) fn is_by_room(
    framework: &Framework,
    cluster: &Cluster,
    shape: &PodShape,
) -> bool {
    let cx = Context::new(cluster, shape);
    let is_known = |(index, declaration): (usize, Declaration)| {
        is_steady(&declaration) && (declaration.room || declaration.is_pod_independent())
            || Plugin::Filter(index).skips(framework, &cx)
    };
    let filters = framework.filters().iter().map(|filter| filter.declare(shape));
    shape.devices.is_empty() && shape.zones.is_empty() && filters.enumerate().all(is_known)
}

/// Whether any plugin reads beyond the node for a shape.
pub(in crate::queue) fn reads_beyond_node(framework: &Framework, shape: &PodShape) -> bool {
    let mut plugins = Plugin::all(framework, shape);
    !framework.domain_scores().is_empty()
        || plugins.any(|plugin| !plugin.declare(framework, shape).is_node_local())
}

impl<'a> CapacityBound<'a> {
    pub(in crate::queue) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        shape: &'a PodShape,
    ) -> CapacityBound<'a> {
        let cx = Context::new(cluster, shape);
        let steady = |fixed: bool| {
            move |declaration: &Declaration| {
                is_steady(declaration) && declaration.is_pod_independent() == fixed
            }
        };
        let fixed = PreparedFilters::new(framework, &cx, steady(true));
        let others = PreparedFilters::new(framework, &cx, steady(false));
        CapacityBound { cluster, shape, fixed, others }
    }

    /// Whether the static properties of a node (labels, taints, name) admit the shape.
    pub(in crate::queue) fn may_ever(&self, row: Row) -> bool {
        let Some(node) = self.cluster.view(row) else { return false };
        let cx = Context::new(self.cluster, self.shape);
        self.fixed.passes(cx, node, &mut 0)
    }

    /// Upper bound on the number of pods that fit on a row.
    pub(in crate::queue) fn of(&self, row: Row) -> u64 {
        let Some(node) = self.cluster.view(row) else { return 0 };
        let cx = Context::new(self.cluster, self.shape);
        let capacity = |filters: &PreparedFilters| filters.capacity(cx, node);
        match capacity(&self.fixed) {
            0 => 0,
            most => u64::try_from(most.min(capacity(&self.others))).unwrap_or(0),
        }
    }
}

/// Scarcity rank of a resource; the scarcest has the lowest rank.
pub(in crate::queue) fn rarity(name: &str) -> u8 {
    match name {
        CPU => 1,
        MEMORY => 2,
        _ => 0,
    }
}

/// The request of a shape for its scarcest resource, under which the wait index lists it.
pub(in crate::queue) fn scarcest_request(shape: &PodShape) -> Option<(Box<str>, i64)> {
    let requested = shape.requests.iter().filter(|(_, amount)| *amount > 0);
    requested.min_by_key(|(name, _)| rarity(name)).map(|(name, amount)| (Box::from(name), amount))
}
