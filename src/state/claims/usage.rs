//! Devices in use: whole, or parts of their capacities.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::published::{PoolKey, pool_key};
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
type PoolUsage = BTreeMap<Box<str>, DeviceUsage>;

/// Devices in use, pool by pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage(Arc<BTreeMap<PoolKey, Arc<PoolUsage>>>);

impl Usage {
    /// Usage of a pool.
    pub(crate) fn of_pool(&self, driver: &str, pool: &str) -> Option<&PoolUsage> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&pool_key(driver, pool)).map(|pool| &**pool)
    }

    /// Counts an allocation that came (1) or went (-1).
    pub(super) fn count(&mut self, allocation: &Allocation, sign: i32) {
        let pools = Arc::make_mut(&mut self.0);
        for device in allocation.devices.iter().filter(|device| !device.admin) {
            let key = pool_key(&device.driver, &device.pool);
            let pool = Arc::make_mut(pools.entry(key.clone()).or_default());
            let name: Box<str> = device.device.as_str().into();
            let usage = pool.entry(name.clone()).or_default();
            usage.count(device, sign);
            if usage.is_idle() {
                pool.remove(&name);
            }
            if pool.is_empty() {
                pools.remove(&key);
            }
        }
    }
}
