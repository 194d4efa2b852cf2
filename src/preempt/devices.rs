//! Devices in numbers: the number of times that a node's devices serve a need, and the devices that
//! each evicted pod adds.
//!
//! However many pods of a node go, its devices serve a need no more often than they do now and what
//! those pods add, summed. A pod adds
//!
//! - to a need of whole devices: of each device that it holds, its share of the holders;
//! - to one of whole devices of one island: that, divided by the devices that lack on the island for
//!   the next pod;
//! - to a need of shares: the amount freed on each device that it holds, divided by the amount that
//!   the device lacks for the next share. All of the device counts, if the pod holds it whole.

use alloc::vec::Vec;

use crate::model::IslandRule;
use crate::state::{Cluster, DeviceNeed, NodeDevices, NodeView, PodView};

/// Parts that one device, share or island is counted in.
const PARTS: i64 = 1 << 20;

/// More shares than any device is counted to have.
const MOST: i64 = 1 << 32;

/// Needs that differ and are counted; of further ones nothing is.
const MOST_COUNTED: usize = 8;

/// A need of devices that is counted.
#[derive(Debug)]
pub(super) struct DeviceCount {
    need: DeviceNeed,
    /// Whether all devices of a pod must be of one island, and of one NUMA node.
    together: Option<(bool, bool)>,
}

impl DeviceCount {
    /// Adds the needs of a shape that are not counted yet.
    pub(super) fn add(counts: &mut Vec<DeviceCount>, needs: &[DeviceNeed]) {
        for need in needs {
            let limited = need.is_whole() || need.each().iter().any(|(_, amount)| *amount > 0);
            if limited && counts.len() < MOST_COUNTED && !counts.iter().any(|own| own.is_of(need)) {
                counts.push(DeviceCount { need: need.clone(), together: together(need) });
            }
        }
    }

    /// Whether it counts for a need.
    fn is_of(&self, need: &DeviceNeed) -> bool {
        let same = self.together == together(need) && self.need.asks_alike(need);
        same && (self.together.is_none() || self.need.count() == need.count())
    }

    /// Request of a pod, in parts.
    pub(super) fn ask(&self, needs: &[DeviceNeed]) -> i64 {
        let own = needs.iter().filter(|need| self.is_of(need));
        let times = |need: &DeviceNeed| if self.together.is_some() { 1 } else { need.count() };
        own.map(|need| PARTS.saturating_mul(times(need) as i64)).fold(0, i64::saturating_add)
    }

    /// How often the devices of a node serve now, in parts.
    pub(super) fn free(&self, node: NodeView<'_>) -> i64 {
        let Some(devices) = node.device_room() else { return 0 };
        let own = (0..devices.len()).filter(|&device| devices.matches(&self.need, device));
        let Some((island, numa)) = self.together else {
            let times = own.map(|device| self.times(devices, device));
            return times.fold(0, i64::saturating_add).saturating_mul(PARTS);
        };
        let mut seen: Vec<(u32, u32)> = Vec::new();
        let mut times = 0;
        for group in own.filter_map(|device| devices.group(device, island, numa)) {
            if !seen.contains(&group) {
                seen.push(group);
                times += self.idle(devices, group) / self.count();
            }
        }
        PARTS.saturating_mul(times)
    }

    /// Amount that a pod adds if it goes, in parts.
    pub(super) fn gain(&self, cluster: &Cluster, pod: PodView<'_>) -> i64 {
        let devices = pod.node().and_then(NodeView::device_room);
        let (Some(devices), Some(entry)) = (devices, cluster.shape_entry(pod.shape_id())) else {
            return 0;
        };
        let mut gain = 0_i64;
        for (held, indexes) in entry.devices.iter().zip(pod.device_indexes()) {
            for device in indexes.iter().map(|&index| index as usize) {
                if devices.matches(&self.need, device) {
                    gain = gain.saturating_add(self.gain_of(devices, device, held));
                }
            }
        }
        gain
    }

    fn gain_of(&self, devices: NodeDevices<'_>, device: usize, held: &DeviceNeed) -> i64 {
        if self.need.is_whole() {
            let lacking = match self.together {
                None => 1,
                Some((island, numa)) => {
                    let Some(group) = devices.group(device, island, numa) else { return 0 };
                    self.count() - self.idle(devices, group) % self.count()
                }
            };
            let holders = i64::try_from(devices.holders(device)).unwrap_or(i64::MAX).max(1);
            return parts(1, holders.saturating_mul(lacking));
        }
        let most = self.shares(devices, |unit| devices.capacity(device, unit));
        let most = most.map_or(0, |(times, _)| times);
        if held.is_whole() {
            return PARTS.saturating_mul(most);
        }
        // The unit of which there is least now.
        let now = self.shares(devices, |unit| devices.free(device, unit));
        let Some((_, Some((place, amount)))) = now else { return 0 };
        let given = held
            .each()
            .iter()
            .filter(|(unit, _)| unit.is_some_and(|unit| devices.unit(unit) == Some(place)));
        let given: i64 = given.map(|(_, amount)| *amount).sum();
        let spare = devices.free(device, place).max(0) % amount;
        parts(given.max(0), amount - spare).min(PARTS.saturating_mul(most))
    }

    /// How often a device serves now.
    fn times(&self, devices: NodeDevices<'_>, device: usize) -> i64 {
        if !devices.admits(&self.need, device) {
            return 0;
        }
        let shares = self.shares(devices, |unit| devices.free(device, unit));
        if self.need.is_whole() { 1 } else { shares.map_or(0, |(times, _)| times) }
    }

    /// How many shares some amounts of a device are, by the place of the unit. Also the unit that
    /// limits them, with its needed amount. `None` if the device does not have all units.
    fn shares(
        &self,
        devices: NodeDevices<'_>,
        amount_of: impl Fn(usize) -> i64,
    ) -> Option<(i64, Option<(usize, i64)>)> {
        let mut least = (MOST, None);
        for &(unit, amount) in self.need.each().iter().filter(|(_, amount)| *amount > 0) {
            let place = devices.unit(unit?)?;
            let times = amount_of(place).max(0) / amount;
            if times < least.0 {
                least = (times, Some((place, amount)));
            }
        }
        Some(least)
    }

    /// The devices of a group that no pod uses.
    fn idle(&self, devices: NodeDevices<'_>, group: (u32, u32)) -> i64 {
        let Some((island, numa)) = self.together else { return 0 };
        let is_own = |device: &usize| {
            devices.admits(&self.need, *device)
                && devices.group(*device, island, numa) == Some(group)
        };
        (0..devices.len()).filter(is_own).count() as i64
    }

    fn count(&self) -> i64 {
        (self.need.count() as i64).max(1)
    }
}

/// The groups that whole devices of a pod must be of one of.
fn together(need: &DeviceNeed) -> Option<(bool, bool)> {
    let (island, numa) =
        (need.island() == IslandRule::Required, need.numa() == IslandRule::Required);
    (need.is_whole() && need.count() > 1 && (island || numa)).then_some((island, numa))
}

/// A fraction in parts, rounded up.
fn parts(over: i64, under: i64) -> i64 {
    let parts = (i128::from(over) * i128::from(PARTS) + i128::from(under) - 1) / i128::from(under);
    i64::try_from(parts).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
