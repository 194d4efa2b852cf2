//! Pods with claims on nodes, counted again: the combinations that a node serves, and the most pods
//! over all nodes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::bench::{Bench, Claim};
use crate::framework::Framework;
use crate::model::resources::PODS;
use crate::model::{ClaimSource, ClaimSpec, NodeReach, Pod, PodGroup, PodShape};
use crate::state::{Cluster, Row};

/// Limits of a count: combinations that are told apart, and devices that are tried.
const STATES: usize = 1 << 12;
const STEPS: u64 = 1 << 26;

/// Facts about room that the check has without the claims.
pub(super) struct Site<'s> {
    /// Whether a pod may go to a node alone.
    pub(super) admits: &'s dyn Fn(&PodGroup, &Pod, Row) -> bool,
    /// The amount of a resource that a pod takes, and how much of it is free.
    pub(super) takes: &'s dyn Fn(&Pod, &str) -> i64,
    pub(super) free: &'s dyn Fn(Row, &str) -> i64,
}

/// Pods that go to one node, since they share claims without devices, or one pod.
struct Unit<'a> {
    pods: Vec<(&'a PodGroup, &'a Pod)>,
    shared: Vec<(&'a str, &'a str)>,
    /// Places of claims.
    claims: Vec<usize>,
}

/// Units that ask for the same, whatever their claims are called.
struct Kind<'a> {
    units: Vec<Unit<'a>>,
    question: Option<Question<'a>>,
}

/// A pod's shape without its claims, and these: one of its own, or one that others name too.
type Question<'a> = (PodShape, Vec<Result<&'a ClaimSpec, &'a ClaimSource>>);

/// Pods that must all be placed, in kinds.
pub(super) struct Together<'a> {
    cluster: &'a Cluster,
    claims: Vec<Claim<'a>>,
    kinds: Vec<Kind<'a>>,
}

impl<'a> Together<'a> {
    /// `None` if the claims are not known, or several nodes may reach a device.
    pub(super) fn new(
        cluster: &'a Cluster,
        framework: &Framework,
        pods: &[(&'a PodGroup, &'a Pod)],
    ) -> Option<Together<'a>> {
        let is_local = |nodes: &NodeReach| matches!(nodes, NodeReach::Node(_));
        if !cluster.claims().slices().all(|slice| is_local(&slice.nodes)) {
            return None;
        }
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for own in pods.iter().flat_map(|(_, pod)| &pod.shape().claims) {
            if let ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } = &own.source {
                *named.entry(name).or_default() += 1;
            }
        }
        let mut all = Together { cluster, claims: Vec::new(), kinds: Vec::new() };
        let (mut specs, mut units): (Vec<&ClaimSpec>, Vec<Unit<'a>>) = (Vec::new(), Vec::new());
        for &(group, pod) in pods {
            let mut unit =
                Unit { pods: vec![(group, pod)], shared: Vec::new(), claims: Vec::new() };
            let namespace = &*pod.shape().namespace;
            let mut open = Vec::new();
            for own in &pod.shape().claims {
                match &own.source {
                    ClaimSource::Own(spec) => open.push(&**spec),
                    ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                        let record = cluster.claims().claim(namespace, name)?;
                        let key = (namespace, name.as_str());
                        if record.allocation().is_some() || unit.shared.contains(&key) {
                            continue;
                        }
                        unit.shared.push(key);
                        if !units.iter().any(|other| other.shared.contains(&key)) {
                            open.push(&*record.claim()?.spec);
                        }
                    }
                    _ => return None,
                }
            }
            for spec in open {
                let place = specs.iter().position(|own| *own == spec);
                if place.is_none() {
                    all.claims.push(Claim::new(cluster, framework, spec)?);
                    specs.push(spec);
                }
                unit.claims.push(place.unwrap_or(specs.len() - 1));
            }
            let (joined, apart): (Vec<_>, Vec<_>) = units
                .into_iter()
                .partition(|other| other.shared.iter().any(|key| unit.shared.contains(key)));
            units = apart;
            for other in joined {
                unit.pods.extend(other.pods);
                unit.shared.extend(other.shared);
                unit.claims.extend(other.claims);
            }
            units.push(unit);
        }
        for unit in units {
            let question = all.question(&unit, &named);
            let is_like = |kind: &&mut Kind<'a>| question.is_some() && kind.question == question;
            match all.kinds.iter_mut().find(is_like) {
                Some(kind) => kind.units.push(unit),
                None => all.kinds.push(Kind { units: vec![unit], question }),
            }
        }
        Some(all)
    }

    fn question(&self, unit: &Unit<'a>, named: &BTreeMap<&str, usize>) -> Option<Question<'a>> {
        let [(_, pod)] = &unit.pods[..] else { return None };
        let asks = pod.shape().claims.iter().map(|own| match &own.source {
            ClaimSource::Own(spec) => Ok(&**spec),
            ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                let record = self.cluster.claims().claim(&pod.shape().namespace, name);
                let open = record.filter(|record| record.allocation().is_none());
                let open = open.filter(|_| named.get(&**name) == Some(&1));
                open.and_then(|record| record.claim()).map(|own| &*own.spec).ok_or(&own.source)
            }
            source => Err(source),
        });
        let asks = asks.collect();
        let mut shape: PodShape = (**pod.shape()).clone();
        shape.claims.clear();
        Some((shape, asks))
    }

    /// How many pods there are of the kinds named, and how many of them all nodes serve. `None` if the
    /// kinds are not these, or are too many to count.
    pub(super) fn count(
        &self,
        named: &[String],
        site: &Site<'_>,
        rows: &[Row],
    ) -> Option<(u32, u32)> {
        let mut kinds: Vec<&Kind<'a>> = Vec::new();
        for name in named {
            let has = |unit: &Unit<'_>| unit.pods.iter().any(|(_, pod)| pod.name == *name);
            let kind = self.kinds.iter().find(|kind| kind.units.iter().any(has))?;
            if kinds.iter().any(|own| core::ptr::eq(*own, kind)) {
                return None;
            }
            kinds.push(kind);
        }
        let size = |kind: &Kind<'_>| kind.units[0].pods.len() as u32;
        let need = kinds.iter().map(|kind| size(kind) * kind.units.len() as u32).sum();
        let mut steps = STEPS;
        let mut placed = BTreeSet::from([vec![0_usize; kinds.len()]]);
        for &row in rows {
            let served = self.served(&kinds, site, row, &mut steps)?;
            let mut more = placed.clone();
            for before in &placed {
                for units in &served {
                    let sum = before.iter().zip(units).map(|(before, own)| before + own);
                    let sum: Vec<usize> = sum.collect();
                    if sum.iter().zip(&kinds).all(|(sum, kind)| *sum <= kind.units.len()) {
                        more.insert(sum);
                    }
                }
            }
            if more.len() > STATES {
                return None;
            }
            placed = more;
        }
        let pods = |units: &Vec<usize>| {
            units.iter().zip(&kinds).map(|(units, kind)| *units as u32 * size(kind)).sum::<u32>()
        };
        Some((need, placed.iter().map(pods).max().unwrap_or(0)))
    }

    /// All combinations of units that a node serves.
    fn served(
        &self,
        kinds: &[&Kind<'a>],
        site: &Site<'_>,
        row: Row,
        steps: &mut u64,
    ) -> Option<BTreeSet<Vec<usize>>> {
        let Some(node) = self.cluster.view(row) else { return Some(BTreeSet::new()) };
        let mut bench = Bench::new(self.cluster, node.name(), &self.claims);
        let admits = |kind: &&Kind<'a>| {
            kind.units[0].pods.iter().all(|(group, pod)| (site.admits)(group, pod, row))
        };
        let admitted: Vec<bool> = kinds.iter().map(admits).collect();
        // A combination is served only if those with one unit less are.
        let mut served = BTreeSet::new();
        let mut last = BTreeSet::from([vec![0_usize; kinds.len()]]);
        while !last.is_empty() {
            let mut next = BTreeSet::new();
            for units in &last {
                for at in (0..kinds.len()).filter(|at| admitted[*at]) {
                    let mut more = units.clone();
                    more[at] += 1;
                    let is_known = next.contains(&more) || more[at] > kinds[at].units.len();
                    if is_known || !has_room(kinds, &more, site, row) {
                        continue;
                    }
                    let units =
                        more.iter().zip(kinds).flat_map(|(count, kind)| &kind.units[..*count]);
                    let bundle: Vec<usize> =
                        units.flat_map(|unit| unit.claims.iter().copied()).collect();
                    if bench.serves(&bundle, steps)? {
                        next.insert(more);
                    }
                }
            }
            served.extend(core::mem::replace(&mut last, next));
        }
        Some(served)
    }
}

/// Whether a node has room for some units of each kind, resource by resource.
fn has_room(kinds: &[&Kind<'_>], counts: &[usize], site: &Site<'_>, row: Row) -> bool {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for (kind, count) in kinds.iter().zip(counts) {
        for (_, pod) in &kind.units[0].pods {
            let names = pod.shape().requests.iter().map(|(name, _)| name);
            for name in names.chain([PODS]) {
                let takes = (site.takes)(pod, name).max(0).saturating_mul(*count as i64);
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(takes);
            }
        }
    }
    sums.iter().all(|(name, sum)| *sum == 0 || *sum <= (site.free)(row, name))
}
