//! The pods that are bound, linked node by node.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::ids::{NONE, ShapeId};
use crate::base::chunks::Chunked;
use crate::base::hash::hash_of;
use crate::base::index::Index;

/// A bound pod.
#[derive(Debug, Clone)]
pub(crate) struct PodRecord {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Option<Arc<str>>,
    pub(crate) key: u64,
    pub(crate) version: u64,
    pub(crate) shape: ShapeId,
    /// The row it is on; `NONE` while its node does not exist or it is evicted.
    pub(crate) row: u32,
    /// Its neighbours on the same node.
    pub(crate) next: u32,
    pub(crate) previous: u32,
    /// The number of its group's full name; `NONE` if it has none.
    pub(crate) group: u32,
    pub(crate) priority: i32,
    pub(crate) deleting: bool,
    /// Whether the index knows it: pods a transaction has placed are not in it.
    pub(crate) indexed: bool,
    pub(crate) devices: Option<Arc<[Vec<u32>]>>,
}

/// Bound pods by slot, and by namespace and name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pods {
    records: Chunked<Option<PodRecord>>,
    free: Vec<u32>,
    index: Index,
    len: usize,
    /// Slots by number of group.
    members: Chunked<Vec<u32>>,
}

/// The hash of a pod's identity.
pub(crate) fn pod_hash(namespace: &str, name: &str) -> u64 {
    hash_of(&(namespace, name))
}

impl Pods {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn record(&self, slot: u32) -> Option<&PodRecord> {
        self.records.get(slot as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn record_mut(&mut self, slot: u32) -> Option<&mut PodRecord> {
        let known = (slot as usize) < self.records.len();
        if known { self.records.get_mut(slot as usize).as_mut() } else { None }
    }

    /// The slot of a pod; `namespace_of` tells the namespace of a shape.
    pub(crate) fn find<'a>(
        &self,
        namespace: &str,
        name: &str,
        namespace_of: impl Fn(ShapeId) -> &'a str,
    ) -> Option<u32> {
        self.index.find(pod_hash(namespace, name), |slot| {
            self.record(slot)
                .is_some_and(|pod| &*pod.name == name && namespace_of(pod.shape) == namespace)
        })
    }

    /// Adds a record, unlinked.
    pub(crate) fn insert<'a>(
        &mut self,
        record: PodRecord,
        namespace_of: impl Fn(ShapeId) -> &'a str,
    ) -> u32 {
        let (group, indexed) = (record.group, record.indexed);
        let hash = if indexed { pod_hash(namespace_of(record.shape), &record.name) } else { 0 };
        let slot = if let Some(slot) = self.free.pop() {
            *self.records.get_mut(slot as usize) = Some(record);
            slot
        } else {
            self.records.push(Some(record));
            self.records.len() as u32 - 1
        };
        if indexed {
            let records = &self.records;
            self.index.insert(hash, slot, |slot| {
                records[slot as usize]
                    .as_ref()
                    .map_or(0, |pod| pod_hash(namespace_of(pod.shape), &pod.name))
            });
        }
        if group != NONE {
            while self.members.len() <= group as usize {
                self.members.push(Vec::new());
            }
            self.members.get_mut(group as usize).push(slot);
        }
        self.len += 1;
        slot
    }

    /// Takes an unlinked record out.
    pub(crate) fn remove(&mut self, slot: u32, namespace: &str) -> Option<PodRecord> {
        let record = self.records.get_mut(slot as usize).take()?;
        if record.indexed {
            self.index.remove(pod_hash(namespace, &record.name), slot);
        }
        if record.group != NONE {
            let members = self.members.get_mut(record.group as usize);
            if let Some(at) = members.iter().position(|&member| member == slot) {
                members.swap_remove(at);
            }
        }
        self.free.push(slot);
        self.len -= 1;
        Some(record)
    }

    /// The slots of a group's pods, in no particular order.
    pub(crate) fn members(&self, group: u32) -> &[u32] {
        self.members.get(group as usize).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &PodRecord)> {
        self.records
            .iter()
            .enumerate()
            .filter_map(|(slot, record)| Some((slot as u32, record.as_ref()?)))
    }
}
