//! Published objects of drivers: classes, and slices by name, by node and by pool.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::model::{DeviceClass, NodeReach, ResourceSlice};

/// Driver and pool.
pub(crate) type PoolKey = (Box<str>, Box<str>);

/// The number of a change, which no other change has.
pub(super) fn next_stamp() -> u64 {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed) as u64
}

pub(crate) fn pool_key(driver: &str, pool: &str) -> PoolKey {
    (driver.into(), pool.into())
}

/// Slices in order of name.
pub(crate) type Slices = Vec<Arc<ResourceSlice>>;

/// Classes and slices.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    pub(crate) classes: BTreeMap<Box<str>, Arc<DeviceClass>>,
    /// The class that serves each resource.
    pub(crate) served: BTreeMap<Box<str>, Arc<DeviceClass>>,
    pub(crate) slices: BTreeMap<Box<str>, Arc<ResourceSlice>>,
    /// Slices of devices that one node reaches.
    pub(crate) by_node: BTreeMap<Box<str>, Slices>,
    /// Slices that several nodes may reach, without counters.
    pub(crate) roaming: Slices,
    pub(crate) by_pool: BTreeMap<PoolKey, Slices>,
    /// Pools of slices with counters.
    pub(crate) counted: BTreeMap<PoolKey, Slices>,
    /// Pools with counters of which slices are missing.
    pub(crate) incomplete: BTreeSet<PoolKey>,
    /// The number of the last change; equal numbers mean that the same is published.
    pub(crate) stamp: u64,
}

/// Every class serves the resource of this prefix and its name.
pub(crate) const CLASS_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

impl Published {
    pub(super) fn set_class(&mut self, class: DeviceClass) {
        self.stamp = next_stamp();
        self.classes.insert(class.name.as_str().into(), Arc::new(class));
        self.serve();
    }

    pub(super) fn remove_class(&mut self, name: &str) -> bool {
        self.stamp = next_stamp();
        let removed = self.classes.remove(name).is_some();
        self.serve();
        removed
    }

    /// Finds the class of each resource: of two, the later one, then the one with the smaller name.
    fn serve(&mut self) {
        self.served.clear();
        for class in self.classes.values() {
            let Some(resource) = &class.extended_resource else { continue };
            let known = self.served.get(resource.as_str());
            if known.is_none_or(|known| class.created > known.created) {
                self.served.insert(resource.as_str().into(), Arc::clone(class));
            }
        }
    }

    /// The class that serves a resource.
    pub(crate) fn class_for(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        self.served.get(resource).or_else(|| {
            let name = resource.strip_prefix(CLASS_RESOURCE)?;
            self.classes.get(name)
        })
    }

    pub(super) fn set_slice(&mut self, slice: ResourceSlice) {
        self.remove_slice(&slice.name);
        self.stamp = next_stamp();
        let slice = Arc::new(slice);
        self.slices.insert(slice.name.as_str().into(), Arc::clone(&slice));
        for list in self.lists_of(&slice) {
            let at = list.partition_point(|other| other.name < slice.name);
            list.insert(at, Arc::clone(&slice));
        }
        self.note_incomplete(pool_key(&slice.driver, &slice.pool));
    }

    /// Finds out whether slices of a pool with counters are missing.
    fn note_incomplete(&mut self, key: PoolKey) {
        let lacks = self.counted.get(&key).is_some_and(|slices| {
            let generation = slices.iter().map(|slice| slice.generation).max().unwrap_or(0);
            let newest = slices.iter().filter(|slice| slice.generation == generation);
            let newest: Vec<&ResourceSlice> = newest.map(|slice| &**slice).collect();
            self.is_incomplete(&newest) == Some(true)
        });
        if lacks {
            self.incomplete.insert(key);
        } else if !self.incomplete.is_empty() {
            self.incomplete.remove(&key);
        }
    }

    /// Whether the slices of a pool that a node knows of are too few; `None` if the pool is being
    /// replaced.
    pub(crate) fn is_incomplete(&self, slices: &[&ResourceSlice]) -> Option<bool> {
        let first = slices.first()?;
        let enough = |count: usize| count as i64 >= first.slice_count;
        if slices.len() as i64 == first.slice_count {
            return Some(false);
        }
        let all = self.by_pool.get(&pool_key(&first.driver, &first.pool));
        let all = all.map_or(&[][..], |slices| slices);
        if all.iter().any(|slice| slice.generation > first.generation) {
            return None;
        }
        let same = all.iter().filter(|slice| slice.generation == first.generation).count();
        Some(!enough(same))
    }

    pub(super) fn remove_slice(&mut self, name: &str) -> bool {
        let Some(slice) = self.slices.remove(name) else { return false };
        self.stamp = next_stamp();
        for list in self.lists_of(&slice) {
            list.retain(|other| !Arc::ptr_eq(other, &slice));
        }
        let key = pool_key(&slice.driver, &slice.pool);
        for pools in [&mut self.by_pool, &mut self.counted] {
            if pools.get(&key).is_some_and(Vec::is_empty) {
                pools.remove(&key);
            }
        }
        if let NodeReach::Node(node) = &slice.nodes
            && self.by_node.get(node.as_str()).is_some_and(Vec::is_empty)
        {
            self.by_node.remove(node.as_str());
        }
        self.note_incomplete(key);
        true
    }

    /// Whether each device is reached by one node, and what is taken of it concerns that node alone.
    /// O(slices with counters and of their pools).
    pub(crate) fn is_local(&self) -> bool {
        let home = |slice: &ResourceSlice| match &slice.nodes {
            NodeReach::Node(name) => Some(Box::<str>::from(name.as_str())),
            _ => None,
        };
        self.roaming.is_empty()
            && self.counted.keys().all(|key| {
                let slices = self.by_pool.get(key).map_or(&[][..], |slices| slices);
                let first = slices.first().and_then(|slice| home(slice));
                let complete = slices.first().is_some_and(|first| {
                    slices.iter().all(|slice| slice.generation == first.generation)
                        && slices.len() as i64 == first.slice_count
                });
                complete && first.is_some() && slices.iter().all(|slice| home(slice) == first)
            })
    }

    /// The two lists that a slice stands in: that of its pool, and that of its kind.
    fn lists_of(&mut self, slice: &ResourceSlice) -> [&mut Slices; 2] {
        let key = pool_key(&slice.driver, &slice.pool);
        let pool = self.by_pool.entry(key.clone()).or_default();
        let kind = match &slice.nodes {
            _ if !slice.counters.is_empty() => self.counted.entry(key).or_default(),
            NodeReach::Node(node) => self.by_node.entry(node.as_str().into()).or_default(),
            _ => &mut self.roaming,
        };
        [pool, kind]
    }
}
