//! Contexts: the cluster, the group and the time, as plugins may read them.

use alloc::vec::Vec;
use core::fmt;

use super::counters::Counter;
use crate::base::Time;
use crate::model::{PodGroup, PodShape};
use crate::state::{
    Cluster, LabelKey, LabelValue, NodeView, Overlay, PlacedPods, Plan, ResourceId, Row, ShapeId,
};

/// The input of a filter or a score: the pod, its group, the cluster with everything placed so
/// far, and the time.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) pod: &'a PodShape,
    pub(crate) group: Option<&'a PodGroup>,
    pub(crate) now: Time,
    pub(crate) counters: &'a [Counter],
    /// Set if what is prepared will be kept, with lists of pods that may be made.
    pub(crate) kept: Option<&'a PlacedPods>,
}

impl<'a> Context<'a> {
    /// A context without group or counters; for calling a plugin by hand.
    pub fn new(cluster: &'a Cluster, pod: &'a PodShape) -> Context<'a> {
        Context { cluster, pod, group: None, now: Time::ZERO, counters: &[], kept: None }
    }

    /// The cluster, with everything placed so far. Pods that are placed on the node in question may
    /// be visible on the [`NodeView`] alone that the plugin is called with. So a plugin reads the
    /// node it is called for from that view, and does not look it up here.
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

    /// Whether what is prepared will be kept while pods come and go, each followed by a call of
    /// [`Incremental`](super::Incremental). `Skip`, `Constant`, `Narrow` and `Reject` must then hold
    /// whatever pods come and go. Set for plugins that declare to be
    /// [grained](super::Declaration::grained) only.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Calls `visit` for each pod on a node whose shape is one of these, with what is given for the
    /// shape, and whether the pod is being deleted. O(such pods) with lists, else O(pods).
    pub(crate) fn visit_pods<T>(
        &self,
        shapes: Vec<(ShapeId, T)>,
        mut visit: impl FnMut(&T, NodeView<'a>, bool),
    ) {
        let mut visit = |given: &T, (row, deleting)| {
            if let Some(node) = self.cluster.view(row) {
                visit(given, node, deleting);
            }
        };
        if let Some(placed) = self.kept.filter(|placed| placed.are_made()) {
            for (shape, given) in &shapes {
                placed.of(*shape).for_each(|pod| visit(given, pod));
            }
            return;
        }
        let mut by_shape: Vec<Option<T>> = Vec::new();
        for (shape, given) in shapes {
            if by_shape.len() <= shape.index() {
                by_shape.resize_with(shape.index() + 1, || None);
            }
            by_shape[shape.index()] = Some(given);
        }
        if !by_shape.is_empty() {
            self.cluster.placed().for_each(|(shape, row, deleting)| {
                if let Some(Some(given)) = by_shape.get(shape.index()) {
                    visit(given, (row, deleting));
                }
            });
        }
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
    cluster: &'a Cluster,
    rows: &'a [Row],
    /// How many nodes each row stands for; one where there is none.
    counts: &'a [u32],
}

impl<'a> Feasible<'a> {
    /// The feasible rows, in no particular order.
    pub fn new(cluster: &'a Cluster, rows: &'a [Row]) -> Feasible<'a> {
        Feasible { cluster, rows, counts: &[] }
    }

    /// Rows that stand for others that are like them.
    pub(crate) fn classes(
        cluster: &'a Cluster,
        rows: &'a [Row],
        counts: &'a [u32],
    ) -> Feasible<'a> {
        Feasible { cluster, rows, counts }
    }

    /// How many nodes have all of these labels.
    pub fn with_labels(&self, keys: &[LabelKey]) -> usize {
        if keys.is_empty() && self.counts.is_empty() {
            return self.rows.len();
        }
        self.labelled(keys).map(|(_, count)| count as usize).sum()
    }

    /// The different values of a label on nodes that have all of `keys` too, in no particular
    /// order.
    pub fn values(&self, key: LabelKey, keys: &[LabelKey]) -> Vec<LabelValue> {
        let mut values: Vec<_> =
            self.labelled(keys).filter_map(|(node, _)| node.label_value(key)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    fn labelled<'b>(
        &'b self,
        keys: &'b [LabelKey],
    ) -> impl Iterator<Item = (NodeView<'a>, u32)> + 'b {
        let count = |at: usize| self.counts.get(at).copied().unwrap_or(1);
        let rows = self.rows.iter().enumerate();
        let views = rows.filter_map(move |(at, &row)| Some((self.cluster.view(row)?, count(at))));
        views.filter(move |(node, _)| keys.iter().all(|key| node.label_value(*key).is_some()))
    }
}

/// The input of a domain-level score: one candidate domain.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DomainContext<'a> {
    /// The cluster. Ask [`DomainContext::node`] for nodes: it may hold neither the pods proposed
    /// nor those of sibling groups.
    pub cluster: &'a Cluster,
    pub(crate) overlay: Option<&'a Overlay>,
    /// Sums that were kept; without them rows are added up.
    pub(crate) sums: Option<&'a dyn DomainSums>,
    /// The group.
    pub group: &'a PodGroup,
    /// The rows of the domain, in no particular order.
    pub rows: &'a [Row],
    /// The pods proposed in it, with their rows. Empty for scores that do not read places, if only
    /// the number of pods is known yet: see [`DomainScore::reads_places`](super::DomainScore::reads_places).
    pub proposed: &'a [(&'a PodShape, Row)],
    /// Pods that are not among [`proposed`](Self::proposed), by shape.
    pub(crate) counted: &'a [(&'a PodShape, usize)],
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
        DomainContext {
            cluster,
            overlay: None,
            sums: None,
            group,
            rows,
            proposed,
            counted: &[],
            running: 0,
        }
    }

    /// The shapes of the pods proposed, and how many there are of each; a shape may come up more
    /// than once.
    pub fn shapes(&self) -> impl Iterator<Item = (&'a PodShape, usize)> + use<'a> {
        let runs = self.proposed.chunk_by(|(a, _), (b, _)| core::ptr::eq(*a, *b));
        let proposed = runs.filter_map(|run| run.first().map(|(shape, _)| (*shape, run.len())));
        proposed.chain(self.counted.iter().copied())
    }

    /// Whether the nodes of the domain are as in the cluster, without pods of sibling groups.
    pub(crate) fn is_untouched(&self) -> bool {
        self.overlay.is_none_or(Overlay::is_empty)
    }

    /// A node without the pods proposed, but with those of sibling groups placed before.
    pub fn node(&self, row: Row) -> Option<NodeView<'a>> {
        match self.overlay {
            Some(overlay) => overlay.view(self.cluster, row),
            None => self.cluster.view(row),
        }
    }

    /// The sum over the proposed pods, one amount a shape. O(pods), and `of` is called once for each
    /// run of pods that share a shape.
    pub fn proposed_sum(&self, of: impl Fn(&PodShape) -> i64) -> i64 {
        self.shapes().fold(0, |sum: i64, (shape, pods)| {
            sum.saturating_add(of(shape).saturating_mul(pods as i64))
        })
    }

    /// Allocatable and used amount of a resource: for CPU (0) and memory (1), where
    /// `scored` says so, what scores count as used. As [`DomainContext::totals`].
    pub(crate) fn taken(&self, resource: ResourceId, scored: Option<usize>) -> (i64, i64) {
        if let Some(taken) = self.sums.and_then(|sums| sums.taken(resource, scored?)) {
            return taken;
        }
        let totals = self.totals(resource);
        (totals.allocatable, scored.map_or(totals.used, |at| totals.scored[at]))
    }

    /// Sums over the nodes that have a resource, without the pods proposed. O(1) where the planner
    /// keeps them, else O(nodes of the domain).
    pub fn totals(&self, resource: ResourceId) -> DomainTotals {
        if let Some(totals) = self.sums.and_then(|sums| sums.of(resource)) {
            return totals;
        }
        let mut totals = DomainTotals::default();
        if self.is_untouched() {
            // The same, without looking at what else there is to a node. Nodes that are gone have
            // nothing.
            let columns = &self.cluster.columns;
            for &row in self.rows.iter().filter(|row| row.index() < self.cluster.rows()) {
                let (allocatable, sums) = (columns.allocatable(row, resource), columns.sums(row));
                totals.add(allocatable, sums.used_of(resource), sums.scored());
            }
            return totals;
        }
        for node in self.rows.iter().filter_map(|&row| self.node(row)) {
            totals.add(node.allocatable(resource), node.used(resource), node.scored_used());
        }
        totals
    }
}

/// Sums over those nodes of a domain that have some of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DomainTotals {
    /// Amount that pods may use.
    pub allocatable: i64,
    /// Amount that pods take.
    pub used: i64,
    /// Free amount; an overcommitted node counts as 0.
    pub free: i64,
    /// CPU (thousandths) and memory (bytes) that scores count as used, of the same nodes.
    pub scored: [i64; 2],
}

impl DomainTotals {
    /// Adds a node.
    #[inline]
    fn add(&mut self, allocatable: i64, used: i64, scored: [i64; 2]) {
        if allocatable > 0 {
            self.allocatable = self.allocatable.saturating_add(allocatable);
            self.used = self.used.saturating_add(used);
            self.free = self.free.saturating_add(allocatable.saturating_sub(used).max(0));
            self.scored[0] = self.scored[0].saturating_add(scored[0]);
            self.scored[1] = self.scored[1].saturating_add(scored[1]);
        }
    }
}

/// Sums per resource that a planner keeps for a domain.
pub(crate) trait DomainSums: fmt::Debug {
    /// Totals of a resource; `None` if they are not kept.
    fn of(&self, resource: ResourceId) -> Option<DomainTotals>;

    /// CPU (0) or memory (1): the allocatable amount, and the amount that scores count as used; `None` if it is not
    /// kept by itself.
    fn taken(&self, _: ResourceId, _scored: usize) -> Option<(i64, i64)> {
        None
    }
}

/// The input of a permit.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
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

impl<'a> PermitContext<'a> {
    /// A context; for calling a permit by hand.
    pub fn new(cluster: &'a Cluster, group: &'a PodGroup, plan: &'a Plan, now: Time) -> Self {
        PermitContext { cluster, group, plan, now }
    }
}
