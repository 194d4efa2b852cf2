//! A node's devices, and whether they serve some claims together: tried out plainly.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::amounts::amounts;
use crate::claims::{DeviceFacts, SelectorProgram};
use crate::framework::Framework;
use crate::model::{
    Attribute, AttributeRule, ClaimSpec, DeviceAmount, DeviceDemand, NodeReach, RequestChoice,
    ResourceSlice, SliceDevice,
};
use crate::state::{Cluster, DeviceUsage};

/// The most devices of a claim.
const MOST: u64 = 32;

/// One alternative of a request, with its expressions made ready.
struct Alternative<'a> {
    demand: &'a DeviceDemand,
    programs: Vec<Result<Box<dyn SelectorProgram>, String>>,
    /// The constraints of its claim that concern it, by place.
    rules: Vec<usize>,
}

/// A claim whose requests are alternatives with a count.
pub(super) struct Claim<'a> {
    requests: Vec<Vec<Alternative<'a>>>,
    /// The attribute of each constraint.
    attributes: Vec<&'a str>,
}

impl<'a> Claim<'a> {
    /// `None` if it asks for all devices, for those of others, or for distinct attributes.
    pub(super) fn new(
        cluster: &'a Cluster,
        framework: &Framework,
        spec: &'a ClaimSpec,
    ) -> Option<Claim<'a>> {
        let mut attributes = Vec::new();
        for own in &spec.constraints {
            let AttributeRule::Match(attribute) = &own.rule else { return None };
            attributes.push(&**attribute);
        }
        let mut requests = Vec::new();
        for own in &spec.requests {
            let demands = match &own.choice {
                RequestChoice::Exactly(demand) => vec![(own.name.clone(), demand)],
                RequestChoice::FirstAvailable(all) => {
                    let named = all.iter().map(|sub| (format!("{}/{}", own.name, sub.name), sub));
                    named.map(|(name, sub)| (name, &sub.demand)).collect()
                }
            };
            let mut alternatives = Vec::new();
            for (name, demand) in demands {
                if demand.admin || !matches!(demand.amount, DeviceAmount::Count(_)) {
                    return None;
                }
                let class = cluster.claims().classes().find(|class| class.name == demand.class);
                let texts = class.into_iter().flat_map(|class| &class.selectors);
                let programs = texts
                    .chain(&demand.selectors)
                    .map(|text| framework.selectors().compile(text))
                    .collect();
                let concerns = |rule: &&usize| {
                    let requests = &spec.constraints[**rule].requests;
                    requests.is_empty()
                        || requests.iter().any(|text| *text == name || *text == own.name)
                };
                let rules: Vec<usize> = (0..attributes.len()).collect();
                let rules = rules.iter().filter(concerns).copied().collect();
                alternatives.push(Alternative { demand, programs, rules });
            }
            requests.push(alternatives);
        }
        Some(Claim { requests, attributes })
    }
}

/// The offer of a device to an alternative: the amounts it takes, if the device could serve it.
type Offer<'a> = Option<BTreeMap<&'a str, i128>>;

/// A device of the node.
struct Item<'a> {
    slice: &'a ResourceSlice,
    device: &'a SliceDevice,
    /// Its holders, each of a part, and the sums of these by capacity.
    holders: u32,
    held: BTreeMap<&'a str, i128>,
    /// Untouched devices of one class can stand for each other.
    class: usize,
    is_used: bool,
    /// By claim, request and alternative.
    offers: Vec<Vec<Vec<Offer<'a>>>>,
}

/// The devices of a node that nobody has whole, and its counters.
pub(super) struct Bench<'a, 'c> {
    claims: &'c [Claim<'a>],
    items: Vec<Item<'a>>,
    /// Amounts left, by driver, pool, set and counter.
    left: BTreeMap<[&'a str; 4], i128>,
    /// The bundle that is tried: places of claims, their devices so far, and the values of their
    /// constraints.
    bundle: Vec<usize>,
    counts: Vec<u64>,
    values: Vec<Vec<Option<&'a Attribute>>>,
    steps: u64,
}

impl<'a, 'c> Bench<'a, 'c> {
    pub(super) fn new(cluster: &'a Cluster, node: &str, claims: &'c [Claim<'a>]) -> Bench<'a, 'c> {
        let book = cluster.claims();
        let mut bench = Bench {
            claims,
            items: Vec::new(),
            left: BTreeMap::new(),
            bundle: Vec::new(),
            counts: Vec::new(),
            values: Vec::new(),
            steps: 0,
        };
        let is_here =
            |slice: &&ResourceSlice| matches!(&slice.nodes, NodeReach::Node(name) if name == node);
        let slices: Vec<&'a ResourceSlice> = book.slices().filter(is_here).collect();
        for slice in &slices {
            for set in &slice.counters {
                for (name, amount) in &set.counters {
                    bench
                        .left
                        .insert([&slice.driver, &slice.pool, &set.name, name], amount.nanos());
                }
            }
        }
        let mut classes: Vec<String> = Vec::new();
        for slice in &slices {
            for device in &slice.devices {
                let usage = book.usage(&slice.driver, &slice.pool, &device.name);
                if usage.is_some() {
                    count(&mut bench.left, slice, device, 1);
                }
                if usage.is_some_and(DeviceUsage::is_whole) {
                    continue;
                }
                let offers: Vec<_> =
                    claims.iter().map(|claim| claim.offers(slice, device)).collect();
                let values: Vec<_> = claims
                    .iter()
                    .flat_map(|claim| &claim.attributes)
                    .map(|name| device.attribute_of(&slice.driver, name))
                    .collect();
                let own = (&slice.driver, &slice.pool, &device.consumes, device.shareable);
                let key = format!("{:?}", (own, &values, &offers, &device.capacity));
                let known = classes.iter().position(|class| *class == key);
                let class = known.unwrap_or(classes.len());
                if known.is_none() {
                    classes.push(key);
                }
                let held = usage.into_iter().flat_map(|usage| usage.consumed.iter());
                let held = held.filter_map(|(name, sum)| {
                    device.capacity.get_key_value(&**name).map(|(name, _)| (name.as_str(), *sum))
                });
                bench.items.push(Item {
                    slice,
                    device,
                    holders: usage.map_or(0, DeviceUsage::shares),
                    held: held.collect(),
                    class,
                    is_used: usage.is_some(),
                    offers,
                });
            }
        }
        bench
    }

    /// Whether the devices serve some claims together. `None` if that takes too long to find out.
    pub(super) fn serves(&mut self, bundle: &[usize], steps: &mut u64) -> Option<bool> {
        self.bundle = bundle.to_vec();
        self.counts = vec![0; bundle.len()];
        let values = bundle.iter().map(|claim| vec![None; self.claims[*claim].attributes.len()]);
        self.values = values.collect();
        self.steps = *steps;
        let found = self.request(0, 0);
        *steps = self.steps;
        (found || self.steps > 0).then_some(found)
    }

    fn request(&mut self, at: usize, request: usize) -> bool {
        let Some(&claim) = self.bundle.get(at) else { return true };
        let claims = self.claims;
        let Some(alternatives) = claims[claim].requests.get(request) else {
            return self.request(at + 1, 0);
        };
        (0..alternatives.len()).any(|choice| {
            let DeviceAmount::Count(count) = alternatives[choice].demand.amount else {
                return false;
            };
            let all = self.counts[at].saturating_add(count);
            if all > MOST {
                return false;
            }
            let before = core::mem::replace(&mut self.counts[at], all);
            let found = self.pick([at, request, choice], count, 0);
            self.counts[at] = before;
            found
        })
    }

    /// Picks so many more devices for an alternative, from one on.
    fn pick(&mut self, place: [usize; 3], count: u64, from: usize) -> bool {
        let [at, request, choice] = place;
        if count == 0 {
            return self.request(at, request + 1);
        }
        let claims = self.claims;
        let alternative = &claims[self.bundle[at]].requests[request][choice];
        let mut failed: Vec<usize> = Vec::new();
        for item in from..self.items.len() {
            let class = self.items[item].class;
            let is_fresh = !self.items[item].is_used && self.items[item].holders == 0;
            if is_fresh && failed.contains(&class) {
                continue;
            }
            if self.steps == 0 {
                return false;
            }
            self.steps -= 1;
            let before = self.values[at].clone();
            if self.take(place, alternative, item) {
                let found = self.pick(place, count - 1, item + 1);
                self.hold(place, item, -1);
                if found {
                    return true;
                }
            }
            self.values[at] = before;
            if is_fresh {
                failed.push(class);
            }
        }
        false
    }

    fn take(&mut self, place: [usize; 3], alternative: &Alternative<'a>, item: usize) -> bool {
        let [at, request, choice] = place;
        let claim = self.bundle[at];
        let Item { slice, device, holders, held, offers, .. } = &self.items[item];
        let Some(offer) = &offers[claim][request][choice] else { return false };
        let held = |name: &str| held.get(name).copied().unwrap_or(0);
        let is_full = offer.iter().any(|(name, amount)| {
            held(name).saturating_add(*amount) > device.capacity[*name].value.nanos()
        });
        if *holders > 0 && !device.shareable || is_full {
            return false;
        }
        let is_short = device.consumes.iter().any(|used| {
            used.counters.iter().any(|(name, amount)| {
                let left = self.left.get(&[&*slice.driver, &*slice.pool, &*used.set, &**name]);
                left.is_none_or(|left| *left < amount.nanos())
            })
        });
        if *holders == 0 && is_short {
            return false;
        }
        for rule in &alternative.rules {
            let name = self.claims[claim].attributes[*rule];
            let Some(value) = device.attribute_of(&slice.driver, name) else { return false };
            if *self.values[at][*rule].get_or_insert(value) != value {
                return false;
            }
        }
        self.hold(place, item, 1);
        true
    }

    /// Takes a device (1) or gives it back (-1).
    fn hold(&mut self, place: [usize; 3], item: usize, sign: i32) {
        let [at, request, choice] = place;
        let own = &mut self.items[item];
        let before = own.holders;
        own.holders = before.saturating_add_signed(sign);
        if let Some(offer) = &own.offers[self.bundle[at]][request][choice] {
            for (name, amount) in offer {
                *own.held.entry(name).or_default() += i128::from(sign) * amount;
            }
        }
        if before.min(own.holders) == 0 {
            count(&mut self.left, own.slice, own.device, i128::from(sign));
        }
    }
}

impl Claim<'_> {
    /// The offers of a device to all alternatives of all requests.
    fn offers<'a>(&self, slice: &'a ResourceSlice, device: &'a SliceDevice) -> Vec<Vec<Offer<'a>>> {
        let facts = DeviceFacts::new(&slice.driver, device);
        let offer = |own: &Alternative<'_>| {
            let mut taints = device.taints.iter().filter(|taint| taint.repels());
            let is_welcome = taints
                .all(|taint| own.demand.tolerations.iter().any(|consent| consent.tolerates(taint)));
            let is_selected = own.programs.iter().all(|program| {
                program.as_ref().is_ok_and(|program| program.matches(facts) == Ok(true))
            });
            (is_welcome && is_selected).then(|| amounts(device, &own.demand.capacity)).flatten()
        };
        let request = |own: &Vec<Alternative<'_>>| own.iter().map(offer).collect();
        self.requests.iter().map(request).collect()
    }
}

/// Takes the counters of a device (1), or gives them back (-1).
fn count<'a>(
    left: &mut BTreeMap<[&'a str; 4], i128>,
    slice: &'a ResourceSlice,
    device: &'a SliceDevice,
    sign: i128,
) {
    for used in &device.consumes {
        for (name, amount) in &used.counters {
            if let Some(left) = left.get_mut(&[&*slice.driver, &*slice.pool, &*used.set, &**name]) {
                *left = left.saturating_sub(sign * amount.nanos());
            }
        }
    }
}
