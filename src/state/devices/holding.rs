//! Holdings: what one pod holds of devices, of claims and of zones.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::model::{ClaimAllocation, Pod, ZoneShare};

/// Devices that one pod holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Devices(Arc<Holding>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holding {
    /// Indexes of the node's devices, one list a request.
    indexes: Vec<Vec<u32>>,
    /// The devices of claims.
    claims: Vec<ClaimAllocation>,
    /// Amounts of the node's NUMA zones.
    zones: Vec<ZoneShare>,
}

impl Devices {
    /// Devices of the node, devices of claims, and amounts of zones; `None` if there are none.
    pub(crate) fn new(
        indexes: Vec<Vec<u32>>,
        claims: Vec<ClaimAllocation>,
        zones: Vec<ZoneShare>,
    ) -> Option<Devices> {
        let any = !(indexes.is_empty() && claims.is_empty() && zones.is_empty());
        any.then(|| Devices(Arc::new(Holding { indexes, claims, zones })))
    }

    /// Devices of claims alone.
    pub(crate) fn of_claims(claims: Vec<ClaimAllocation>) -> Devices {
        Devices(Arc::new(Holding { indexes: Vec::new(), claims, zones: Vec::new() }))
    }

    /// Devices that a pod says it holds; `None` if it holds nothing.
    pub(crate) fn of(pod: &Pod) -> Option<Devices> {
        let (indexes, claims, zones) = (&pod.device_indexes, &pod.allocations, &pod.zone_shares);
        if indexes.is_empty() && claims.is_empty() && zones.is_empty() {
            return None;
        }
        Devices::new(indexes.clone(), claims.clone(), zones.clone())
    }

    /// The same with devices of claims.
    pub(crate) fn with_claims(
        held: Option<Devices>,
        claims: Vec<ClaimAllocation>,
    ) -> Option<Devices> {
        if claims.is_empty() {
            return held;
        }
        let of = |held: &Devices| (held.to_vec(), held.zones().to_vec());
        let (indexes, zones) = held.as_ref().map(of).unwrap_or_default();
        Devices::new(indexes, claims, zones)
    }

    /// Amounts of zones.
    pub(crate) fn zones(&self) -> &[ZoneShare] {
        &self.0.zones
    }

    /// The devices of claims.
    pub(crate) fn claims(&self) -> &[ClaimAllocation] {
        &self.0.claims
    }
}

impl core::ops::Deref for Devices {
    type Target = [Vec<u32>];

    fn deref(&self) -> &[Vec<u32>] {
        &self.0.indexes
    }
}

impl From<Vec<Vec<u32>>> for Devices {
    fn from(indexes: Vec<Vec<u32>>) -> Devices {
        Devices(Arc::new(Holding { indexes, claims: Vec::new(), zones: Vec::new() }))
    }
}
