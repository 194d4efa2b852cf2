//! What plugins are shown.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use super::counters::Counter;
use crate::base::Time;
use crate::model::{PodGroup, PodShape};
use crate::state::{Cluster, LabelKey, LabelValue, NodeView, Overlay, Plan, ResourceId, Row};

/// What a plugin worked out beforehand, and wants to find again.
#[derive(Default)]
pub struct Prepared(Option<Box<dyn Any + Send + Sync>>);

impl Prepared {
    /// Nothing.
    pub const NONE: Prepared = Prepared(None);

    /// A value to find again.
    pub fn new(value: impl Any + Send + Sync) -> Prepared {
        Prepared(Some(Box::new(value)))
    }

    /// The value, if it is of this type.
    #[inline]
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }

    /// The value for writing, if it is of this type.
    #[inline]
    pub fn value_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()?.downcast_mut()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Prepared(..)" } else { "Prepared(none)" })
    }
}

/// What a filter or a score may read: the pod, its group, the cluster with everything placed so
/// far, and the time.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) pod: &'a PodShape,
    pub(crate) group: Option<&'a PodGroup>,
    pub(crate) now: Time,
    pub(crate) prepared: &'a Prepared,
    pub(crate) counters: &'a [Counter],
}

impl<'a> Context<'a> {
    /// A context without group, preparation or counters; for calling a plugin by hand.
    pub fn new(cluster: &'a Cluster, pod: &'a PodShape) -> Context<'a> {
        Context {
            cluster,
            pod,
            group: None,
            now: Time::ZERO,
            prepared: &Prepared::NONE,
            counters: &[],
        }
    }

    /// The cluster, with everything placed so far.
    #[inline]
    pub fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// The shape of the pod to be placed.
    #[inline]
    pub fn pod(&self) -> &'a PodShape {
        self.pod
    }

    /// The group being placed. Declare that you read it.
    pub fn group(&self) -> Option<&'a PodGroup> {
        self.group
    }

    /// The time of the request. Declare that you read it.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What the plugin prepared, if it is of this type.
    #[inline]
    pub fn prepared<T: Any>(&self) -> Option<&'a T> {
        self.prepared.value()
    }

    /// The count of a declared counter, by its place in the declaration, in the node's domain;
    /// `None` if the node lacks the counter's label or there is no such counter.
    pub fn count(&self, counter: usize, node: NodeView<'_>) -> Option<i64> {
        self.counters.get(counter)?.of(node)
    }
}

/// The nodes that passed all filters, as a score that depends on them sees them.
#[derive(Debug)]
pub struct Feasible<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) rows: &'a [Row],
}

impl<'a> Feasible<'a> {
    /// The feasible rows, in no particular order.
    pub fn new(cluster: &'a Cluster, rows: &'a [Row]) -> Feasible<'a> {
        Feasible { cluster, rows }
    }

    /// How many nodes have all of these labels.
    pub fn with_labels(&self, keys: &[LabelKey]) -> usize {
        self.labelled(keys).count()
    }

    /// The different values of a label on nodes that have all of `keys` too, in no particular
    /// order.
    pub fn values(&self, key: LabelKey, keys: &[LabelKey]) -> Vec<LabelValue> {
        let mut values: Vec<_> =
            self.labelled(keys).filter_map(|node| node.label_value(key)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    fn labelled<'b>(&'b self, keys: &'b [LabelKey]) -> impl Iterator<Item = NodeView<'a>> + 'b {
        let views = self.rows.iter().filter_map(|&row| self.cluster.view(row));
        views.filter(move |node| keys.iter().all(|key| node.label_value(*key).is_some()))
    }
}

/// What a domain-level score may read of one candidate domain.
#[derive(Debug, Clone, Copy)]
pub struct DomainContext<'a> {
    /// The cluster. Ask [`DomainContext::node`] for nodes: it may hold neither the pods proposed
    /// nor those of sibling groups.
    pub cluster: &'a Cluster,
    pub(crate) overlay: Option<&'a Overlay>,
    /// Sums that were kept; without them rows are added up.
    pub(crate) sums: Option<&'a dyn DomainSums>,
    /// The group.
    pub group: &'a PodGroup,
    /// The rows of the domain.
    pub rows: &'a [Row],
    /// The pods proposed in it, with their rows.
    pub proposed: &'a [(&'a PodShape, Row)],
    /// How many members of the group run already.
    pub running: usize,
}

impl<'a> DomainContext<'a> {
    /// A context; for calling a plugin by hand.
    pub fn new(
        cluster: &'a Cluster,
        group: &'a PodGroup,
        rows: &'a [Row],
        proposed: &'a [(&'a PodShape, Row)],
    ) -> DomainContext<'a> {
        DomainContext { cluster, overlay: None, sums: None, group, rows, proposed, running: 0 }
    }

    /// A node without the pods proposed, but with those of sibling groups placed before.
    pub fn node(&self, row: Row) -> Option<NodeView<'a>> {
        match self.overlay {
            Some(overlay) => overlay.view(self.cluster, row),
            None => self.cluster.view(row),
        }
    }

    /// What the proposed pods come to, one amount a shape. O(pods), and `of` is asked once for each
    /// run of pods that share a shape.
    pub fn proposed_sum(&self, of: impl Fn(&PodShape) -> i64) -> i64 {
        let runs = self.proposed.chunk_by(|(a, _), (b, _)| core::ptr::eq(*a, *b));
        runs.fold(0, |sum: i64, run| {
            let each = run.first().map_or(0, |(shape, _)| of(shape));
            sum.saturating_add(each.saturating_mul(run.len() as i64))
        })
    }

    /// Sums over the nodes that have a resource, without the pods proposed. O(1) where the planner
    /// keeps them, else O(nodes of the domain).
    pub fn totals(&self, resource: ResourceId) -> DomainTotals {
        if let Some(sums) = self.sums {
            return sums.of(resource);
        }
        let mut totals = DomainTotals::default();
        for node in self.rows.iter().filter_map(|&row| self.node(row)) {
            let allocatable = node.allocatable(resource);
            if allocatable > 0 {
                let add = |total: &mut i64, amount: i64| *total = total.saturating_add(amount);
                let [cpu, memory] = node.scored_used();
                add(&mut totals.allocatable, allocatable);
                add(&mut totals.used, node.used(resource));
                add(&mut totals.free, node.free(resource).max(0));
                add(&mut totals.scored[0], cpu);
                add(&mut totals.scored[1], memory);
            }
        }
        totals
    }
}

/// Sums over those nodes of a domain that have some of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DomainTotals {
    /// What pods may use.
    pub allocatable: i64,
    /// What pods take.
    pub used: i64,
    /// What is left; nodes of which too much is taken count as nothing.
    pub free: i64,
    /// CPU (thousandths) and memory (bytes) that scores count as used, of the same nodes.
    pub scored: [i64; 2],
}

/// Who keeps such sums.
pub(crate) trait DomainSums: fmt::Debug {
    fn of(&self, resource: ResourceId) -> DomainTotals;
}

/// What a permit may read.
#[derive(Debug, Clone, Copy)]
pub struct PermitContext<'a> {
    /// The cluster, without the plan.
    pub cluster: &'a Cluster,
    /// The group.
    pub group: &'a PodGroup,
    /// The plan found.
    pub plan: &'a Plan,
    /// The time of the request.
    pub now: Time,
}
