//! Device choice: which devices of its node a pod gets, the stage after the best node is found.
//!
//! A pod's requests are served in order. Each takes from the devices that it could have alone, less
//! those that requests before it have taken; all devices of a pod are different. Where a request
//! confines itself to a group (an island, the devices of a NUMA node, or both), the smallest group
//! that suffices is taken. Within what is left, a [`DeviceChoice`] chooses. If that leaves a later
//! request without, the requests compete for the same devices, and all of them are given the first
//! complete assignment instead. So a choice never decides whether a pod fits; only which devices it
//! gets.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use smallvec::SmallVec;

use super::context::Context;
use crate::state::{DeviceNeed, NodeDevices, NodeView};

/// Says which devices a pod gets, of those it can have.
///
/// The choice is made when a pod is placed, and becomes part of the plan. It must be a pure
/// function of the pod and the offer. It may look up names in the cluster, but no other node, and
/// its context has neither group nor time. It is not asked about a pod with a request `beside` another, and not where
/// an earlier choice left too little: a matching then serves all requests.
///
/// ```
/// use phalanx::framework::{Context, DeviceChoice, DeviceOffer};
///
/// /// From the back.
/// struct Last;
///
/// impl DeviceChoice for Last {
///     fn name(&self) -> &str {
///         "Last"
///     }
///
///     fn choose(&self, _: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32> {
///         offer.candidates().iter().rev().take(offer.count()).copied().collect()
///     }
/// }
/// ```
pub trait DeviceChoice: Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// [`DeviceOffer::count`] different devices of [`DeviceOffer::candidates`], which has at least
    /// as many. Their order does not matter. An answer that is anything else counts as the first
    /// candidates.
    fn choose(&self, cx: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32>;
}

impl<C: DeviceChoice + ?Sized> DeviceChoice for Arc<C> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn choose(&self, cx: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32> {
        (**self).choose(cx, offer)
    }
}

/// Devices of a node that can serve one device request of a pod.
#[derive(Debug, Clone, Copy)]
pub struct DeviceOffer<'a> {
    pub(super) node: NodeView<'a>,
    pub(super) devices: NodeDevices<'a>,
    pub(super) need: &'a DeviceNeed,
    pub(super) request: usize,
    pub(super) candidates: &'a [u32],
}

impl<'a> DeviceOffer<'a> {
    /// The node, without the pod.
    pub fn node(&self) -> NodeView<'a> {
        self.node
    }

    /// The devices of the node, without the pod.
    pub fn devices(&self) -> NodeDevices<'a> {
        self.devices
    }

    /// The request.
    pub fn need(&self) -> &'a DeviceNeed {
        self.need
    }

    /// The place of the request among the pod's.
    pub fn request(&self) -> usize {
        self.request
    }

    /// How many devices to choose.
    pub fn count(&self) -> usize {
        self.need.count()
    }

    /// The devices to choose from, ascending.
    pub fn candidates(&self) -> &'a [u32] {
        self.candidates
    }

    /// Amounts left of a device, unit by unit in order of name, for the units requested.
    pub fn left_after(&self, device: u32) -> SmallVec<[i64; 2]> {
        let each = self.need.each().iter();
        let units = each.filter_map(|(unit, amount)| Some((self.devices.unit((*unit)?)?, amount)));
        units
            .map(|(unit, amount)| self.devices.free(device as usize, unit).saturating_sub(*amount))
            .collect()
    }
}

/// Shares go where least is left after them, whole devices by index. The default.
///
/// With several units requested, the first by name decides first. Ties go to the device without which
/// most of the partition table stays whole, then to the lowest index.
#[derive(Debug, Clone, Copy, Default)]
pub struct TightestFit;

impl DeviceChoice for TightestFit {
    fn name(&self) -> &str {
        "TightestFit"
    }

    fn choose(&self, _: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32> {
        let mut devices = offer.candidates().to_vec();
        if !offer.need().is_whole() {
            let whole = |device| Reverse(offer.devices().whole_after(&[device]));
            devices.sort_by_cached_key(|&device| (offer.left_after(device), whole(device), device));
        }
        devices.truncate(offer.count());
        devices
    }
}
