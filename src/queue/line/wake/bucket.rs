//! Buckets of the wait index: groups that wait for about the same amount of one resource.
//!
//! A bucket counts, node by node, how many times an amount of a resource is free. The amount is
//! rounded down, so that there are few buckets for any set of shapes. The count is therefore an
//! upper bound for every group in it, and is updated in O(log nodes) after an event. While the
//! count is below what a group needs, that group costs nothing. A bucket may be limited to
//! candidate nodes: the rows whose labels, taints and names suit its groups.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::RowSet;
use crate::model::PodShape;
use crate::queue::line::capacity::{CapacityBound, rarity};
use crate::queue::terms::ids::QueueKey;
use crate::state::{Cluster, LabelKey, NodeView, Row};

/// The identity of a bucket: a resource amount, a level, and the rows that count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BucketKey {
    /// The resource and the amount of it; `None` counts pods.
    pub(crate) request: Option<(Box<str>, i64)>,
    /// The label key whose values are the domains.
    pub(crate) level: Option<String>,
    /// The candidate rows; `None` means all.
    pub(crate) candidates: Option<Arc<RowSet>>,
}

/// Capacity by domain, with the largest at hand.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapacityByDomain {
    rows: BTreeMap<Row, (u32, u64)>,
    domains: BTreeMap<u32, u64>,
    order: BTreeSet<(u64, u32)>,
}

/// A bucket: its capacity, and the first waiters of its entries.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(crate) capacity: CapacityByDomain,
    /// The first waiter of each entry, by number of pods needed.
    heads: BTreeMap<u64, BTreeSet<(QueueKey, u64)>>,
    /// Number of entries, tracked ones included.
    pub(crate) members: usize,
}

impl CapacityByDomain {
    /// Capacity for a shape on some rows.
    pub(crate) fn of(
        bound: &CapacityBound<'_>,
        level: Option<&str>,
        rows: impl Iterator<Item = Row>,
    ) -> CapacityByDomain {
        let mut capacity = CapacityByDomain::default();
        for row in rows {
            capacity.count(bound, level, row);
        }
        capacity
    }

    /// Capacity for a shape in the best domain of some rows; a lower bound on it once that is
    /// `enough`, with the row at which that was found.
    pub(crate) fn most_of(
        bound: &CapacityBound<'_>,
        level: Option<&str>,
        rows: impl Iterator<Item = Row>,
        enough: u64,
    ) -> (u64, Option<Row>) {
        let key = level.and_then(|level| bound.cluster.label_key(level));
        let mut domains: BTreeMap<u32, u64> = BTreeMap::new();
        let mut most = 0;
        for row in rows {
            let node = bound.cluster.view(row);
            let Some(domain) = node.and_then(|node| domain(node, level, key)) else { continue };
            let sum = domains.entry(domain).or_default();
            *sum += bound.of(row);
            most = most.max(*sum);
            if most >= enough {
                return (most, Some(row));
            }
        }
        (most, None)
    }

    /// Updates the capacity for a shape on a row.
    pub(crate) fn count(&mut self, bound: &CapacityBound<'_>, level: Option<&str>, row: Row) {
        let key = level.and_then(|level| bound.cluster.label_key(level));
        let domain = bound.cluster.view(row).and_then(|node| domain(node, level, key));
        self.set(row, domain, bound.of(row));
    }

    /// Sets the capacity of a row; a row without capacity is dropped.
    fn set(&mut self, row: Row, domain: Option<u32>, capacity: u64) {
        let new = domain.filter(|_| capacity > 0).map(|domain| (domain, capacity));
        let old = match new {
            Some(new) => self.rows.insert(row, new),
            None => self.rows.remove(&row),
        };
        if old == new {
            return;
        }
        let (mut less, more) = (old, new.unwrap_or_default());
        if new.is_some() {
            let same = less.take_if(|(domain, _)| *domain == more.0);
            let sum = self.domains.get(&more.0).copied().unwrap_or(0);
            self.put(more.0, sum, sum - same.map_or(0, |(_, capacity)| capacity) + more.1);
        }
        if let Some((domain, capacity)) = less {
            let sum = self.domains.get(&domain).copied().unwrap_or(0);
            self.put(domain, sum, sum - capacity);
        }
    }

    fn put(&mut self, domain: u32, old: u64, new: u64) {
        self.order.remove(&(old, domain));
        if new == 0 {
            self.domains.remove(&domain);
        } else {
            self.domains.insert(domain, new);
            self.order.insert((new, domain));
        }
    }

    /// Capacity in the best domain.
    pub(crate) fn most(&self) -> u64 {
        self.order.last().map_or(0, |(sum, _)| *sum)
    }

    /// Rows with capacity.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.rows.keys().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// The domain of a node at a level; without a level, all nodes are one domain.
fn domain(node: NodeView<'_>, level: Option<&str>, key: Option<LabelKey>) -> Option<u32> {
    match level {
        None => Some(0),
        Some(_) => node.label_value(key?).map(|value| value.index() as u32),
    }
}

impl BucketKey {
    /// The keys of the buckets that bound the capacity for a shape, the resource likely to be
    /// scarcest first.
    pub(crate) fn of(shape: &PodShape, level: Option<&str>) -> Vec<BucketKey> {
        let requested = shape.requests.iter().filter(|(_, amount)| *amount > 0);
        let mut requests: Vec<(Box<str>, i64)> =
            requested.map(|(name, amount)| (Box::from(name), rounded(amount))).collect();
        requests.sort_by_key(|(name, _)| rarity(name));
        let requests = requests.into_iter().map(Some).chain([None]);
        let level = level.map(String::from);
        requests
            .map(|request| BucketKey { request, level: level.clone(), candidates: None })
            .collect()
    }

    /// The same key, limited to candidate rows.
    pub(crate) fn within(self, candidates: &Arc<RowSet>) -> BucketKey {
        BucketKey { candidates: Some(Arc::clone(candidates)), ..self }
    }

    fn capacity(&self, cluster: &Cluster, node: NodeView<'_>) -> u64 {
        let pods = node.free_pods();
        let capacity = self.request.as_ref().map_or(pods, |(resource, amount)| {
            let free = cluster.resource(resource).map_or(0, |id| node.free(id));
            pods.min(free / (*amount).max(1))
        });
        u64::try_from(capacity).unwrap_or(0).min(u64::from(u32::MAX))
    }
}

/// The amount with all but its four highest bits cleared.
fn rounded(amount: i64) -> i64 {
    let bits = i64::BITS - amount.leading_zeros();
    let low = bits.saturating_sub(4);
    (amount >> low) << low
}

impl Bucket {
    pub(crate) fn new(cluster: &Cluster, bucket_key: &BucketKey) -> Bucket {
        let mut bucket = Bucket::default();
        let key = bucket_key.level.as_deref().and_then(|level| cluster.label_key(level));
        match &bucket_key.candidates {
            Some(candidates) => {
                candidates.iter().for_each(|row| bucket.update(cluster, bucket_key, key, row));
            }
            None => {
                Row::all(cluster.rows())
                    .for_each(|row| bucket.update(cluster, bucket_key, key, row));
            }
        }
        bucket
    }

    /// Updates the capacity of a row.
    pub(crate) fn update(
        &mut self,
        cluster: &Cluster,
        bucket_key: &BucketKey,
        key: Option<LabelKey>,
        row: Row,
    ) {
        if bucket_key.candidates.as_ref().is_some_and(|candidates| !candidates.contains(row)) {
            return;
        }
        match cluster.view(row) {
            Some(node) => {
                let domain = domain(node, bucket_key.level.as_deref(), key);
                self.capacity.set(row, domain, bucket_key.capacity(cluster, node));
            }
            None => self.capacity.set(row, None, 0),
        }
    }

    /// The first waiter in queue order whose need the capacity reaches, with its entry.
    pub(crate) fn first(&self) -> Option<&(QueueKey, u64)> {
        let reached = self.heads.range(..=self.capacity.most());
        reached.filter_map(|(_, heads)| heads.first()).min()
    }

    pub(crate) fn add_head(&mut self, needed: u64, key: QueueKey, entry: u64) {
        self.heads.entry(needed).or_default().insert((key, entry));
    }

    pub(crate) fn remove_head(&mut self, needed: u64, key: &QueueKey, entry: u64) {
        if let Some(heads) = self.heads.get_mut(&needed) {
            heads.remove(&(key.clone(), entry));
            if heads.is_empty() {
                self.heads.remove(&needed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
