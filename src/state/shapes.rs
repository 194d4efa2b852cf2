//! The shapes of pods: each kept once, counted by use, and kept as long as the journal names it.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hash;
use core::mem;

use super::devices::{DeviceNeed, is_narrow};
use super::ids::{ResourceId, ShapeId};
use super::journal::Journal;
use crate::base::chunks::{CHUNK, Chunked};
use crate::base::hash::{FixedHasher, hash_of};
use crate::base::index::Index;
use crate::model::{PodAffinityTerm, PodShape};

/// A shape with its resources resolved to the cluster's numbers.
#[derive(Debug)]
pub(crate) struct ShapeEntry {
    pub(crate) shape: Arc<PodShape>,
    /// Requests of node resources; no zero amounts.
    pub(crate) requests: Box<[(ResourceId, i64)]>,
    pub(crate) devices: Box<[DeviceNeed]>,
    /// Whether requests of devices are far from the ends of 64 bits.
    pub(crate) narrow_devices: bool,
    /// Whether requests of node resources are.
    pub(crate) narrow: bool,
    /// Whether its pods name claims.
    pub(crate) has_claims: bool,
    /// The state of a hash of a pod's identity after the namespace.
    pub(crate) namespace_hash: FixedHasher,
}

/// The namespace of a shape, so that most shapes need not be looked at.
#[derive(Debug, Clone, Copy)]
struct Home {
    /// The hash of its name.
    namespace: u64,
    /// Whether affinity terms of the shape mean pods of this namespace alone.
    confined: bool,
}

impl Home {
    fn of(shape: &PodShape) -> Home {
        let weighted =
            shape.preferred_pod_affinity.iter().chain(&shape.preferred_pod_anti_affinity);
        let required = shape.pod_affinity.iter().chain(&shape.pod_anti_affinity);
        let mut terms = required.chain(weighted.map(|weighted| &weighted.term));
        Home { namespace: hash_of(&*shape.namespace), confined: terms.all(PodAffinityTerm::is_own) }
    }

    /// The hash of the only namespace whose pods affinity terms mean; `None` if they may mean others.
    fn reach(self) -> Option<u64> {
        self.confined.then_some(self.namespace)
    }
}

/// The generation of shapes that are not retired.
const IN_USE: u64 = u64::MAX;

/// Shapes by number, counted by use.
///
/// A shape whose last use ends keeps its number while the journal remembers its pods, so that the
/// log can name shapes in four bytes. There are at most as many of these as changes remembered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shapes {
    entries: Chunked<Option<Arc<ShapeEntry>>>,
    uses: Chunked<u32>,
    homes: Chunked<Home>,
    free: Vec<u32>,
    index: Index,
    /// The generation in which the last use ended, for those in `retired`; else `IN_USE`.
    ended: Chunked<u64>,
    /// Shapes without uses that the journal may name, in order of the generation in which their
    /// last use ended. Those that are used again since are among them.
    retired: Arc<VecDeque<(u64, u32)>>,
    /// Shapes in use that have affinity terms, each under its [`Home::reach`].
    affinity: Arc<BTreeSet<(Option<u64>, u32)>>,
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
            .filter(|(_, (_, uses))| **uses > 0)
            .filter_map(|(id, (entry, uses))| Some((ShapeId(id as u32), entry.as_ref()?, *uses)))
    }

    /// The shapes in use of one namespace.
    pub(crate) fn of_namespace<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (ShapeId, &'a PodShape)> {
        let hash = hash_of(namespace);
        // Chunk by chunk, since of most shapes only this column is read.
        let likely = (0..self.homes.len().div_ceil(CHUNK)).flat_map(move |chunk| {
            let homes = self.homes.chunk(chunk).unwrap_or_default().iter();
            let likely = homes.enumerate().filter(move |(_, home)| home.namespace == hash);
            likely.map(move |(at, _)| chunk * CHUNK + at)
        });
        let shapes = likely.filter(|id| self.uses[*id] > 0).filter_map(|id| {
            let id = ShapeId(id as u32);
            Some((id, &*self.entry(id)?.shape))
        });
        shapes.filter(move |(_, shape)| shape.namespace == namespace)
    }

    /// The shapes in use with affinity terms that may mean pods of a namespace; they may mean none.
    pub(crate) fn concerning(&self, namespace: &str) -> impl Iterator<Item = (ShapeId, &PodShape)> {
        let under = |reach| self.affinity.range((reach, 0)..=(reach, u32::MAX));
        let all = under(None).chain(under(Some(hash_of(namespace))));
        all.filter_map(|&(_, id)| Some((ShapeId(id), &*self.entry(ShapeId(id))?.shape)))
    }

    /// Whether a shape in use has affinity terms.
    pub(crate) fn any_with_affinity(&self) -> bool {
        !self.affinity.is_empty()
    }

    /// The shapes in use that have affinity terms, in order of number.
    pub(crate) fn with_affinity(&self) -> impl Iterator<Item = (ShapeId, &PodShape, u32)> {
        let mut ids: Vec<u32> = self.affinity.iter().map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| {
            Some((ShapeId(id), &*self.entry(ShapeId(id))?.shape, self.uses[id as usize]))
        })
    }

    /// The shape that was acquired last, if it is there. Only sound ones are.
    pub(crate) fn last(&self) -> Option<&Arc<PodShape>> {
        self.entry(ShapeId(self.last)).map(|entry| &entry.shape)
    }

    /// Counts one more use of a shape; `resolve` makes the entry if it is new.
    pub(crate) fn acquire(
        &mut self,
        shape: &Arc<PodShape>,
        resolve: impl FnOnce() -> (Box<[(ResourceId, i64)]>, Box<[DeviceNeed]>),
    ) -> ShapeId {
        let last = self.entry(ShapeId(self.last));
        if last.is_some_and(|entry| Arc::ptr_eq(&entry.shape, shape)) {
            return self.use_again(self.last);
        }
        let hash = hash_of(&**shape);
        let entries = &self.entries;
        let same =
            |id: u32| entries[id as usize].as_ref().is_some_and(|entry| entry.shape == *shape);
        if let Some(id) = self.index.find(hash, same) {
            self.last = id;
            return self.use_again(id);
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
            has_claims: !shape.claims.is_empty(),
        }));
        let home = Home::of(shape);
        let id = if let Some(id) = self.free.pop() {
            *self.entries.get_mut(id as usize) = entry;
            *self.uses.get_mut(id as usize) = 1;
            *self.homes.get_mut(id as usize) = home;
            id
        } else {
            self.entries.push(entry);
            self.uses.push(1);
            self.homes.push(home);
            self.ended.push(IN_USE);
            self.entries.len() as u32 - 1
        };
        if shape.has_pod_affinity() {
            Arc::make_mut(&mut self.affinity).insert((home.reach(), id));
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

    /// How many numbers have been given at once.
    #[cfg(test)]
    pub(crate) fn most_ids(&self) -> usize {
        self.entries.len()
    }

    fn use_again(&mut self, id: u32) -> ShapeId {
        let uses = self.uses.get_mut(id as usize);
        *uses += 1;
        if *uses == 1 && self.has_affinity(id) {
            let reach = self.homes[id as usize].reach();
            Arc::make_mut(&mut self.affinity).insert((reach, id));
        }
        ShapeId(id)
    }

    fn has_affinity(&self, id: u32) -> bool {
        self.entry(ShapeId(id)).is_some_and(|entry| entry.shape.has_pod_affinity())
    }

    /// Counts one use less. A shape without uses is forgotten once the journal has forgotten the
    /// generation in which its last use ended.
    pub(crate) fn release(&mut self, id: ShapeId, journal: &Journal) {
        if !self.is_last_use(id) {
            return;
        }
        let now = journal.now().generation;
        // One whose end is of this very generation still waits to be forgotten.
        if mem::replace(self.ended.get_mut(id.index()), now) != now {
            Arc::make_mut(&mut self.retired).push_back((now, id.0));
        }
        while let Some(&(ended, id)) = self.retired.front()
            && now - ended >= journal.remembered() as u64
        {
            Arc::make_mut(&mut self.retired).pop_front();
            if self.ended[id as usize] == ended {
                if self.uses[id as usize] == 0 {
                    self.forget(id);
                }
                *self.ended.get_mut(id as usize) = IN_USE;
            }
        }
    }

    /// Counts one use less that was not recorded in the journal.
    pub(crate) fn discard(&mut self, id: ShapeId) {
        if self.is_last_use(id) && self.ended[id.index()] == IN_USE {
            self.forget(id.0);
        }
    }

    /// Counts one use less, and returns whether it was the last.
    fn is_last_use(&mut self, id: ShapeId) -> bool {
        let uses = self.uses.get_mut(id.index());
        *uses -= 1;
        let is_last = *uses == 0;
        if is_last && self.has_affinity(id.0) {
            let reach = self.homes[id.index()].reach();
            Arc::make_mut(&mut self.affinity).remove(&(reach, id.0));
        }
        is_last
    }

    fn forget(&mut self, id: u32) {
        let entries = &self.entries;
        self.index.remove(hash_in(entries, id), id, |id| hash_in(entries, id));
        if self.entries.get_mut(id as usize).take().is_some() {
            self.free.push(id);
        }
    }
}

/// The state of a hash of a pod's identity after the namespace.
pub(crate) fn namespace_hash(namespace: &str) -> FixedHasher {
    let mut hasher = FixedHasher::default();
    namespace.hash(&mut hasher);
    hasher
}

fn hash_in(entries: &Chunked<Option<Arc<ShapeEntry>>>, id: u32) -> u64 {
    entries[id as usize].as_ref().map_or(0, |entry| hash_of(&*entry.shape))
}
