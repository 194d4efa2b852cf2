//! Tenants by Koordinator's rules.

use alloc::boxed::Box;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::elastic::ElasticQuotas;
use super::settings::{Koordinator, KoordinatorSettings};
use super::stated::{ElasticQuota, ROOT_QUOTA};
use crate::model::Amounts;
use crate::model::resources::PODS;
use crate::quota::amount::{MOST, UNLIMITED, minus};
use crate::quota::claim::{
    AssignmentMode, Claim, FlavorChoice, PodSetAssignment, QuotaAssignment, QuotaDecision,
    QuotaVictim, Usage, VictimReason, add_usage,
};
use crate::quota::dialect::Dialect;
use crate::quota::error::QuotaError;
use crate::quota::kueue::decide_reduced;
use crate::quota::queue::{Queue, QueueKind, Quota, Weight};
use crate::quota::tenants::{KueueSettings, Tenants};
use crate::quota::tree::{FlavorResource, QueueId, QueueTree};

impl Koordinator {
    /// A queue as an elastic quota. Of each resource the first flavor counts.
    fn quota(queue: &Queue) -> ElasticQuota {
        let mut quota = ElasticQuota::new(queue.name.clone());
        quota.is_parent = queue.kind == QueueKind::Inner;
        if let Some(parent) = &queue.parent {
            quota.parent.clone_from(parent);
        }
        for group in &queue.groups {
            let Some(flavor) = group.flavors.first() else { continue };
            for (resource, own) in &flavor.resources {
                quota.min.set(resource, own.nominal);
                quota.max.set(resource, own.limit.unwrap_or(UNLIMITED));
                if let Some(weight) = own.weight {
                    let weight = i64::try_from(weight.as_nanos()).unwrap_or(i64::MAX);
                    quota.shared_weight.set(resource, weight);
                }
                quota.allow_lent &= own.lending_limit != Some(0);
            }
        }
        // Where some weights are stated, the others are the maxima.
        if !quota.shared_weight.is_empty() {
            for (resource, max) in quota.max.iter() {
                if !quota.shared_weight.lists(resource) {
                    quota.shared_weight.set(resource, max);
                }
            }
        }
        quota
    }
}

impl ElasticQuota {
    /// The quota as a queue of [`Tenants::koordinator`], with amounts in one flavor.
    pub fn queue(&self, flavor: &str) -> Queue {
        let name = self.name.clone();
        let mut queue = if self.is_parent { Queue::inner(name) } else { Queue::leaf(name) };
        queue = queue.parent(self.parent.clone());
        let weighted = self.shared_weight.iter().any(|(_, weight)| weight != 0);
        let unbounded = self.min.iter().filter(|(resource, _)| !self.max.lists(resource));
        for (resource, _) in self.max.iter().chain(unbounded) {
            let mut quota = Quota::nominal(self.min.of(resource));
            quota.limit = self.max.lists(resource).then(|| self.max.of(resource));
            quota.lending_limit = (!self.allow_lent).then_some(0);
            let weight = u64::try_from(self.shared_weight.of(resource)).unwrap_or(0);
            quota.weight = weighted.then_some(Weight::from_nanos(weight));
            queue = queue.quota(flavor, resource, quota);
        }
        queue
    }
}

/// So many times what a usage comes to of each resource.
fn amounts(tree: &QueueTree, usage: &[(FlavorResource, i64)], times: i64) -> Amounts {
    let mut sum = Amounts::new();
    for &(of, amount) in usage {
        let resource = tree.names(of).1;
        sum.set(resource, sum.of(resource).saturating_add(times.saturating_mul(amount)));
    }
    sum
}

/// Usage of a claim, for each resource of its queue.
struct Wanted {
    sets: SmallVec<[PodSetAssignment; 1]>,
    usage: Usage,
    amounts: Amounts,
}

impl Tenants {
    /// Koordinator's semantics: elastic quotas with minima that are lent, weights and maxima.
    ///
    /// A queue's guarantee is its minimum, its limit the maximum, and a lending limit of 0 of any
    /// resource keeps the minimum from others. Weights are amounts, thousandths for `cpu`, as
    /// [`Weight::from_nanos`](crate::quota::Weight::from_nanos); the maximum unless stated. What there
    /// is to divide is the guarantee of the inner queue [`ROOT_QUOTA`], in which every queue stands
    /// that names no parent. Each resource has one flavor.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::model::Amounts;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, ROOT_QUOTA, Tenants};
    ///
    /// let mut tenants = Tenants::koordinator();
    /// tenants.set_flavor(Flavor::new("all"));
    /// tenants.set_queue(Queue::inner(ROOT_QUOTA).quota("all", "gpu", Quota::nominal(16)))?;
    /// for team in ["vision", "speech"] {
    ///     let quota = Quota::nominal(4).limit(12);
    ///     tenants.set_queue(Queue::leaf(team).quota("all", "gpu", quota))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     let mut requests = Amounts::new();
    ///     requests.set("gpu", gpus);
    ///     Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
    /// };
    /// let large = gang("large", "vision", 12);
    /// let decision = tenants.decide(&large)?;
    /// assert_eq!(decision.assignment.mode, AssignmentMode::Fit); // `speech` is idle
    /// tenants.admit(&large, &decision.assignment, Time::ZERO)?;
    /// let more = tenants.decide(&gang("more", "vision", 1))?;
    /// assert!(more.assignment.mode != AssignmentMode::Fit && more.victims.is_empty());
    /// // Minima first, then halves of the rest: both may use 8. What `vision` has, it keeps.
    /// let own = gang("own", "speech", 8);
    /// assert_eq!(tenants.decide(&own)?.assignment.mode, AssignmentMode::Fit);
    /// assert_eq!(tenants.decide(&gang("own", "speech", 9))?.assignment.mode, AssignmentMode::Preempt);
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    pub fn koordinator() -> Tenants {
        Tenants::koordinator_with(KoordinatorSettings::default())
    }

    /// Koordinator's semantics with settings.
    pub fn koordinator_with(settings: KoordinatorSettings) -> Tenants {
        let mut quotas = ElasticQuotas::new();
        quotas.set_scale_min(settings.scale_min);
        let mut tenants = Tenants::kueue_with(KueueSettings::default());
        tenants.dialect = Dialect::Koordinator(Box::new(Koordinator { settings, quotas }));
        tenants
    }

    /// The elastic quotas of the dialect; `None` in other dialects.
    pub fn elastic(&self) -> Option<&ElasticQuotas> {
        self.dialect.koordinator().map(|own| &own.quotas)
    }

    /// How much more of a resource in a flavor a leaf may use, limits aside. In Koordinator's
    /// dialect it is its runtime less its use, if all of `wanted` were requested too. Elsewhere it
    /// is [`QueueTree::available`](crate::quota::QueueTree::available). It is negative where more
    /// is used than may be.
    pub fn room_for(&self, queue: QueueId, of: FlavorResource, wanted: &Usage) -> i64 {
        let tree = &self.books.tree;
        let (Some(own), Some(spec)) = (self.dialect.koordinator(), tree.spec(queue)) else {
            return tree.available(queue, of);
        };
        let more = amounts(tree, wanted, 1);
        let resource = tree.names(of).1;
        let bound = own.bound(&spec.name, &more);
        let bound = bound.map_or(UNLIMITED, |bound| bound.of(resource));
        minus(bound, tree.sums(queue, of).used)
    }

    /// Requests of a waiting claim to its queue, in a dialect that divides by requests; elsewhere
    /// none.
    pub fn requested(&self, queue: QueueId, claim: &Claim) -> Usage {
        match self.dialect {
            Dialect::Koordinator(_) => self.wanted(queue, claim, None).usage,
            _ => Usage::new(),
        }
    }

    /// Whether limits of the queues above a leaf bound it too.
    pub fn checks_parents(&self) -> bool {
        self.dialect.koordinator().is_none_or(|own| own.settings.check_parents)
    }

    /// A queue of this dialect stands in the root if it names no parent, and its name is its alone.
    pub(in crate::quota) fn placed(&self, mut queue: Queue) -> Result<Queue, QuotaError> {
        self.check_name(&queue)?;
        if queue.parent.is_none() && queue.name != ROOT_QUOTA {
            queue.parent = Some(ROOT_QUOTA.into());
        }
        Ok(queue)
    }

    /// Brings the quota of a queue in line with the tree.
    pub(in crate::quota) fn quota_changed(&mut self, kind: QueueKind, name: &str) {
        let Dialect::Koordinator(own) = &mut self.dialect else { return };
        let tree = &self.books.tree;
        let spec = tree.queue(kind, name).and_then(|queue| tree.spec(queue));
        if name == ROOT_QUOTA {
            own.quotas.set_total(spec.map(|spec| Koordinator::quota(spec).min).unwrap_or_default());
        } else if let Some(spec) = spec {
            own.quotas.put(Koordinator::quota(spec));
        } else {
            own.quotas.remove(name);
        }
    }

    /// Counts what a leaf uses, or with `waiting` alone what waits in it.
    pub(in crate::quota) fn counted(
        &mut self,
        queue: &str,
        usage: &[(FlavorResource, i64)],
        sign: i64,
        non_preemptible: bool,
        waiting: bool,
    ) {
        let Dialect::Koordinator(own) = &mut self.dialect else { return };
        let tree = &self.books.tree;
        let delta = amounts(tree, usage, sign);
        let held = if non_preemptible { delta.clone() } else { Amounts::new() };
        own.quotas.add_request(queue, &delta, &held);
        if !waiting {
            own.quotas.add_used(queue, &delta, &held);
        }
        // A leaf that drained is gone with the last of its claims.
        if tree.queue(QueueKind::Leaf, queue).is_none() {
            own.quotas.remove(queue);
        }
    }

    /// The decision on a claim of an active leaf, by Koordinator's rules.
    pub(in crate::quota) fn decide_koordinator(
        &self,
        own: &Koordinator,
        queue: QueueId,
        claim: &Claim,
    ) -> QuotaDecision {
        decide_reduced(claim, |counts| self.attempt(own, queue, claim, counts))
    }

    fn attempt(
        &self,
        own: &Koordinator,
        queue: QueueId,
        claim: &Claim,
        counts: Option<&[u32]>,
    ) -> QuotaDecision {
        let wanted = self.wanted(queue, claim, counts);
        let (mode, victims) = self.judge(own, queue, claim, &wanted);
        let mut assignment =
            QuotaAssignment { pod_sets: wanted.sets, usage: wanted.usage, mode, level: 0 };
        assignment.set_mode(mode);
        QuotaDecision { assignment, victims }
    }

    /// Usage of a claim, for the resources that its queue has quota of.
    fn wanted(&self, queue: QueueId, claim: &Claim, counts: Option<&[u32]>) -> Wanted {
        let tree = &self.books.tree;
        let (mut usage, mut amounts) = (Usage::new(), Amounts::new());
        let mut sets = SmallVec::new();
        let groups = tree.spec(queue).map_or(&[][..], |spec| &spec.groups);
        for (at, set) in claim.pod_sets.iter().enumerate() {
            let count = counts.and_then(|counts| counts.get(at).copied()).unwrap_or(set.count);
            let mut chosen = PodSetAssignment::new(at, count);
            for group in groups {
                let Some(flavor) = group.flavors.first() else { continue };
                for resource in &group.covered_resources {
                    let amount = if resource == PODS {
                        i64::from(count)
                    } else {
                        set.scaled(set.requests.of(resource), count)
                    };
                    let named = tree.flavor_resource(&flavor.name, resource);
                    let Some(of) = named.filter(|_| amount != 0) else { continue };
                    chosen.flavors.push(FlavorChoice {
                        of,
                        mode: AssignmentMode::Fit,
                        tried: None,
                    });
                    chosen.requests.push(amount);
                    add_usage(&mut usage, of, amount);
                    amounts.set(resource, amounts.of(resource).saturating_add(amount));
                }
            }
            sets.push(chosen);
        }
        Wanted { sets, usage, amounts }
    }

    /// How a claim can have what it wants, and which holders of its queue have to give back.
    fn judge(
        &self,
        own: &Koordinator,
        queue: QueueId,
        claim: &Claim,
        wanted: &Wanted,
    ) -> (AssignmentMode, Vec<QuotaVictim>) {
        let tree = &self.books.tree;
        let Some(spec) = tree.spec(queue) else { return (AssignmentMode::NoFit, Vec::new()) };
        let path: Vec<QueueId> = tree.path(queue).filter(|at| tree.parent(*at).is_some()).collect();
        let asked = if own.settings.check_parents { &path[..] } else { &path[..path.len().min(1)] };
        let mut mode = AssignmentMode::Fit;
        for &at in asked {
            let Some(name) = tree.spec(at).map(|spec| spec.name.as_str()) else { continue };
            let Some(max) = own.quotas.max(name) else {
                return (AssignmentMode::NoFit, Vec::new());
            };
            let beyond = |most: &Amounts, used: &dyn Fn(FlavorResource) -> i64| {
                wanted.usage.iter().any(|&(of, amount)| {
                    let resource = tree.names(of).1;
                    max.lists(resource) && used(of).saturating_add(amount) > most.of(resource)
                })
            };
            if wanted.usage.iter().any(|&(_, amount)| amount > MOST) || beyond(max, &|_| 0) {
                return (AssignmentMode::NoFit, Vec::new());
            }
            let Some(bound) = own.bound_of(name, &spec.name, &wanted.amounts) else { continue };
            if beyond(&bound, &|of| tree.sums(at, of).used) {
                mode = AssignmentMode::Preempt;
            }
        }
        if claim.preemptible == Some(false) && own.is_beyond_min(&spec.name, wanted) {
            return (AssignmentMode::Preempt, Vec::new());
        }
        let victims = if mode == AssignmentMode::Preempt {
            let bound = own.bound(&spec.name, &wanted.amounts).unwrap_or_default();
            self.lower_holders(queue, claim, wanted, &bound)
        } else {
            Vec::new()
        };
        (mode, victims)
    }

    /// Holders of the claim's own queue and of lower priority, as few as will do. All of them are
    /// taken back, and given again from the most important down where the claim still fits. None if
    /// that does not suffice.
    fn lower_holders(
        &self,
        queue: QueueId,
        claim: &Claim,
        wanted: &Wanted,
        bound: &Amounts,
    ) -> Vec<QuotaVictim> {
        let tree = &self.books.tree;
        let mut used: Vec<(FlavorResource, i64)> = wanted
            .usage
            .iter()
            .map(|&(of, amount)| (of, tree.sums(queue, of).used.saturating_add(amount)))
            .collect();
        let fits = |used: &[(FlavorResource, i64)]| {
            used.iter().all(|&(of, sum)| {
                let resource = tree.names(of).1;
                !bound.lists(resource) || sum <= bound.of(resource)
            })
        };
        let count = |used: &mut [(FlavorResource, i64)], usage: &Usage, sign: i64| {
            for (of, sum) in used.iter_mut() {
                let own = usage.iter().find(|(own, _)| own == of).map_or(0, |(_, own)| *own);
                *sum = sum.saturating_add(sign * own);
            }
        };
        // In the order of victims: the least important first.
        let lower = self.books.holders(queue).filter_map(|id| {
            let holder = self.books.holder(id)?;
            let free = !holder.stays();
            (holder.priority < claim.priority && free).then_some((id, holder))
        });
        let lower: Vec<_> = lower.collect();
        for (_, holder) in &lower {
            count(&mut used, &holder.usage, -1);
        }
        if !fits(&used) {
            return Vec::new();
        }
        let mut victims = Vec::new();
        for (id, holder) in lower.into_iter().rev() {
            count(&mut used, &holder.usage, 1);
            if !fits(&used) {
                count(&mut used, &holder.usage, -1);
                victims.push(QuotaVictim { holder: id, reason: VictimReason::InClusterQueue });
            }
        }
        victims.reverse();
        victims
    }
}

impl Koordinator {
    /// Amount that a quota may use if so much more were requested in it: its runtime, or its
    /// maximum if runtimes are off.
    fn bound(&self, name: &str, more: &Amounts) -> Option<Amounts> {
        self.bound_of(name, name, more)
    }

    /// Amount that a quota may use if so much more were requested in one below it.
    fn bound_of(&self, name: &str, below: &str, more: &Amounts) -> Option<Amounts> {
        self.quotas.quota(name)?;
        if self.settings.runtime {
            return Some(self.quotas.runtime_on_path(below, name, more));
        }
        self.quotas.max(name).cloned()
    }

    /// Whether what may not be preempted would come to more than the minimum of its quota.
    fn is_beyond_min(&self, name: &str, wanted: &Wanted) -> bool {
        let (Some(quota), Some(sums)) = (self.quotas.quota(name), self.quotas.sums(name)) else {
            return false;
        };
        wanted.amounts.iter().any(|(resource, amount)| {
            let used = sums.non_preemptible_used.of(resource);
            quota.max.lists(resource) && used.saturating_add(amount) > quota.min.of(resource)
        })
    }
}

/// The label by which a pod says, with `false`, that it may not be preempted.
pub const PREEMPTIBLE_LABEL: &str = "quota.scheduling.koordinator.sh/preemptible";
