//! Counters that devices of a pool share.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use super::pools::Pool;
use crate::model::SliceDevice;
use crate::state::{ClaimBook, DeviceUsage};

/// The counters of a pool.
pub(super) struct Counters<'a> {
    /// Amounts left, by set and counter.
    left: BTreeMap<(&'a str, &'a str), i128>,
}

impl<'a> Counters<'a> {
    /// The amounts of a pool's counters that allocations leave.
    pub(super) fn of(
        pool: &Pool<'a>,
        book: &'a ClaimBook,
        usage: Option<&BTreeMap<Box<str>, DeviceUsage>>,
    ) -> Counters<'a> {
        let mut left = BTreeMap::new();
        for set in pool.slices.iter().flat_map(|slice| &slice.counters) {
            for (name, amount) in &set.counters {
                left.insert((&*set.name, &**name), amount.nanos());
            }
        }
        let mut counters = Counters { left };
        let (Some(usage), false) = (usage, counters.left.is_empty()) else { return counters };
        // Devices of the pool on other nodes use them up too.
        let key = (pool.driver.into(), pool.name.into());
        let generation = pool.slices.first().map(|slice| slice.generation);
        let all = book.published().by_pool.get(&key).map_or(&[][..], |slices| slices);
        let all = all.iter().filter(|slice| Some(slice.generation) == generation);
        for device in all.flat_map(|slice| &slice.devices) {
            if usage.contains_key(&*device.name) {
                counters.take(device, 1);
            }
        }
        counters
    }

    pub(super) fn suffice(&self, device: &SliceDevice) -> bool {
        device.consumes.iter().all(|used| {
            used.counters.iter().all(|(name, amount)| {
                self.left.get(&(&*used.set, &**name)).is_some_and(|left| *left >= amount.nanos())
            })
        })
    }

    pub(super) fn take(&mut self, device: &'a SliceDevice, times: i128) {
        for used in &device.consumes {
            for (name, amount) in &used.counters {
                if let Some(left) = self.left.get_mut(&(&*used.set, &**name)) {
                    *left = left.saturating_sub(times * amount.nanos());
                }
            }
        }
    }
}
