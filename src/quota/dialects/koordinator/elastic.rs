//! Elastic quotas: the amount that each quota of a tree may use now, given all requests.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::stated::{DEFAULT_QUOTA, ElasticQuota, QuotaSums, ROOT_QUOTA, SYSTEM_QUOTA, is_apart};
use crate::model::Amounts;
use crate::quota::engine::division::{Part, largest_remainder};
use crate::quota::model::queue::Weight;

/// A quota and its sums.
#[derive(Debug, Clone)]
struct Entry {
    quota: ElasticQuota,
    sums: QuotaSums,
    /// Whether its minimum may be scaled: the switch as it stood when the minimum was stated.
    scalable: bool,
}

/// A tree of elastic quotas: Koordinator's runtime quota.
///
/// Requests go up the tree, each within the maximum of its quota. Amounts come down: each quota
/// has what it requests within its minimum, and what is left is divided by weight among those that
/// request more. See `docs/tenants/koordinator.md`.
///
/// ```
/// use phalanx::model::Amounts;
/// use phalanx::quota::{ElasticQuota, ElasticQuotas};
///
/// let gpus = |amount: i64| Amounts::from([("gpu", amount)]);
/// let mut quotas = ElasticQuotas::new();
/// quotas.add_total(&gpus(16));
/// for (name, min) in [("vision", 4), ("speech", 8)] {
///     let mut quota = ElasticQuota::new(name);
///     (quota.min, quota.max) = (gpus(min), gpus(16));
///     quotas.put(quota);
/// }
/// quotas.add_request("vision", &gpus(20), &Amounts::new());
/// assert_eq!(quotas.refresh("vision").of("gpu"), 16); // speech is idle, and lends
/// quotas.add_request("speech", &gpus(10), &Amounts::new());
/// assert_eq!(quotas.refresh("vision").of("gpu"), 6); // 4, and half of the 4 above the minima
/// ```
///
/// Source: Koordinator, `elasticquota/core`.
#[derive(Debug, Clone, Default)]
pub struct ElasticQuotas {
    entries: BTreeMap<String, Entry>,
    children: BTreeMap<String, BTreeSet<String>>,
    /// Amounts of the whole cluster.
    total: Amounts,
    /// The sums of the root.
    root: QuotaSums,
    scale_min: bool,
}

/// Adds an amount of each resource; sums saturate, and do not go below zero.
fn add(to: &mut Amounts, delta: &Amounts, sign: i64) {
    for (name, amount) in delta.iter() {
        to.set(name, to.of(name).saturating_add(sign.saturating_mul(amount)).max(0));
    }
}

/// The difference of two lists.
fn difference(after: &Amounts, before: &Amounts) -> Amounts {
    let mut difference = Amounts::new();
    for (name, _) in before.iter().chain(after.iter()) {
        difference.set(name, after.of(name).saturating_sub(before.of(name)));
    }
    difference
}

/// Requests to a quota, within its maximum.
fn limited(quota: &ElasticQuota, request: &Amounts) -> Amounts {
    let mut limited = Amounts::new();
    for (name, amount) in request.iter() {
        let bounded = if quota.max.lists(name) { amount.min(quota.max.of(name)) } else { amount };
        limited.set(name, bounded);
    }
    limited
}

impl Entry {
    fn limited(&self) -> Amounts {
        limited(&self.quota, &self.sums.request)
    }

    /// Brings `request` in line with `child_request` and the minimum; what the limited request
    /// changes by.
    fn settle(&mut self) -> Amounts {
        let before = self.limited();
        let mut request = self.sums.child_request.clone();
        if !self.quota.allow_lent {
            for (name, min) in self.quota.min.iter() {
                request.set(name, request.of(name).max(min));
            }
        }
        self.sums.request = request;
        difference(&self.limited(), &before)
    }
}

impl ElasticQuotas {
    /// A tree without quotas, in which minima are not scaled.
    pub fn new() -> ElasticQuotas {
        ElasticQuotas::default()
    }

    /// Sets whether minima are scaled down where they exceed what there is. It counts for minima
    /// that are stated from now on.
    pub fn set_scale_min(&mut self, scale: bool) {
        self.scale_min = scale;
    }

    /// Adds to what there is; negative amounts take away.
    pub fn add_total(&mut self, delta: &Amounts) {
        for (name, amount) in delta.iter() {
            self.total.set(name, self.total.of(name).saturating_add(amount));
        }
    }

    /// Sets what there is.
    pub fn set_total(&mut self, total: Amounts) {
        self.total = total;
    }

    /// Adds a quota, or states it anew: what is requested and used stays, at its new place.
    ///
    /// O(depth · resources), and the quotas right below it.
    pub fn put(&mut self, mut quota: ElasticQuota) {
        let name = quota.name.clone();
        if name == ROOT_QUOTA {
            return;
        }
        if is_apart(&name) {
            quota.parent = ROOT_QUOTA.into();
        }
        let (mut sums, mut scalable) = (QuotaSums::default(), self.scale_min);
        let (mut same_min, mut same_kind) = (false, true);
        if let Some(old) = self.take(&name) {
            same_min = old.quota.min == quota.min;
            let kind = |quota: &ElasticQuota| (quota.allow_lent, quota.is_parent);
            same_kind = kind(&old.quota) == kind(&quota) && old.quota.parent == quota.parent;
            sums = old.sums;
            if same_min {
                scalable = old.scalable;
            }
        }
        if !same_min {
            sums.scaled_min = quota.min.clone();
        }
        let mut entry = Entry { quota, sums, scalable };
        // Its own holding; the rest is summed again.
        entry.sums.child_request = entry.sums.self_request.clone();
        entry.sums.request = Amounts::new();
        entry.sums.used = entry.sums.self_used.clone();
        entry.sums.non_preemptible_request = entry.sums.self_non_preemptible_request.clone();
        entry.sums.non_preemptible_used = entry.sums.self_non_preemptible_used.clone();
        for child in self.children.get(&name).into_iter().flatten() {
            let Some(child) = self.entries.get(child) else { continue };
            add(&mut entry.sums.child_request, &child.limited(), 1);
            add(&mut entry.sums.used, &child.sums.used, 1);
            let request = &child.sums.non_preemptible_request;
            add(&mut entry.sums.non_preemptible_request, request, 1);
            add(&mut entry.sums.non_preemptible_used, &child.sums.non_preemptible_used, 1);
        }
        let parent = entry.quota.parent.clone();
        let request = entry.settle();
        let sums = entry.sums.clone();
        if !is_apart(&name) {
            self.children.entry(parent.clone()).or_default().insert(name.clone());
        }
        self.entries.insert(name, entry);
        self.carry_request(&parent, request, &sums.non_preemptible_request, 1);
        self.carry_used(&parent, &sums.used, &sums.non_preemptible_used, 1);
        if !same_kind {
            // Another tree: nothing of what was scaled holds.
            for entry in self.entries.values_mut() {
                entry.sums.scaled_min = entry.quota.min.clone();
                entry.scalable = self.scale_min;
            }
        }
    }

    /// Removes a quota, with what is requested and used in it. Quotas in it stay, and have nothing
    /// until their parent is back.
    pub fn remove(&mut self, name: &str) -> Option<ElasticQuota> {
        self.take(name).map(|entry| entry.quota)
    }

    /// Takes a quota out of the tree, and what it comes to out of the sums above.
    fn take(&mut self, name: &str) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        let parent = &entry.quota.parent;
        if let Some(siblings) = self.children.get_mut(parent) {
            siblings.remove(name);
            if siblings.is_empty() {
                self.children.remove(parent);
            }
        }
        let request = difference(&Amounts::new(), &entry.limited());
        self.carry_request(parent, request, &entry.sums.non_preemptible_request, -1);
        self.carry_used(parent, &entry.sums.used, &entry.sums.non_preemptible_used, -1);
        Some(entry)
    }

    /// Adds to the requests of a quota's own pods. Amounts below zero take away; sums stay at zero
    /// or above. O(depth · resources).
    pub fn add_request(&mut self, name: &str, delta: &Amounts, non_preemptible: &Amounts) {
        let Some(sums) = self.sums_mut(name) else { return };
        add(&mut sums.self_request, delta, 1);
        add(&mut sums.self_non_preemptible_request, non_preemptible, 1);
        self.carry_request(name, delta.clone(), non_preemptible, 1);
    }

    /// Adds to what a quota's own pods use; as [`ElasticQuotas::add_request`].
    pub fn add_used(&mut self, name: &str, delta: &Amounts, non_preemptible: &Amounts) {
        let Some(sums) = self.sums_mut(name) else { return };
        add(&mut sums.self_used, delta, 1);
        add(&mut sums.self_non_preemptible_used, non_preemptible, 1);
        self.carry_used(name, delta, non_preemptible, 1);
    }

    /// The place of the sums of a quota; the built-in ones are there when they are needed.
    fn sums_mut(&mut self, name: &str) -> Option<&mut QuotaSums> {
        if name == ROOT_QUOTA {
            return Some(&mut self.root);
        }
        if is_apart(name) && !self.entries.contains_key(name) {
            self.put(ElasticQuota::new(name));
        }
        self.entries.get_mut(name).map(|entry| &mut entry.sums)
    }

    /// Adds requests to a quota, and what they come to, within limits, to those above.
    fn carry_request(
        &mut self,
        name: &str,
        mut delta: Amounts,
        non_preemptible: &Amounts,
        sign: i64,
    ) {
        let mut at = Some(String::from(name));
        // A circle of parents ends where all have been.
        for _ in 0..=self.entries.len() + 1 {
            let Some(name) = at else { return };
            let Some(sums) = self.sums_mut(&name) else { return };
            add(&mut sums.non_preemptible_request, non_preemptible, sign);
            add(&mut sums.child_request, &delta, 1);
            let Some(entry) = self.entries.get_mut(&name) else {
                self.root.request.clone_from(&self.root.child_request);
                return;
            };
            delta = entry.settle();
            at = Some(entry.quota.parent.clone());
        }
    }

    /// Adds to what is used in a quota and in those above.
    fn carry_used(&mut self, name: &str, delta: &Amounts, non_preemptible: &Amounts, sign: i64) {
        let mut at = Some(String::from(name));
        for _ in 0..=self.entries.len() + 1 {
            let Some(name) = at else { return };
            let Some(sums) = self.sums_mut(&name) else { return };
            add(&mut sums.used, delta, sign);
            add(&mut sums.non_preemptible_used, non_preemptible, sign);
            at = self.entries.get(&name).map(|entry| entry.quota.parent.clone());
        }
    }

    /// Amounts for all quotas but the built-in ones: the total less the usage of those.
    pub fn shared_total(&self) -> Amounts {
        let mut total = self.total.clone();
        for name in [SYSTEM_QUOTA, DEFAULT_QUOTA] {
            let Some(entry) = self.entries.get(name) else { continue };
            for (resource, used) in entry.sums.used.iter() {
                total.set(resource, total.of(resource).saturating_sub(used));
            }
        }
        total
    }

    /// Amounts that a quota may use now, of the resources that its maximum lists. Scaled minima and
    /// runtimes are brought up to date from the root down to it; those of other quotas stay as they
    /// were. So a sibling whose minimum is scaled counts as when it was last refreshed.
    ///
    /// Nothing for a quota that is not known, or does not stand below the root. O(quotas right below
    /// each one on the path, for each resource).
    pub fn refresh(&mut self, name: &str) -> Amounts {
        if name == ROOT_QUOTA {
            return self.shared_total();
        }
        if is_apart(name) {
            return self.max(name).cloned().unwrap_or_default();
        }
        let Some(path) = self.path(name) else { return Amounts::new() };
        let mut total = self.shared_total();
        for name in path {
            let scaled = self.entries.get(&name).and_then(|entry| self.scaled(entry, &total));
            if let (Some(entry), Some(scaled)) = (self.entries.get_mut(&name), scaled) {
                entry.sums.scaled_min = scaled;
            }
            total = self.divide(&name, &total, |_| None, Entry::limited);
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.sums.runtime.clone_from(&total);
            }
        }
        self.masked(name, &total)
    }

    /// Amounts that a quota may use now, with the minima of all quotas scaled at once: unlike
    /// [`ElasticQuotas::refresh`], it does not depend on what was asked before. Cost and what there
    /// is nothing for are the same.
    pub fn runtime(&self, name: &str) -> Amounts {
        self.runtime_with(name, &Amounts::new())
    }

    /// [`ElasticQuotas::runtime`] if so much more were requested by the quota's own pods.
    pub fn runtime_with(&self, name: &str, more: &Amounts) -> Amounts {
        self.runtime_on_path(name, name, more)
    }

    /// The runtime of a quota if so much more were requested by the pods of one in it.
    pub(super) fn runtime_on_path(&self, below: &str, name: &str, more: &Amounts) -> Amounts {
        if name == ROOT_QUOTA {
            return self.shared_total();
        }
        if is_apart(name) {
            return self.max(name).cloned().unwrap_or_default();
        }
        let Some(path) = self.path(below) else { return Amounts::new() };
        // Limited requests with what is added, from the quota up.
        let mut requests: BTreeMap<&str, Amounts> = BTreeMap::new();
        let mut delta = more.clone();
        for name in path.iter().rev() {
            let Some(entry) = self.entries.get(name).filter(|_| !delta.is_empty()) else { break };
            let mut entry = entry.clone();
            add(&mut entry.sums.child_request, &delta, 1);
            delta = entry.settle();
            requests.insert(name, entry.limited());
        }
        let request = |entry: &Entry| {
            let changed = requests.get(entry.quota.name.as_str()).cloned();
            changed.unwrap_or_else(|| entry.limited())
        };
        let mut total = self.shared_total();
        for at in &path {
            total = self.divide(at, &total, |entry| self.scaled(entry, &total), request);
            if at == name {
                break;
            }
        }
        self.masked(name, &total)
    }

    /// The quotas from below the root down to one; `None` if it does not stand below the root.
    fn path(&self, name: &str) -> Option<Vec<String>> {
        let mut path = Vec::new();
        let mut at = String::from(name);
        while at != ROOT_QUOTA {
            let entry = self.entries.get(&at).filter(|_| path.len() <= self.entries.len())?;
            let parent = entry.quota.parent.clone();
            path.push(core::mem::replace(&mut at, parent));
        }
        path.reverse();
        Some(path)
    }

    /// Amounts of the resources that a quota's maximum lists.
    fn masked(&self, name: &str, amounts: &Amounts) -> Amounts {
        let mut masked = Amounts::new();
        for (resource, _) in self.max(name).into_iter().flat_map(Amounts::iter) {
            masked.set(resource, amounts.of(resource));
        }
        masked
    }

    /// The minimum of a quota, scaled to what its parent has; `None` if it is not to be scaled.
    fn scaled(&self, entry: &Entry, total: &Amounts) -> Option<Amounts> {
        if !self.scale_min || !entry.scalable {
            return None;
        }
        let mut min = entry.quota.min.clone();
        for (resource, total) in total.iter() {
            let (mut fixed, mut scalable) = (0_i64, 0_i64);
            for sibling in self.below(&entry.quota.parent) {
                let sum = if sibling.scalable { &mut scalable } else { &mut fixed };
                *sum = sum.saturating_add(sibling.quota.min.of(resource));
            }
            if total >= fixed.saturating_add(scalable) {
                continue;
            }
            let left = total.saturating_sub(fixed);
            // One product and one quotient of floats, truncated, as Koordinator has it.
            let scaled = if left <= 0 || scalable <= 0 {
                0
            } else {
                (left as f64 * entry.quota.min.of(resource) as f64 / scalable as f64) as i64
            };
            min.set(resource, scaled);
        }
        Some(min)
    }

    /// The quotas right below one.
    fn below(&self, name: &str) -> impl Iterator<Item = &Entry> {
        let children = self.children.get(name).into_iter().flatten();
        children.filter_map(|child| self.entries.get(child))
    }

    /// Amounts that a quota gets of its parent's, with the minima (`None`: as last scaled) and the
    /// requests of it and its siblings.
    fn divide(
        &self,
        name: &str,
        total: &Amounts,
        scaled: impl Fn(&Entry) -> Option<Amounts>,
        request: impl Fn(&Entry) -> Amounts,
    ) -> Amounts {
        let mut runtime = Amounts::new();
        let Some(entry) = self.entries.get(name) else { return runtime };
        let siblings: Vec<(&Entry, Amounts, Option<Amounts>)> = self
            .below(&entry.quota.parent)
            .map(|sibling| (sibling, request(sibling), scaled(sibling)))
            .collect();
        let own = siblings.iter().position(|(sibling, ..)| sibling.quota.name == name);
        let mut resources: BTreeSet<&str> = total.iter().map(|(resource, _)| resource).collect();
        for (sibling, ..) in &siblings {
            resources.extend(sibling.quota.max.iter().map(|(resource, _)| resource));
        }
        for resource in resources {
            let parts = siblings.iter().map(|(sibling, request, scaled)| {
                let min = scaled.as_ref().unwrap_or(&sibling.sums.scaled_min).of(resource);
                part(&sibling.quota, request.of(resource), min, resource)
            });
            let parts: Vec<Part<'_>> = parts.collect();
            let shares = largest_remainder(total.of(resource), &parts);
            runtime.set(resource, own.and_then(|own| shares.get(own).copied()).unwrap_or(0));
        }
        runtime
    }

    /// Amounts that a quota may use if lending is not considered: its maximum.
    pub fn max(&self, name: &str) -> Option<&Amounts> {
        self.entries.get(name).map(|entry| &entry.quota.max)
    }

    /// A quota as it is stated.
    pub fn quota(&self, name: &str) -> Option<&ElasticQuota> {
        self.entries.get(name).map(|entry| &entry.quota)
    }

    /// The names of all quotas but the built-in ones, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str).filter(|name| !is_apart(name))
    }

    /// The quotas right below one, in order of names.
    pub fn children(&self, name: &str) -> impl Iterator<Item = &ElasticQuota> {
        let children = self.children.get(name).into_iter().flatten();
        children.filter_map(|child| self.quota(child))
    }

    /// The sums of a quota, or of the root.
    pub fn sums(&self, name: &str) -> Option<&QuotaSums> {
        let own = self.entries.get(name).map(|entry| &entry.sums);
        own.or_else(|| (name == ROOT_QUOTA).then_some(&self.root))
    }

    /// Requests to a quota, within its maximum: its addition to its parent.
    pub fn limited_request(&self, name: &str) -> Amounts {
        self.entries.get(name).map(Entry::limited).unwrap_or_default()
    }
}

/// A quota in the division of one resource.
fn part<'a>(quota: &'a ElasticQuota, request: i64, min: i64, resource: &str) -> Part<'a> {
    let floor = min.max(quota.guaranteed.of(resource));
    let wants = if quota.allow_lent { request } else { request.max(floor) };
    let weight = quota.weights().of(resource).max(0).unsigned_abs();
    Part { floor, ..Part::new(&quota.name, wants, Weight::from_nanos(weight)) }
}

#[cfg(test)]
mod tests;
