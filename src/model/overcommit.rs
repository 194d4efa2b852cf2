//! Overcommitment: amounts for pods of lower bands, out of the capacity that services do not use.
//!
//! Source: Koordinator, `slo-controller/noderesource/plugins`, with one defect kept: by
//! [`CalculatePolicy::MaxUsageRequest`], a pod that no report names counts as nothing.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::qos::{PriorityBand, QosClass};
use super::usage::NodeUsage;
use super::{Amounts, CPU, MEMORY};
use crate::base::Time;

/// The amounts by which services are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum CalculatePolicy {
    /// Their usage.
    #[default]
    Usage,
    /// Their memory requests. CPU is counted as under `Usage`.
    Request,
    /// The larger of the two, pod by pod.
    MaxUsageRequest,
}

/// By which rules resources of lower bands are computed. Percentages are of the node's capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Overcommit {
    /// Reports older than this count for nothing, and lower bands have nothing. Default: 15 minutes.
    pub degrade_after: Duration,
    /// How much of CPU and memory may be in use, the rest being a margin. Default: 60 and 65.
    pub reclaim_threshold: [i64; 2],
    /// The amounts by which services are counted, for CPU and for memory.
    pub policy: [CalculatePolicy; 2],
    /// The most that batch pods may have; `None`: no bound of its own.
    pub batch_threshold: [Option<i64>; 2],
    /// The most that mid pods may have. Default: 100 each.
    pub mid_threshold: [i64; 2],
    /// How much of what services were not given mid pods may have. Default: 0.
    pub mid_unallocated: i64,
    /// Amounts of mid pods in place of the prediction, if they are set.
    pub mid_static: Option<[i64; 2]>,
}

impl Default for Overcommit {
    fn default() -> Overcommit {
        Overcommit {
            degrade_after: Duration::from_secs(15 * 60),
            reclaim_threshold: [60, 65],
            policy: [CalculatePolicy::Usage; 2],
            batch_threshold: [None; 2],
            mid_threshold: [100; 2],
            mid_unallocated: 0,
            mid_static: None,
        }
    }
}

/// A pod of a node, as overcommitment sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePod<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The band; `None` counts as a service.
    pub band: Option<PriorityBand>,
    /// The class of service.
    pub qos: QosClass,
    /// Its requests.
    pub requests: &'a Amounts,
}

/// CPU and memory.
type Pair = [i64; 2];

fn pair(amounts: &Amounts) -> Pair {
    [amounts.of(CPU), amounts.of(MEMORY)]
}

fn zip(a: Pair, b: Pair, with: impl Fn(i64, i64) -> i64) -> Pair {
    [with(a[0], b[0]), with(a[1], b[1])]
}

fn plus(a: Pair, b: Pair) -> Pair {
    zip(a, b, i64::saturating_add)
}

fn minus(a: Pair, b: Pair) -> Pair {
    zip(a, b, i64::saturating_sub)
}

fn percent(amounts: Pair, percent: Pair) -> Pair {
    // As the peer rounds: one quotient and one product of floats, truncated; the cast saturates.
    zip(amounts, percent, |amount, percent| (amount as f64 * (percent as f64 / 100.0)) as i64)
}

/// Computed amounts, by the names that pods of a band ask by.
fn named(band: PriorityBand, amounts: Pair) -> Amounts {
    let mut named = Amounts::new();
    for (resource, amount) in [CPU, MEMORY].into_iter().zip(amounts) {
        if let Some(name) = band.resource(resource) {
            named.set(&name, amount);
        }
    }
    named
}

impl Overcommit {
    /// Whether a report is too old, or was never made, so that lower bands have nothing.
    pub fn is_degraded(&self, usage: &NodeUsage, now: Time) -> bool {
        usage.updated.is_none_or(|updated| now.since(updated) > self.degrade_after)
    }

    /// The amounts of all batch pods of a node: `kubernetes.io/batch-cpu`, in thousandths of a
    /// core, and `kubernetes.io/batch-memory`. `None` if the report is too old.
    ///
    /// Capacity, less a margin, less the system's use (or its reserved amount, if that is more),
    /// less the use of services. By policy it is instead less the larger of use and request of each
    /// service, or less what is reserved and requested. A service that no report names counts with
    /// its requests, one of class LSE with its request of CPU. Pods of a report that are not on the
    /// node count by the band it gives them.
    ///
    /// O((pods on the node + pods of the report) · log).
    pub fn batch(
        &self,
        capacity: &Amounts,
        allocatable: &Amounts,
        pods: &[NodePod<'_>],
        usage: &NodeUsage,
        now: Time,
    ) -> Option<Amounts> {
        if self.is_degraded(usage, now) {
            return None;
        }
        let is_low = |band: Option<PriorityBand>| {
            matches!(band, Some(PriorityBand::Batch | PriorityBand::Free))
        };
        let mut reports: BTreeMap<(&str, &str), (Pair, Option<PriorityBand>, bool)> = usage
            .pods
            .iter()
            .map(|pod| {
                let key = (pod.namespace.as_str(), pod.name.as_str());
                (key, (pair(&pod.usage), pod.band, false))
            })
            .collect();
        let (mut requested, mut used, mut largest) = ([0, 0], [0, 0], [0, 0]);
        for pod in pods {
            let report = reports.get_mut(&(pod.namespace, pod.name));
            let known = report.map(|report| {
                report.2 = true;
                report.0
            });
            if is_low(pod.band) {
                continue;
            }
            let request = pair(pod.requests);
            requested = plus(requested, request);
            let Some(own) = known else {
                used = plus(used, request);
                continue;
            };
            let counted = if pod.qos == QosClass::Lse { [request[0], own[1]] } else { own };
            used = plus(used, counted);
            largest = plus(largest, zip(request, own, i64::max));
        }
        for (own, band, known) in reports.into_values() {
            if !known && !is_low(band) {
                used = plus(used, own);
                largest = plus(largest, own);
            }
        }
        let whole = pair(capacity);
        let margin = percent(whole, zip([100; 2], self.reclaim_threshold, i64::saturating_sub));
        let left = minus(whole, margin);
        let reserved = Overcommit::reserved(capacity, allocatable, usage);
        let system = zip(Overcommit::system(usage, PriorityBand::Batch), reserved, i64::max);
        let by_usage = minus(minus(left, system), used);
        let by_request = minus(minus(left, reserved), requested);
        let by_largest = minus(minus(left, system), largest);
        let cpu = match self.policy[0] {
            CalculatePolicy::MaxUsageRequest => by_largest,
            CalculatePolicy::Usage | CalculatePolicy::Request => by_usage,
        };
        let memory = match self.policy[1] {
            CalculatePolicy::MaxUsageRequest => by_largest,
            CalculatePolicy::Request => by_request,
            CalculatePolicy::Usage => by_usage,
        };
        let mut amounts = [cpu[0].max(0), memory[1].max(0)];
        for (at, threshold) in self.batch_threshold.into_iter().enumerate() {
            if let Some(threshold) = threshold {
                amounts[at] = amounts[at].min(percent(whole, [threshold; 2])[at]);
            }
        }
        Some(named(PriorityBand::Batch, amounts))
    }

    /// The amounts of all mid pods of a node: `kubernetes.io/mid-cpu`, in thousandths of a core,
    /// and `kubernetes.io/mid-memory`. `None` if the report is too old.
    ///
    /// The amount promised to services and predicted unused, if the node does not use it now. A
    /// part of the amounts that services were not given is added. The sum is at most a part of the
    /// capacity. O(pods on the node).
    pub fn mid(
        &self,
        capacity: &Amounts,
        allocatable: &Amounts,
        pods: &[NodePod<'_>],
        usage: &NodeUsage,
        now: Time,
    ) -> Option<Amounts> {
        if self.is_degraded(usage, now) {
            return None;
        }
        let whole = pair(capacity);
        let most = percent(whole, self.mid_threshold);
        if let Some(fixed) = self.mid_static {
            return Some(named(PriorityBand::Mid, zip(percent(whole, fixed), most, i64::min)));
        }
        let lists_both = |amounts: &&Amounts| amounts.lists(CPU) && amounts.lists(MEMORY);
        let unused = usage.node.as_ref().filter(lists_both);
        let unused = unused.map_or([0; 2], |used| minus(whole, pair(used)));
        let reclaimable = usage.prod_reclaimable.as_ref().map_or([0; 2], pair);
        let reclaimable = zip(zip(reclaimable, unused, i64::min), [0; 2], i64::max);
        let is_service = |pod: &&NodePod<'_>| {
            let low = [PriorityBand::Mid, PriorityBand::Batch, PriorityBand::Free];
            !pod.band.is_some_and(|band| low.contains(&band))
        };
        let requests = pods.iter().filter(is_service).map(|pod| pair(pod.requests));
        let requested = requests.fold([0; 2], plus);
        let reserved = Overcommit::reserved(capacity, allocatable, usage);
        let reserved = zip(Overcommit::system(usage, PriorityBand::Mid), reserved, i64::max);
        let unallocated = zip(minus(minus(whole, reserved), requested), [0; 2], i64::max);
        let own = plus(reclaimable, percent(unallocated, [self.mid_unallocated; 2]));
        Some(named(PriorityBand::Mid, zip(own, most, i64::min)))
    }

    /// Amounts kept for the system, by the node's own numbers and by its statement.
    fn reserved(capacity: &Amounts, allocatable: &Amounts, usage: &NodeUsage) -> Pair {
        let kept = zip(minus(pair(capacity), pair(allocatable)), [0; 2], i64::max);
        zip(kept, pair(&usage.reserved), i64::max)
    }

    /// Usage of the system, with programs of a higher band than one.
    fn system(usage: &NodeUsage, above: PriorityBand) -> Pair {
        let higher = usage.host_applications.iter().filter(|own| own.band > Some(above));
        higher.fold(pair(&usage.system), |sum, own| plus(sum, pair(&own.usage)))
    }
}

/// The names of the resources that overcommitment adds to nodes.
pub fn overcommitted() -> Vec<String> {
    let bands = [PriorityBand::Batch, PriorityBand::Mid];
    bands
        .into_iter()
        .flat_map(|band| [CPU, MEMORY].map(|name| band.resource(name)))
        .flatten()
        .collect()
}
