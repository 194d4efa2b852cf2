//! Scarce devices: requests that can only be met from devices of which there are too few.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::claims::capacity::consumption;
use crate::claims::extended::ready;
use crate::claims::selector::{DeviceFacts, SelectorEvaluator};
use crate::claims::wanted::{Wanted, choices, demand_of};
use crate::model::{
    Attribute, AttributeRule, ClaimSource, ClaimSpec, DeviceAmount, NodeReach, Pod, ResourceSlice,
    SliceDevice,
};
use crate::state::{ClaimBook, Cluster, DeviceUsage, NodeView, Row};

/// Too few devices for some requests, among them one that it is told by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scarcity {
    /// The full name of the pod, and the names of its claim and of the request.
    pub(crate) pod: String,
    pub(crate) claim: String,
    pub(crate) request: String,
    /// The attribute that the devices of a request share, if that matters.
    pub(crate) same: Option<String>,
    /// Devices are counted in groups of so many, on one node.
    pub(crate) each: u64,
    pub(crate) need: u64,
    pub(crate) fits: u64,
}

/// The most different claims that are compared, the most pairs of request and device that are judged,
/// and the most devices that are compared for pairs of requests.
const DIFFERENT: usize = 64;
const JUDGED: usize = 1 << 20;
const COMPARED: usize = 1 << 26;

/// A request of claims that have no devices yet.
struct Request<'a> {
    wanted: &'a Wanted,
    place: usize,
    /// Where it is met first.
    pod: &'a str,
    claim: &'a str,
    /// The offer of each device.
    offers: Vec<Offer>,
    /// How many claims have it.
    claims: u64,
    /// The least number of devices; 0 if it is not known.
    count: u64,
}

impl Request<'_> {
    fn name(&self) -> &str {
        &self.wanted.spec.requests[self.place].name
    }

    /// The attributes of which all of its devices have one value.
    fn same(&self) -> impl Iterator<Item = &str> {
        let rules = self.wanted.spec.constraints.iter().filter(move |own| {
            own.requests.is_empty() || own.requests.iter().any(|name| name == self.name())
        });
        rules.filter_map(|own| match &own.rule {
            AttributeRule::Match(attribute) => Some(&**attribute),
            _ => None,
        })
    }
}

/// The least amounts that a request takes of a device's capacities, in 10⁻⁹; `None` if the device
/// cannot serve it.
type Offer = Option<BTreeMap<String, i128>>;

/// A counter: driver, pool, set and name.
type Counter<'a> = [&'a str; 4];

/// A device that some of the nodes may reach.
struct Device<'a> {
    slice: &'a ResourceSlice,
    own: &'a SliceDevice,
    usage: Option<&'a DeviceUsage>,
    /// The node that alone reaches it.
    home: Option<&'a str>,
}

/// The first scarcity of devices for pods that must all be placed on some rows.
///
/// O(devices × different requests²). `None`, too, if these are too many to compare.
pub(crate) fn scarcity(
    cluster: &Cluster,
    evaluator: &dyn SelectorEvaluator,
    pods: &[&Pod],
    rows: &[Row],
) -> Option<Scarcity> {
    let book = cluster.claims();
    let claims = open_claims(cluster, pods);
    let mut specs: Vec<(&str, &str, &Arc<ClaimSpec>, u64)> = Vec::new();
    for (pod, claim, spec) in claims {
        match specs.iter_mut().find(|(.., own, _)| *own == spec) {
            Some((.., count)) => *count += 1,
            None => specs.push((pod, claim, spec, 1)),
        }
        if specs.len() > DIFFERENT {
            return None;
        }
    }
    let wanted: Vec<Wanted> =
        specs.iter().map(|(.., spec, _)| ready(book, evaluator, spec)).collect();
    let names = rows.iter().filter_map(|row| cluster.view(*row)).map(NodeView::name);
    let names: BTreeSet<&str> = names.collect();
    let devices = devices_of(cluster, &names);
    let count: usize = wanted.iter().map(|own| own.spec.requests.len()).sum();
    let judged = count.saturating_mul(devices.len());
    if judged > JUDGED || judged.saturating_mul(count) > COMPARED {
        return None;
    }
    let mut requests = Vec::new();
    for (wanted, &(pod, claim, _, claims)) in wanted.iter().zip(&specs) {
        for place in 0..wanted.spec.requests.len() {
            if let Some((offers, count)) = served(wanted, place, &devices) {
                requests.push(Request { wanted, place, pod, claim, offers, claims, count });
            }
        }
    }
    let left = counters_left(book);
    requests.iter().find_map(|own| scarcity_of(own, &requests, &devices, &left))
}

/// Claims without devices of pods, each once, by pod and name in it.
fn open_claims<'a>(
    cluster: &'a Cluster,
    pods: &[&'a Pod],
) -> Vec<(&'a str, &'a str, &'a Arc<ClaimSpec>)> {
    let (mut open, mut seen) = (Vec::new(), BTreeSet::new());
    for pod in pods {
        for own in &pod.shape().claims {
            let spec = match &own.source {
                ClaimSource::Own(spec) => spec,
                ClaimSource::Unmade | ClaimSource::Extended(_) => continue,
                ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                    let namespace = &*pod.shape().namespace;
                    let record = cluster.claims().claim(namespace, name);
                    let record = record.filter(|record| record.allocation().is_none());
                    let Some(claim) = record.and_then(|record| record.claim()) else { continue };
                    if !seen.insert((namespace, &**name)) {
                        continue;
                    }
                    &claim.spec
                }
            };
            open.push((&*pod.name, &*own.name, spec));
        }
    }
    open
}

/// The devices that nobody has whole, and that one of some nodes may reach.
fn devices_of<'a>(cluster: &'a Cluster, names: &BTreeSet<&str>) -> Vec<Device<'a>> {
    let book = cluster.claims();
    let mut devices = Vec::new();
    for slice in book.slices() {
        let home = match &slice.nodes {
            NodeReach::Node(name) if slice.counters.is_empty() => Some(&**name),
            _ => None,
        };
        if home.is_some_and(|home| !names.contains(home)) {
            continue;
        }
        let usage = book.pool_usage(&slice.driver, &slice.pool);
        for own in &slice.devices {
            let usage = usage.and_then(|usage| usage.get(&*own.name));
            if !usage.is_some_and(DeviceUsage::is_whole) {
                devices.push(Device { slice, own, usage, home });
            }
        }
    }
    devices
}

/// Counters of the newest slices of all pools, less what devices in use take of them.
fn counters_left(book: &ClaimBook) -> BTreeMap<Counter<'_>, i128> {
    let mut left = BTreeMap::new();
    for ((driver, pool), slices) in &book.published().by_pool {
        let newest = slices.iter().map(|slice| slice.generation).max();
        let newest = || slices.iter().filter(move |slice| Some(slice.generation) == newest);
        for set in newest().flat_map(|slice| &slice.counters) {
            for (name, amount) in &set.counters {
                left.insert([&**driver, &**pool, &*set.name, &**name], amount.nanos());
            }
        }
        let Some(usage) = book.pool_usage(driver, pool) else { continue };
        for device in newest().flat_map(|slice| &slice.devices) {
            for used in device.consumes.iter().filter(|_| usage.contains_key(&*device.name)) {
                for (name, amount) in &used.counters {
                    if let Some(left) = left.get_mut(&[&**driver, &**pool, &*used.set, &**name]) {
                        *left = left.saturating_sub(amount.nanos());
                    }
                }
            }
        }
    }
    left
}

/// The offers of devices to a request, and how many it needs. `None` for one that takes devices
/// which others have.
fn served(wanted: &Wanted, place: usize, devices: &[Device<'_>]) -> Option<(Vec<Offer>, u64)> {
    let request = &wanted.spec.requests[place];
    let mut offers: Vec<Offer> = vec![None; devices.len()];
    let mut least = u64::MAX;
    for choice in 0..choices(request) {
        let demand = demand_of(request, choice).1;
        if demand.admin {
            return None;
        }
        least = least.min(match demand.amount {
            DeviceAmount::Count(count) => count,
            _ => 0,
        });
        let selectors = &wanted.selectors[place][choice];
        for (Device { slice, own: device, .. }, offer) in devices.iter().zip(&mut offers) {
            let facts = DeviceFacts::new(&slice.driver, device);
            let is_tolerated = device.taints.iter().all(|taint| {
                !taint.repels() || demand.tolerations.iter().any(|own| own.tolerates(taint))
            });
            if !is_tolerated
                || !selectors.iter().all(|selector| selector.matches(facts) == Ok(true))
            {
                continue;
            }
            let Some(takes) = consumption(device, &demand.capacity) else { continue };
            if takes.iter().any(|(name, amount)| *amount > device.capacity[name].value) {
                continue;
            }
            let takes = takes.into_iter().map(|(name, amount)| (name, amount.nanos()));
            match offer {
                None => *offer = Some(takes.collect()),
                Some(known) => takes.for_each(|(name, amount)| {
                    known.entry(name).and_modify(|own| *own = amount.min(*own)).or_insert(amount);
                }),
            }
        }
    }
    Some((offers, if least == u64::MAX { 0 } else { least }))
}

/// The scarcity of the devices that a request could have.
fn scarcity_of(
    own: &Request<'_>,
    requests: &[Request<'_>],
    devices: &[Device<'_>],
    left: &BTreeMap<Counter<'_>, i128>,
) -> Option<Scarcity> {
    let is_confined = |other: &&Request<'_>| {
        other.offers.iter().zip(&own.offers).all(|(theirs, own)| theirs.is_none() || own.is_some())
    };
    let confined: Vec<&Request<'_>> = requests.iter().filter(is_confined).collect();
    let mut there = Vec::new();
    for (at, device) in devices.iter().enumerate().filter(|(at, _)| own.offers[*at].is_some()) {
        there.push((device, times(device, confined.iter().map(|own| &own.offers[at]))?));
    }
    let is_local = there.iter().all(|(device, _)| device.home.is_some());
    let counts: BTreeSet<u64> = confined.iter().map(|own| own.count).collect();
    for same in core::iter::once(None).chain(own.same().map(Some)) {
        for &each in core::iter::once(&1).chain(&counts) {
            if each == 0 || each > 1 && !is_local {
                continue;
            }
            let mut need = 0_u64;
            for other in &confined {
                if same.is_none_or(|same| other.same().any(|their| their == same)) {
                    need = need.saturating_add((other.count / each).saturating_mul(other.claims));
                }
            }
            let fits = groups(&there, same, each, left);
            if need > fits {
                return Some(Scarcity {
                    pod: own.pod.to_string(),
                    claim: own.claim.to_string(),
                    request: own.name().to_string(),
                    same: same.map(String::from),
                    each,
                    need,
                    fits,
                });
            }
        }
    }
    None
}

/// How many requests a device can serve at once, of which each takes the least that any does. `None`
/// if there is no end to it.
fn times<'o>(device: &Device<'_>, offers: impl Iterator<Item = &'o Offer>) -> Option<u64> {
    if !device.own.shareable {
        return Some(1);
    }
    let mut least: BTreeMap<&str, i128> = BTreeMap::new();
    for (name, amount) in offers.flatten().flatten() {
        least.entry(name).and_modify(|own| *own = (*own).min(*amount)).or_insert(*amount);
    }
    let mut times = None;
    for (name, least) in least.into_iter().filter(|(_, least)| *least > 0) {
        let held = device.usage.and_then(|usage| usage.consumed.get(name)).copied();
        let free = device.own.capacity[name].value.nanos() - held.unwrap_or(0);
        let own = u64::try_from(free.max(0) / least).unwrap_or(u64::MAX);
        times = Some(times.map_or(own, |times: u64| times.min(own)));
    }
    times
}

/// How many groups of so many devices there are, each on one node and of one value of an attribute.
fn groups(
    devices: &[(&Device<'_>, u64)],
    same: Option<&str>,
    each: u64,
    left: &BTreeMap<Counter<'_>, i128>,
) -> u64 {
    type Members<'d, 'a> = Vec<&'d (&'d Device<'a>, u64)>;
    let mut homes: BTreeMap<Option<&str>, BTreeMap<Option<&Attribute>, Members<'_, '_>>> =
        BTreeMap::new();
    for member in devices {
        let device = member.0;
        let value = same.map(|same| device.own.attribute_of(&device.slice.driver, same));
        if value != Some(None) {
            homes.entry(device.home).or_default().entry(value.flatten()).or_default().push(member);
        }
    }
    let of_home = |values: &BTreeMap<Option<&Attribute>, Members<'_, '_>>| {
        let apart = values.values().map(|own| at_once(own.iter().copied(), left) / each);
        let apart = apart.fold(0_u64, u64::saturating_add);
        apart.min(at_once(values.values().flatten().copied(), left) / each)
    };
    homes.values().map(of_home).fold(0, u64::saturating_add)
}

/// How many of some devices can be held at once, as far as counters go. A device counts for the first
/// set of counters that it uses, a shared one for none.
fn at_once<'d, 'a: 'd>(
    devices: impl Iterator<Item = &'d (&'d Device<'a>, u64)>,
    left: &BTreeMap<Counter<'_>, i128>,
) -> u64 {
    let mut sets: BTreeMap<[&str; 3], Vec<&SliceDevice>> = BTreeMap::new();
    let mut sum = 0_u64;
    for (device, times) in devices {
        match device.own.consumes.first().filter(|_| !device.own.shareable) {
            None => sum = sum.saturating_add(*times),
            Some(used) => {
                let set = [&*device.slice.driver, &*device.slice.pool, &*used.set];
                sets.entry(set).or_default().push(device.own);
            }
        }
    }
    for ([driver, pool, set], devices) in sets {
        let uses = |device: &'d SliceDevice| &device.consumes[0].counters;
        let names: BTreeSet<&String> = devices.iter().flat_map(|own| uses(own).keys()).collect();
        let of_counter = |name: &String| {
            let mut amounts: Vec<i128> = devices
                .iter()
                .map(|own| uses(own).get(name).map_or(0, |amount| amount.nanos()))
                .collect();
            amounts.sort_unstable();
            let there = left.get(&[driver, pool, set, &**name]).map_or(0, |left| (*left).max(0));
            let mut taken = 0_i128;
            let fit = amounts.into_iter().take_while(|amount| {
                taken = taken.saturating_add(*amount);
                taken <= there
            });
            fit.count() as u64
        };
        let fit = names.into_iter().map(of_counter).min().unwrap_or(devices.len() as u64);
        sum = sum.saturating_add(fit);
    }
    sum
}
