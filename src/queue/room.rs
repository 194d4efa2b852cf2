//! Upper bounds on how many pods of one shape each node can take, from node-local filters.

use alloc::boxed::Box;

use crate::framework::prepared::{Plugin, PreparedFilters};
use crate::framework::{Context, Declaration, Framework, Reach};
use crate::model::PodShape;
use crate::model::resources::{CPU, MEMORY};
use crate::state::{Cluster, Row};

/// Upper bound on the number of pods of a shape that each node can take, whatever else is placed.
pub(crate) struct Bound<'a> {
    pub(crate) cluster: &'a Cluster,
    framework: &'a Framework,
    shape: &'a PodShape,
    /// Filters that read static properties of the node alone.
    fixed: PreparedFilters,
    others: PreparedFilters,
}

/// Whether a rejection by the filter holds for every request until the node itself changes.
fn is_steady(declaration: &Declaration) -> bool {
    declaration.bounds_capacity() && declaration.is_cacheable() && !declaration.reads_nodes
}

/// Whether some steady filter judges the room that a pod of this shape requests.
pub(crate) fn is_capped(framework: &Framework, shape: &PodShape) -> bool {
    framework.filters().iter().any(|filter| {
        let declaration = filter.declare(shape);
        declaration.room && is_steady(&declaration)
    })
}

/// Whether any plugin reads beyond the node for a shape.
pub(crate) fn is_far(framework: &Framework, shape: &PodShape) -> bool {
    let far = |plugin: Plugin| {
        let declaration = plugin.declare(framework, shape);
        !declaration.is_node_local() || declaration.reads_nodes
    };
    !framework.domain_scores().is_empty() || Plugin::all(framework).any(far)
}

impl<'a> Bound<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        shape: &'a PodShape,
    ) -> Bound<'a> {
        let cx = Context::new(cluster, shape);
        let steady = |fixed: bool| {
            move |declaration: &Declaration| {
                is_steady(declaration) && (declaration.reach == Reach::Static) == fixed
            }
        };
        let fixed = PreparedFilters::new(framework, &cx, steady(true));
        let others = PreparedFilters::new(framework, &cx, steady(false));
        Bound { cluster, framework, shape, fixed, others }
    }

    /// Whether the static properties of a node (labels, taints, name) admit the shape.
    pub(crate) fn may_ever(&self, row: Row) -> bool {
        let Some(node) = self.cluster.view(row) else { return false };
        let cx = Context::new(self.cluster, self.shape);
        self.fixed.passes(self.framework, cx, node, &mut 0)
    }

    /// Upper bound on the number of pods that fit on a row.
    pub(crate) fn of(&self, row: Row) -> u64 {
        let Some(node) = self.cluster.view(row) else { return 0 };
        let cx = Context::new(self.cluster, self.shape);
        let capacity = |filters: &PreparedFilters| filters.capacity(self.framework, cx, node);
        match capacity(&self.fixed) {
            0 => 0,
            most => u64::try_from(most.min(capacity(&self.others))).unwrap_or(0),
        }
    }
}

/// How likely a resource is to be scarce; the scarcest first.
pub(crate) fn rarity(name: &str) -> u8 {
    match name {
        CPU => 1,
        MEMORY => 2,
        _ => 0,
    }
}

/// The request under which a shape is looked for: of the resource likely to be scarcest.
pub(crate) fn scarcest(shape: &PodShape) -> Option<(Box<str>, i64)> {
    let requested = shape.requests.iter().filter(|(_, amount)| *amount > 0);
    requested.min_by_key(|(name, _)| rarity(name)).map(|(name, amount)| (Box::from(name), amount))
}
