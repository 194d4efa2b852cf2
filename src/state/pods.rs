//! Bound pods: records by slot, found by name, linked by node and by group.

pub(crate) mod placed;

use alloc::sync::Arc;
use core::hash::{Hash, Hasher};
use core::num::NonZeroU64;

use super::devices::Devices;
use super::ids::{NONE, ShapeId};
use super::shapes::{Shapes, namespace_hash};
use crate::base::hash::FixedHasher;
use crate::base::index::Index;
use crate::base::slab::Slab;
use crate::base::sparse::Sparse;
use crate::base::{Row, Time};
use crate::model::Pod;

/// A bound pod, without its name and without what few pods have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodRecord {
    /// The shape, and two flags above it.
    shape: u32,
    /// The row it is on; `NONE` while its node does not exist or it is evicted.
    pub(crate) row: u32,
    /// Its neighbours on the same node.
    pub(crate) next: u32,
    pub(crate) previous: u32,
    /// The number of its group; `NONE` if it has none.
    pub(crate) group: u32,
    /// Its neighbours in the group.
    next_member: u32,
    previous_member: u32,
    pub(crate) priority: i32,
}

const DELETING: u32 = 1 << 31;
/// Not in the index: a transaction has placed it.
const HIDDEN: u32 = 1 << 30;

impl PodRecord {
    #[inline]
    pub(crate) fn shape(&self) -> ShapeId {
        ShapeId(self.shape & !(DELETING | HIDDEN))
    }

    #[inline]
    pub(crate) fn deleting(&self) -> bool {
        self.shape & DELETING != 0
    }
}

/// A group with bound pods.
///
/// Its name in the slab is the full name. Neither part is free of slashes, so the length of the
/// namespace is kept, so that `a/b` + `c` is not `a` + `b/c`.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// The first of its pods; the others are linked from there.
    first: u32,
    /// The length of the namespace in the full name.
    split: u32,
    pub(crate) sums: GroupSums,
}

/// Sums over the pods of a group that do not terminate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupSums {
    /// How many they are.
    pub(crate) pods: u32,
    /// How many of them have a start that is known.
    pub(crate) started: u32,
    /// The sum of those, in milliseconds, modulo 2⁶⁴.
    pub(crate) starts: u64,
    /// No start is later.
    pub(crate) latest: Time,
}

/// How many pods are of a kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodTally {
    /// Pods of no group.
    pub(crate) ungrouped: usize,
    /// Pods that terminate.
    pub(crate) deleting: usize,
    /// Pods on no node: it does not exist, or they were evicted.
    pub(crate) unplaced: usize,
    /// Pods by priority, ascending.
    priorities: alloc::vec::Vec<(i32, u32)>,
}

impl PodTally {
    /// The lowest priority of a pod.
    pub(crate) fn lowest_priority(&self) -> Option<i32> {
        self.priorities.first().map(|(priority, _)| *priority)
    }

    fn count(&mut self, record: &PodRecord, more: bool) {
        let by = |count: &mut usize, holds: bool| {
            if holds {
                *count = if more { *count + 1 } else { count.saturating_sub(1) };
            }
        };
        by(&mut self.ungrouped, record.group == NONE);
        by(&mut self.deleting, record.deleting());
        by(&mut self.unplaced, record.row == NONE);
        match self.priorities.binary_search_by_key(&record.priority, |(priority, _)| *priority) {
            Ok(at) if more => self.priorities[at].1 += 1,
            Ok(at) => {
                self.priorities[at].1 -= 1;
                if self.priorities[at].1 == 0 {
                    self.priorities.remove(at);
                }
            }
            Err(at) if more => self.priorities.insert(at, (record.priority, 1)),
            Err(_) => {}
        }
    }
}

/// The namespace and the name of a group.
fn group_pair(groups: &Slab<Group>, id: u32) -> (&str, &str) {
    let Some((full, group)) = groups.named(id) else { return ("", "") };
    let split = group.split as usize;
    (full.get(..split).unwrap_or(""), full.get(split + 1..).unwrap_or(""))
}

fn group_hash(groups: &Slab<Group>, id: u32) -> u64 {
    let (namespace, name) = group_pair(groups, id);
    pod_hash(namespace_hash(namespace), name)
}

/// Bound pods by slot, and by namespace and name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pods {
    records: Slab<PodRecord>,
    index: Index,
    /// By namespace and name. A group without pods is forgotten.
    groups: Slab<Group>,
    group_index: Index,
    uids: Sparse<Arc<str>>,
    keys: Sparse<NonZeroU64>,
    versions: Sparse<NonZeroU64>,
    starts: Sparse<Time>,
    devices: Sparse<Devices>,
    pub(crate) tally: PodTally,
}

/// The hash of the identity of a pod or a group.
#[inline]
fn pod_hash(mut namespace: FixedHasher, name: &str) -> u64 {
    name.hash(&mut namespace);
    namespace.finish()
}

fn hash_in(records: &Slab<PodRecord>, slot: u32, shapes: &Shapes) -> u64 {
    let Some((name, record)) = records.named(slot) else { return 0 };
    shapes.entry(record.shape()).map_or(0, |entry| pod_hash(entry.namespace_hash, name))
}

#[inline]
fn is(records: &Slab<PodRecord>, slot: u32, namespace: &str, name: &str, shapes: &Shapes) -> bool {
    let Some((known, record)) = records.named(slot) else { return false };
    known == name
        && shapes.entry(record.shape()).is_some_and(|entry| entry.shape.namespace == namespace)
}

/// The fields of a new record that are not the pod's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// A use of it has been counted.
    pub(crate) shape: ShapeId,
    /// The number from [`Pods::group`].
    pub(crate) group: u32,
    /// The result of [`Pods::first_member`] for the group. It is for the caller to let the new pod
    /// [`Pods::lead`] then.
    pub(crate) first_member: u32,
    pub(crate) version: u64,
    /// Whether the pod is not to be found by its name.
    pub(crate) hidden: bool,
}

impl Pods {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Slots are below this number.
    pub(crate) fn bound(&self) -> usize {
        self.records.bound()
    }

    #[inline]
    pub(crate) fn record(&self, slot: u32) -> Option<&PodRecord> {
        self.records.get(slot)
    }

    #[inline]
    pub(crate) fn record_mut(&mut self, slot: u32) -> Option<&mut PodRecord> {
        self.records.get_mut(slot)
    }

    pub(crate) fn name(&self, slot: u32) -> &str {
        self.records.name(slot)
    }

    pub(crate) fn uid(&self, slot: u32) -> &str {
        self.uids.get(slot as usize).map_or("", |uid| uid)
    }

    pub(crate) fn key(&self, slot: u32) -> u64 {
        self.keys.get(slot as usize).map_or(0, |key| key.get())
    }

    pub(crate) fn version(&self, slot: u32) -> u64 {
        self.versions.get(slot as usize).map_or(0, |version| version.get())
    }

    #[inline]
    pub(crate) fn start(&self, slot: u32) -> Option<Time> {
        self.starts.get(slot as usize).copied()
    }

    #[inline]
    pub(crate) fn devices(&self, slot: u32) -> Option<&Devices> {
        self.devices.get(slot as usize)
    }

    /// The slot of a pod.
    pub(crate) fn find(&self, namespace: &str, name: &str, shapes: &Shapes) -> Option<u32> {
        let hash = pod_hash(namespace_hash(namespace), name);
        self.index.find(hash, |slot| is(&self.records, slot, namespace, name, shapes))
    }

    /// The slot that a pod will have, which [`Pods::insert`] is to give it next. `None` if it is
    /// not hidden and there is one of its name.
    #[inline]
    pub(crate) fn claim(
        &mut self,
        pod: &Pod,
        namespace_hash: FixedHasher,
        entry: Entry,
        shapes: &Shapes,
    ) -> Option<u32> {
        let slot = self.records.next();
        if !entry.hidden {
            let namespace = pod.namespace();
            let records = &self.records;
            let known = self.index.insert(
                pod_hash(namespace_hash, &pod.name),
                slot,
                |slot| is(records, slot, namespace, &pod.name, shapes),
                |slot| hash_in(records, slot, shapes),
            );
            if known.is_some() {
                return None;
            }
        }
        Some(slot)
    }

    /// Adds the pod that claimed a slot last, on a row before another, or on none.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        pod: &Pod,
        entry: Entry,
        (row, next): (u32, u32),
        devices: Option<Devices>,
    ) -> u32 {
        let flags = if pod.deleting { DELETING } else { 0 } | if entry.hidden { HIDDEN } else { 0 };
        let next_member = entry.first_member;
        let record = PodRecord {
            shape: entry.shape.0 | flags,
            row,
            next,
            previous: NONE,
            group: entry.group,
            next_member,
            previous_member: NONE,
            priority: pod.priority,
        };
        let slot = self.records.insert_beside([&*pod.name], record, next_member, |next, slot| {
            next.previous_member = slot;
        });
        self.tally.count(&record, true);
        self.sum_up(&record, pod.start, true);
        // A slot that is free has nothing in the sparse columns.
        let at = slot as usize;
        if !pod.uid.is_empty() {
            self.uids.set(at, Some(Arc::from(pod.uid.as_str())));
        }
        if let Some(key) = NonZeroU64::new(pod.key) {
            self.keys.set(at, Some(key));
        }
        if let Some(version) = NonZeroU64::new(entry.version) {
            self.versions.set(at, Some(version));
        }
        if pod.start.is_some() {
            self.starts.set(at, pod.start);
        }
        if devices.is_some() {
            self.devices.set(at, devices);
        }
        slot
    }

    /// Counts a pod for its group.
    fn sum_up(&mut self, record: &PodRecord, start: Option<Time>, more: bool) {
        if record.deleting() {
            return;
        }
        let Some(group) = self.groups.get_mut(record.group) else { return };
        let sums = &mut group.sums;
        let (started, starts) = (u32::from(start.is_some()), start.map_or(0, Time::as_millis));
        if more {
            sums.pods += 1;
            sums.started += started;
            sums.starts = sums.starts.wrapping_add(starts);
            sums.latest = sums.latest.max(start.unwrap_or(Time::ZERO));
        } else {
            sums.pods = sums.pods.saturating_sub(1);
            sums.started = sums.started.saturating_sub(started);
            sums.starts = sums.starts.wrapping_sub(starts);
        }
    }

    /// Takes a pod out that is on no row; its shape is still to be released.
    pub(crate) fn remove(&mut self, slot: u32, shapes: &Shapes) -> Option<ShapeId> {
        let record = *self.records.get(slot)?;
        self.tally.count(&record, false);
        self.sum_up(&record, self.start(slot), false);
        if record.shape & HIDDEN == 0 {
            let hash_of = |slot| hash_in(&self.records, slot, shapes);
            self.index.remove(hash_of(slot), slot, hash_of);
        }
        if let Some(previous) = self.records.get_mut(record.previous_member) {
            previous.next_member = record.next_member;
        } else if let Some(group) = self.groups.get_mut(record.group) {
            group.first = record.next_member;
        }
        if let Some(next) = self.records.get_mut(record.next_member) {
            next.previous_member = record.previous_member;
        }
        self.forget_if_empty(record.group);
        self.uids.set(slot as usize, None);
        self.keys.set(slot as usize, None);
        self.versions.set(slot as usize, None);
        self.starts.set(slot as usize, None);
        self.devices.set(slot as usize, None);
        self.records.remove(slot);
        Some(record.shape())
    }

    /// The number of a group, given now if it has none. A group that gets no pod is to be given to
    /// [`Pods::forget_if_empty`].
    pub(crate) fn group(&mut self, namespace: &str, name: &str) -> u32 {
        let hash = pod_hash(namespace_hash(namespace), name);
        let groups = &self.groups;
        let known = self.group_index.insert(
            hash,
            groups.next(),
            |id| group_pair(groups, id) == (namespace, name),
            |id| group_hash(groups, id),
        );
        let split = namespace.len() as u32;
        let new = Group { first: NONE, split, sums: GroupSums::default() };
        let full = [namespace, "/", name];
        known.unwrap_or_else(|| self.groups.insert_beside(full, new, u32::MAX, |_, _| {}))
    }

    pub(crate) fn forget_if_empty(&mut self, group: u32) {
        if self.groups.get(group).is_some_and(|group| group.first == NONE) {
            let groups = &self.groups;
            let hash_of = |id| group_hash(groups, id);
            self.group_index.remove(hash_of(group), group, hash_of);
            self.groups.remove(group);
        }
    }

    /// The full name of a group.
    pub(crate) fn group_name(&self, group: u32) -> &str {
        self.groups.name(group)
    }

    /// Whether a bound pod is of a group.
    #[inline]
    pub(crate) fn has_groups(&self) -> bool {
        self.groups.len() > 0
    }

    /// The first pod of a group.
    pub(crate) fn first_member(&self, group: u32) -> u32 {
        self.groups.get(group).map_or(NONE, |group| group.first)
    }

    /// Makes a pod the first of its group.
    pub(crate) fn lead(&mut self, group: u32, slot: u32) {
        if let Some(group) = self.groups.get_mut(group) {
            group.first = slot;
        }
    }

    /// The number of a group that has pods.
    pub(crate) fn find_group(&self, namespace: &str, name: &str) -> Option<u32> {
        let hash = pod_hash(namespace_hash(namespace), name);
        self.group_index.find(hash, |id| group_pair(&self.groups, id) == (namespace, name))
    }

    /// Sums over the pods of a group.
    pub(crate) fn sums_of(&self, group: u32) -> GroupSums {
        self.groups.get(group).map_or(GroupSums::default(), |group| group.sums)
    }

    /// How many groups have pods, and below which number theirs are.
    pub(crate) fn group_count(&self) -> (usize, usize) {
        (self.groups.len(), self.groups.bound())
    }

    /// The slots of a group's pods, in no particular order.
    pub(crate) fn members(&self, namespace: &str, name: &str) -> impl Iterator<Item = u32> + '_ {
        self.members_of(self.find_group(namespace, name))
    }

    /// The same, by the group's number.
    pub(crate) fn members_of(&self, group: Option<u32>) -> impl Iterator<Item = u32> + '_ {
        let mut slot = group.map_or(NONE, |group| self.first_member(group));
        core::iter::from_fn(move || {
            let this = slot;
            slot = self.records.get(slot)?.next_member;
            Some(this)
        })
    }

    /// The shape and the row of each pod on a row, and whether it is being deleted.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (ShapeId, Row, bool)> {
        let on_rows = self.records.iter().filter(|(_, record)| record.row != NONE);
        on_rows.map(|(_, record)| (record.shape(), Row::from(record.row), record.deleting()))
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.records.iter().map(|(slot, _)| slot)
    }
}

#[cfg(test)]
mod tests;
