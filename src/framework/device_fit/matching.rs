//! Devices matched with needs that compete for them, come in sets, or lie beside each other.
//!
//! A need has *ways*: lists of slots, each of which takes so many devices out of some. Needs are given
//! a way each, depth first, and devices are matched with all slots; the first that is complete counts.

use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::model::IslandRule;
use crate::state::{DeviceNeed, DeviceTerm, NodeDevices};

/// How often ways may be combined anew before requests count as impossible that compete for devices
/// and are each confined to one group. Also how many ways a request has, at most.
const COMBINATIONS: usize = 4_096;

/// Indexes of devices; few enough for no allocation as a rule.
pub(crate) type Indexes = SmallVec<[u32; 16]>;

/// Whether the devices must be of one island, and of one NUMA node.
pub(super) fn required(need: &DeviceNeed) -> (bool, bool) {
    let strict = |rule| rule == IslandRule::Required && need.count() > 1;
    (strict(need.island()), strict(need.numa()))
}

/// The devices that a need may have alone, without those that are taken, ascending.
pub(super) fn candidates(devices: NodeDevices<'_>, need: &DeviceNeed, taken: &[u32]) -> Indexes {
    (0..devices.len())
        .filter(|&device| devices.admits(need, device))
        .map(|device| device as u32)
        .filter(|device| !taken.contains(device))
        .collect()
}

/// Candidates by group, in order of each group's first device. Devices in no group are left out.
pub(super) fn groups(
    devices: NodeDevices<'_>,
    candidates: &[u32],
    island: bool,
    numa: bool,
) -> SmallVec<[Indexes; 4]> {
    let mut groups: SmallVec<[((u32, u32), Indexes); 4]> = SmallVec::new();
    for &device in candidates {
        let Some(key) = devices.group(device as usize, island, numa) else { continue };
        match groups.iter_mut().find(|(have, _)| *have == key) {
            Some((_, members)) => members.push(device),
            None => groups.push((key, SmallVec::from_slice(&[device]))),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

/// Sets of devices that serve a need, all of them free, best first.
pub(super) struct Sets {
    pub(super) list: Vec<Indexes>,
    /// Whether nothing else serves it.
    pub(super) binds: bool,
}

impl Sets {
    /// How many of them there can be at once, at most.
    pub(super) fn among(&self, count: usize) -> u64 {
        let mut devices: Vec<u32> = self.list.iter().flatten().copied().collect();
        devices.sort_unstable();
        devices.dedup();
        (devices.len() / count.max(1)).min(self.list.len()) as u64
    }
}

/// The sets that a need may take of its candidates: those of higher scores first, then those that
/// leave more sets whole, then in the order of the table.
pub(super) fn free_sets(devices: NodeDevices<'_>, need: &DeviceNeed, candidates: &[u32]) -> Sets {
    let (sets, binds) = devices.sets(need);
    let (island, numa) = required(need);
    let together = |set: &[u32]| {
        let groups = || groups(devices, set, island, numa);
        !(island || numa) || groups().first().is_some_and(|group| group.len() == set.len())
    };
    let free = sets.filter(|set| holds_all(candidates, &set.devices) && together(&set.devices));
    let mut free: Vec<(i64, i64, &[u32])> =
        free.map(|set| (set.score, devices.whole_after(&set.devices), &*set.devices)).collect();
    free.sort_by_key(|(score, whole, _)| core::cmp::Reverse((*score, *whole)));
    Sets { list: free.into_iter().map(|(.., set)| Indexes::from_slice(set)).collect(), binds }
}

/// Whether devices, ascending, have all of a set.
fn holds_all(devices: &[u32], set: &[u32]) -> bool {
    set.iter().all(|device| devices.binary_search(device).is_ok())
}

/// Whether some need is to lie beside another.
pub(super) fn has_beside(needs: &[DeviceNeed]) -> bool {
    needs.iter().any(|need| need.beside().is_some())
}

/// One way to serve a need: out of each list so many devices. Needs beside each other have the same
/// islands in theirs.
struct Way {
    slots: Vec<(Indexes, usize)>,
    islands: Vec<DeviceTerm>,
}

/// The ways of a need.
fn ways(devices: NodeDevices<'_>, needs: &[DeviceNeed], at: usize) -> Vec<Way> {
    let need = &needs[at];
    let mut all = candidates(devices, need, &[]);
    if !need.is_whole() && need.beside().is_some() {
        // The tightest first, as where nothing competes.
        all.sort_by_cached_key(|&device| (left(devices, need, device), device));
    }
    let others = needs.iter().filter_map(DeviceNeed::beside);
    let beside = others.map(|other| other.request as usize).any(|other| other == at);
    let mut ways = Vec::new();
    let count = need.count();
    let mut push = |list: Indexes| {
        let linked = |device: &u32| devices.island(*device as usize).is_some();
        if list.len() >= count && (!beside || list.iter().all(linked)) {
            let islands = if beside { islands_of(devices, &list) } else { Vec::new() };
            ways.push(Way { slots: vec![(list, count)], islands });
        }
    };
    if need.beside().is_some() {
        return vec![Way { slots: vec![(all, count)], islands: Vec::new() }];
    }
    let sets = free_sets(devices, need, &all);
    let binds = sets.binds;
    sets.list.into_iter().for_each(&mut push);
    if binds {
        return ways;
    }
    let (island, numa) = required(need);
    let lists =
        if island || numa { groups(devices, &all, island, numa) } else { smallvec::smallvec![all] };
    if !beside {
        lists.into_iter().for_each(&mut push);
        return ways;
    }
    for list in lists {
        on_islands(devices, &list, count, &mut ways);
    }
    ways
}

/// The ways to take devices on each of some islands: few islands first.
fn on_islands(devices: NodeDevices<'_>, list: &[u32], count: usize, ways: &mut Vec<Way>) {
    let islands = islands_of(devices, list);
    let of = |island: DeviceTerm| -> Indexes {
        let own = |device: &&u32| devices.island(**device as usize) == Some(island);
        list.iter().filter(own).copied().collect()
    };
    let lists: Vec<Indexes> = islands.iter().map(|island| of(*island)).collect();
    let mut chosen: Vec<usize> = Vec::new();
    for size in 1..=count.min(islands.len()) {
        chosen.clear();
        chosen.extend(0..size);
        while ways.len() < COMBINATIONS {
            let all: Indexes = chosen.iter().flat_map(|&at| lists[at].iter().copied()).collect();
            if all.len() >= count {
                let mut slots: Vec<(Indexes, usize)> =
                    chosen.iter().map(|&at| (lists[at].clone(), 1)).collect();
                if count > size {
                    slots.push((all, count - size));
                }
                ways.push(Way { slots, islands: chosen.iter().map(|&at| islands[at]).collect() });
            }
            if !next_subset(&mut chosen, islands.len()) {
                break;
            }
        }
    }
}

/// The next subset of the same size, in order; false after the last.
fn next_subset(chosen: &mut [usize], of: usize) -> bool {
    let size = chosen.len();
    let Some(at) = (0..size).rev().find(|&at| chosen[at] + size < of + at) else { return false };
    chosen[at] += 1;
    for later in at + 1..size {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}

fn left(devices: NodeDevices<'_>, need: &DeviceNeed, device: u32) -> SmallVec<[i64; 2]> {
    let units = need.each().iter().filter_map(|(unit, _)| devices.unit((*unit)?));
    units.map(|unit| devices.free(device as usize, unit)).collect()
}

/// The islands of devices, in order; devices without one have none.
fn islands_of(devices: NodeDevices<'_>, list: &[u32]) -> Vec<DeviceTerm> {
    let mut islands: Vec<DeviceTerm> =
        list.iter().filter_map(|device| devices.island(*device as usize)).collect();
    islands.sort_unstable();
    islands.dedup();
    islands
}

/// The slots of a need that lies beside another, on the islands of the other.
fn confined(
    devices: NodeDevices<'_>,
    way: &Way,
    islands: &[DeviceTerm],
    same: bool,
) -> Option<Way> {
    let (list, count) = way.slots.first()?;
    let on = |island: &[DeviceTerm]| -> Indexes {
        let own = |device: &&u32| {
            devices.island(**device as usize).is_some_and(|own| island.contains(&own))
        };
        list.iter().filter(own).copied().collect()
    };
    let mut slots = Vec::new();
    let mut rest = *count;
    if same {
        for island in islands {
            slots.push((on(&[*island]), 1));
            rest = rest.checked_sub(1)?;
        }
    }
    if rest > 0 {
        slots.push((on(islands), rest));
    }
    Some(Way { slots, islands: islands.to_vec() })
}

/// Devices for needs that may compete: the first assignment in order of ways that is complete.
pub(super) fn match_all(devices: NodeDevices<'_>, needs: &[DeviceNeed]) -> Option<Vec<Vec<u32>>> {
    let total = needs.iter().map(DeviceNeed::count).fold(0, usize::saturating_add);
    if total > devices.len() {
        return None;
    }
    let ways: Vec<Vec<Way>> = (0..needs.len()).map(|at| ways(devices, needs, at)).collect();
    let mut tries = COMBINATIONS;
    let mut picked: Vec<usize> = vec![0];
    // Depth first over one way a need; a prefix that does not match is not extended.
    while let Some(last) = picked.last().copied() {
        let depth = picked.len();
        if last >= ways[depth - 1].len() {
            picked.pop();
            if let Some(previous) = picked.last_mut() {
                *previous += 1;
            }
            continue;
        }
        tries = tries.checked_sub(1)?;
        match matching(devices, needs, &ways, &picked) {
            Some(lists) if depth == needs.len() => return Some(lists),
            Some(_) => picked.push(0),
            None => picked[depth - 1] += 1,
        }
    }
    None
}

/// Different devices for the slots of the ways picked, by augmenting paths: one list a need.
fn matching(
    devices: NodeDevices<'_>,
    needs: &[DeviceNeed],
    ways: &[Vec<Way>],
    picked: &[usize],
) -> Option<Vec<Vec<u32>>> {
    let mut slots: Vec<(usize, Indexes, usize)> = Vec::new();
    let mut islands: Vec<Vec<DeviceTerm>> = Vec::new();
    for (need, &at) in picked.iter().enumerate() {
        let way = &ways[need][at];
        let confined = match needs[need].beside() {
            None => None,
            Some(beside) => {
                let own = islands.get(beside.request as usize)?;
                Some(confined(devices, way, own, beside.same)?)
            }
        };
        let way = confined.as_ref().unwrap_or(way);
        islands.push(way.islands.clone());
        slots.extend(way.slots.iter().map(|(list, count)| (need, list.clone(), *count)));
    }
    let mut holder: Vec<Option<usize>> = vec![None; devices.len()];
    for slot in 0..slots.len() {
        for _ in 0..slots[slot].2 {
            let mut seen = vec![false; slots.len()];
            if !augment(slot, &slots, &mut holder, &mut seen) {
                return None;
            }
        }
    }
    let mut lists = vec![Vec::new(); picked.len()];
    for (device, holder) in holder.into_iter().enumerate() {
        if let Some(slot) = holder {
            lists[slots[slot].0].push(device as u32);
        }
    }
    Some(lists)
}

fn augment(
    slot: usize,
    slots: &[(usize, Indexes, usize)],
    holder: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    seen[slot] = true;
    for &device in &slots[slot].1 {
        let device = device as usize;
        // A slot that holds the device looks for another one, once.
        let freed = match holder[device] {
            None => true,
            Some(other) => !seen[other] && augment(other, slots, holder, seen),
        };
        if freed {
            holder[device] = Some(slot);
            return true;
        }
    }
    false
}
