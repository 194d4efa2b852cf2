//! Devices of claims, counted again from the slices as they are published.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::amounts::amounts;
use crate::claims::{DeviceFacts, SelectorProgram};
use crate::framework::Framework;
use crate::model::{
    Attribute, AttributeRule, ClaimRequest, ClaimSource, ClaimSpec, DeviceAmount, DeviceDemand,
    NodeReach, Pod, RequestChoice, ResourceSlice, SliceDevice,
};
use crate::state::{Cluster, Row};

/// A count of the devices that a request of a pod's claim could have. They are counted in groups of
/// so many, each on one node and of one value of the attribute, if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted<'a> {
    pub(super) pod: &'a str,
    pub(super) claim: &'a str,
    pub(super) request: &'a str,
    pub(super) same: Option<&'a str>,
    pub(super) each: u64,
}

/// The least amounts that a request takes of a device, by capacity; `None` if it cannot have it.
type Takes<'a> = Option<BTreeMap<&'a str, i128>>;

/// Places of devices by the value of an attribute, each with how often it can be had.
type ByValue<'a> = BTreeMap<Option<&'a Attribute>, Vec<(usize, u64)>>;

/// Pods that must all be placed on some rows, and the devices that they could have there.
pub(super) struct Devices<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    /// Devices that nobody has whole, by slice, with the node that alone reaches them.
    free: Vec<(&'a ResourceSlice, &'a SliceDevice, Option<&'a str>)>,
    /// Amounts left of counters, by driver, pool, set and name.
    left: BTreeMap<[&'a str; 4], i128>,
    /// Claims that have no devices, each once.
    claims: Vec<(&'a Pod, &'a str, &'a ClaimSpec)>,
}

impl<'a> Devices<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        pods: impl Iterator<Item = &'a Pod>,
        rows: &[Row],
    ) -> Devices<'a> {
        let mut all = Devices {
            cluster,
            framework,
            free: Vec::new(),
            left: counters(cluster),
            claims: Vec::new(),
        };
        let names: BTreeSet<&str> =
            rows.iter().filter_map(|row| Some(cluster.view(*row)?.name())).collect();
        for slice in cluster.claims().slices() {
            // Devices of a pool with counters may concern any node.
            let home = match (&slice.nodes, slice.counters.is_empty()) {
                (NodeReach::Node(name), true) => Some(name.as_str()),
                _ => None,
            };
            if home.is_none_or(|home| names.contains(home)) {
                for device in &slice.devices {
                    let (driver, pool) = (&slice.driver, &slice.pool);
                    let usage = cluster.claims().usage(driver, pool, &device.name);
                    if usage.is_none_or(|usage| !usage.is_whole()) {
                        all.free.push((slice, device, home));
                    }
                }
            }
        }
        let mut named: BTreeSet<(&str, &str)> = BTreeSet::new();
        for pod in pods {
            for own in &pod.shape().claims {
                let name = match &own.source {
                    ClaimSource::Own(spec) => {
                        all.claims.push((pod, &own.name, spec));
                        continue;
                    }
                    ClaimSource::Named(name) => name,
                    ClaimSource::Made { claim, .. } => claim,
                    _ => continue,
                };
                let key = (&*pod.shape().namespace, name.as_str());
                let Some(record) = cluster.claims().claim(key.0, key.1) else { continue };
                if let (Some(claim), None) = (record.claim(), record.allocation())
                    && named.insert(key)
                {
                    all.claims.push((pod, &own.name, &claim.spec));
                }
            }
        }
        all
    }

    /// How many groups are needed by claims that nothing else can serve, and how many there are.
    /// `None` if that says nothing.
    pub(super) fn count(&self, counted: Counted<'_>) -> Option<(u64, u64)> {
        let Counted { pod, claim, request, same, each } = counted;
        let named = |(of, own, _): &&(&Pod, &str, &ClaimSpec)| of.name == pod && *own == claim;
        let (.., spec) = self.claims.iter().find(named)?;
        let asked = spec.requests.iter().find(|own| own.name == request)?;
        let serves = self.serving(asked)?;
        let among: Vec<bool> = serves.iter().map(Option::is_some).collect();
        let roams = self.free.iter().zip(&among).any(|((.., home), own)| *own && home.is_none());
        if each == 0 || roams && each > 1 {
            return None;
        }
        let (mut least, mut seen) = (serves, Vec::new());
        for (.., spec) in &self.claims {
            if seen.contains(spec) {
                continue;
            }
            seen.push(*spec);
            for request in &spec.requests {
                let own = self.serving(request);
                let own = own.filter(|own| confined(own, &among)).unwrap_or_default();
                for (least, own) in least.iter_mut().zip(own) {
                    lower(least, own);
                }
            }
        }
        let fits = self.groups(&least, same, each)?;
        let mut need = 0_u64;
        let mut known: Vec<(&ClaimSpec, u64)> = Vec::new();
        for (.., spec) in &self.claims {
            // Claims of one template are counted once, and added as often as there are.
            let own = if let Some((_, groups)) = known.iter().find(|(other, _)| other == spec) {
                *groups
            } else {
                let requests = spec.requests.iter();
                let own = requests.map(|own| self.needed(spec, own, &among, (same, each)));
                let own = own.fold(0, u64::saturating_add);
                known.push((spec, own));
                own
            };
            need = need.saturating_add(own);
        }
        Some((need, fits))
    }

    /// The groups that a request needs for certain, if no device but these can serve it.
    fn needed(
        &self,
        spec: &ClaimSpec,
        request: &ClaimRequest,
        among: &[bool],
        (same, each): (Option<&str>, u64),
    ) -> u64 {
        let is_same = |attribute: &str| {
            spec.constraints.iter().any(|own| {
                matches!(&own.rule, AttributeRule::Match(rule) if rule == attribute)
                    && (own.requests.is_empty() || own.requests.contains(&request.name))
            })
        };
        let counts = demands(request).into_iter().map(|demand| match demand.amount {
            DeviceAmount::Count(count) => count,
            _ => 0,
        });
        let groups = counts.min().unwrap_or(0) / each;
        if groups == 0 || same.is_some_and(|same| !is_same(same)) {
            return 0;
        }
        match self.serving(request) {
            Some(own) if confined(&own, among) => groups,
            _ => 0,
        }
    }

    /// How many groups of so many devices there are. `None` if there is no end to them.
    fn groups(&self, least: &[Takes<'a>], same: Option<&str>, each: u64) -> Option<u64> {
        let mut nodes: BTreeMap<Option<&str>, ByValue<'_>> = BTreeMap::new();
        for (at, takes) in least.iter().enumerate() {
            let (Some(takes), (slice, device, home)) = (takes, self.free[at]) else { continue };
            let times = if device.shareable { self.shares(at, takes)? } else { 1 };
            let value = match same {
                None => None,
                Some(same) => match device.attribute_of(&slice.driver, same) {
                    None => continue,
                    value => value,
                },
            };
            nodes.entry(home).or_default().entry(value).or_default().push((at, times));
        }
        let sums = nodes.values().map(|values| {
            let apart: Vec<u64> = values.values().map(|own| self.held(own) / each).collect();
            let apart = apart.into_iter().fold(0, u64::saturating_add);
            let all: Vec<(usize, u64)> = values.values().flatten().copied().collect();
            apart.min(self.held(&all) / each)
        });
        Some(sums.fold(0, u64::saturating_add))
    }

    /// How many requests a shared device serves at once; `None` without end.
    fn shares(&self, at: usize, takes: &BTreeMap<&str, i128>) -> Option<u64> {
        let (slice, device, _) = self.free[at];
        let usage = self.cluster.claims().usage(&slice.driver, &slice.pool, &device.name);
        let of = |(name, amount): (&&str, &i128)| {
            let held = usage.and_then(|usage| usage.consumed.get(*name)).map_or(0, |held| *held);
            let free = (device.capacity[*name].value.nanos() - held).max(0);
            (*amount > 0).then(|| u64::try_from(free / *amount).unwrap_or(u64::MAX))
        };
        takes.iter().filter_map(of).min()
    }

    /// How many of some devices somebody can hold at once: each set of counters is filled with the
    /// devices that take least of it, one counter at a time.
    fn held(&self, devices: &[(usize, u64)]) -> u64 {
        let mut of_sets: BTreeMap<[&str; 3], Vec<usize>> = BTreeMap::new();
        let mut all = 0_u64;
        for &(at, times) in devices {
            let (slice, device, _) = self.free[at];
            match device.consumes.first() {
                Some(used) if !device.shareable => {
                    of_sets.entry([&slice.driver, &slice.pool, &used.set]).or_default().push(at);
                }
                _ => all = all.saturating_add(times),
            }
        }
        for (set, members) in &of_sets {
            let amount = |at: usize, name: &str| {
                let amount = self.free[at].1.consumes[0].counters.get(name);
                amount.map_or(0, |amount| amount.nanos())
            };
            let mut most = members.len();
            for at in members {
                for name in self.free[*at].1.consumes[0].counters.keys() {
                    let key = [set[0], set[1], set[2], name.as_str()];
                    let mut left = self.left.get(&key).copied().unwrap_or(0).max(0);
                    let mut amounts: Vec<i128> =
                        members.iter().map(|at| amount(*at, name)).collect();
                    amounts.sort_unstable();
                    let fit = amounts.iter().position(|amount| {
                        left -= amount;
                        left < 0
                    });
                    most = most.min(fit.unwrap_or(members.len()));
                }
            }
            all = all.saturating_add(most as u64);
        }
        all
    }

    /// The least that a request takes of each device by some alternative. `None` for one that takes
    /// devices which others have.
    fn serving(&self, request: &ClaimRequest) -> Option<Vec<Takes<'a>>> {
        let mut all: Vec<Takes<'a>> = alloc::vec![None; self.free.len()];
        for demand in demands(request) {
            if demand.admin {
                return None;
            }
            let class = self.cluster.claims().classes().find(|own| own.name == demand.class);
            let own = class.into_iter().flat_map(|class| &class.selectors);
            let programs = own.chain(&demand.selectors).map(|text| self.program(text));
            let programs: Vec<_> = programs.collect();
            for (least, (slice, device, _)) in all.iter_mut().zip(&self.free) {
                let facts = DeviceFacts::new(&slice.driver, device);
                let is_selected = programs.iter().all(|program| {
                    program.as_ref().is_ok_and(|program| program.matches(facts) == Ok(true))
                });
                let is_welcome =
                    device.taints.iter().filter(|taint| taint.repels()).all(|taint| {
                        demand.tolerations.iter().any(|consent| consent.tolerates(taint))
                    });
                if is_selected && is_welcome {
                    lower(least, amounts(device, &demand.capacity));
                }
            }
        }
        Some(all)
    }

    fn program(&self, text: &str) -> Result<alloc::boxed::Box<dyn SelectorProgram>, String> {
        self.framework.selectors().compile(text)
    }
}

/// The alternatives of a request.
fn demands(request: &ClaimRequest) -> Vec<&DeviceDemand> {
    match &request.choice {
        RequestChoice::Exactly(demand) => alloc::vec![demand],
        RequestChoice::FirstAvailable(all) => all.iter().map(|own| &own.demand).collect(),
    }
}

/// Whether a request can have no device but these.
fn confined(takes: &[Takes<'_>], among: &[bool]) -> bool {
    takes.iter().zip(among).all(|(takes, among)| takes.is_none() || *among)
}

/// Lowers the least amounts by those of another way to take a device, if there is one.
fn lower<'a>(least: &mut Takes<'a>, other: Takes<'a>) {
    let Some(other) = other else { return };
    let Some(known) = least else {
        *least = Some(other);
        return;
    };
    for (name, amount) in other {
        let own = known.entry(name).or_insert(amount);
        *own = amount.min(*own);
    }
}

/// Counters of the newest slices of each pool, less what devices in use take.
fn counters(cluster: &Cluster) -> BTreeMap<[&str; 4], i128> {
    let book = cluster.claims();
    let mut newest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for slice in book.slices() {
        let own = newest.entry((&slice.driver, &slice.pool)).or_insert(slice.generation);
        *own = slice.generation.max(*own);
    }
    let mut slices: Vec<&ResourceSlice> = book.slices().collect();
    slices.retain(|own| newest.get(&(&*own.driver, &*own.pool)) == Some(&own.generation));
    let mut left = BTreeMap::new();
    for slice in &slices {
        for set in &slice.counters {
            for (name, amount) in &set.counters {
                left.insert([&*slice.driver, &*slice.pool, &*set.name, &**name], amount.nanos());
            }
        }
    }
    for slice in &slices {
        for device in &slice.devices {
            if book.usage(&slice.driver, &slice.pool, &device.name).is_none() {
                continue;
            }
            for used in &device.consumes {
                for (name, amount) in &used.counters {
                    let key = [&*slice.driver, &*slice.pool, &*used.set, &**name];
                    left.entry(key).and_modify(|left: &mut i128| *left -= amount.nanos());
                }
            }
        }
    }
    left
}
