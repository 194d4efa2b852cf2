//! The wait index: an event costs in proportion to the groups that it can help.
//!
//! An unschedulable group waits in one of two ways:
//! - *For capacity*: it needs `needed` pods of one shape in one domain, and every domain has
//!   capacity for fewer. Node-local monotone filters tell which nodes take the shape, and how often
//!   ([`PreparedFilter::capacity`](crate::framework::PreparedFilter::capacity)). The count is an
//!   upper bound under every strategy, so while it is short nothing can help.
//! - *For a hint*: capacity does not explain the failure. Any change on a node that could take one
//!   of the shapes may help; if a plugin reads beyond the node, any change anywhere.
//!
//! Groups that wait for the same shape and level share an entry:
//!
//! ```text
//! entry (shape, level) ──▶ bucket of one resource        short: the entry costs nothing
//!       ▲                    │ reached, and it is the turn of the entry's first waiter
//!       │                    ▼
//!       │                  count by all filters ── enough ──▶ wake the first waiter
//!       │                    │ short
//!       ├── another bucket that is short: other resource, or candidate nodes only
//!       └── none: tracked individually, its own count on its candidate nodes
//! ```
//!
//! Candidate nodes are those whose labels, taints and names suit the shape.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::bucket::{Bucket, BucketKey, CapacityByDomain};
use super::hints::{Changes, WakeHints};
use crate::base::RowSet;
use crate::framework::Framework;
use crate::model::PodShape;
use crate::queue::line::capacity::{CapacityBound, has_capacity_bound};
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::queue::terms::wake::WakeCondition;
use crate::state::{Cluster, Row};

/// The groups that wait for pods of one shape at one level.
#[derive(Debug)]
struct WaitEntry {
    shape: Arc<PodShape>,
    level: Option<String>,
    /// By number of pods needed, in queue order.
    waiters: BTreeMap<u64, BTreeSet<QueueKey>>,
    /// The bucket that lists the entry, or counts it as a member while it is tracked.
    bucket: Option<u64>,
    tracked: Option<Tracked>,
    /// The candidate nodes, once computed: rows whose static properties suit the shape.
    candidates: Option<Arc<RowSet>>,
}

/// The individual count of an entry. It may be too high, never too low.
#[derive(Debug)]
struct Tracked {
    capacity: CapacityByDomain,
    /// The waiter under which the entry is listed as reached.
    reached: Option<QueueKey>,
}

/// The index of groups by wake condition.
#[derive(Debug, Default)]
pub(crate) struct WaitIndex {
    list: BTreeMap<u64, WaitEntry>,
    numbers: BTreeMap<(Option<String>, Arc<PodShape>), u64>,
    buckets: BTreeMap<u64, (BucketKey, Bucket)>,
    bucket_ids: BTreeMap<BucketKey, u64>,
    /// Buckets whose capacity may reach the need of a waiter.
    reached_buckets: BTreeSet<u64>,
    /// Tracked entries whose capacity does, with their first waiter.
    reached_entries: BTreeSet<(QueueKey, u64)>,
    /// Tracked entries by candidate nodes.
    by_candidates: BTreeMap<Arc<RowSet>, BTreeSet<u64>>,
    hints: WakeHints,
    next: u64,
    /// The row at which enough capacity was found last: nodes fill up from one end, and full ones are
    /// not looked at again and again.
    pub(in crate::queue) found_at: usize,
    /// Number of capacity counts evaluated.
    pub(crate) capacity_checks: u64,
    /// Number of evaluations, at a waiter's turn, that found capacity short.
    pub(crate) still_short: u64,
}

impl WaitEntry {
    /// The smallest need of a waiter.
    fn least(&self) -> u64 {
        self.waiters.first_key_value().map_or(u64::MAX, |(needed, _)| *needed)
    }

    /// The first waiter in queue order that needs no more than `most` pods.
    fn first(&self, most: u64) -> Option<&QueueKey> {
        self.waiters.range(..=most).filter_map(|(_, keys)| keys.first()).min()
    }
}

impl WaitIndex {
    /// Upper bound on the pods of a shape that fit in the best domain; any number from `needed` on
    /// if it is no less. `in_step` says that [`WaitIndex::wake`] has seen every change.
    ///
    /// O(nodes), or as many as it takes to find capacity for `needed`.
    pub(crate) fn available(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        (shape, level): (&Arc<PodShape>, Option<&str>),
        needed: u64,
        in_step: bool,
    ) -> u64 {
        let known = if in_step && has_capacity_bound(framework, shape) {
            let name = (level.map(String::from), Arc::clone(shape));
            let entry = self.numbers.get(&name).and_then(|id| self.list.get(id));
            // The bucket that a tracked entry left may lack nodes that suit since.
            let tracked = entry.and_then(|entry| entry.tracked.as_ref());
            let any = || {
                let bucket_keys = BucketKey::of(shape, level);
                bucket_keys.iter().find_map(|bucket_key| self.bucket_ids.get(bucket_key)).copied()
            };
            let number = || entry.and_then(|entry| entry.bucket).or_else(any);
            let bucket = || Some(&self.buckets.get(&number()?)?.1.capacity);
            tracked.map(|tracked| &tracked.capacity).or_else(bucket)
        } else {
            None
        };
        let bound = CapacityBound::new(cluster, framework, shape);
        let most_of = |rows: &mut dyn Iterator<Item = Row>| {
            CapacityByDomain::most_of(&bound, level, rows, needed)
        };
        if let Some(known) = known {
            return most_of(&mut known.rows()).0;
        }
        let rows = cluster.rows();
        let first = self.found_at.min(rows);
        let (most, row) = most_of(&mut (first..rows).chain(0..first).map(Row::new));
        self.found_at = row.map_or(0, Row::index);
        most
    }

    /// Adds a group under its wake condition.
    pub(crate) fn subscribe(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        key: &QueueKey,
        wake_on: &WakeCondition,
    ) {
        let WakeCondition::Capacity { shape, level, needed } = wake_on else {
            return self.hints.subscribe(key.group, wake_on);
        };
        let name = (level.clone(), Arc::clone(shape));
        let id = match self.numbers.get(&name) {
            Some(id) => *id,
            None => self.new_watch(cluster, framework, level.clone(), Arc::clone(shape)),
        };
        self.put_waiter(id, *needed, key.clone());
    }

    /// Removes a group.
    pub(crate) fn unsubscribe(&mut self, key: &QueueKey, wake_on: &WakeCondition) {
        let WakeCondition::Capacity { shape, level, needed } = wake_on else {
            return self.hints.unsubscribe(key.group, wake_on);
        };
        let name = (level.clone(), Arc::clone(shape));
        let Some(&id) = self.numbers.get(&name) else { return };
        self.drop_waiter(id, *needed, key);
        if self.list.get(&id).is_some_and(|entry| entry.waiters.is_empty()) {
            self.leave_bucket(id);
            self.list.remove(&id);
            self.numbers.remove(&name);
        }
    }

    /// Replaces the queue key of a group.
    pub(crate) fn rekey(&mut self, old: &QueueKey, new: &QueueKey, wake_on: &WakeCondition) {
        if let WakeCondition::Capacity { shape, level, needed } = wake_on
            && let Some(&id) = self.numbers.get(&(level.clone(), Arc::clone(shape)))
        {
            self.drop_waiter(id, *needed, old);
            self.put_waiter(id, *needed, new.clone());
        }
    }

    fn put_waiter(&mut self, id: u64, needed: u64, key: QueueKey) {
        self.change_waiter(id, needed, |keys| {
            keys.insert(key);
        });
    }

    fn drop_waiter(&mut self, id: u64, needed: u64, key: &QueueKey) {
        self.change_waiter(id, needed, |keys| {
            keys.remove(key);
        });
    }

    fn change_waiter(
        &mut self,
        id: u64,
        needed: u64,
        change: impl FnOnce(&mut BTreeSet<QueueKey>),
    ) {
        let Some(entry) = self.list.get_mut(&id) else { return };
        let keys = entry.waiters.entry(needed).or_default();
        let before = keys.first().cloned();
        change(keys);
        let after = keys.first().cloned();
        if keys.is_empty() {
            entry.waiters.remove(&needed);
        }
        if entry.tracked.is_some() {
            self.update_reached(id);
        } else if before != after
            && let Some(number) = entry.bucket
            && let Some((_, bucket)) = self.buckets.get_mut(&number)
        {
            if let Some(key) = before {
                bucket.remove_head(needed, &key, id);
            }
            if let Some(key) = after {
                bucket.add_head(needed, key, id);
                if needed <= bucket.capacity.most() {
                    self.reached_buckets.insert(number);
                }
            }
        }
    }

    fn new_watch(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        level: Option<String>,
        shape: Arc<PodShape>,
    ) -> u64 {
        let name = (level.clone(), Arc::clone(&shape));
        let id = self.take_number();
        let waiters = BTreeMap::new();
        let mut entry =
            WaitEntry { shape, level, waiters, bucket: None, tracked: None, candidates: None };
        if has_capacity_bound(framework, &entry.shape) {
            let bucket_key = BucketKey::of(&entry.shape, entry.level.as_deref()).into_iter().next();
            entry.bucket = bucket_key.map(|bucket_key| self.bucket(cluster, bucket_key));
        }
        self.numbers.insert(name, id);
        if let Some((_, bucket)) = entry.bucket.and_then(|number| self.buckets.get_mut(&number)) {
            bucket.members += 1;
            self.list.insert(id, entry);
            return id;
        }
        let bound = CapacityBound::new(cluster, framework, &entry.shape);
        let capacity =
            CapacityByDomain::of(&bound, entry.level.as_deref(), Row::all(cluster.rows()));
        self.list.insert(id, entry);
        self.track(cluster, framework, id, capacity);
        id
    }

    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The bucket of a key, created if needed.
    fn bucket(&mut self, cluster: &Cluster, bucket_key: BucketKey) -> u64 {
        if let Some(id) = self.bucket_ids.get(&bucket_key) {
            return *id;
        }
        let id = self.take_number();
        let bucket = Bucket::new(cluster, &bucket_key);
        self.bucket_ids.insert(bucket_key.clone(), id);
        self.buckets.insert(id, (bucket_key, bucket));
        id
    }

    /// Removes an entry from its bucket, and its individual count.
    fn leave_bucket(&mut self, id: u64) {
        let Some(entry) = self.list.get_mut(&id) else { return };
        if let Some(tracked) = entry.tracked.take() {
            if let Some(key) = tracked.reached {
                self.reached_entries.remove(&(key, id));
            }
            remove_candidates(&mut self.by_candidates, entry.candidates.as_ref(), id);
        }
        let Some(number) = entry.bucket.take() else { return };
        let Some((_, bucket)) = self.buckets.get_mut(&number) else { return };
        for (needed, keys) in &entry.waiters {
            if let Some(key) = keys.first() {
                bucket.remove_head(*needed, key, id);
            }
        }
        bucket.members -= 1;
    }

    /// Drops buckets without entries. They are kept until the next change, since another entry may
    /// look at the same ones.
    fn sweep(&mut self) {
        let WaitIndex { buckets, bucket_ids, reached_buckets, .. } = self;
        buckets.retain(|number, (bucket_key, bucket)| {
            if bucket.members == 0 {
                bucket_ids.remove(bucket_key);
                reached_buckets.remove(number);
            }
            bucket.members > 0
        });
    }

    /// Lists an entry in a bucket.
    fn enter_bucket(&mut self, id: u64, number: u64) {
        let Some(entry) = self.list.get_mut(&id) else { return };
        let Some((_, bucket)) = self.buckets.get_mut(&number) else { return };
        entry.bucket = Some(number);
        bucket.members += 1;
        for (needed, keys) in &entry.waiters {
            if let Some(key) = keys.first() {
                bucket.add_head(*needed, key.clone(), id);
            }
        }
        if bucket.first().is_some() {
            self.reached_buckets.insert(number);
        }
    }

    /// Applies changes: counts are updated, and the groups that wait for a hint are returned.
    pub(crate) fn wake(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        changes: &Changes,
    ) -> BTreeSet<GroupId> {
        self.sweep();
        for &row in &changes.removed {
            self.update_buckets(cluster, row);
        }
        for &row in changes.pods.union(&changes.nodes) {
            if cluster.view(row).is_none() {
                continue;
            }
            if changes.nodes.contains(&row) {
                self.update_candidates(cluster, framework, row);
            }
            self.update_buckets(cluster, row);
            let tracked =
                self.by_candidates.iter().filter(|(candidates, _)| candidates.contains(row));
            for id in tracked.flat_map(|(_, ids)| ids).copied().collect::<Vec<_>>() {
                self.recount(cluster, framework, id, row);
            }
        }
        self.hints.wake(cluster, changes)
    }

    /// The candidate nodes of an entry. Computed once, then kept up to date.
    fn candidates(&mut self, cluster: &Cluster, framework: &Framework, id: u64) -> Arc<RowSet> {
        let Some(entry) = self.list.get_mut(&id) else { return Arc::default() };
        let candidates = entry.candidates.get_or_insert_with(|| {
            let bound = CapacityBound::new(cluster, framework, &entry.shape);
            Arc::new(Row::all(cluster.rows()).filter(|row| bound.may_ever(*row)).collect())
        });
        Arc::clone(candidates)
    }

    /// Updates candidate nodes after a change of a node itself.
    fn update_candidates(&mut self, cluster: &Cluster, framework: &Framework, row: Row) {
        let mut others = Vec::new();
        for (id, entry) in &self.list {
            let Some(candidates) = &entry.candidates else { continue };
            self.capacity_checks += 1;
            let suits = CapacityBound::new(cluster, framework, &entry.shape).may_ever(row);
            if suits != candidates.contains(row) {
                others.push((*id, suits));
            }
        }
        // Many entries share one set of candidate nodes, and change alike.
        let mut known: BTreeMap<(Arc<RowSet>, bool), Arc<RowSet>> = BTreeMap::new();
        for (id, suits) in others {
            let Some(entry) = self.list.get_mut(&id) else { continue };
            let Some(old) = entry.candidates.clone() else { continue };
            let changed = known.entry((Arc::clone(&old), suits)).or_insert_with(|| {
                let mut rows = RowSet::clone(&old);
                if suits {
                    rows.insert(row);
                } else {
                    rows.remove(row);
                }
                Arc::new(rows)
            });
            let new = Arc::clone(changed);
            entry.candidates = Some(Arc::clone(&new));
            if entry.tracked.is_some() {
                remove_candidates(&mut self.by_candidates, Some(&old), id);
                self.by_candidates.entry(new).or_default().insert(id);
                continue;
            }
            let bucket = entry.bucket.and_then(|number| self.buckets.get(&number));
            if let Some((bucket_key, _)) =
                bucket.filter(|(bucket_key, _)| bucket_key.candidates.is_some())
            {
                let other = self.bucket(cluster, bucket_key.clone().within(&new));
                self.leave_bucket(id);
                self.enter_bucket(id, other);
            }
        }
    }

    /// Updates all buckets for a row.
    fn update_buckets(&mut self, cluster: &Cluster, row: Row) {
        for (number, (bucket_key, bucket)) in &mut self.buckets {
            let key = bucket_key.level.as_deref().and_then(|level| cluster.label_key(level));
            bucket.update(cluster, bucket_key, key, row);
            self.capacity_checks += 1;
            if bucket.first().is_some() {
                self.reached_buckets.insert(*number);
            }
        }
    }

    /// Updates the individual count of an entry for a row.
    fn recount(&mut self, cluster: &Cluster, framework: &Framework, id: u64, row: Row) {
        self.capacity_checks += 1;
        let Some(entry) = self.list.get_mut(&id) else { return };
        let Some(tracked) = &mut entry.tracked else { return };
        let bound = CapacityBound::new(cluster, framework, &entry.shape);
        tracked.capacity.count(&bound, entry.level.as_deref(), row);
        self.update_reached(id);
    }

    /// Lists a tracked entry under its first waiter that its capacity reaches.
    fn update_reached(&mut self, id: u64) {
        let Some(entry) = self.list.get_mut(&id) else { return };
        let Some(tracked) = &entry.tracked else { return };
        let first = entry.first(tracked.capacity.most()).cloned();
        let Some(tracked) = &mut entry.tracked else { return };
        if tracked.reached == first {
            return;
        }
        if let Some(key) = core::mem::replace(&mut tracked.reached, first.clone()) {
            self.reached_entries.remove(&(key, id));
        }
        if let Some(key) = first {
            self.reached_entries.insert((key, id));
        }
    }

    /// The first waiter in queue order whose capacity is there by the count of all filters, unless
    /// a group before it is ready. The caller wakes it.
    pub(crate) fn next(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        ready: Option<&QueueKey>,
    ) -> Option<GroupId> {
        loop {
            let (key, id) = self.first()?;
            if ready.is_some_and(|ready| *ready < key) {
                return None;
            }
            self.capacity_checks += 1;
            if self.check_head(cluster, framework, id, &key) {
                return Some(key.group);
            }
            self.still_short += 1;
        }
    }

    /// The first waiter, in queue order, of reached buckets and entries.
    fn first(&mut self) -> Option<(QueueKey, u64)> {
        let WaitIndex { reached_buckets, buckets, reached_entries, .. } = self;
        let mut first = reached_entries.first().cloned();
        reached_buckets.retain(|number| {
            let head = buckets.get(number).and_then(|(_, bucket)| bucket.first());
            let Some(head) = head else { return false };
            if first.as_ref().is_none_or(|first| head < first) {
                first = Some(head.clone());
            }
            true
        });
        first
    }

    /// Count of an entry by all filters. If its first waiter is still short, the entry moves to a
    /// bucket that is short, or is tracked individually.
    fn check_head(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        id: u64,
        key: &QueueKey,
    ) -> bool {
        let Some(entry) = self.list.get_mut(&id) else { return false };
        let (shape, level) = (Arc::clone(&entry.shape), entry.level.clone());
        if let Some(tracked) = &mut entry.tracked {
            let bound = CapacityBound::new(cluster, framework, &shape);
            for row in tracked.capacity.rows().collect::<Vec<_>>() {
                tracked.capacity.count(&bound, level.as_deref(), row);
            }
            let reached =
                entry.first(entry.tracked.as_ref().map_or(0, |tracked| tracked.capacity.most()));
            let reached = reached == Some(key);
            self.update_reached(id);
            return reached;
        }
        let least = entry.least();
        let Some(number) = entry.bucket else { return false };
        let Some((current, bucket)) = self.buckets.get(&number) else { return false };
        let bound = CapacityBound::new(cluster, framework, &shape);
        let capacity = CapacityByDomain::of(&bound, level.as_deref(), bucket.capacity.rows());
        if entry.first(capacity.most()) == Some(key) {
            return true;
        }
        let current = current.clone();
        if capacity.most() < least {
            let candidates = self.candidates(cluster, framework, id);
            let everywhere = BucketKey::of(&shape, level.as_deref());
            let within =
                everywhere.clone().into_iter().map(|bucket_key| bucket_key.within(&candidates));
            for bucket_key in everywhere.into_iter().chain(within) {
                if bucket_key == current {
                    continue;
                }
                let other = self.bucket(cluster, bucket_key);
                if self
                    .buckets
                    .get(&other)
                    .is_some_and(|(_, bucket)| bucket.capacity.most() < least)
                {
                    self.leave_bucket(id);
                    self.enter_bucket(id, other);
                    return false;
                }
            }
        }
        self.track(cluster, framework, id, capacity);
        false
    }

    fn track(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        id: u64,
        capacity: CapacityByDomain,
    ) {
        let candidates = self.candidates(cluster, framework, id);
        let Some(entry) = self.list.get_mut(&id) else { return };
        if let Some((_, bucket)) = entry.bucket.and_then(|number| self.buckets.get_mut(&number)) {
            for (needed, keys) in &entry.waiters {
                if let Some(key) = keys.first() {
                    bucket.remove_head(*needed, key, id);
                }
            }
        }
        self.by_candidates.entry(candidates).or_default().insert(id);
        entry.tracked = Some(Tracked { capacity, reached: None });
        self.update_reached(id);
    }

    /// Number of counts, and of nodes in them.
    pub(crate) fn size(&self) -> (usize, usize) {
        let tracked = self.list.values().filter_map(|entry| entry.tracked.as_ref());
        let buckets = self.buckets.values().map(|(_, bucket)| bucket.capacity.len());
        let rows =
            tracked.map(|tracked| tracked.capacity.len()).sum::<usize>() + buckets.sum::<usize>();
        (self.list.len() + self.buckets.len(), rows)
    }
}

fn remove_candidates(
    by_candidates: &mut BTreeMap<Arc<RowSet>, BTreeSet<u64>>,
    candidates: Option<&Arc<RowSet>>,
    id: u64,
) {
    let Some(candidates) = candidates else { return };
    if let Some(ids) = by_candidates.get_mut(candidates) {
        ids.remove(&id);
        if ids.is_empty() {
            by_candidates.remove(candidates);
        }
    }
}
