//! Device choices beside the default one.

use alloc::vec::Vec;

use crate::framework::{Context, DeviceChoice, DeviceOffer};

/// The devices of lowest index, be it shares or whole devices.
#[derive(Debug, Clone, Copy, Default)]
pub struct LowestIndex;

impl DeviceChoice for LowestIndex {
    fn name(&self) -> &str {
        "LowestIndex"
    }

    fn choose(&self, _: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32> {
        offer.candidates().iter().take(offer.count()).copied().collect()
    }
}

/// Shares go where most is left after them, whole devices by index.
///
/// Ties go to the lowest index. With several units requested, the first by name decides first.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpreadDevices;

impl DeviceChoice for SpreadDevices {
    fn name(&self) -> &str {
        "SpreadDevices"
    }

    fn choose(&self, _: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32> {
        let mut devices = offer.candidates().to_vec();
        if !offer.need().is_whole() {
            devices.sort_by_cached_key(|&device| {
                (core::cmp::Reverse(offer.left_after(device)), device)
            });
        }
        devices.truncate(offer.count());
        devices
    }
}
