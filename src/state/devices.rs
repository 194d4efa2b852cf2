//! Devices of each node: their facts and free amounts, and the needs of pods.
//!
//! Names are numbers here ([`DeviceTerm`]), and the free devices of a node are one short list of
//! integers. So judging a node does no string work and allocates nothing. A chunk of nodes without
//! devices costs one word.

mod holding;
mod zones;

pub(crate) use holding::Devices;
pub use zones::ZoneRoom;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use zones::ZoneSpecs;

use crate::model::{Beside, DeviceAsk, DeviceRequest, DeviceSet, IslandRule, Node};

/// The kind, the model, the island or a unit of devices, as a number of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceTerm(pub(crate) u32);

/// The devices of a node with their capacities, which pods do not change.
#[derive(Debug, PartialEq)]
pub(crate) struct DeviceSpecs {
    entries: Box<[Entry]>,
    /// The units that any of them has.
    units: Box<[DeviceTerm]>,
    /// One amount a device and unit, device by device.
    capacity: Box<[i64]>,
    /// Sets of devices that go together, the profile of each, and whether they bind requests
    /// without a profile.
    sets: Box<[(DeviceSet, Option<DeviceTerm>)]>,
    rule: IslandRule,
    zones: ZoneSpecs,
    /// Whether capacities are far from the ends of 64 bits.
    pub(super) narrow: bool,
}

#[derive(Debug, PartialEq)]
struct Entry {
    kind: DeviceTerm,
    model: DeviceTerm,
    island: Option<DeviceTerm>,
    numa: Option<u32>,
}

/// Devices left on a node: for each device the number of its holders, then what is left
/// of each unit.
/// Beside it what is left of zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceState {
    words: SmallVec<[i64; 16]>,
    zones: Box<[i64]>,
}

/// In the word that counts holders: one that holds all of the device.
const WHOLE: i64 = 1 << 32;

impl DeviceSpecs {
    pub(crate) fn new(
        node: &Node,
        mut intern: impl FnMut(&str) -> DeviceTerm,
    ) -> Option<Arc<DeviceSpecs>> {
        let devices = &node.devices;
        if devices.is_empty() && node.zones.list.is_empty() {
            return None;
        }
        let sets = node.partitions.sets.iter().map(|set| {
            let profile = (!set.profile.is_empty()).then(|| intern(&set.profile));
            (set.clone(), profile)
        });
        let sets = sets.collect();
        let mut names: Vec<&str> = devices
            .iter()
            .flat_map(|device| device.capacity.iter().map(|(unit, _)| unit))
            .collect();
        names.sort_unstable();
        names.dedup();
        let entries = devices.iter().map(|device| Entry {
            kind: intern(&device.kind),
            model: intern(&device.model),
            island: device.island.as_deref().map(&mut intern),
            numa: device.numa,
        });
        let entries = entries.collect();
        let mut capacity = Vec::with_capacity(devices.len() * names.len());
        for device in devices {
            capacity.extend(names.iter().map(|unit| device.capacity.of(unit)));
        }
        Some(Arc::new(DeviceSpecs {
            entries,
            narrow: capacity.iter().copied().all(is_narrow),
            capacity: capacity.into(),
            units: names.iter().map(|unit| intern(unit)).collect(),
            sets,
            rule: node.partitions.rule,
            zones: ZoneSpecs::new(&node.zones),
        }))
    }

    fn stride(&self) -> usize {
        self.units.len() + 1
    }

    fn unit(&self, unit: DeviceTerm) -> Option<usize> {
        self.units.iter().position(|have| *have == unit)
    }

    fn capacity(&self, device: usize) -> &[i64] {
        let units = self.units.len();
        self.capacity.get(device * units..(device + 1) * units).unwrap_or(&[])
    }

    /// All devices with nothing taken.
    pub(crate) fn idle(&self) -> DeviceState {
        let mut words = SmallVec::with_capacity(self.entries.len() * self.stride());
        for device in 0..self.entries.len() {
            words.push(0);
            words.extend_from_slice(self.capacity(device));
        }
        DeviceState { words, zones: self.zones.idle() }
    }

    /// The zones as they are in a state.
    pub(super) fn zone_room<'a>(&'a self, state: &'a DeviceState) -> ZoneRoom<'a> {
        ZoneRoom::new(&self.zones, &state.zones)
    }
}

impl DeviceState {
    /// Whether all that is left is far from the ends of 64 bits.
    pub(super) fn is_narrow(&self) -> bool {
        self.words.iter().all(|word| is_narrow(*word))
    }

    /// Takes what a pod holds (`sign` 1), or gives it back (-1). Devices and units that the node
    /// does not have are passed over. `None` if an amount would leave 64 bits; what was done up to
    /// there then remains done.
    pub(super) fn apply(
        &mut self,
        specs: &DeviceSpecs,
        needs: &[DeviceNeed],
        held: &Devices,
        sign: i64,
    ) -> Option<()> {
        specs.zones.apply(&mut self.zones, held.zones(), sign)?;
        let stride = specs.stride();
        for (need, held) in needs.iter().zip(held.iter()) {
            for &device in held {
                let device = device as usize;
                let first = device.checked_mul(stride)?;
                let Some(words) = self.words.get_mut(first..first.saturating_add(stride)) else {
                    continue;
                };
                let Some((holders, free)) = words.split_first_mut() else { continue };
                match &need.each {
                    None => {
                        *holders += sign * (WHOLE + 1);
                        for (free, capacity) in free.iter_mut().zip(specs.capacity(device)) {
                            *free = free.checked_sub(sign * capacity)?;
                        }
                    }
                    Some(each) => {
                        *holders += sign;
                        for &(unit, amount) in each {
                            let unit = unit.and_then(|unit| specs.unit(unit));
                            if let Some(free) = unit.and_then(|unit| free.get_mut(unit)) {
                                *free = free.checked_sub(sign * amount)?;
                            }
                        }
                    }
                }
            }
        }
        Some(())
    }
}

/// The devices of a node as they are now.
///
/// Amounts left can be below zero, where more was bound than there is: what runs, runs.
#[derive(Debug, Clone, Copy)]
pub struct NodeDevices<'a> {
    specs: &'a DeviceSpecs,
    words: &'a [i64],
}

impl<'a> NodeDevices<'a> {
    #[inline]
    pub(super) fn new(specs: &'a DeviceSpecs, state: &'a DeviceState) -> NodeDevices<'a> {
        NodeDevices { specs, words: &state.words }
    }

    /// How many devices there are; their indexes are below it.
    #[inline]
    pub fn len(self) -> usize {
        self.specs.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The kind of a device.
    ///
    /// # Panics
    /// As all of these: never for an index below [`NodeDevices::len`].
    #[inline]
    pub fn kind(self, device: usize) -> DeviceTerm {
        self.specs.entries[device].kind
    }

    /// The model of a device.
    #[inline]
    pub fn model(self, device: usize) -> DeviceTerm {
        self.specs.entries[device].model
    }

    /// The island of a device.
    #[inline]
    pub fn island(self, device: usize) -> Option<DeviceTerm> {
        self.specs.entries[device].island
    }

    /// The NUMA node of a device.
    #[inline]
    pub fn numa(self, device: usize) -> Option<u32> {
        self.specs.entries[device].numa
    }

    /// The units of the node's devices, in order of name.
    #[inline]
    pub fn units(self) -> &'a [DeviceTerm] {
        &self.specs.units
    }

    /// The place of a unit among [`NodeDevices::units`].
    #[inline]
    pub fn unit(self, unit: DeviceTerm) -> Option<usize> {
        self.specs.unit(unit)
    }

    /// Capacity of a device in a unit, by the unit's place; 0 if it does not have the unit.
    #[inline]
    pub fn capacity(self, device: usize, unit: usize) -> i64 {
        self.specs.capacity(device).get(unit).copied().unwrap_or(0)
    }

    /// Free amount of a unit of a device, by the unit's place.
    #[inline]
    pub fn free(self, device: usize, unit: usize) -> i64 {
        let stride = self.specs.stride();
        if unit + 1 < stride { self.words[device * stride + unit + 1] } else { 0 }
    }

    /// How many requests of pods hold the device or a share of it.
    #[inline]
    pub fn holders(self, device: usize) -> usize {
        (self.words[device * self.specs.stride()] & (WHOLE - 1)) as usize
    }

    /// Whether no pod uses the device.
    #[inline]
    pub fn is_idle(self, device: usize) -> bool {
        self.words[device * self.specs.stride()] == 0
    }

    /// Whether a pod holds all of the device.
    #[inline]
    pub fn is_whole(self, device: usize) -> bool {
        self.words[device * self.specs.stride()] >= WHOLE
    }

    /// Whether a need may take this device, as far as the device alone goes: kind, model, island
    /// names, and what is left.
    #[inline]
    pub fn admits(self, need: &DeviceNeed, device: usize) -> bool {
        if !self.matches(need, device) {
            return false;
        }
        match &need.each {
            None => self.is_idle(device),
            Some(each) => {
                !self.is_whole(device)
                    && each.iter().all(|&(unit, amount)| {
                        amount <= 0
                            || unit
                                .and_then(|unit| self.unit(unit))
                                .is_some_and(|unit| self.free(device, unit) >= amount)
                    })
            }
        }
    }

    /// Sets of devices that a need must take one of, with their scores, in the order of the table;
    /// the second answer says that they bind. Sets of the profile of a need, or those without one of
    /// as many devices.
    pub(crate) fn sets(self, need: &DeviceNeed) -> (impl Iterator<Item = &'a DeviceSet>, bool) {
        let (count, profile, best) = (need.count(), need.profile, need.best_set);
        let of_table = profile.is_none() && self.specs.rule != IslandRule::Any && need.is_whole();
        let serves = move |set: &DeviceSet, own: Option<DeviceTerm>| {
            set.devices.len() == count
                && match profile {
                    Some(profile) => profile.is_some() && own == profile,
                    None => of_table && own.is_none(),
                }
        };
        let sets = &self.specs.sets;
        let most = sets.iter().filter(|(set, own)| serves(set, *own)).map(|(set, _)| set.score);
        let least = if best { most.max() } else { None };
        let binds = profile.is_some() || of_table && self.specs.rule == IslandRule::Required;
        let found = sets.iter().filter(move |(set, own)| serves(set, *own));
        let found = found.map(|(set, _)| set);
        (found.filter(move |set| least.is_none_or(|least| set.score >= least)), binds)
    }

    /// Weight of the sets that stay whole if some devices are taken: no device of such a set is in
    /// use. A set weighs its score, at least 1, times a hundred for each doubling of its size beyond
    /// two; single devices weigh nothing. Saturating. O(devices of all sets).
    pub fn whole_after(self, taken: &[u32]) -> i64 {
        let stays = |set: &DeviceSet| {
            set.devices
                .iter()
                .all(|device| !taken.contains(device) && self.is_idle(*device as usize))
        };
        let whole = self.specs.sets.iter().filter(|(set, _)| stays(set));
        whole.map(|(set, _)| weight(set)).fold(0, i64::saturating_add)
    }

    /// [`NodeDevices::whole_after`] of the node without pods.
    pub fn whole_at_most(self) -> i64 {
        self.specs.sets.iter().map(|(set, _)| weight(set)).fold(0, i64::saturating_add)
    }

    /// Whether a device is of the kind, the models and the islands that a need allows.
    #[inline]
    pub(crate) fn matches(self, need: &DeviceNeed, device: usize) -> bool {
        let Some(entry) = self.specs.entries.get(device) else { return false };
        let is_allowed = |island| need.islands.contains(&island);
        Some(entry.kind) == need.kind
            && (need.any_model || need.models.contains(&entry.model))
            && (need.any_island || entry.island.is_some_and(is_allowed))
    }

    /// The group a device is in, for a need that confines itself by islands, NUMA nodes or both;
    /// `None` if the device has no such island or NUMA node.
    pub(crate) fn group(self, device: usize, island: bool, numa: bool) -> Option<(u32, u32)> {
        let entry = self.specs.entries.get(device)?;
        let island = if island { entry.island?.0 } else { 0 };
        let numa = if numa { entry.numa? } else { 0 };
        Some((island, numa))
    }
}

/// A [`DeviceRequest`] in the numbers of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNeed {
    kind: Option<DeviceTerm>,
    models: SmallVec<[DeviceTerm; 4]>,
    any_model: bool,
    islands: SmallVec<[DeviceTerm; 2]>,
    any_island: bool,
    count: u32,
    /// `None`: all of each device.
    each: Option<Share>,
    island: IslandRule,
    numa: IslandRule,
    /// The profile asked for; `Some(None)` is one that no node has had.
    #[allow(clippy::option_option, reason = "no profile is asked for, or one that is not known")]
    profile: Option<Option<DeviceTerm>>,
    best_set: bool,
    beside: Option<Beside>,
}

/// Amounts by unit; `None` for units that no device has.
type Share = SmallVec<[(Option<DeviceTerm>, i64); 2]>;

impl DeviceNeed {
    pub(crate) fn new(
        request: &DeviceRequest,
        mut find: impl FnMut(&str) -> Option<DeviceTerm>,
    ) -> DeviceNeed {
        DeviceNeed {
            kind: find(&request.kind),
            models: request.models.iter().filter_map(|model| find(model)).collect(),
            any_model: request.models.is_empty(),
            islands: request.islands.iter().filter_map(|island| find(island)).collect(),
            any_island: request.islands.is_empty(),
            count: request.count(),
            each: match &request.ask {
                DeviceAsk::Whole { .. } => None,
                DeviceAsk::Shares { each, .. } => {
                    Some(each.iter().map(|(unit, amount)| (find(unit), amount)).collect())
                }
            },
            island: request.island,
            numa: request.numa,
            profile: request.profile.as_deref().map(&mut find),
            best_set: request.best_set,
            beside: request.beside,
        }
    }

    /// The kind; `None` if no node has ever had a device of it.
    #[inline]
    pub fn kind(&self) -> Option<DeviceTerm> {
        self.kind
    }

    /// How many devices are needed.
    #[inline]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether all of each device is needed.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.each.is_none()
    }

    /// Amount needed of each device, for a need of shares; `None` for units that no device has.
    #[inline]
    pub fn each(&self) -> &[(Option<DeviceTerm>, i64)] {
        self.each.as_deref().unwrap_or(&[])
    }

    /// Whether the need allows any island, and devices without one.
    #[inline]
    pub fn names_no_islands(&self) -> bool {
        self.any_island
    }

    /// Whether a model is allowed.
    #[inline]
    pub fn allows(&self, model: DeviceTerm) -> bool {
        self.any_model || self.models.contains(&model)
    }

    /// Whether the devices are to be of one island.
    pub fn island(&self) -> IslandRule {
        self.island
    }

    /// Whether the devices are to be attached to one NUMA node.
    pub fn numa(&self) -> IslandRule {
        self.numa
    }

    /// The request beside whose devices they are to lie.
    pub fn beside(&self) -> Option<Beside> {
        self.beside
    }

    /// Whether both ask the same of each device; how many of them may differ, and how they lie.
    pub(crate) fn asks_alike(&self, other: &DeviceNeed) -> bool {
        let of = |need: &DeviceNeed| (need.kind, need.any_model, need.any_island);
        of(self) == of(other)
            && (&self.models, &self.islands, &self.each)
                == (&other.models, &other.islands, &other.each)
    }

    /// Whether no device can serve both needs.
    pub(crate) fn disjoint(&self, other: &DeviceNeed) -> bool {
        self.kind != other.kind
            || !(self.any_model
                || other.any_model
                || self.models.iter().any(|model| other.models.contains(model)))
    }
}

/// Weight of a set that stays whole.
fn weight(set: &DeviceSet) -> i64 {
    match set.devices.len().checked_ilog2() {
        None | Some(0) => 0,
        Some(doublings) => {
            100_i64.saturating_pow((doublings - 1).min(8)).saturating_mul(set.score.max(1))
        }
    }
}

/// Amounts that a hundred sums and differences keep within 64 bits.
pub(crate) fn is_narrow(amount: i64) -> bool {
    (-(1 << 56)..1 << 56).contains(&amount)
}
