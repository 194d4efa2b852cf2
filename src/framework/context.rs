//! What plugins are shown.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use super::counters::Counter;
use crate::base::Time;
use crate::model::{PodGroup, PodShape};
use crate::state::{Cluster, LabelKey, LabelValue, NodeView, Overlay, Plan, Row};

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
    pub(crate) kept: bool,
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
            kept: false,
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

    /// Whether what is prepared will be kept while pods come and go, and be told of each by `take`
    /// and `undo`. `Skip`, `Constant`, `Narrow` and `Reject` must then hold whatever pods come and
    /// go. Asked of plugins with a [`Grain`](super::Grain) only.
    pub fn is_kept(&self) -> bool {
        self.kept
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

/// What a domain-level score may read of one candidate domain.
#[derive(Debug, Clone, Copy)]
pub struct DomainContext<'a> {
    /// The cluster. Ask [`DomainContext::node`] for nodes: it may hold neither the pods proposed
    /// nor those of sibling groups.
    pub cluster: &'a Cluster,
    pub(crate) overlay: Option<&'a Overlay>,
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
        DomainContext { cluster, overlay: None, group, rows, proposed, running: 0 }
    }

    /// A node without the pods proposed, but with those of sibling groups placed before.
    pub fn node(&self, row: Row) -> Option<NodeView<'a>> {
        match self.overlay {
            Some(overlay) => overlay.view(self.cluster, row),
            None => self.cluster.view(row),
        }
    }
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
