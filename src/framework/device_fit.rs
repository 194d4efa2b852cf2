//! Devices of a node matched with the requests of a pod: the verdict, the number of such pods, and
//! the devices of a placed pod.

mod matching;
pub(crate) mod zones;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::builder::Framework;
use super::context::Context;
use super::device_choice::{DeviceChoice, DeviceOffer, TightestFit};
use crate::claims::{ClaimVerdict, PreparedClaims};
use crate::model::{IslandRule, PodShape, ZoneShare};
use crate::state::{Cluster, DeviceNeed, Devices, NodeDevices, NodeView, Row};
use matching::{Indexes, candidates, free_sets, groups, has_beside, match_all, required};
use zones::zone_shares;

/// Whether some devices of a node serve all needs at once.
///
/// O(devices × models allowed) for each need, unless needs compete for the same devices or are
/// confined to groups. Competing needs are matched exactly, save that after 4,096 combinations of
/// groups the answer is no.
pub fn devices_fit(node: NodeView<'_>, needs: &[DeviceNeed]) -> bool {
    if needs.is_empty() {
        return true;
    }
    let Some(devices) = node.device_room() else { return false };
    if independent(needs) && !has_beside(needs) {
        return needs.iter().all(|need| fits_alone(devices, need));
    }
    match_all(devices, needs).is_some()
}

/// Whether devices still serve the needs they were chosen for, and zones have the amounts.
pub(crate) fn still_fit(node: NodeView<'_>, needs: &[DeviceNeed], held: Option<&Devices>) -> bool {
    if held.is_some_and(|held| !has_room(node, held.zones())) {
        return false;
    }
    let held = held.map_or(&[][..], |held| held);
    let Some(devices) = node.device_room() else { return needs.is_empty() && held.is_empty() };
    let mut taken = Indexes::new();
    needs.len() == held.len()
        && needs.iter().zip(held).all(|(need, held)| {
            let grouped = need.count() <= 1 || {
                let island = need.island() == IslandRule::Required;
                let numa = need.numa() == IslandRule::Required;
                let group = |device: &u32| devices.group(*device as usize, island, numa);
                let first = held.first().and_then(group);
                first.is_some() && held.iter().all(|device| group(device) == first)
            };
            held.len() == need.count()
                && grouped
                && is_set(devices, need, held)
                && held.iter().all(|&device| {
                    let fresh = !taken.contains(&device);
                    taken.push(device);
                    fresh && devices.admits(need, device as usize)
                })
        })
        && needs.iter().zip(held).all(|(need, own)| {
            let other = need.beside().and_then(|beside| held.get(beside.request as usize));
            let (Some(beside), Some(other)) = (need.beside(), other) else { return true };
            let islands = |of: &[u32]| {
                let of = of.iter().map(|device| devices.island(*device as usize));
                of.collect::<Option<BTreeSet<_>>>()
            };
            islands(own).zip(islands(other)).is_some_and(|(own, other)| {
                if beside.same { own == other } else { own.is_subset(&other) }
            })
        })
}

/// Whether devices are a set that a need may have, where sets bind.
fn is_set(devices: NodeDevices<'_>, need: &DeviceNeed, held: &[u32]) -> bool {
    let (mut sets, binds) = devices.sets(need);
    !binds || sets.any(|set| set.devices == held)
}

/// Whether zones have amounts left.
fn has_room(node: NodeView<'_>, shares: &[ZoneShare]) -> bool {
    let Some(room) = node.zone_room() else { return true };
    let mut taken = room.all_free().to_vec();
    shares.iter().all(|share| {
        let Some(zone) = room.zone(share.zone) else { return true };
        share.amounts.iter().all(|(name, amount)| {
            let Some(at) = room.resource(name) else { return true };
            let free = &mut taken[zone * room.resources() + at];
            *free = free.saturating_sub(amount);
            *free >= 0
        })
    })
}

/// How many more pods of such needs the devices of a node can take, one after the other, when each
/// is given devices as cleverly as possible. `u64::MAX` if there is no limit.
///
/// Exact where no two needs can compete for a device (their kinds or allowed models differ);
/// otherwise an upper bound. It counts devices only, not what the pod takes of the node beside
/// them. O(devices × units × log(capacity)) for each need.
///
/// ```
/// use phalanx::framework::device_capacity;
/// use phalanx::model::{Device, DeviceRequest};
/// use phalanx::state::DeviceNeed;
/// use phalanx::{Cluster, Node, Pod};
///
/// let gpu = || Device::new("gpu", "A100").capacity("milli", 1_000);
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").device(gpu()).device(gpu()))?;
///
/// let pod = Pod::new().device(DeviceRequest::share("gpu", "milli", 300));
/// let needs = DeviceNeed::of(&cluster, pod.shape());
/// assert_eq!(device_capacity(cluster.node("n1").unwrap(), &needs), 6);
/// # Ok::<(), phalanx::StateError>(())
/// ```
pub fn device_capacity(node: NodeView<'_>, needs: &[DeviceNeed]) -> u64 {
    let Some(devices) = node.device_room() else {
        return if needs.is_empty() { u64::MAX } else { 0 };
    };
    needs.iter().map(|need| capacity_of(devices, need)).min().unwrap_or(u64::MAX)
}

fn capacity_of(devices: NodeDevices<'_>, need: &DeviceNeed) -> u64 {
    let candidates = candidates(devices, need, &[]);
    let sets = free_sets(devices, need, &candidates);
    if sets.binds {
        return sets.among(need.count());
    }
    let (island, numa) = required(need);
    if !island && !numa {
        return capacity_among(devices, need, &candidates);
    }
    let parts = groups(devices, &candidates, island, numa);
    parts.iter().map(|part| capacity_among(devices, need, part)).fold(0, u64::saturating_add)
}

/// Pods that some devices, all of which serve the need, can take.
fn capacity_among(devices: NodeDevices<'_>, need: &DeviceNeed, among: &[u32]) -> u64 {
    let count = need.count() as u64;
    if (among.len() as u64) < count || count == 0 {
        return if count == 0 { u64::MAX } else { 0 };
    }
    if need.is_whole() {
        return among.len() as u64 / count;
    }
    // How often each device can serve.
    let times = |&device: &u32| {
        let each = need.each().iter().filter(|(_, amount)| *amount > 0);
        let per_unit = each.map(|(unit, amount)| {
            let unit = unit.and_then(|unit| devices.unit(unit));
            unit.map_or(0, |unit| (devices.free(device as usize, unit) / amount).max(0) as u64)
        });
        per_unit.min().unwrap_or(u64::MAX)
    };
    let times: SmallVec<[u64; 16]> = among.iter().map(times).collect();
    // t pods can be served if the devices, each at most t times, serve t times the count.
    let serves = |pods: u64| {
        let served: u128 = times.iter().map(|&times| u128::from(times.min(pods))).sum();
        served >= u128::from(pods) * u128::from(count)
    };
    let (mut low, mut high) = (0_u64, u64::MAX);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if serves(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The devices that a pod would get on a node by [`TightestFit`](super::TightestFit): one ascending list
/// a need. `None` if they do not serve it.
pub fn chosen_devices(
    cx: &Context<'_>,
    node: NodeView<'_>,
    needs: &[DeviceNeed],
) -> Option<Vec<Vec<u32>>> {
    choose(&TightestFit, cx, node, needs)
}

/// A node whose devices do not serve a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unfit;

/// The devices of a pod that is about to be placed on a node, and the amounts of its NUMA zones; `None`
/// if it needs none.
pub(crate) fn choose_devices(
    choice: &dyn DeviceChoice,
    cluster: &Cluster,
    pod: &PodShape,
    node: Option<NodeView<'_>>,
    needs: &[DeviceNeed],
) -> Result<Option<Devices>, Unfit> {
    if needs.is_empty() && pod.zones.is_empty() {
        return Ok(None);
    }
    let node = node.ok_or(Unfit)?;
    let lists = if needs.is_empty() {
        Vec::new()
    } else {
        choose(choice, &Context::new(cluster, pod), node, needs).ok_or(Unfit)?
    };
    Ok(Devices::new(lists, Vec::new(), zone_shares(node, &pod.zones).ok_or(Unfit)?))
}

/// [`choose_devices`] for a pod and a row of a cluster, and the devices of its claims.
pub(crate) fn choose_for(
    framework: &Framework,
    cluster: &Cluster,
    pod: &PodShape,
    row: Row,
) -> Result<Option<Devices>, Unfit> {
    let needs = DeviceNeed::of(cluster, pod);
    let node = cluster.view(row);
    let devices = choose_devices(framework.device_choice(), cluster, pod, node, &needs)?;
    if pod.claims.is_empty() {
        return Ok(devices);
    }
    let claims = PreparedClaims::new(cluster, framework.selectors(), pod).map_err(|_| Unfit)?;
    let (Some(claims), Some(node)) = (claims, node) else { return Ok(devices) };
    match claims.on(cluster, node) {
        ClaimVerdict::Offer(offer) => Ok(Devices::with_claims(devices, offer)),
        _ => Err(Unfit),
    }
}

/// Devices for all needs, one ascending list a need; `None` if there are none.
fn choose(
    choice: &dyn DeviceChoice,
    cx: &Context<'_>,
    node: NodeView<'_>,
    needs: &[DeviceNeed],
) -> Option<Vec<Vec<u32>>> {
    let devices = node.device_room()?;
    if has_beside(needs) {
        return match_all(devices, needs);
    }
    let mut taken = Indexes::new();
    let mut lists = Vec::with_capacity(needs.len());
    for (request, need) in needs.iter().enumerate() {
        let all = candidates(devices, need, &taken);
        let Some(candidates) = confine(devices, need, all) else {
            // Only a competitor can have taken what is missing.
            return if request == 0 { None } else { match_all(devices, needs) };
        };
        let offer = DeviceOffer { node, devices, need, request, candidates: &candidates };
        let mut chosen = choice.choose(cx, &offer);
        chosen.sort_unstable();
        let sound = chosen.len() == need.count()
            && chosen.windows(2).all(|pair| pair[0] != pair[1])
            && chosen.iter().all(|device| candidates.binary_search(device).is_ok());
        if !sound {
            chosen = candidates.iter().take(need.count()).copied().collect();
        }
        taken.extend_from_slice(&chosen);
        lists.push(chosen);
    }
    Some(lists)
}

fn independent(needs: &[DeviceNeed]) -> bool {
    let mut later = needs.iter().enumerate();
    later.all(|(at, need)| needs[at + 1..].iter().all(|other| need.disjoint(other)))
}

/// Whether a need would be served if it were the only one. Allocates only for groups.
fn fits_alone(devices: NodeDevices<'_>, need: &DeviceNeed) -> bool {
    if devices.sets(need).1 {
        return !free_sets(devices, need, &candidates(devices, need, &[])).list.is_empty();
    }
    let (island, numa) = required(need);
    if island || numa {
        let candidates = candidates(devices, need, &[]);
        return groups(devices, &candidates, island, numa)
            .iter()
            .any(|part| part.len() >= need.count());
    }
    let mut missing = need.count();
    for device in 0..devices.len() {
        if missing == 0 {
            break;
        }
        missing -= usize::from(devices.admits(need, device));
    }
    missing == 0
}

/// The candidates left when a need's wishes for groups are granted, those that are not required
/// only if possible: NUMA nodes are given up first.
fn confine(devices: NodeDevices<'_>, need: &DeviceNeed, candidates: Indexes) -> Option<Indexes> {
    let count = need.count();
    let mut sets = free_sets(devices, need, &candidates);
    if !sets.list.is_empty() {
        return Some(sets.list.swap_remove(0));
    }
    if sets.binds {
        return None;
    }
    let must = required(need);
    let wants = |rule| rule != IslandRule::Any && count > 1;
    let (island, numa) = (wants(need.island()), wants(need.numa()));
    for keys in [(island, numa), (island, must.1), (must.0, numa), must] {
        if (must.0 && !keys.0) || (must.1 && !keys.1) {
            continue;
        }
        if !keys.0 && !keys.1 {
            break;
        }
        let groups = groups(devices, &candidates, keys.0, keys.1);
        let enough = groups.into_iter().filter(|group| group.len() >= count);
        // Groups are in order of their first device, and the first of the smallest is found.
        if let Some(group) = enough.min_by_key(SmallVec::len) {
            return Some(group);
        }
    }
    (must == (false, false) && candidates.len() >= count).then_some(candidates)
}
