//! Scarce devices: requests that can only be met from devices of which there are too few.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::claims::extended::ready;
use crate::claims::selector::{DeviceFacts, SelectorEvaluator};
use crate::claims::wanted::{Wanted, choices, demand_of};
use crate::model::{
    Attribute, AttributeRule, ClaimSource, ClaimSpec, DeviceAmount, NodeReach, Pod, ResourceSlice,
    SliceDevice,
};
use crate::state::{Cluster, DeviceUsage, NodeView, Row};

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

/// The most different requests that are compared.
const DIFFERENT: usize = 64;

/// A request of claims that have no devices yet.
struct Request<'a> {
    wanted: &'a Wanted,
    place: usize,
    /// Where it is met first.
    pod: &'a str,
    claim: &'a str,
    /// Whether each device could serve it.
    serves: Vec<bool>,
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

/// A device that some of the nodes may reach.
struct Device<'a> {
    slice: &'a ResourceSlice,
    own: &'a SliceDevice,
    /// The node that alone reaches it.
    home: Option<&'a str>,
}

/// The first scarcity of devices for pods that must all be placed on some rows.
///
/// O(devices × different requests²).
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
        match specs.iter_mut().find(|(.., own, _)| Arc::ptr_eq(own, spec) || *own == spec) {
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
    let mut requests = Vec::new();
    for (wanted, &(pod, claim, _, claims)) in wanted.iter().zip(&specs) {
        for place in 0..wanted.spec.requests.len() {
            if let Some((serves, count)) = served(wanted, place, &devices) {
                requests.push(Request { wanted, place, pod, claim, serves, claims, count });
            }
        }
    }
    requests.iter().find_map(|own| scarcity_of(own, &requests, &devices))
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
        let taken = |device: &SliceDevice| {
            usage.and_then(|usage| usage.get(&*device.name)).is_some_and(DeviceUsage::is_whole)
        };
        let free = slice.devices.iter().filter(|device| !taken(device));
        devices.extend(free.map(|device| Device { slice, own: device, home }));
    }
    devices
}

/// The devices that could serve a request, and how many it needs. `None` for one that takes devices
/// which others have.
fn served(wanted: &Wanted, place: usize, devices: &[Device<'_>]) -> Option<(Vec<bool>, u64)> {
    let request = &wanted.spec.requests[place];
    let mut serves = vec![false; devices.len()];
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
        for (Device { slice, own: device, .. }, serves) in devices.iter().zip(&mut serves) {
            let facts = DeviceFacts::new(&slice.driver, device);
            *serves = *serves
                || device.taints.iter().all(|taint| {
                    !taint.repels() || demand.tolerations.iter().any(|own| own.tolerates(taint))
                }) && selectors.iter().all(|selector| selector.matches(facts) == Ok(true));
        }
    }
    Some((serves, if least == u64::MAX { 0 } else { least }))
}

/// The scarcity of the devices that a request could have.
fn scarcity_of(
    own: &Request<'_>,
    requests: &[Request<'_>],
    devices: &[Device<'_>],
) -> Option<Scarcity> {
    let there = || devices.iter().zip(&own.serves).filter(|(_, serves)| **serves);
    if there().any(|(device, _)| device.own.shareable) {
        return None;
    }
    let is_confined = |other: &&Request<'_>| {
        other.serves.iter().zip(&own.serves).all(|(theirs, own)| !theirs || *own)
    };
    let confined: Vec<&Request<'_>> = requests.iter().filter(is_confined).collect();
    let is_local = there().all(|(device, _)| device.home.is_some());
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
            let mut groups: BTreeMap<(Option<&str>, Option<&Attribute>), u64> = BTreeMap::new();
            for (Device { slice, own: device, home }, _) in there() {
                let value = same.map(|same| device.attribute_of(&slice.driver, same));
                if value != Some(None) {
                    *groups.entry((*home, value.flatten())).or_default() += 1;
                }
            }
            let fits: u64 = groups.into_values().map(|count| count / each).sum();
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
