//! An upper bound on the room for pods of one shape, node by node, by the filters that can be
//! counted on.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::{RowSet, Time};
use crate::framework::{Context, Declaration, Framework, Preparation, Prepared, Reach};
use crate::model::PodShape;
use crate::model::resources::{CPU, MEMORY};
use crate::state::{Cluster, Row};

/// An upper bound on how many pods of a shape each node can take, whatever else is placed.
pub(super) struct CapacityBound<'a> {
    pub(super) cluster: &'a Cluster,
    framework: &'a Framework,
    shape: &'a PodShape,
    filters: Vec<BoundingFilter>,
    only: Option<RowSet>,
    /// As `only`, by filters whose answer changes with the node itself alone.
    fixed: Option<RowSet>,
    refused: bool,
    refused_for_good: bool,
}

/// A filter made ready.
struct BoundingFilter {
    filter: usize,
    prepared: Prepared,
    is_fixed: bool,
}

/// Whether "no" of a filter stays "no" until the node itself changes for the better.
fn is_node_local(declaration: &Declaration) -> bool {
    matches!(declaration.reach, Reach::Static | Reach::Node)
        && declaration.monotone
        && !declaration.reads_group
        && !declaration.reads_time
        && !declaration.reads_nodes
        && declaration.counters.is_empty()
}

/// Whether some filter sees to it that what a pod of this shape requests must be left.
pub(super) fn has_capacity_bound(framework: &Framework, shape: &PodShape) -> bool {
    framework.filters().iter().any(|filter| {
        let declaration = filter.declare(shape);
        declaration.room && is_node_local(&declaration)
    })
}

/// Whether any plugin reads beyond the node for a shape.
pub(super) fn reads_beyond_node(framework: &Framework, shape: &PodShape) -> bool {
    let far = |declaration: Declaration| {
        !matches!(declaration.reach, Reach::Static | Reach::Node) || declaration.reads_nodes
    };
    !framework.domain_scores().is_empty()
        || framework.filters().iter().any(|filter| far(filter.declare(shape)))
        || framework.scores().iter().any(|(_, score)| far(score.declare(shape)))
}

impl<'a> CapacityBound<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        shape: &'a PodShape,
    ) -> CapacityBound<'a> {
        let mut bound = CapacityBound {
            cluster,
            framework,
            shape,
            filters: Vec::new(),
            only: None,
            fixed: None,
            refused: false,
            refused_for_good: false,
        };
        let cx = Context { now: Time::ZERO, ..Context::new(cluster, shape) };
        for (index, filter) in framework.filters().iter().enumerate() {
            let declaration = filter.declare(shape);
            if !is_node_local(&declaration) {
                continue;
            }
            let is_fixed = declaration.reach == Reach::Static;
            match filter.prepare(&cx) {
                Preparation::Skip | Preparation::Constant(_) => {}
                Preparation::Ready(prepared) => {
                    bound.filters.push(BoundingFilter { filter: index, prepared, is_fixed });
                }
                Preparation::Narrow(prepared, rows) => {
                    if is_fixed {
                        narrow(&mut bound.fixed, &rows);
                    }
                    narrow(&mut bound.only, &rows);
                    bound.filters.push(BoundingFilter { filter: index, prepared, is_fixed });
                }
                Preparation::Reject(_) => {
                    bound.refused = true;
                    bound.refused_for_good |= is_fixed;
                }
            }
        }
        bound
    }

    /// Whether a row may ever have room as its node is: labels, taints, names.
    pub(super) fn may_ever(&self, row: Row) -> bool {
        let Some(node) = self.cluster.view(row) else { return false };
        if self.refused_for_good || self.fixed.as_ref().is_some_and(|only| !only.contains(row)) {
            return false;
        }
        let base = Context::new(self.cluster, self.shape);
        self.filters.iter().filter(|stage| stage.is_fixed).all(|stage| {
            let cx = Context { prepared: &stage.prepared, ..base };
            let filter = self.framework.filters().get(stage.filter);
            filter.is_none_or(|filter| filter.filter(&cx, node).passes())
        })
    }

    /// For how many pods a row has room, at the most.
    pub(super) fn of(&self, row: Row) -> u64 {
        let Some(node) = self.cluster.view(row) else { return 0 };
        if self.refused || self.only.as_ref().is_some_and(|only| !only.contains(row)) {
            return 0;
        }
        let base = Context::new(self.cluster, self.shape);
        let mut room = i64::from(u32::MAX);
        for stage in &self.filters {
            let cx = Context { prepared: &stage.prepared, ..base };
            let Some(filter) = self.framework.filters().get(stage.filter) else { continue };
            if !filter.filter(&cx, node).passes() {
                return 0;
            }
            room = room.min(filter.room(&cx, node));
        }
        u64::try_from(room).unwrap_or(0)
    }
}

/// Leaves of a set what is in another, too.
fn narrow(set: &mut Option<RowSet>, rows: &RowSet) {
    match set {
        Some(set) => set.intersect(rows),
        set => *set = Some(rows.clone()),
    }
}

/// How likely a resource is to be scarce; the scarcest first.
pub(super) fn rarity(name: &str) -> u8 {
    match name {
        CPU => 1,
        MEMORY => 2,
        _ => 0,
    }
}

/// The request under which a shape is looked for: of the resource likely to be scarcest.
pub(super) fn scarcest_request(shape: &PodShape) -> Option<(Box<str>, i64)> {
    let requested = shape.requests.iter().filter(|(_, amount)| *amount > 0);
    requested.min_by_key(|(name, _)| rarity(name)).map(|(name, amount)| (Box::from(name), amount))
}
