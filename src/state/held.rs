//! Devices and zones held by pods, and the free amounts that this leaves.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::columns::Columns;
use super::devices::{
    DeviceNeed, DeviceSpecs, DeviceState, DeviceTerm, Devices, NodeDevices, ZoneRoom,
};
use super::error::StateError;
use super::ids::NONE;
use super::shapes::ShapeEntry;
use super::view::NodeView;
use crate::base::Row;
use crate::model::{Node, NodeZones, PodShape};

impl DeviceNeed {
    /// The needs of a pod. Names that have no number in the cluster are of no device. O(requests).
    pub fn of(cluster: &Cluster, pod: &PodShape) -> Vec<DeviceNeed> {
        let find = |text: &str| cluster.device_term(text);
        pod.devices.iter().map(|request| DeviceNeed::new(request, find)).collect()
    }
}

impl<'a> NodeView<'a> {
    /// The node's devices as they are now; `None` if it has none. O(1).
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[inline]
    pub fn device_room(self) -> Option<NodeDevices<'a>> {
        let (specs, state) = self.specs_and_state()?;
        let devices = NodeDevices::new(specs, state);
        (!devices.is_empty()).then_some(devices)
    }

    /// The NUMA zones of the node, as they were given.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn zones(self) -> &'a NodeZones {
        &self.spec.rare().zones
    }

    /// The NUMA zones of the node as they are now; `None` if it has none. O(1).
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn zone_room(self) -> Option<ZoneRoom<'a>> {
        let (specs, state) = self.specs_and_state()?;
        let room = specs.zone_room(state);
        (!room.is_empty()).then_some(room)
    }

    /// Devices and zones of the node, and what is left of them.
    #[inline]
    pub(super) fn specs_and_state(self) -> Option<(&'a DeviceSpecs, &'a DeviceState)> {
        let specs = self.spec.rare().device_specs.as_deref()?;
        let state = match self.devices {
            Some(state) => state,
            None => self.cluster.columns.device_state.get(self.row.index())?,
        };
        Some((specs, state))
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
        let specs = DeviceSpecs::new(node, |text| DeviceTerm(terms.intern(text)));
        let Some(specs) = specs else { return Ok(None) };
        let state = self.tally_devices(&specs, slots).ok_or_else(|| StateError::Overflow {
            node: node.name.clone(),
            resource: "devices".into(),
        })?;
        Ok(Some((specs, state)))
    }

    /// The number of a kind, model, island or unit of devices; `None` if nothing has mentioned it.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn device_term(&self, text: &str) -> Option<DeviceTerm> {
        self.label_values.find(text).map(DeviceTerm)
    }

    /// The text of a kind, model, island or unit of devices.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn device_text(&self, term: DeviceTerm) -> &str {
        self.label_values.text(term.0)
    }

    /// Whether what is left of a row's devices stays within 64 bits with one more holder, a pod of
    /// a shape.
    pub(crate) fn room_for_devices(
        &self,
        row: Row,
        entry: &ShapeEntry,
        held: &Devices,
    ) -> Result<(), StateError> {
        let (Some(spec), Some(state)) =
            (self.spec(row), self.columns.device_state.get(row.index()))
        else {
            return Ok(());
        };
        let Some(specs) = &spec.rare().device_specs else { return Ok(()) };
        // Far from the ends of 64 bits nothing can go wrong; else try it out.
        let few = held.iter().map(Vec::len).sum::<usize>() <= 64;
        let narrow = few && specs.narrow && entry.narrow_devices;
        if held.zones().is_empty() && (held.is_empty() || narrow && state.is_narrow()) {
            return Ok(());
        }
        let mut trial = DeviceState::clone(state);
        trial.apply(specs, &entry.devices, held, 1).ok_or_else(|| StateError::Overflow {
            node: spec.name.as_ref().into(),
            resource: "devices".into(),
        })
    }

    /// Counts what a linked pod holds. [`Cluster::room_for_devices`] has been checked.
    pub(crate) fn count_devices(&mut self, row: Row, slot: u32, sign: i64) {
        let Some(record) = self.pods.record(slot) else { return };
        let Some(entry) = self.shapes.entry(record.shape()) else { return };
        let held = self.pods.devices(slot);
        if !entry.shape.claims.is_empty() {
            let held = held.map_or(&[][..], Devices::claims);
            self.claims.count(&entry.shape, held, sign as i32);
        }
        let Some(held) = held else { return };
        let Columns { spec, device_state, .. } = &mut self.columns;
        let specs = spec[row].as_ref().and_then(|spec| spec.rare().device_specs.as_ref());
        if let Some(specs) = specs
            && let Some(state) = device_state.get_mut(row.index())
        {
            // Within 64 bits, as was checked beforehand.
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
        held: &Devices,
        sign: i64,
    ) {
        let specs = self.spec(row).and_then(|spec| spec.rare().device_specs.as_ref());
        let known = self.columns.device_state.get(row.index());
        if let (Some(specs), Some(known)) = (specs, known) {
            let _ = state
                .get_or_insert_with(|| DeviceState::clone(known))
                .apply(specs, needs, held, sign);
        }
    }

    /// Devices left when some pods hold theirs; `None` if that does not fit 64 bits.
    pub(crate) fn tally_devices(
        &self,
        specs: &DeviceSpecs,
        slots: impl Iterator<Item = u32>,
    ) -> Option<DeviceState> {
        let mut state = specs.idle();
        for slot in slots {
            let Some(record) = self.pods.record(slot) else { continue };
            let Some(entry) = self.shapes.entry(record.shape()) else { continue };
            let Some(held) = self.pods.devices(slot) else { continue };
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
