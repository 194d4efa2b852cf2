//! Allocations that were made before, judged again on a node.

use alloc::format;
use alloc::string::String;

use crate::model::{AllocatedDevice, ClaimAllocation, ClaimSource, PodShape, SliceDevice};
use crate::state::Cluster;

/// The first device of allocations that can no longer be had, as `driver/pool/device`, or the first
/// claim that has got other devices, by its name in the pod.
///
/// Devices are looked up by name. What selectors, constraints and taints say was true when they were
/// chosen; whoever changes a device gives it another generation or another name.
pub(crate) fn lost(cluster: &Cluster, pod: &PodShape, held: &[ClaimAllocation]) -> Option<String> {
    let book = cluster.claims();
    for own in held {
        let source = pod.claims.iter().find(|claim| claim.name == own.claim);
        if let Some(ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. }) =
            source.map(|claim| &claim.source)
        {
            let record = book.claim(&pod.namespace, name);
            let Some(record) = record else { return Some(own.claim.clone()) };
            match record.allocation() {
                Some(now) if *now == own.allocation => {
                    continue;
                }
                Some(_) => return Some(own.claim.clone()),
                None => {}
            }
        }
        let lost = own.allocation.devices.iter().find(|device| !is_free(cluster, device));
        if let Some(AllocatedDevice { driver, pool, device, .. }) = lost {
            return Some(format!("{driver}/{pool}/{device}"));
        }
    }
    None
}

fn is_free(cluster: &Cluster, wanted: &AllocatedDevice) -> bool {
    let Some((device, generation)) = published(cluster, wanted) else { return false };
    let book = cluster.claims();
    let usage = book.usage(&wanted.driver, &wanted.pool, &wanted.device);
    if wanted.admin {
        return true;
    }
    if usage.is_some_and(crate::state::DeviceUsage::is_whole) {
        return false;
    }
    let fits = wanted.share.iter().flatten().all(|(name, amount)| {
        let value = device.capacity.get(name).map_or(0, |capacity| capacity.value.nanos());
        let taken = usage.and_then(|usage| usage.consumed.get(&**name)).copied().unwrap_or(0);
        taken.saturating_add(amount.nanos()) <= value
    });
    fits && (usage.is_some() || counters_suffice(cluster, wanted, device, generation))
}

/// A device as it is published now, and the generation of its pool.
fn published<'a>(cluster: &'a Cluster, wanted: &AllocatedDevice) -> Option<(&'a SliceDevice, i64)> {
    let key = (wanted.driver.as_str().into(), wanted.pool.as_str().into());
    let slices = cluster.claims().published().by_pool.get(&key)?;
    let generation = slices.iter().map(|slice| slice.generation).max()?;
    let newest = slices.iter().filter(|slice| slice.generation == generation);
    let mut devices = newest.flat_map(|slice| &slice.devices);
    devices.find(|device| device.name == wanted.device).map(|device| (device, generation))
}

fn counters_suffice(
    cluster: &Cluster,
    wanted: &AllocatedDevice,
    device: &SliceDevice,
    generation: i64,
) -> bool {
    if device.consumes.is_empty() {
        return true;
    }
    let key = (wanted.driver.as_str().into(), wanted.pool.as_str().into());
    let book = cluster.claims();
    let slices = book.published().by_pool.get(&key).map_or(&[][..], |slices| slices);
    let slices = || slices.iter().filter(|slice| slice.generation == generation);
    let in_use =
        |device: &&SliceDevice| book.usage(&wanted.driver, &wanted.pool, &device.name).is_some();
    device.consumes.iter().all(|used| {
        let set = slices().flat_map(|slice| &slice.counters).find(|set| set.name == used.set);
        used.counters.iter().all(|(name, amount)| {
            let devices = slices().flat_map(|slice| &slice.devices).filter(in_use);
            let uses =
                devices.flat_map(|device| &device.consumes).filter(|own| own.set == used.set);
            let taken = uses.filter_map(|own| own.counters.get(name)).map(|own| own.nanos());
            let there = set.and_then(|set| set.counters.get(name)).map_or(0, |there| there.nanos());
            taken.sum::<i128>().saturating_add(amount.nanos()) <= there
        })
    })
}
