//! Devices that can stand for each other, as far as some claims can tell.

mod scarce;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(crate) use self::scarce::scarcity;
use super::selector::{Compiled, DeviceFacts};
use super::wanted::{Wanted, choices, demand_of};
use crate::model::{AttributeRule, DeviceAmount, DeviceDemand, SliceDevice};
use crate::state::ClaimBook;

/// Classes of devices: two of one class differ in nothing that some claims ask for, so that a search
/// need not try both.
///
/// Each has a price: how many of the devices that are claimed could be this one.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    /// Class and price, by slice and device.
    devices: BTreeMap<String, BTreeMap<String, (u32, u64)>>,
}

impl Alike {
    /// Classes of all devices, for some claims. O(devices × different demands).
    pub(super) fn new<'a>(book: &ClaimBook, claims: impl Iterator<Item = &'a Wanted>) -> Alike {
        let mut demands: Vec<(&DeviceDemand, &[Compiled], u64)> = Vec::new();
        let mut attributes: BTreeSet<&str> = BTreeSet::new();
        for wanted in claims {
            for (request, selectors) in wanted.spec.requests.iter().zip(&wanted.selectors) {
                for (choice, selectors) in (0..choices(request)).zip(selectors) {
                    let demand = demand_of(request, choice).1;
                    let count = match demand.amount {
                        DeviceAmount::Count(count) => count,
                        _ => 1,
                    };
                    match demands.iter_mut().find(|(own, ..)| *own == demand) {
                        Some((.., sum)) => *sum = sum.saturating_add(count),
                        None => demands.push((demand, selectors, count)),
                    }
                }
            }
            attributes.extend(wanted.spec.constraints.iter().filter_map(|own| match &own.rule {
                AttributeRule::Match(name) | AttributeRule::Distinct(name) => Some(&**name),
                AttributeRule::Unknown => None,
            }));
        }
        let (mut classes, mut devices) = (BTreeMap::<String, u32>::new(), BTreeMap::new());
        for slice in book.slices() {
            let mut own = BTreeMap::new();
            for device in &slice.devices {
                let facts = DeviceFacts::new(&slice.driver, device);
                let (mut price, mut verdicts) = (0_u64, String::new());
                for (_, selectors, count) in &demands {
                    let verdict = judge(selectors, facts);
                    if verdict == '1' {
                        price = price.saturating_add(*count);
                    }
                    verdicts.push(verdict);
                }
                let values: Vec<_> = attributes
                    .iter()
                    .map(|name| device.attribute_of(&slice.driver, name))
                    .collect();
                let SliceDevice {
                    capacity, consumes, nodes, taints, binds_to_node, shareable, ..
                } = device;
                let key = (&slice.name, &verdicts, values, capacity, consumes, nodes, taints);
                let key = format!("{key:?}{binds_to_node}{shareable}");
                let next = classes.len() as u32 + 1;
                let class = *classes.entry(key).or_insert(next);
                own.insert(device.name.clone(), (class, price));
            }
            devices.insert(slice.name.clone(), own);
        }
        Alike { devices }
    }

    /// Class and price of a device; class 0 of one that is not known.
    pub(super) fn of(&self, slice: &str, device: &str) -> (u32, u64) {
        let known = self.devices.get(slice).and_then(|slice| slice.get(device));
        known.copied().unwrap_or_default()
    }
}

fn judge(selectors: &[Compiled], facts: DeviceFacts<'_>) -> char {
    for selector in selectors {
        match selector.matches(facts) {
            Ok(true) => {}
            Ok(false) => return '0',
            Err(_) => return '!',
        }
    }
    '1'
}
