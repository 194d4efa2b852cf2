//! NUMA zones of a node: what is left of each.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::model::{NodeZones, Zone, ZonePolicy, ZoneScope, ZoneShare};

/// The zones of a node with their capacities, which pods do not change.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ZoneSpecs {
    /// Resources that a zone lists, in order of name.
    names: Box<[Box<str>]>,
    numbers: Box<[u32]>,
    /// One amount a zone and resource, zone by zone.
    capacity: Box<[i64]>,
    /// Free amounts without pods, in the same order.
    idle: Box<[i64]>,
    policy: ZonePolicy,
    scope: ZoneScope,
}

impl ZoneSpecs {
    pub(super) fn new(zones: &NodeZones) -> ZoneSpecs {
        let mut names: Vec<&str> =
            zones.list.iter().flat_map(|zone| zone.capacity.iter().map(|(name, _)| name)).collect();
        names.sort_unstable();
        names.dedup();
        let each = |of: fn(&Zone, &str) -> i64| {
            let zones = zones.list.iter();
            zones.flat_map(|zone| names.iter().map(move |name| of(zone, name))).collect()
        };
        let capacity = each(|zone, name| zone.capacity.of(name));
        let idle = each(|zone, name| zone.capacity.of(name).saturating_sub(zone.taken.of(name)));
        ZoneSpecs {
            numbers: zones.list.iter().map(|zone| zone.number).collect(),
            capacity,
            idle,
            names: names.iter().map(|name| Box::from(*name)).collect(),
            policy: zones.policy,
            scope: zones.scope,
        }
    }

    /// All zones with nothing taken.
    pub(super) fn idle(&self) -> Box<[i64]> {
        self.idle.clone()
    }

    fn resource(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|own| (**own).cmp(name)).ok()
    }

    /// Takes shares (`sign` 1), or gives them back (-1). Zones and resources that the node does not
    /// have are passed over. `None` if an amount would leave 64 bits.
    pub(super) fn apply(&self, free: &mut [i64], shares: &[ZoneShare], sign: i64) -> Option<()> {
        for share in shares {
            let Ok(zone) = self.numbers.binary_search(&share.zone) else { continue };
            for (name, amount) in share.amounts.iter() {
                let Some(at) = self.resource(name) else { continue };
                if let Some(free) = free.get_mut(zone * self.names.len() + at) {
                    *free = free.checked_sub(sign.checked_mul(amount)?)?;
                }
            }
        }
        Some(())
    }
}

/// The NUMA zones of a node as they are now. Zones and resources go by place: of zones in order of
/// number, of resources in order of name.
///
/// Amounts left can be below zero, where more was bound than there is: what runs, runs.
#[derive(Debug, Clone, Copy)]
pub struct ZoneRoom<'a> {
    specs: &'a ZoneSpecs,
    free: &'a [i64],
}

impl<'a> ZoneRoom<'a> {
    pub(super) fn new(specs: &'a ZoneSpecs, free: &'a [i64]) -> ZoneRoom<'a> {
        ZoneRoom { specs, free }
    }

    /// How many zones there are.
    pub fn len(self) -> usize {
        self.specs.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// How strictly the node aligns.
    pub fn policy(self) -> ZonePolicy {
        self.specs.policy
    }

    /// The unit that it aligns.
    pub fn scope(self) -> ZoneScope {
        self.specs.scope
    }

    /// The number of a zone; 0 beyond [`ZoneRoom::len`].
    pub fn number(self, zone: usize) -> u32 {
        self.specs.numbers.get(zone).copied().unwrap_or(0)
    }

    /// The place of a zone by its number.
    pub fn zone(self, number: u32) -> Option<usize> {
        self.specs.numbers.binary_search(&number).ok()
    }

    /// The place of a resource; `None` if no zone lists it. O(log resources).
    pub fn resource(self, name: &str) -> Option<usize> {
        self.specs.resource(name)
    }

    /// Capacity of a zone in a resource.
    pub fn capacity(self, zone: usize, resource: usize) -> i64 {
        self.at(&self.specs.capacity, zone, resource)
    }

    /// Free amount of a resource in a zone.
    pub fn free(self, zone: usize, resource: usize) -> i64 {
        self.at(self.free, zone, resource)
    }

    /// Free amounts of all zones, zone by zone.
    pub(crate) fn all_free(self) -> &'a [i64] {
        self.free
    }

    /// How many resources have a place.
    pub(crate) fn resources(self) -> usize {
        self.specs.names.len()
    }

    fn at(self, amounts: &[i64], zone: usize, resource: usize) -> i64 {
        let resources = self.specs.names.len();
        let known = resource < resources;
        amounts.get(zone * resources + resource).copied().filter(|_| known).unwrap_or(0)
    }
}
