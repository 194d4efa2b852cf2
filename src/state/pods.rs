//! The pods that are bound: linked node by node, and group by group.

use alloc::sync::Arc;
use core::hash::{Hash, Hasher};
use core::num::NonZeroU64;

use super::ids::{NONE, ShapeId};
use super::shapes::Shapes;
use crate::base::hash::{FixedHasher, hash_of};
use crate::base::index::Index;
use crate::base::slab::Slab;
use crate::base::sparse::Sparse;
use crate::model::Pod;

/// Devices of one pod, one list a request.
pub(crate) type Devices = Arc<[alloc::vec::Vec<u32>]>;

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
/// The index does not know it: a transaction has placed it.
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

/// A group of which pods are bound.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// The first of its pods; the others are linked from there.
    first: u32,
}

/// Bound pods by slot, and by namespace and name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pods {
    records: Slab<PodRecord>,
    index: Index,
    /// By full name. A group without pods is forgotten.
    groups: Slab<Group>,
    group_index: Index,
    uids: Sparse<Arc<str>>,
    keys: Sparse<NonZeroU64>,
    versions: Sparse<NonZeroU64>,
    devices: Sparse<Devices>,
}

/// The state of a hash of a pod's identity after the namespace.
pub(crate) fn namespace_hash(namespace: &str) -> FixedHasher {
    let mut hasher = FixedHasher::default();
    namespace.hash(&mut hasher);
    hasher
}

/// The hash of a pod's identity.
#[inline]
fn pod_hash(mut namespace: FixedHasher, name: &str) -> u64 {
    name.hash(&mut namespace);
    namespace.finish()
}

fn hash_in(records: &Slab<PodRecord>, slot: u32, shapes: &Shapes) -> u64 {
    let entry = records.get(slot).and_then(|record| shapes.entry(record.shape()));
    entry.map_or(0, |entry| pod_hash(entry.namespace_hash, records.name(slot)))
}

#[inline]
fn is(records: &Slab<PodRecord>, slot: u32, namespace: &str, name: &str, shapes: &Shapes) -> bool {
    records.name(slot) == name
        && records.get(slot).is_some_and(|record| {
            let entry = shapes.entry(record.shape());
            entry.is_some_and(|entry| entry.shape.namespace == namespace)
        })
}

/// What a new record says beside the pod itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// A use of it has been counted.
    pub(crate) shape: ShapeId,
    /// What [`Pods::group`] gave.
    pub(crate) group: u32,
    pub(crate) version: u64,
    /// Whether the pod is not to be found by its name.
    pub(crate) hidden: bool,
}

impl Pods {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
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
    pub(crate) fn devices(&self, slot: u32) -> Option<&Devices> {
        self.devices.get(slot as usize)
    }

    /// The slot of a pod.
    pub(crate) fn find(&self, namespace: &str, name: &str, shapes: &Shapes) -> Option<u32> {
        let hash = pod_hash(namespace_hash(namespace), name);
        self.index.find(hash, |slot| is(&self.records, slot, namespace, name, shapes))
    }

    /// Adds a pod, on no row. `None` if it is not hidden and there is one of its name.
    pub(crate) fn insert(
        &mut self,
        pod: &Pod,
        entry: Entry,
        devices: Option<Devices>,
        shapes: &Shapes,
    ) -> Option<u32> {
        let slot = self.records.next();
        if !entry.hidden {
            let namespace = pod.namespace();
            let state = shapes.entry(entry.shape)?.namespace_hash;
            let records = &self.records;
            let new = self.index.insert(
                pod_hash(state, &pod.name),
                slot,
                |slot| is(records, slot, namespace, &pod.name, shapes),
                |slot| hash_in(records, slot, shapes),
            );
            if !new {
                return None;
            }
        }
        let flags = if pod.deleting { DELETING } else { 0 } | if entry.hidden { HIDDEN } else { 0 };
        let next_member = self.first_member(entry.group);
        let record = PodRecord {
            shape: entry.shape.0 | flags,
            row: NONE,
            next: NONE,
            previous: NONE,
            group: entry.group,
            next_member,
            previous_member: NONE,
            priority: pod.priority,
        };
        self.records.insert(&pod.name, record);
        if let Some(group) = self.groups.get_mut(entry.group) {
            group.first = slot;
        }
        if let Some(next) = self.records.get_mut(next_member) {
            next.previous_member = slot;
        }
        let at = slot as usize;
        self.uids.set(at, (!pod.uid.is_empty()).then(|| Arc::from(pod.uid.as_str())));
        self.keys.set(at, NonZeroU64::new(pod.key));
        self.versions.set(at, NonZeroU64::new(entry.version));
        self.devices.set(at, devices);
        Some(slot)
    }

    /// Takes a pod out that is on no row; its shape is still to be released.
    pub(crate) fn remove(&mut self, slot: u32, shapes: &Shapes) -> Option<ShapeId> {
        let record = *self.records.get(slot)?;
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
        self.devices.set(slot as usize, None);
        self.records.remove(slot);
        Some(record.shape())
    }

    /// The number of a group by its full name, given now if it has none. A group that gets no pod
    /// is to be given to [`Pods::forget_if_empty`].
    pub(crate) fn group(&mut self, full: &str) -> u32 {
        let hash = hash_of(full);
        let groups = &self.groups;
        if let Some(id) = self.group_index.find(hash, |id| groups.name(id) == full) {
            return id;
        }
        self.group_index.insert(hash, groups.next(), |_| false, |id| hash_of(groups.name(id)));
        self.groups.insert(full, Group { first: NONE })
    }

    pub(crate) fn forget_if_empty(&mut self, group: u32) {
        if self.groups.get(group).is_some_and(|group| group.first == NONE) {
            let groups = &self.groups;
            let hash_of = |id| hash_of(groups.name(id));
            self.group_index.remove(hash_of(group), group, hash_of);
            self.groups.remove(group);
        }
    }

    /// The full name of a group.
    pub(crate) fn group_name(&self, group: u32) -> &str {
        self.groups.name(group)
    }

    fn first_member(&self, group: u32) -> u32 {
        self.groups.get(group).map_or(NONE, |group| group.first)
    }

    /// The slots of a group's pods, by its full name, in no particular order.
    pub(crate) fn members(&self, full: &str) -> impl Iterator<Item = u32> + '_ {
        let group = self.group_index.find(hash_of(full), |id| self.groups.name(id) == full);
        let mut slot = group.map_or(NONE, |group| self.first_member(group));
        core::iter::from_fn(move || {
            let this = slot;
            slot = self.records.get(slot)?.next_member;
            Some(this)
        })
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.records.iter().map(|(slot, _)| slot)
    }
}
