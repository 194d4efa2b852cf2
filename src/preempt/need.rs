//! The need of a request in numbers: how many pods of which shape, and what one of them takes.
//!
//! What does not suffice by these numbers does not suffice. What does is judged by the planner.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::Time;
use crate::framework::prepared::PreparedFilters;
use crate::framework::{Context, Framework};
use crate::model::{Pod, PodGroup, PodShape};
use crate::place::topology::requirement::Requirement;
use crate::state::{Cluster, NodeView, ResourceId, Row};

/// Pods of one shape that must all be placed.
#[derive(Debug)]
pub(crate) struct Kind<'a> {
    shape: Arc<PodShape>,
    leaf: &'a PodGroup,
    pub(crate) count: i64,
    /// Demand of one pod: a pod, then the resources; all zero if no filter judges room.
    pub(crate) ask: Vec<i64>,
    /// The filters that no pod that goes can change.
    fixed: PreparedFilters,
}

/// The need of a request.
#[derive(Debug)]
pub(crate) struct Need<'a> {
    framework: &'a Framework,
    now: Time,
    pub(crate) kinds: Vec<Kind<'a>>,
    /// The resources that are counted; the first dimension is the number of pods.
    pub(crate) resources: Vec<ResourceId>,
    /// The least amount that placing the group takes, by dimension.
    pub(crate) least: Vec<i64>,
    /// Whether some filter reads pods beyond the node it judges.
    pub(crate) wide: bool,
    /// Whether pods that go never make a filter refuse that passed.
    pub(crate) monotone: bool,
    group: &'a PodGroup,
    /// The rows that the request is confined to.
    within: Option<Vec<Row>>,
    /// Whether the group may go to every row of the cluster.
    pub(crate) whole: bool,
    /// Whether one pod is all it takes, and any of its pods will do.
    pub(crate) single: bool,
}

impl<'a> Need<'a> {
    /// The need of a group, on some rows if it is confined to them.
    pub(crate) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        group: &'a PodGroup,
        now: Time,
        within: Option<Vec<Row>>,
    ) -> Need<'a> {
        let ask = Requirement::new(cluster, group);
        let mut need = Need {
            framework,
            now,
            kinds: Vec::new(),
            resources: Vec::new(),
            least: Vec::new(),
            wide: false,
            monotone: true,
            group,
            whole: within.is_none() && ask.loosest().is_none(),
            within,
            single: ask.inside.is_empty() && ask.need <= 1 && alike(&ask.pods),
        };
        let mut shapes: Vec<(&'a Arc<PodShape>, &'a PodGroup)> = Vec::new();
        group.visit(&mut |leaf| {
            for pod in &leaf.pods {
                let same = |known: &(&Arc<PodShape>, _)| same_shape(known.0, pod.shape());
                if !shapes.iter().rev().take(4).any(same) {
                    shapes.push((pod.shape(), leaf));
                }
            }
        });
        for (shape, leaf) in &shapes {
            need.look_at(cluster, shape, leaf);
        }
        need.add(cluster, &ask);
        let amount = |of: &dyn Fn(&PodShape) -> i64| ask.least(&|pod| of(pod.shape()));
        need.least.push(amount(&|_| 1));
        for resource in 0..need.resources.len() {
            let name = cluster.resource_name(need.resources[resource]);
            need.least.push(amount(&|shape| shape.requests.of(name).max(0)));
        }
        if need.kinds.iter().any(|kind| kind.ask[0] == 0)
            || !shapes.iter().all(|(shape, _)| judges_room(framework, shape))
        {
            need.least.fill(0);
        }
        for kind in &mut need.kinds {
            let names = need.resources.iter().map(|id| cluster.resource_name(*id));
            let judged = kind.ask[0];
            let all: Vec<i64> =
                names.map(|name| kind.shape.requests.of(name).max(0) * judged).collect();
            kind.ask.extend(all);
        }
        need
    }

    /// The domains one of which must hold the group, each with its rows.
    pub(crate) fn domains(&self, cluster: &Cluster) -> Vec<Vec<Row>> {
        let rows: Vec<Row> = match &self.within {
            Some(rows) => rows.clone(),
            None => cluster.nodes().map(NodeView::row).collect(),
        };
        let ask = Requirement::new(cluster, self.group);
        // Of several tiers, the last takes in what the others do.
        let loosest = ask.loosest();
        match ask.candidates(cluster, &rows) {
            Ok(candidates) => {
                let last = candidates.into_iter().filter(|(key, _)| *key == loosest);
                last.map(|(_, candidate)| candidate.rows(Some(&rows)).unwrap_or(&rows).to_vec())
                    .collect()
            }
            Err(_) => alloc::vec![rows],
        }
    }

    /// Notes which resources a shape asks for, and how far its filters read.
    fn look_at(&mut self, cluster: &'a Cluster, shape: &'a PodShape, leaf: &'a PodGroup) {
        for (name, _) in shape.requests.iter().filter(|(_, amount)| *amount > 0) {
            if let Some(id) = cluster.resource(name)
                && !self.resources.contains(&id)
            {
                self.resources.push(id);
            }
        }
        let cx = Context { group: Some(leaf), now: self.now, ..Context::new(cluster, shape) };
        let wide = PreparedFilters::new(self.framework, &cx, |d| !d.is_pod_local());
        self.wide |= !wide.filters.is_empty() || wide.rows.rejected().is_some();
        let changing =
            PreparedFilters::new(self.framework, &cx, |d| !d.monotone && !d.is_pod_independent());
        self.monotone &= changing.filters.is_empty();
    }

    /// Adds the members of a requirement that are needed for certain.
    fn add(&mut self, cluster: &'a Cluster, ask: &Requirement<'a>) {
        let all = ask.need >= ask.all();
        if !ask.inside.is_empty() {
            if all {
                for inside in &ask.inside {
                    self.add(cluster, inside);
                }
            }
            return;
        }
        let Some(first) = ask.pods.first() else { return };
        if alike(&ask.pods) {
            self.add_kind(cluster, ask.group, first.shape(), i64::from(ask.need.max(1)));
        } else if all {
            for pod in &ask.pods {
                self.add_kind(cluster, ask.group, pod.shape(), 1);
            }
        }
    }

    fn add_kind(
        &mut self,
        cluster: &'a Cluster,
        leaf: &'a PodGroup,
        shape: &'a Arc<PodShape>,
        count: i64,
    ) {
        let same = |kind: &&mut Kind<'a>| same_shape(&kind.shape, shape);
        if let Some(kind) = self.kinds.iter_mut().find(same) {
            kind.count += count;
            return;
        }
        let cx = Context { group: Some(leaf), now: self.now, ..Context::new(cluster, shape) };
        let fixed =
            PreparedFilters::new(self.framework, &cx, |d| d.is_pod_independent() && !d.room);
        let ask = alloc::vec![i64::from(judges_room(self.framework, shape))];
        self.kinds.push(Kind { shape: Arc::clone(shape), leaf, count, ask, fixed });
    }

    /// How many dimensions there are.
    pub(crate) fn width(&self) -> usize {
        1 + self.resources.len()
    }

    /// Whether pods of a kind can go to a row at all, whatever runs there.
    pub(crate) fn may_use(&self, cluster: &Cluster, kind: usize, row: Row) -> bool {
        let Kind { shape, leaf, fixed, .. } = &self.kinds[kind];
        if fixed.filters.is_empty() && fixed.rows.rejected().is_none() {
            return fixed.rows.includes(row);
        }
        let Some(node) = cluster.view(row) else { return false };
        let cx = Context { group: Some(leaf), now: self.now, ..Context::new(cluster, shape) };
        fixed.capacity(cx, node) > 0
    }

    /// What is free of each dimension on a row; below zero where too much is bound.
    pub(crate) fn free(&self, cluster: &Cluster, row: Row, free: &mut Vec<i64>) {
        let Some(node) = cluster.view(row) else {
            free.extend(core::iter::repeat_n(0, self.width()));
            return;
        };
        free.push(node.pod_limit().saturating_sub(node.pod_count()));
        free.extend(self.resources.iter().map(|id| node.free(*id)));
    }

    /// How many pods of a kind fit what is free.
    #[inline]
    pub(crate) fn times(&self, kind: usize, free: &[i64]) -> i64 {
        let mut least = MOST;
        for (free, &ask) in free.iter().zip(&self.kinds[kind].ask) {
            if ask > 0 {
                least = least.min(if *free < ask { 0 } else { free / ask });
            }
        }
        least
    }
}

/// Whether two shapes are equal; pods read from manifests do not share theirs.
fn same_shape(a: &Arc<PodShape>, b: &Arc<PodShape>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// Whether there are pods, of one shape.
fn alike(pods: &[&Pod]) -> bool {
    let Some((first, others)) = pods.split_first() else { return false };
    others.iter().all(|pod| same_shape(pod.shape(), first.shape()))
}

/// More pods than any node is counted to take.
const MOST: i64 = 1 << 32;

/// Whether some filter judges room for a shape.
fn judges_room(framework: &Framework, shape: &PodShape) -> bool {
    framework.filters().iter().any(|filter| filter.declare(shape).room)
}
