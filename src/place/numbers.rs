//! Groups in numbers: the dimensions that are counted, the pods that are needed for certain, and the
//! least that they take.
//!
//! A group that does not fit by these numbers does not fit at all.

use alloc::vec::Vec;

use crate::framework::prepared::MANY;
use crate::model::PodShape;
use crate::state::{Cluster, NodeView, ResourceId};

/// Dimensions in which pods and nodes are counted: the number of pods, then some resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dimensions {
    pub(crate) resources: Vec<ResourceId>,
}

impl Dimensions {
    /// Adds the resources that a shape requests, as far as nodes have them.
    pub(crate) fn add(&mut self, cluster: &Cluster, shape: &PodShape) {
        for (name, _) in shape.requests.iter().filter(|(_, amount)| *amount > 0) {
            if let Some(id) = cluster.resource(name)
                && !self.resources.contains(&id)
            {
                self.resources.push(id);
            }
        }
    }

    /// How many there are.
    pub(crate) fn width(&self) -> usize {
        1 + self.resources.len()
    }

    /// Amounts that a pod takes.
    pub(crate) fn ask(&self, cluster: &Cluster, shape: &PodShape) -> impl Iterator<Item = i64> {
        let of = |id: &ResourceId| shape.requests.of(cluster.resource_name(*id)).max(0);
        core::iter::once(1).chain(self.resources.iter().map(of))
    }

    /// Free amounts of a node; below zero where too much is bound.
    pub(crate) fn free(&self, node: NodeView<'_>) -> impl Iterator<Item = i64> {
        core::iter::once(node.free_pods())
            .chain(self.resources.iter().map(move |id| node.free(*id)))
    }
}

/// A group of pods, or a slice of one, that is needed for certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// How many of its pods must be placed.
    pub(crate) need: i64,
    /// How many pods of each shape it has, by number of the shape.
    pub(crate) counts: Vec<(usize, i64)>,
}

impl Leaf {
    /// How many pods of some shapes must be placed, whatever others stay out.
    pub(crate) fn certain(&self, is_one: impl Fn(usize) -> bool) -> i64 {
        let others = self.counts.iter().filter(|(shape, _)| !is_one(*shape));
        (self.need - others.map(|(_, count)| count).sum::<i64>()).max(0)
    }

    /// The least that its pods take, by the amount of each shape.
    pub(crate) fn least(&self, of: impl Fn(usize) -> i64) -> i64 {
        least_sum(self.counts.iter().map(|&(shape, count)| (of(shape), count)), self.need)
    }
}

/// The least sum of `need` units, given as amounts and how often each is there.
pub(crate) fn least_sum(units: impl Iterator<Item = (i64, i64)>, need: i64) -> i64 {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for (amount, count) in units {
        match runs.last_mut() {
            Some(last) if last.0 == amount => last.1 += count,
            _ => runs.push((amount, count)),
        }
    }
    runs.sort_unstable();
    let (mut left, mut sum) = (need, 0_i64);
    for (amount, count) in runs {
        let taken = left.min(count);
        sum = sum.saturating_add(amount.saturating_mul(taken));
        left -= taken;
    }
    sum
}

/// How often `ask` goes into `free`, at most [`MANY`] times.
#[inline]
pub(crate) fn times(free: impl IntoIterator<Item = i64>, ask: &[i64]) -> u32 {
    let mut least = MANY;
    for (free, &ask) in free.into_iter().zip(ask) {
        if ask > 0 {
            least = least.min(if free < ask { 0 } else { free / ask });
        }
    }
    least as u32
}
