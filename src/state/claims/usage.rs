//! Devices in use: whole, or parts of their capacities.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::published::{PoolKey, next_stamp, pool_key};
use crate::model::{AllocatedDevice, Allocation};

/// How much of a device is in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceUsage {
    /// How many allocations hold all of it.
    pub(crate) whole: u32,
    /// How many hold a part of it.
    pub(crate) shares: u32,
    /// Sums of these parts by capacity, in 10⁻⁹.
    pub(crate) consumed: BTreeMap<Box<str>, i128>,
}

impl DeviceUsage {
    /// Whether an allocation holds all of it.
    pub fn is_whole(&self) -> bool {
        self.whole > 0
    }

    /// How many allocations hold parts of it.
    pub fn shares(&self) -> u32 {
        self.shares
    }

    fn count(&mut self, device: &AllocatedDevice, sign: i32) {
        let Some(share) = &device.share else {
            self.whole = self.whole.saturating_add_signed(sign);
            return;
        };
        self.shares = self.shares.saturating_add_signed(sign);
        for (name, amount) in share {
            let sum = self.consumed.entry(name.as_str().into()).or_default();
            *sum = sum.saturating_add(i128::from(sign) * amount.nanos());
        }
        self.consumed.retain(|_, sum| *sum != 0);
    }

    fn is_idle(&self) -> bool {
        self.whole == 0 && self.shares == 0
    }
}

/// Devices of a pool that are in use, by name.
pub(crate) type PoolUsage = BTreeMap<Box<str>, DeviceUsage>;

/// A pool, with the number of its last change.
#[derive(Debug, Clone, Default)]
struct Stamped {
    stamp: u64,
    devices: PoolUsage,
}

/// Devices in use, pool by pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage {
    pools: Arc<BTreeMap<PoolKey, Arc<Stamped>>>,
    /// The number of the last change; 0 if there was none.
    stamp: u64,
}

impl Usage {
    /// Usage of a pool.
    pub(crate) fn of_pool(&self, driver: &str, pool: &str) -> Option<&PoolUsage> {
        if self.pools.is_empty() {
            return None;
        }
        self.pools.get(&pool_key(driver, pool)).map(|pool| &pool.devices)
    }

    /// The number of the last change of any pool. Equal numbers mean equal usage.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The number of the last change of a pool; 0 if nothing of it is in use.
    pub(super) fn stamp_of(&self, pool: &PoolKey) -> u64 {
        self.pools.get(pool).map_or(0, |pool| pool.stamp)
    }

    /// Counts an allocation that came (1) or went (-1).
    pub(super) fn count(&mut self, allocation: &Allocation, sign: i32) {
        let pools = Arc::make_mut(&mut self.pools);
        self.stamp = next_stamp();
        for device in allocation.devices.iter().filter(|device| !device.admin) {
            let key = pool_key(&device.driver, &device.pool);
            let pool = Arc::make_mut(pools.entry(key.clone()).or_default());
            pool.stamp = self.stamp;
            count(&mut pool.devices, device, sign);
            if pool.devices.is_empty() {
                pools.remove(&key);
            }
        }
    }
}

fn count(pool: &mut PoolUsage, device: &AllocatedDevice, sign: i32) {
    let name: Box<str> = device.device.as_str().into();
    let usage = pool.entry(name.clone()).or_default();
    usage.count(device, sign);
    if usage.is_idle() {
        pool.remove(&name);
    }
}

/// Pools of a cluster in which more devices are in use than the cluster knows of.
#[derive(Debug, Default)]
pub(crate) struct MoreUsage(BTreeMap<PoolKey, PoolUsage>);

impl MoreUsage {
    /// The usage of the pools of some allocations, with those.
    pub(super) fn of<'a>(
        usage: &Usage,
        allocations: impl Iterator<Item = &'a Allocation>,
    ) -> MoreUsage {
        let mut pools = BTreeMap::new();
        for device in allocations.flat_map(|own| &own.devices).filter(|device| !device.admin) {
            let known = || usage.of_pool(&device.driver, &device.pool).cloned();
            let pool = pools.entry(pool_key(&device.driver, &device.pool));
            count(pool.or_insert_with(|| known().unwrap_or_default()), device, 1);
        }
        MoreUsage(pools)
    }

    /// The devices of a pool in use; `None` if it is as the cluster knows it.
    pub(crate) fn of_pool(&self, driver: &str, pool: &str) -> Option<&PoolUsage> {
        self.0.get(&pool_key(driver, pool))
    }
}
