//! The need of a request in numbers: how many pods of which shape, and their least amounts.
//!
//! A set that does not suffice by these numbers does not suffice. The planner judges the others.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::devices::DeviceCount;
use crate::base::Time;
use crate::base::chunks::CHUNK;
use crate::framework::prepared::PreparedFilters;
use crate::framework::{Context, Framework};
use crate::model::{Pod, PodGroup, PodShape};
use crate::place::Request;
use crate::place::numbers::{Dimensions, Leaf};
use crate::place::topology::requirement::Requirement;
use crate::place::topology::tiers::DomainSense;
use crate::state::{Cluster, DeviceNeed, NodeView, PodView, Row};

/// Pods of some shapes, of which so many must be placed for certain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kind {
    pub(crate) count: i64,
    /// Least amounts that each takes: a pod, then the resources; all zero if no filter judges room.
    pub(crate) ask: Vec<i64>,
    /// The shapes, by number.
    shapes: Vec<usize>,
}

/// A shape of members.
#[derive(Debug)]
struct Shape<'a> {
    own: Arc<PodShape>,
    leaf: &'a PodGroup,
    ask: Vec<i64>,
    /// The filters that no pod that goes can change.
    fixed: PreparedFilters,
}

/// Shapes up to which kinds of several are looked at.
const MOST_SHAPES: usize = 6;

/// The basis of domains and their counts, beside the cluster: what tells them apart and their key, the
/// dimensions, the kinds.
pub(super) type Basis = (DomainSense, Option<String>, Dimensions, Vec<Kind>);

/// The need of a request.
#[derive(Debug)]
pub(crate) struct Need<'a> {
    framework: &'a Framework,
    now: Time,
    shapes: Vec<Shape<'a>>,
    pub(crate) kinds: Vec<Kind>,
    /// Dimensions in which a pod takes of nodes as much as it frees.
    amounts: Dimensions,
    /// The needs of devices that are counted, as the last dimensions.
    devices: Vec<DeviceCount>,
    /// The least amount that placing the group takes, by dimension.
    pub(crate) least: Vec<i64>,
    /// Whether some filter reads pods beyond the node it judges.
    pub(crate) wide: bool,
    /// Whether pods that go never make a filter refuse that passed.
    pub(crate) monotone: bool,
    group: &'a PodGroup,
    /// The meaning of a domain to the strategy that places the group.
    sense: DomainSense,
    /// The key of the domains one of which must hold the group; of several tiers, the last takes in
    /// what the others do.
    loosest: Option<&'a str>,
    /// The rows that the request is confined to.
    within: Option<Vec<Row>>,
    /// Whether the group may go to every row of the cluster.
    pub(crate) whole: bool,
    /// Whether one pod is all it takes, and any of its pods will do.
    pub(crate) single: bool,
    /// Whether every shape is of some kind. Else pods may go to nodes that no kind may use.
    pub(crate) counts_all: bool,
}

impl<'a> Need<'a> {
    /// The need of a request, on some rows if it is confined to them.
    pub(crate) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        request: &'a Request<'_>,
    ) -> Need<'a> {
        let (group, now, within) = (request.group(), request.now, request.rows(cluster));
        let strategy = request.strategy.unwrap_or_else(|| framework.strategy());
        let ask = Requirement::new(cluster, group);
        let mut need = Need {
            framework,
            now,
            shapes: Vec::new(),
            kinds: Vec::new(),
            amounts: Dimensions::default(),
            devices: Vec::new(),
            least: Vec::new(),
            wide: false,
            monotone: true,
            group,
            sense: DomainSense::of(strategy),
            loosest: ask.loosest(),
            whole: within.is_none() && ask.loosest().is_none(),
            within,
            single: ask.inside.is_empty() && ask.need <= 1 && alike(&ask.pods),
            counts_all: false,
        };
        let mut shapes: Vec<(&'a Arc<PodShape>, &'a PodGroup)> = Vec::new();
        group.visit(&mut |leaf| {
            for pod in &leaf.pods {
                if !shapes.iter().rev().take(4).any(|(known, _)| *known == pod.shape()) {
                    shapes.push((pod.shape(), leaf));
                }
            }
        });
        for (shape, leaf) in &shapes {
            need.look_at(cluster, shape, leaf);
        }
        let leaves = ask.leaves(|leaf, pod| Some(need.shape(cluster, leaf, pod.shape())));
        let amount = |of: &dyn Fn(&PodShape) -> i64| ask.least(&|pod| of(pod.shape()));
        need.least.push(amount(&|_| 1));
        for id in &need.amounts.resources {
            let name = cluster.resource_name(*id);
            need.least.push(amount(&|shape| shape.requests.of(name).max(0)));
        }
        if !shapes.iter().all(|(shape, _)| framework.judges_room(shape)) {
            need.least.fill(0);
        }
        for devices in &need.devices {
            need.least.push(amount(&|shape| devices.ask(&DeviceNeed::of(cluster, shape))));
        }
        need.add_kinds(&leaves);
        need.counts_all = shapes.iter().all(|(shape, _)| need.is_counted(shape));
        need
    }

    /// Whether a shape is of some kind.
    fn is_counted(&self, shape: &Arc<PodShape>) -> bool {
        let mut counted = self.kinds.iter().flat_map(|kind| &kind.shapes);
        counted.any(|&at| self.shapes[at].own == *shape)
    }

    /// The basis of the domains; `None` if devices, a part of the cluster or running members matter too.
    pub(super) fn basis(&self, cluster: &Cluster) -> Option<Basis> {
        let runs = |own: &PodGroup| cluster.pods.find_group(&own.namespace, &own.name).is_some();
        let is_alone = self.within.is_none() && self.devices.is_empty() && !self.group.any(&runs);
        let key = self.loosest.map(String::from);
        is_alone.then(|| (self.sense, key, self.amounts.clone(), self.kinds.clone()))
    }

    /// The domains one of which must hold the group, each with its rows.
    pub(crate) fn domains(&self, cluster: &Cluster) -> Vec<Vec<Row>> {
        let rows: Vec<Row> = match &self.within {
            Some(rows) => rows.clone(),
            None => cluster.nodes().map(NodeView::row).collect(),
        };
        match Requirement::new(cluster, self.group).candidates_in(self.sense, cluster, &rows) {
            Ok(candidates) => {
                let last = candidates.into_iter().filter(|(key, _)| *key == self.loosest);
                last.map(|(_, candidate)| candidate.rows(Some(&rows)).unwrap_or(&rows).to_vec())
                    .collect()
            }
            Err(_) => alloc::vec![rows],
        }
    }

    /// Notes which resources a shape asks for, and how far its filters read.
    fn look_at(&mut self, cluster: &'a Cluster, shape: &'a PodShape, leaf: &'a PodGroup) {
        self.amounts.add(cluster, shape);
        if !shape.devices.is_empty() {
            DeviceCount::add(&mut self.devices, &DeviceNeed::of(cluster, shape));
        }
        let cx = Context { group: Some(leaf), now: self.now, ..Context::new(cluster, shape) };
        let wide = PreparedFilters::new(self.framework, &cx, |d| !d.is_pod_local());
        self.wide |= !wide.filters.is_empty() || wide.rows.rejected().is_some();
        let changing =
            PreparedFilters::new(self.framework, &cx, |d| !d.monotone && !d.is_pod_independent());
        self.monotone &= changing.filters.is_empty();
    }

    /// The number of a shape.
    fn shape(
        &mut self,
        cluster: &'a Cluster,
        leaf: &'a PodGroup,
        shape: &'a Arc<PodShape>,
    ) -> usize {
        let known = self.shapes.iter().position(|known| known.own == *shape);
        if let Some(known) = known {
            return known;
        }
        let cx = Context { group: Some(leaf), now: self.now, ..Context::new(cluster, shape) };
        let fixed =
            PreparedFilters::new(self.framework, &cx, |d| d.is_pod_independent() && !d.room);
        let judged = i64::from(self.framework.judges_room(shape));
        let amounts = self.amounts.ask(cluster, shape).map(|amount| amount * judged);
        let needs = DeviceNeed::of(cluster, shape);
        let ask = amounts.chain(self.devices.iter().map(|devices| devices.ask(&needs))).collect();
        self.shapes.push(Shape { own: Arc::clone(shape), leaf, ask, fixed });
        self.shapes.len() - 1
    }

    /// Adds what is certain to be needed of each shape, and of all shapes together that ask for no
    /// less of a dimension than one of them. So many must be placed, whatever others stay out, and
    /// each takes at least the amounts of the least.
    fn add_kinds(&mut self, leaves: &[Leaf]) {
        let mut sets: Vec<Vec<usize>> = (0..self.shapes.len()).map(|shape| vec![shape]).collect();
        sets.push((0..self.shapes.len()).collect());
        if self.shapes.len() <= MOST_SHAPES {
            for dimension in 0..self.width() {
                for least in self.shapes.iter().map(|shape| shape.ask[dimension]) {
                    let above = |shape: &usize| self.shapes[*shape].ask[dimension] >= least;
                    sets.push((0..self.shapes.len()).filter(above).collect());
                }
            }
        }
        let mut known: Vec<Vec<usize>> = Vec::new();
        for shapes in sets {
            if known.contains(&shapes) {
                continue;
            }
            let certain = leaves.iter().map(|leaf| leaf.certain(|shape| shapes.contains(&shape)));
            let count = certain.sum();
            if count > 0 {
                let least = |dimension: usize| {
                    shapes.iter().map(|&shape| self.shapes[shape].ask[dimension]).min().unwrap_or(0)
                };
                let ask = (0..self.width()).map(least).collect();
                self.kinds.push(Kind { count, ask, shapes: shapes.clone() });
            }
            known.push(shapes);
        }
    }

    /// How many dimensions there are.
    pub(crate) fn width(&self) -> usize {
        self.amounts() + self.devices.len()
    }

    /// How many of them are amounts of nodes, for which a pod takes as much as it frees.
    pub(crate) fn amounts(&self) -> usize {
        self.amounts.width()
    }

    /// Amounts of a node that pods of a shape free.
    pub(super) fn amounts_of(&self, cluster: &Cluster, shape: &PodShape) -> Vec<i64> {
        self.amounts.ask(cluster, shape).collect()
    }

    /// Devices that a pod frees, by need.
    pub(super) fn devices_of(
        &self,
        cluster: &Cluster,
        pod: PodView<'_>,
    ) -> impl Iterator<Item = i64> {
        self.devices.iter().map(move |devices| devices.gain(cluster, pod))
    }

    /// Whether some pod of a kind can go to a row at all, whatever runs there.
    pub(crate) fn may_use(&self, cluster: &Cluster, kind: usize, row: Row) -> bool {
        self.kinds[kind].shapes.iter().any(|&shape| {
            let Shape { own, leaf, fixed, .. } = &self.shapes[shape];
            if fixed.filters.is_empty() && fixed.rows.rejected().is_none() {
                return fixed.rows.includes(row);
            }
            let Some(node) = cluster.view(row) else { return false };
            let cx = Context { group: Some(leaf), now: self.now, ..Context::new(cluster, own) };
            fixed.capacity(cx, node) > 0
        })
    }

    /// Whether pods of a kind can go to every row, as far as what runs there allows.
    pub(crate) fn may_use_all(&self, kind: usize) -> bool {
        self.kinds[kind].shapes.iter().any(|&shape| self.shapes[shape].fixed.takes_all())
    }

    /// Free amounts of each dimension on a row; below zero where too much is bound.
    pub(crate) fn free(&self, cluster: &Cluster, row: Row, free: &mut Vec<i64>) {
        let Some(node) = cluster.view(row) else {
            free.extend(core::iter::repeat_n(0, self.width()));
            return;
        };
        free.extend(self.amounts.free(node));
        free.extend(self.devices.iter().map(|devices| devices.free(node)));
    }

    /// The same of many rows, a row after the other: column by column.
    pub(crate) fn free_of_rows(&self, cluster: &Cluster, rows: &[Row]) -> Vec<i64> {
        let (columns, width) = (&cluster.columns, self.width());
        let mut free = vec![0; rows.len() * width];
        let mut rest = &mut free[..];
        for run in rows.chunk_by(|one, other| one.index() / CHUNK == other.index() / CHUNK) {
            let (own, after) = rest.split_at_mut(run.len() * width);
            rest = after;
            let mut put = |dimension: usize, (most, used): (&[i64], &[i64])| {
                for (own, row) in own.chunks_exact_mut(width).zip(run) {
                    let at = row.index() % CHUNK;
                    own[dimension] = most[at].saturating_sub(used[at]);
                }
            };
            let chunk = run[0].index() / CHUNK;
            let limits = columns.pod_limit.chunk(chunk).unwrap_or(&[]);
            put(0, (limits, columns.pod_count_chunk(chunk)));
            for (dimension, &id) in self.amounts.resources.iter().enumerate() {
                let most = columns.allocatable_chunk(id, chunk, limits.len());
                put(1 + dimension, (most, columns.used_chunk(id, chunk, limits.len())));
            }
            for (dimension, devices) in self.devices.iter().enumerate() {
                for (own, row) in own.chunks_exact_mut(width).zip(run) {
                    let left = cluster.view(*row).map_or(0, |node| devices.free(node));
                    own[self.amounts() + dimension] = left;
                }
            }
        }
        free
    }

    /// How many pods of a kind fit what is free.
    #[inline]
    pub(crate) fn times(&self, kind: usize, free: &[i64]) -> i64 {
        let ask = &self.kinds[kind].ask;
        // Most nodes are full, and a comparison is cheaper than a division.
        // The last resources are the scarce ones.
        if free.iter().zip(ask).rev().any(|(free, &ask)| ask > 0 && *free < ask) {
            return 0;
        }
        let mut least = MOST;
        for (free, &ask) in free.iter().zip(ask) {
            if ask > 0 {
                least = least.min(free / ask);
            }
        }
        least
    }
}

/// Whether there are pods, of one shape.
fn alike(pods: &[&Pod]) -> bool {
    let Some((first, others)) = pods.split_first() else { return false };
    others.iter().all(|pod| pod.shape() == first.shape())
}

/// More pods than any node is counted to take.
const MOST: i64 = 1 << 32;
