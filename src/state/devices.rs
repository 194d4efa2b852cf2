//! The devices of nodes: what each is, what is left of it, and what pods need of them.
//!
//! Names are numbers here ([`DeviceTerm`]), and what is left of a node's devices is one short list
//! of integers, so that judging a node does no string work and allocates nothing. A chunk of
//! nodes without devices costs one word.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::cluster::Cluster;
use super::columns::Columns;
use super::error::StateError;
use super::ids::{NONE, Row};
use super::shapes::ShapeEntry;
use super::view::NodeView;
use crate::model::{Device, DeviceAsk, DeviceRequest, IslandRule, Node, PodShape};

/// The kind, the model, the island or a unit of devices, as a number of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceTerm(pub(crate) u32);

/// What is fixed about a node's devices.
#[derive(Debug, PartialEq)]
pub(crate) struct DeviceSpecs {
    entries: Box<[Entry]>,
    /// The units that any of them has.
    units: Box<[DeviceTerm]>,
    /// One amount a device and unit, device by device.
    capacity: Box<[i64]>,
    /// Whether capacities are far from the ends of 64 bits.
    narrow: bool,
}

#[derive(Debug, PartialEq)]
struct Entry {
    kind: DeviceTerm,
    model: DeviceTerm,
    island: Option<DeviceTerm>,
    numa: Option<u32>,
}

/// What is left of a node's devices: for each device the number of its holders, then what is left
/// of each unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceState(SmallVec<[i64; 16]>);

/// In the word that counts holders: one that holds all of the device.
const WHOLE: i64 = 1 << 32;

impl DeviceSpecs {
    pub(crate) fn new<'a>(
        devices: &'a [Device],
        mut intern: impl FnMut(&str) -> DeviceTerm,
    ) -> Option<Arc<DeviceSpecs>> {
        if devices.is_empty() {
            return None;
        }
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
        let amounts = |device: &'a Device| names.iter().map(|unit| device.capacity.of(unit));
        Some(Arc::new(DeviceSpecs {
            entries: entries.collect(),
            capacity: devices.iter().flat_map(amounts).collect(),
            narrow: devices.iter().flat_map(amounts).all(is_narrow),
            units: names.iter().map(|unit| intern(unit)).collect(),
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
        DeviceState(words)
    }
}

impl DeviceState {
    /// Takes what a pod holds (`sign` 1), or gives it back (-1). Devices and units that the node
    /// does not have are passed over. `None` if an amount would leave 64 bits; what was done up to
    /// there then remains done.
    fn apply(
        &mut self,
        specs: &DeviceSpecs,
        needs: &[DeviceNeed],
        held: &[Vec<u32>],
        sign: i64,
    ) -> Option<()> {
        let stride = specs.stride();
        for (need, held) in needs.iter().zip(held) {
            for &device in held {
                let device = device as usize;
                let first = device.checked_mul(stride)?;
                let Some(words) = self.0.get_mut(first..first.saturating_add(stride)) else {
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

    /// What a device has of a unit, by the unit's place; 0 if it does not have the unit.
    #[inline]
    pub fn capacity(self, device: usize, unit: usize) -> i64 {
        self.specs.capacity(device).get(unit).copied().unwrap_or(0)
    }

    /// What is left of a unit of a device, by the unit's place.
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

    /// Whether nobody uses the device.
    #[inline]
    pub fn is_idle(self, device: usize) -> bool {
        self.words[device * self.specs.stride()] == 0
    }

    /// Whether somebody holds all of the device.
    #[inline]
    pub fn is_whole(self, device: usize) -> bool {
        self.words[device * self.specs.stride()] >= WHOLE
    }

    /// Whether a need may take this device, as far as the device alone goes: kind, model, island
    /// names, and what is left.
    #[inline]
    pub fn admits(self, need: &DeviceNeed, device: usize) -> bool {
        let Some(entry) = self.specs.entries.get(device) else { return false };
        if Some(entry.kind) != need.kind
            || !(need.any_model || need.models.contains(&entry.model))
            || !(need.any_island
                || entry.island.is_some_and(|island| need.islands.contains(&island)))
        {
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

    /// The group a device is in, for a need that confines itself by islands, NUMA nodes or both;
    /// `None` if it lacks what is asked after.
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
}

/// Amounts by unit; `None` for units that no device has.
type Share = SmallVec<[(Option<DeviceTerm>, i64); 2]>;

impl DeviceNeed {
    /// The needs of a pod. Names the cluster has never heard are of no device. O(requests).
    pub fn of(cluster: &Cluster, pod: &PodShape) -> Vec<DeviceNeed> {
        let find = |text: &str| cluster.device_term(text);
        pod.devices.iter().map(|request| DeviceNeed::new(request, find)).collect()
    }

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

    /// What is needed of each device, for a need of shares; `None` for units that no device has.
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

    /// Whether no device can serve both needs.
    pub(crate) fn disjoint(&self, other: &DeviceNeed) -> bool {
        self.kind != other.kind
            || !(self.any_model
                || other.any_model
                || self.models.iter().any(|model| other.models.contains(model)))
    }
}

impl<'a> NodeView<'a> {
    /// The node's devices as they are now; `None` if it has none. O(1).
    #[inline]
    pub fn device_room(self) -> Option<NodeDevices<'a>> {
        let specs = self.spec.rare().device_specs.as_deref()?;
        let state = match self.devices {
            Some(state) => state,
            None => self.cluster.columns.device_state.get(self.row)?,
        };
        Some(NodeDevices { specs, words: &state.0 })
    }
}

impl Cluster {
    /// The devices of a node, and what is left of them when some pods hold theirs.
    pub(super) fn devices_of(
        &mut self,
        node: &Node,
        slots: impl Iterator<Item = u32>,
    ) -> Result<Option<(Arc<DeviceSpecs>, DeviceState)>, StateError> {
        let terms = &mut self.label_values;
        let specs = DeviceSpecs::new(&node.devices, |text| DeviceTerm(terms.intern(text)));
        let Some(specs) = specs else { return Ok(None) };
        let state = self.tally_devices(&specs, slots).ok_or_else(|| StateError::Overflow {
            node: node.name.clone(),
            resource: "devices".into(),
        })?;
        Ok(Some((specs, state)))
    }

    /// The number of a kind, model, island or unit of devices; `None` if nothing has mentioned it.
    pub fn device_term(&self, text: &str) -> Option<DeviceTerm> {
        self.label_values.find(text).map(DeviceTerm)
    }

    /// The text of a kind, model, island or unit of devices.
    pub fn device_text(&self, term: DeviceTerm) -> &str {
        self.label_values.text(term.0)
    }

    /// Whether what is left of a row's devices stays within 64 bits with one more holder, a pod of
    /// a shape.
    pub(crate) fn room_for_devices(
        &self,
        row: Row,
        entry: &ShapeEntry,
        held: &[Vec<u32>],
    ) -> Result<(), StateError> {
        let (Some(spec), Some(state)) = (self.spec(row), self.columns.device_state.get(row)) else {
            return Ok(());
        };
        let Some(specs) = &spec.rare().device_specs else { return Ok(()) };
        // Far from the ends of 64 bits nothing can go wrong; else try it out.
        let few = held.iter().map(Vec::len).sum::<usize>() <= 64;
        let narrow = few && specs.narrow && entry.narrow_devices;
        if held.is_empty() || narrow && state.0.iter().all(|word| is_narrow(*word)) {
            return Ok(());
        }
        let mut trial = DeviceState::clone(state);
        trial.apply(specs, &entry.devices, held, 1).ok_or_else(|| StateError::Overflow {
            node: spec.name.as_ref().into(),
            resource: "devices".into(),
        })
    }

    /// Counts what a linked pod holds. [`Cluster::room_for_devices`] it has been asked for.
    pub(crate) fn count_devices(&mut self, row: Row, slot: u32, sign: i64) {
        let Some(held) = self.pods.devices(slot) else { return };
        let Some(record) = self.pods.record(slot) else { return };
        let Some(entry) = self.shapes.entry(record.shape()) else { return };
        let Columns { spec, device_state, .. } = &mut self.columns;
        let specs = spec[row].as_ref().and_then(|spec| spec.rare().device_specs.as_ref());
        if let Some(specs) = specs
            && let Some(state) = device_state.get_mut(row)
        {
            // Within 64 bits, as was asked beforehand.
            let _ = Arc::make_mut(state).apply(specs, &entry.devices, held, sign);
        }
    }

    /// Takes devices of a row, or gives them back, on top of the cluster: in `state`, which
    /// begins as the row has them. The devices are free for it, so amounts stay within 64 bits.
    pub(crate) fn hold_devices(
        &self,
        row: Row,
        state: &mut Option<DeviceState>,
        needs: &[DeviceNeed],
        held: &[Vec<u32>],
        sign: i64,
    ) {
        let specs = self.spec(row).and_then(|spec| spec.rare().device_specs.as_ref());
        let known = self.columns.device_state.get(row);
        if let (Some(specs), Some(known)) = (specs, known) {
            let _ = state
                .get_or_insert_with(|| DeviceState::clone(known))
                .apply(specs, needs, held, sign);
        }
    }

    /// What is left of devices when some pods hold theirs; `None` if that does not fit 64 bits.
    pub(crate) fn tally_devices(
        &self,
        specs: &DeviceSpecs,
        slots: impl Iterator<Item = u32>,
    ) -> Option<DeviceState> {
        let mut state = specs.idle();
        for slot in slots {
            let Some(record) = self.pods.record(slot) else { continue };
            let Some(entry) = self.shapes.entry(record.shape()) else { continue };
            let held = self.pods.devices(slot).map_or(&[][..], |held| held);
            state.apply(specs, &entry.devices, held, 1)?;
        }
        Some(state)
    }

    /// The slots of the pods on a row.
    pub(crate) fn slots_on(&self, row: Row) -> impl Iterator<Item = u32> + '_ {
        let mut slot = self.columns.first_pod(row);
        core::iter::from_fn(move || {
            if slot == NONE {
                return None;
            }
            let this = slot;
            slot = self.pods.record(slot)?.next;
            Some(this)
        })
    }
}

/// Amounts that a hundred sums and differences keep within 64 bits.
pub(crate) fn is_narrow(amount: i64) -> bool {
    (-(1 << 56)..1 << 56).contains(&amount)
}
