//! The book of claims: devices and their holders.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::object::{ClaimKey, ClaimKind, ClaimObject};
use super::published::{PoolKey, Published};
use super::usage::{MoreUsage, Usage};
use crate::base::ObjectName;
use crate::model::{
    Allocation, ClaimAllocation, ClaimSource, DeviceClass, PodShape, ResourceClaim, ResourceSlice,
};

/// Device classes, slices and claims of a cluster, and the devices in use.
///
/// A claim has the devices that its object says. Else it has those that the first of its pods was
/// placed with, as long as one of its pods is on a node. When the last of its pods leaves, the claim
/// has no devices any longer, whoever allocated them.
///
/// A clone shares everything until one of the two is written to.
#[derive(Debug, Clone, Default)]
pub struct ClaimBook {
    published: Arc<Published>,
    claims: Arc<BTreeMap<ObjectName, ClaimRecord>>,
    usage: Usage,
    /// The versions of objects that events told of, but for those without one.
    versions: Arc<BTreeMap<ClaimKey, u64>>,
}

/// A claim and what has become of it.
#[derive(Debug, Clone, Default)]
pub struct ClaimRecord {
    /// The object; `None` as long as only pods that name it are known.
    claim: Option<Arc<ResourceClaim>>,
    /// Allocation that the first of its pods was placed with.
    local: Option<Arc<Allocation>>,
    /// How many pods on nodes name it.
    holders: u32,
    /// Whether the allocation of the object is void, since its pods have left.
    released: bool,
}

impl ClaimRecord {
    /// The object; `None` as long as only pods that name it are known.
    pub fn claim(&self) -> Option<&Arc<ResourceClaim>> {
        self.claim.as_ref()
    }

    /// The devices that it has now.
    pub fn allocation(&self) -> Option<&Arc<Allocation>> {
        let given = || self.claim.as_ref()?.allocation.as_ref();
        self.local.as_ref().or_else(|| if self.released { None } else { given() })
    }

    /// How many pods on nodes name it.
    pub fn holders(&self) -> u32 {
        self.holders
    }

    fn is_void(&self) -> bool {
        self.claim.is_none() && self.holders == 0
    }
}

impl ClaimBook {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
            && self.published.classes.is_empty()
            && self.published.slices.is_empty()
    }

    /// The device classes, by name.
    pub fn classes(&self) -> impl Iterator<Item = &DeviceClass> {
        self.published.classes.values().map(|class| &**class)
    }

    /// The slices, by name.
    pub fn slices(&self) -> impl Iterator<Item = &ResourceSlice> {
        self.published.slices.values().map(|slice| &**slice)
    }

    /// The claims, by full name.
    pub fn claims(&self) -> impl Iterator<Item = (&ObjectName, &ClaimRecord)> {
        self.claims.iter().filter(|(_, record)| record.claim.is_some())
    }

    /// A claim.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&ClaimRecord> {
        if self.claims.is_empty() {
            return None;
        }
        let record = self.claims.get(&ObjectName::new(namespace, name))?;
        record.claim.as_ref().map(|_| record)
    }

    /// Whether claims on a class serve a resource, where nodes have none of it.
    pub fn serves(&self, resource: &str) -> bool {
        self.published.class_for(resource).is_some()
    }

    /// How much of a device is in use; `None` if nothing is.
    pub fn usage(&self, driver: &str, pool: &str, device: &str) -> Option<&super::DeviceUsage> {
        self.usage.of_pool(driver, pool)?.get(device)
    }

    pub(crate) fn pool_usage(&self, driver: &str, pool: &str) -> Option<&super::usage::PoolUsage> {
        self.usage.of_pool(driver, pool)
    }

    /// The usage of the pools of some allocations, with those beside what is in use.
    pub(crate) fn with_more<'a>(
        &self,
        allocations: impl Iterator<Item = &'a Allocation>,
    ) -> MoreUsage {
        MoreUsage::of(&self.usage, allocations)
    }

    /// The number of the last change of what is in use. Equal numbers mean equal usage.
    pub(crate) fn usage_stamp(&self) -> u64 {
        self.usage.stamp()
    }

    /// The number of the last change of what is in use of a pool; 0 if nothing is.
    pub(crate) fn pool_stamp(&self, pool: &PoolKey) -> u64 {
        self.usage.stamp_of(pool)
    }

    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    /// The version of an object; `None` if there is none.
    pub(in crate::state) fn version(&self, key: &ClaimKey) -> Option<u64> {
        let name = &*key.name;
        let is_known = match key.kind {
            ClaimKind::Class => self.published.classes.contains_key(name),
            ClaimKind::Slice => self.published.slices.contains_key(name),
            ClaimKind::Claim => {
                let (namespace, name) = name.split_once('/').unwrap_or(("", name));
                self.claim(namespace, name).is_some()
            }
        };
        is_known.then(|| self.versions.get(key).copied().unwrap_or(0))
    }

    /// Adds or replaces an object.
    pub(in crate::state) fn put(&mut self, object: ClaimObject, version: u64) {
        if version != 0 {
            Arc::make_mut(&mut self.versions).insert(object.key(), version);
        }
        match object {
            ClaimObject::Class(class) => self.set_class(class),
            ClaimObject::Slice(slice) => self.set_slice(slice),
            ClaimObject::Claim(claim) => self.set_claim(claim),
        }
    }

    /// Removes an object; whether there was one.
    pub(in crate::state) fn remove(&mut self, key: &ClaimKey) -> bool {
        if self.versions.contains_key(key) {
            Arc::make_mut(&mut self.versions).remove(key);
        }
        match key.kind {
            ClaimKind::Class => self.remove_class(&key.name),
            ClaimKind::Slice => self.remove_slice(&key.name),
            ClaimKind::Claim => {
                let (namespace, name) = key.name.split_once('/').unwrap_or(("", &key.name));
                self.remove_claim(namespace, name)
            }
        }
    }

    /// The versions of objects that have one.
    #[cfg(feature = "serde")]
    pub(in crate::state) fn versions(&self) -> impl Iterator<Item = (&ClaimKey, u64)> {
        self.versions.iter().map(|(key, version)| (key, *version))
    }

    #[cfg(feature = "serde")]
    pub(in crate::state) fn set_versions(&mut self, versions: Vec<(ClaimKey, u64)>) {
        self.versions = Arc::new(versions.into_iter().collect());
    }

    pub(in crate::state) fn set_class(&mut self, class: DeviceClass) {
        Arc::make_mut(&mut self.published).set_class(class);
    }

    pub(in crate::state) fn remove_class(&mut self, name: &str) -> bool {
        Arc::make_mut(&mut self.published).remove_class(name)
    }

    pub(in crate::state) fn set_slice(&mut self, slice: ResourceSlice) {
        Arc::make_mut(&mut self.published).set_slice(slice);
    }

    pub(in crate::state) fn remove_slice(&mut self, name: &str) -> bool {
        Arc::make_mut(&mut self.published).remove_slice(name)
    }

    /// Adds or replaces a claim. One without an allocation keeps the devices that its pods were
    /// placed with.
    pub(in crate::state) fn set_claim(&mut self, claim: ResourceClaim) {
        let name = ObjectName::new(&claim.namespace, &claim.name);
        self.change(&name, |record| {
            let keep = claim.allocation.is_none() && record.holders > 0;
            let now = record.allocation().filter(|_| keep).cloned();
            record.local = now;
            record.released = false;
            record.claim = Some(Arc::new(claim));
        });
    }

    pub(in crate::state) fn remove_claim(&mut self, namespace: &str, name: &str) -> bool {
        let name = ObjectName::new(namespace, name);
        let known = self.claims.get(&name).is_some_and(|record| record.claim.is_some());
        if known {
            self.change(&name, |record| {
                let held = record.holders > 0;
                record.local = record.allocation().filter(|_| held).cloned();
                record.claim = None;
                record.released = false;
            });
        }
        known
    }

    /// Takes the devices of a claim away, whatever pods name it.
    pub(in crate::state) fn deallocate(&mut self, namespace: &str, name: &str) -> bool {
        let name = ObjectName::new(namespace, name);
        let has = self.claims.get(&name).is_some_and(|record| record.allocation().is_some());
        if has {
            self.change(&name, |record| {
                record.local = None;
                record.released = true;
            });
        }
        has
    }

    /// Counts a pod that came to a node (1), or left it (-1), with the devices it was placed with.
    pub(in crate::state) fn count(
        &mut self,
        shape: &PodShape,
        held: &[ClaimAllocation],
        sign: i32,
    ) {
        for own in &shape.claims {
            let allocation =
                held.iter().find(|held| held.claim == own.name).map(|held| &held.allocation);
            match &own.source {
                ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                    let name = ObjectName::new(&shape.namespace, name);
                    self.change(&name, |record| record.count(allocation, sign));
                }
                ClaimSource::Own(_) | ClaimSource::Extended(_) | ClaimSource::Unmade => {
                    if let Some(allocation) = allocation {
                        self.usage.count(allocation, sign);
                    }
                }
            }
        }
    }

    /// Changes a record, and counts the devices that it thereby has and has not.
    fn change(&mut self, name: &ObjectName, change: impl FnOnce(&mut ClaimRecord)) {
        let claims = Arc::make_mut(&mut self.claims);
        let record = claims.entry(name.clone()).or_default();
        let before = record.allocation().cloned();
        change(record);
        let after = record.allocation().cloned();
        if record.is_void() {
            claims.remove(name);
        }
        let same = match (&before, &after) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if !same {
            if let Some(before) = before {
                self.usage.count(&before, -1);
            }
            if let Some(after) = after {
                self.usage.count(&after, 1);
            }
        }
    }

    /// The claims as data: those whose devices are void have none.
    #[cfg(feature = "serde")]
    pub(in crate::state) fn claims_as_given(&self) -> Vec<ResourceClaim> {
        let given = self.claims.values().filter_map(|record| {
            let mut claim = ResourceClaim::clone(record.claim.as_ref()?);
            if record.released {
                claim.allocation = None;
            }
            Some(claim)
        });
        given.collect()
    }
}

impl ClaimRecord {
    fn count(&mut self, held: Option<&Arc<Allocation>>, sign: i32) {
        self.holders = self.holders.saturating_add_signed(sign);
        if sign > 0 {
            match held {
                Some(held) if self.allocation().is_none() => self.local = Some(Arc::clone(held)),
                None if self.local.is_none() => self.released = false,
                _ => {}
            }
        } else if self.holders == 0 {
            match self.local.take() {
                // What was given before those pods came stays void if it was.
                Some(_) => {}
                None => self.released = true,
            }
        }
    }
}
