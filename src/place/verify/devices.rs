//! Devices of claims, counted again from the slices as they are published.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

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

/// Pods that must all be placed on some rows, and the devices that they could have there.
pub(super) struct Devices<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    /// Devices that nobody has whole, by slice, with the node that alone reaches them.
    free: Vec<(&'a ResourceSlice, &'a SliceDevice, Option<&'a str>)>,
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
        let mut all = Devices { cluster, framework, free: Vec::new(), claims: Vec::new() };
        for slice in cluster.claims().slices() {
            // Devices of a pool with counters may concern any node.
            let home = match (&slice.nodes, slice.counters.is_empty()) {
                (NodeReach::Node(name), true) => Some(name.as_str()),
                _ => None,
            };
            let is_row = |name: &str| {
                rows.iter().any(|row| cluster.view(*row).is_some_and(|node| node.name() == name))
            };
            if home.is_none_or(is_row) {
                for device in &slice.devices {
                    let (driver, pool) = (&slice.driver, &slice.pool);
                    let usage = cluster.claims().usage(driver, pool, &device.name);
                    if usage.is_none_or(|usage| !usage.is_whole()) {
                        all.free.push((slice, device, home));
                    }
                }
            }
        }
        let mut named: Vec<(&str, &str)> = Vec::new();
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
                    && !named.contains(&key)
                {
                    named.push(key);
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
        let there = || self.free.iter().zip(&serves).filter(|(_, serves)| **serves);
        let is_shared = there().any(|((_, device, _), _)| device.shareable);
        let roams = there().any(|((.., home), _)| home.is_none());
        if each == 0 || is_shared || roams && each > 1 {
            return None;
        }
        let mut groups: BTreeMap<(Option<&str>, Option<&Attribute>), u64> = BTreeMap::new();
        for ((slice, device, home), _) in there() {
            let value = match same {
                None => None,
                Some(same) => match device.attribute_of(&slice.driver, same) {
                    None => continue,
                    value => value,
                },
            };
            *groups.entry((*home, value)).or_default() += 1;
        }
        let fits = groups.values().map(|devices| devices / each).sum();
        let mut need = 0_u64;
        let mut known: Vec<(&ClaimSpec, u64)> = Vec::new();
        for (.., spec) in &self.claims {
            // Claims of one template are counted once, and added as often as there are.
            let own = if let Some((_, groups)) = known.iter().find(|(other, _)| other == spec) {
                *groups
            } else {
                let requests = spec.requests.iter();
                let own = requests.map(|own| self.needed(spec, own, &serves, (same, each)));
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
            Some(own) if own.iter().zip(among).all(|(own, among)| !own || *among) => groups,
            _ => 0,
        }
    }

    /// Whether each device could serve a request by some alternative. `None` for one that takes
    /// devices which others have.
    fn serving(&self, request: &ClaimRequest) -> Option<Vec<bool>> {
        let mut all = alloc::vec![false; self.free.len()];
        for demand in demands(request) {
            if demand.admin {
                return None;
            }
            let class = self.cluster.claims().classes().find(|own| own.name == demand.class);
            let own = class.into_iter().flat_map(|class| &class.selectors);
            let programs = own.chain(&demand.selectors).map(|text| self.program(text));
            let programs: Vec<_> = programs.collect();
            for (serves, (slice, device, _)) in all.iter_mut().zip(&self.free) {
                let facts = DeviceFacts::new(&slice.driver, device);
                let is_selected = programs.iter().all(|program| {
                    program.as_ref().is_ok_and(|program| program.matches(facts) == Ok(true))
                });
                let is_welcome =
                    device.taints.iter().filter(|taint| taint.repels()).all(|taint| {
                        demand.tolerations.iter().any(|consent| consent.tolerates(taint))
                    });
                *serves |= is_selected && is_welcome;
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
