//! Estimates of use.

use core::time::Duration;

use super::{FACTORS, LoadAware};
use crate::framework::Context;
use crate::model::{Amounts, CPU, MEMORY, NodeUsage, PodShape, PriorityBand};
use crate::state::NodeView;

/// Estimate of a pod that requests no CPU: a quarter of a core.
const LEAST_CPU: i64 = 250;
/// Estimate of a pod that requests no memory: 200 MiB.
const LEAST_MEMORY: i64 = 200 << 20;

/// Adds an amount of each resource, saturating.
pub(super) fn add(to: &mut Amounts, delta: &Amounts) {
    for (resource, amount) in delta.iter() {
        to.set(resource, to.of(resource).saturating_add(amount));
    }
}

/// Adds, of each resource, what one amount exceeds another by.
fn add_excess(to: &mut Amounts, of: &Amounts, beyond: Option<&Amounts>) {
    for (resource, amount) in of.iter() {
        let excess = amount.saturating_sub(beyond.map_or(0, |beyond| beyond.of(resource))).max(0);
        to.set(resource, to.of(resource).saturating_add(excess));
    }
}

/// Percentages by resource, from JSON of one level: `{"cpu": 80}`.
fn percentages(text: &str) -> Option<Amounts> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut factors = Amounts::new();
    for pair in inner.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once(':')?;
        let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
        factors.set(name, value.trim().parse().ok()?);
    }
    Some(factors)
}

impl LoadAware {
    /// Estimate of a pod of a band, by resource. Pods of the bands `mid` and `batch` are
    /// estimated by what they request of those bands' resources.
    ///
    /// ```
    /// use phalanx::Pod;
    /// use phalanx::model::PriorityBand;
    /// use phalanx::plugins::LoadAware;
    ///
    /// let pod = Pod::new().request("cpu", 4).request("memory", "8Gi");
    /// let estimate = LoadAware::default().estimate(pod.shape(), PriorityBand::Prod);
    /// assert_eq!((estimate.of("cpu"), estimate.of("memory")), (3_400, 6_012_954_214));
    /// ```
    pub fn estimate(&self, pod: &PodShape, band: PriorityBand) -> Amounts {
        let mut factors = self.factors.clone();
        let custom = pod.attributes.get(FACTORS).filter(|_| self.customized);
        if let Some(custom) = custom.and_then(|text| percentages(text)) {
            for (resource, factor) in custom.iter() {
                factors.set(resource, factor);
            }
        }
        let mut estimate = Amounts::new();
        for (resource, factor) in factors.iter() {
            let name = band.resource(resource).unwrap_or_default();
            estimate.set(resource, part(pod, &name, band, resource, factor));
        }
        estimate
    }

    /// Capacity of a node in each resource, before amplification.
    pub fn total(node: NodeView<'_>, resource: &str) -> i64 {
        let raw = node.measured().map(|usage| &usage.raw_allocatable);
        if let Some(raw) = raw.filter(|raw| raw.lists(resource)) {
            return raw.of(resource);
        }
        let named = node.cluster().resource(resource);
        named.map_or(0, |resource| node.allocatable(resource))
    }

    /// Usage of a node, by its last report and by estimates of the pods that it does not cover. It
    /// is the usage of the band `prod` alone, or of all, by a measure over some time or now. O(pods
    /// of the node · (pods of the report + resources)).
    pub(super) fn in_use(
        &self,
        node: NodeView<'_>,
        usage: &NodeUsage,
        prod: bool,
        measure: Option<(&str, Duration)>,
    ) -> Amounts {
        // The amounts of the report, and the estimates to be added to them.
        let (mut reported, mut missing) = (Amounts::new(), Amounts::new());
        let mut estimated = Amounts::new();
        if prod && self.prod_includes_system && usage.node.is_some() {
            add(&mut reported, &usage.system);
        }
        for pod in node.pods() {
            let band = pod.shape().band_with(pod.priority());
            if prod && band != PriorityBand::Prod {
                continue;
            }
            let own = usage.of_pod(pod.namespace(), pod.name());
            let as_prod = own.is_some_and(|own| own.band == Some(PriorityBand::Prod));
            // One that was reported as of another band is not among what `prod` uses.
            let own = own.filter(|_| !prod || as_prod);
            if let Some(own) = own.filter(|_| prod) {
                add(&mut reported, &own.usage);
            }
            let estimate = self.estimate(pod.shape(), band);
            add(&mut estimated, &estimate);
            let is_new = || {
                let Some(updated) = usage.updated else { return true };
                let start = pod.start();
                let until = self.estimated_until(&pod.shape().attributes, start, None);
                // Where the start of a pod is not known, the report says that it runs.
                start.is_some_and(|start| updated < start.after(usage.interval()))
                    || until.is_some_and(|until| until > updated)
            };
            if own.is_none() || is_new() {
                add_excess(&mut missing, &estimate, own.map(|own| &own.usage));
            }
        }
        if !prod {
            let whole = match measure {
                Some((measure, over)) => usage.over(measure, over),
                None => usage.node.as_ref(),
            };
            let Some(whole) = whole else { return estimated };
            reported = whole.clone();
        }
        add(&mut reported, &missing);
        reported
    }

    /// Whether a node's report is too old.
    pub(super) fn is_expired(&self, usage: &NodeUsage, cx: &Context<'_>) -> bool {
        self.expiration.is_some_and(|expiration| usage.is_older(cx.now(), expiration))
    }
}

/// Estimated usage of a resource that a pod requests by some name.
fn part(pod: &PodShape, name: &str, band: PriorityBand, resource: &str, factor: i64) -> i64 {
    let (request, limit) = (pod.requests.of(name), pod.limit(name));
    let amount = request.max(limit);
    if amount == 0 {
        let has_default = [PriorityBand::Prod, PriorityBand::Batch].contains(&band);
        return match resource {
            CPU if has_default => LEAST_CPU,
            MEMORY if has_default => LEAST_MEMORY,
            _ => 0,
        };
    }
    // As the peer rounds: a product and a quotient of floats; the cast saturates.
    let part = libm::round(amount as f64 * factor as f64 / 100.0) as i64;
    if limit > 0 { part.min(limit) } else { part }
}

/// The resources of a list that are not zero.
pub(super) fn stated(amounts: &Amounts) -> impl Iterator<Item = (&str, i64)> {
    amounts.iter().filter(|(_, amount)| *amount != 0)
}
