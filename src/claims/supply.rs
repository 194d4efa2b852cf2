//! Supplies: how many devices of a node each request could have by itself.

mod bundle;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(crate) use self::bundle::Bundles;
use super::allocator::{Candidate, Found, Search};
use super::constraints::Rule;
use super::prepared::{How, PreparedClaims};
use super::wanted::{ClaimFault, Place, choices, demand_of};
use crate::model::{Attribute, SliceDevice};
use crate::state::{Cluster, NodeView};

/// The devices of a node that a request could have if nothing else were asked for.
#[derive(Debug, Clone)]
pub(crate) struct Supply {
    /// The name of the claim in the pod.
    pub(crate) claim: String,
    /// The request, as `request` or `request/alternative`.
    pub(crate) request: String,
    /// How many devices it needs.
    pub(crate) need: u64,
    /// How many it could have.
    pub(crate) have: u64,
    /// The attributes that all of them must have one value of.
    pub(crate) one: Vec<String>,
}

impl<'a> Search<'a> {
    /// The supplies of all alternatives of all requests, with the numbers of their claims.
    fn supplies(&mut self) -> Result<Vec<(usize, Supply)>, ClaimFault> {
        let mut all = Vec::new();
        for claim in 0..self.wanted.len() {
            for request in 0..self.wanted[claim].spec.requests.len() {
                let count = choices(&self.wanted[claim].spec.requests[request]);
                for choice in 0..count {
                    all.push((claim, self.supply(Place { claim, request, choice })?));
                }
            }
        }
        Ok(all)
    }

    fn supply(&mut self, place: Place) -> Result<Supply, ClaimFault> {
        let asks = self.request(place);
        let sub = demand_of(asks, place.choice).0;
        let mut one = Vec::new();
        for constraint in &self.constraints[place.claim] {
            if let (Rule::Match { attribute, .. }, true) =
                (&constraint.rule, constraint.concerns(&asks.name, sub))
            {
                one.push((*attribute).to_string());
            }
        }
        let mut groups: BTreeMap<Vec<&Attribute>, u64> = BTreeMap::new();
        for device in 0..self.devices.len() as u32 {
            if !self.is_usable(place, device)? {
                continue;
            }
            let (driver, spec): (&str, &SliceDevice) = self.published(device);
            let values = one.iter().map(|attribute| spec.attribute_of(driver, attribute));
            if let Some(values) = values.collect() {
                *groups.entry(values).or_default() += 1;
            }
        }
        let need = self.asked[place.claim][place.request][place.choice].count as u64;
        let name =
            sub.map_or_else(|| asks.name.clone(), |sub| alloc::format!("{}/{sub}", asks.name));
        Ok(Supply {
            claim: String::new(),
            request: name,
            need,
            have: groups.into_values().max().unwrap_or(0),
            one,
        })
    }

    /// Whether a request could have a device, constraints apart.
    fn is_usable(&mut self, place: Place, device: u32) -> Found {
        let (spec, pool) =
            (self.devices[device as usize].device, self.devices[device as usize].pool);
        Ok(self.pools[pool].is_sound()
            && !self.in_use(place, device)
            && self.matches(place, device)?
            && self.has_capacity(place, device)
            && (!self.counts(device) || self.counters[pool].suffice(spec))
            && self.is_tolerated(place, device))
    }

    /// The driver of a device, and the device.
    fn published(&self, device: u32) -> (&'a str, &'a SliceDevice) {
        let Candidate { slice, device, .. } = &self.devices[device as usize];
        (&slice.driver, device)
    }
}

impl PreparedClaims {
    /// The supplies of a node for claims that have no devices yet; why they cannot be counted, if they
    /// cannot.
    pub(crate) fn supplies(
        &self,
        cluster: &Cluster,
        node: NodeView<'_>,
    ) -> Result<Vec<Supply>, String> {
        let Some((names, wanted)) = self.wanted_on(cluster, node) else { return Ok(Vec::new()) };
        let How { steps, more, .. } = How::default();
        let search = Search::new(cluster.claims(), node, wanted, steps, more);
        let supplies = search.and_then(|mut search| search.supplies());
        let supplies = supplies.map_err(|fault| fault.to_string())?.into_iter();
        let named = |(claim, own): (usize, Supply)| Supply { claim: names[claim].into(), ..own };
        Ok(supplies.map(named).collect())
    }
}
