//! The shapes of pods, each kept once.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::devices::{DeviceNeed, is_narrow};
use super::ids::{ResourceId, ShapeId};
use super::pods::namespace_hash;
use crate::base::chunks::Chunked;
use crate::base::hash::{FixedHasher, hash_of};
use crate::base::index::Index;
use crate::model::PodShape;

/// A shape with its resources resolved to the cluster's numbers.
#[derive(Debug)]
pub(crate) struct ShapeEntry {
    pub(crate) shape: Arc<PodShape>,
    /// What it takes of a node; no zero amounts.
    pub(crate) requests: Box<[(ResourceId, i64)]>,
    pub(crate) devices: Box<[DeviceNeed]>,
    /// Whether what is asked of devices is far from the ends of 64 bits.
    pub(crate) narrow_devices: bool,
    /// Whether what is taken of a node is.
    pub(crate) narrow: bool,
    /// The state of a hash of a pod's identity after the namespace.
    pub(crate) namespace_hash: FixedHasher,
}

/// Shapes by number, counted by use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shapes {
    entries: Chunked<Option<Arc<ShapeEntry>>>,
    uses: Chunked<u32>,
    free: Vec<u32>,
    index: Index,
    /// Those with affinity terms.
    affinity: Arc<BTreeSet<u32>>,
    /// The one acquired last.
    last: u32,
}

impl Shapes {
    #[inline]
    pub(crate) fn entry(&self, id: ShapeId) -> Option<&Arc<ShapeEntry>> {
        self.entries.get(id.index())?.as_ref()
    }

    /// The shapes in use, with their numbers and how many pods have them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ShapeId, &Arc<ShapeEntry>, u32)> {
        self.entries
            .iter()
            .zip(self.uses.iter())
            .enumerate()
            .filter_map(|(id, (entry, uses))| Some((ShapeId(id as u32), entry.as_ref()?, *uses)))
    }

    /// The shapes in use that have affinity terms.
    pub(crate) fn with_affinity(&self) -> impl Iterator<Item = (ShapeId, &PodShape, u32)> {
        self.affinity.iter().filter_map(|&id| {
            Some((ShapeId(id), &*self.entry(ShapeId(id))?.shape, self.uses[id as usize]))
        })
    }

    /// Counts one more use of a shape; `resolve` makes the entry if it is new.
    pub(crate) fn acquire(
        &mut self,
        shape: &Arc<PodShape>,
        resolve: impl FnOnce() -> (Box<[(ResourceId, i64)]>, Box<[DeviceNeed]>),
    ) -> ShapeId {
        let last = self.entry(ShapeId(self.last));
        if last.is_some_and(|entry| Arc::ptr_eq(&entry.shape, shape)) {
            *self.uses.get_mut(self.last as usize) += 1;
            return ShapeId(self.last);
        }
        let hash = hash_of(&**shape);
        let entries = &self.entries;
        let same = |id: u32| {
            entries[id as usize]
                .as_ref()
                .is_some_and(|entry| Arc::ptr_eq(&entry.shape, shape) || entry.shape == *shape)
        };
        if let Some(id) = self.index.find(hash, same) {
            *self.uses.get_mut(id as usize) += 1;
            self.last = id;
            return ShapeId(id);
        }
        let (requests, devices) = resolve();
        let amounts = devices.iter().flat_map(DeviceNeed::each);
        let narrow_devices = amounts.map(|(_, amount)| *amount).all(is_narrow);
        let amounts = requests.iter().map(|(_, amount)| *amount).chain(shape.existing_requests);
        let entry = Some(Arc::new(ShapeEntry {
            shape: Arc::clone(shape),
            narrow: amounts.into_iter().all(is_narrow),
            namespace_hash: namespace_hash(&shape.namespace),
            requests,
            devices,
            narrow_devices,
        }));
        let id = if let Some(id) = self.free.pop() {
            *self.entries.get_mut(id as usize) = entry;
            *self.uses.get_mut(id as usize) = 1;
            id
        } else {
            self.entries.push(entry);
            self.uses.push(1);
            self.entries.len() as u32 - 1
        };
        if shape.has_pod_affinity() {
            Arc::make_mut(&mut self.affinity).insert(id);
        }
        let entries = &self.entries;
        self.index.insert(hash, id, |_| false, |id| hash_in(entries, id));
        self.last = id;
        ShapeId(id)
    }

    /// Counts more uses of a shape that is in use.
    pub(crate) fn retain(&mut self, id: ShapeId, more: u32) {
        *self.uses.get_mut(id.index()) += more;
    }

    /// Counts one use less, and forgets a shape nobody uses.
    pub(crate) fn release(&mut self, id: ShapeId) {
        let uses = self.uses.get_mut(id.index());
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        let entries = &self.entries;
        self.index.remove(hash_in(entries, id.0), id.0, |id| hash_in(entries, id));
        if let Some(entry) = self.entries.get_mut(id.index()).take() {
            if entry.shape.has_pod_affinity() {
                Arc::make_mut(&mut self.affinity).remove(&id.0);
            }
            self.free.push(id.0);
        }
    }
}

fn hash_in(entries: &Chunked<Option<Arc<ShapeEntry>>>, id: u32) -> u64 {
    entries[id as usize].as_ref().map_or(0, |entry| hash_of(&*entry.shape))
}
