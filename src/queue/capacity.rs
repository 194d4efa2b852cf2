//! Upper bounds on how many pods of one shape each node can take, from node-local filters.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::{RowSet, Time};
use crate::framework::{Context, Declaration, Framework, Preparation, Prepared, Reach};
use crate::model::PodShape;
use crate::model::resources::{CPU, MEMORY};
use crate::state::{Cluster, Row};

/// Upper bound on the number of pods of a shape that each node can take, whatever else is placed.
pub(super) struct CapacityBound<'a> {
    pub(super) cluster: &'a Cluster,
    framework: &'a Framework,
    shape: &'a PodShape,
    filters: Vec<BoundingFilter>,
    only: Option<RowSet>,
    /// As `only`, from filters that read static properties of the node alone.
    fixed: Option<RowSet>,
    refused: bool,
    refused_for_good: bool,
}

/// A prepared filter that bounds capacity.
struct BoundingFilter {
    filter: usize,
    prepared: Prepared,
    is_fixed: bool,
}

/// Whether a rejection by the filter holds until the node itself changes: node-local, monotone,
/// independent of group, time, other nodes and counters.
fn is_node_local(declaration: &Declaration) -> bool {
    matches!(declaration.reach, Reach::Static | Reach::Node)
        && declaration.monotone
        && !declaration.reads_group
        && !declaration.reads_time
        && !declaration.reads_nodes
        && declaration.counters.is_empty()
}

/// Whether some node-local filter bounds capacity by what a pod of this shape requests.
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

    /// Whether the static properties of a node (labels, taints, name) admit the shape.
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

    /// Upper bound on the number of pods that fit on a row.
    pub(super) fn of(&self, row: Row) -> u64 {
        let Some(node) = self.cluster.view(row) else { return 0 };
        if self.refused || self.only.as_ref().is_some_and(|only| !only.contains(row)) {
            return 0;
        }
        let base = Context::new(self.cluster, self.shape);
        let mut most = i64::from(u32::MAX);
        for stage in &self.filters {
            let cx = Context { prepared: &stage.prepared, ..base };
            let Some(filter) = self.framework.filters().get(stage.filter) else { continue };
            if !filter.filter(&cx, node).passes() {
                return 0;
            }
            most = most.min(filter.room(&cx, node));
        }
        u64::try_from(most).unwrap_or(0)
    }
}

/// Intersects a set of rows, where `None` means all, with another.
fn narrow(set: &mut Option<RowSet>, rows: &RowSet) {
    match set {
        Some(set) => set.intersect(rows),
        set => *set = Some(rows.clone()),
    }
}

/// Scarcity rank of a resource; the scarcest has the lowest rank.
pub(super) fn rarity(name: &str) -> u8 {
    match name {
        CPU => 1,
        MEMORY => 2,
        _ => 0,
    }
}

/// The request of a shape for its scarcest resource, under which the wait index lists it.
pub(super) fn scarcest_request(shape: &PodShape) -> Option<(Box<str>, i64)> {
    let requested = shape.requests.iter().filter(|(_, amount)| *amount > 0);
    requested.min_by_key(|(name, _)| rarity(name)).map(|(name, amount)| (Box::from(name), amount))
}
