//! A pool: the devices of one kind on a node, by one unit, as the published scores read them.

use alloc::string::String;

use smallvec::SmallVec;

use crate::framework::Context;
use crate::model::CPU;
use crate::model::{DeviceAsk, PodShape};
use crate::state::{Cluster, DeviceNeed, DeviceTerm, NodeDevices, NodeView, ResourceId};

/// The devices a score looks at: those of one kind, measured in one of their units.
///
/// ```
/// use phalanx::plugins::DevicePool;
///
/// let gpus = DevicePool::new("gpu", "milli");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePool {
    pub(super) kind: String,
    pub(super) unit: String,
}

impl DevicePool {
    /// Devices of a kind, measured in a unit.
    pub fn new(kind: impl Into<String>, unit: impl Into<String>) -> DevicePool {
        DevicePool { kind: kind.into(), unit: unit.into() }
    }

    /// The pool in the numbers of a cluster, and what the pod needs of it.
    pub(super) fn resolve(&self, cx: &Context<'_>) -> Pool {
        let cluster = cx.cluster();
        let ours = cx.pod().devices.iter().position(|request| request.kind == self.kind);
        let need = ours.and_then(|at| DeviceNeed::of(cluster, cx.pod()).into_iter().nth(at));
        let pool = self.bare(cluster);
        let simple = need.as_ref().is_some_and(|need| {
            let alone =
                |&(unit, _): &(Option<DeviceTerm>, i64)| unit.is_some() && unit == pool.unit;
            need.names_no_islands() && need.each().iter().all(alone)
        });
        Pool {
            cpu_request: cx.pod().requests.of(CPU),
            share: self.share(cx.pod()),
            need,
            simple,
            ..pool
        }
    }

    /// The pool in the numbers of a cluster, for no pod in particular.
    pub(super) fn bare(&self, cluster: &Cluster) -> Pool {
        Pool {
            kind: cluster.device_term(&self.kind),
            unit: cluster.device_term(&self.unit),
            cpu: cluster.resource(CPU),
            cpu_request: 0,
            share: None,
            need: None,
            simple: false,
        }
    }

    /// Share of each device for the first request of the kind; `None` for whole devices.
    pub(super) fn share(&self, pod: &PodShape) -> Option<i64> {
        let request = pod.devices.iter().find(|request| request.kind == self.kind)?;
        match &request.ask {
            DeviceAsk::Whole { .. } => None,
            DeviceAsk::Shares { each, .. } => Some(each.of(&self.unit)),
        }
    }
}

/// A [`DevicePool`] in the numbers of one cluster, with what one pod needs.
#[derive(Debug)]
pub(super) struct Pool {
    kind: Option<DeviceTerm>,
    unit: Option<DeviceTerm>,
    cpu: Option<ResourceId>,
    pub(super) cpu_request: i64,
    pub(super) share: Option<i64>,
    /// The pod's first request of the kind.
    pub(super) need: Option<DeviceNeed>,
    /// Whether the need looks at nothing but models and what is left of the pool's unit.
    simple: bool,
}

/// One device of the pool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) index: u32,
    pub(super) model: u32,
    pub(super) capacity: i64,
    pub(super) free: i64,
    pub(super) idle: bool,
    /// Whether the pod's request may take it.
    pub(super) open: bool,
}

pub(super) type Slots = SmallVec<[Slot; 8]>;

impl Pool {
    /// CPU that is left.
    #[inline]
    pub(super) fn cpu_free(&self, node: NodeView<'_>) -> i64 {
        self.cpu.map_or(0, |cpu| node.free(cpu))
    }

    /// The pool's devices on a node, by index.
    #[inline]
    pub(super) fn slots(&self, node: NodeView<'_>) -> Slots {
        node.device_room().map_or_else(Slots::new, |devices| self.slots_of(devices))
    }

    #[inline]
    pub(super) fn slots_of(&self, devices: NodeDevices<'_>) -> Slots {
        let mut slots = Slots::new();
        let Some(unit) = self.unit.and_then(|unit| devices.unit(unit)) else { return slots };
        let mut allowed: Option<(DeviceTerm, bool)> = None;
        for device in 0..devices.len() {
            if Some(devices.kind(device)) != self.kind {
                continue;
            }
            let model = devices.model(device);
            let (free, idle) = (devices.free(device, unit), devices.is_idle(device));
            let open = match &self.need {
                None => false,
                Some(need) if self.simple => {
                    // As `admits`, with the models looked at once for all devices alike.
                    let allows = match allowed {
                        Some((last, allows)) if last == model => allows,
                        _ => need.allows(model),
                    };
                    allowed = Some((model, allows));
                    allows
                        && match self.share {
                            None => idle,
                            Some(share) => {
                                !devices.is_whole(device) && (share <= 0 || free >= share)
                            }
                        }
                }
                Some(need) => devices.admits(need, device),
            };
            let capacity = devices.capacity(device, unit);
            let index = device as u32;
            slots.push(Slot { index, model: model.0, capacity, free, idle, open });
        }
        slots
    }

    /// The kind of the pool's devices.
    pub(super) fn kind(&self) -> Option<DeviceTerm> {
        self.kind
    }

    /// Amount that a need takes of each device in the pool's unit; `None` for whole devices.
    pub(super) fn share_of(&self, need: &DeviceNeed) -> Option<i64> {
        if need.is_whole() {
            return None;
        }
        let ours = need.each().iter().find(|(unit, _)| unit.is_some() && *unit == self.unit);
        Some(ours.map_or(0, |(_, amount)| *amount))
    }

    /// How many devices the pod needs.
    pub(super) fn count(&self) -> usize {
        self.need.as_ref().map_or(0, DeviceNeed::count)
    }

    /// Amount that the pod takes of the pool on a node with these devices: for whole devices the
    /// capacity of the first one open to it.
    pub(super) fn taken(&self, slots: &[Slot]) -> i64 {
        if self.need.is_none() {
            return 0;
        }
        let open = slots.iter().find(|slot| slot.open);
        let each = self.share.unwrap_or_else(|| open.map_or(0, |slot| slot.capacity));
        each.saturating_mul(self.count() as i64)
    }

    /// The devices open to the pod, the fullest first, as many as it needs.
    pub(super) fn tightest(&self, slots: &[Slot]) -> SmallVec<[usize; 8]> {
        let mut open: SmallVec<[usize; 8]> =
            (0..slots.len()).filter(|&at| slots[at].open).collect();
        open.sort_by_key(|&at| (slots[at].free, at));
        open.truncate(self.count());
        open
    }
}

/// All that is left of the devices.
pub(super) fn left(slots: &[Slot]) -> i64 {
    slots.iter().map(|slot| slot.free).fold(0, i64::saturating_add)
}
