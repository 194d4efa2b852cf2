//! Decisions by Koordinator's rules.
//!
//! Elastic quotas are computed from the books for each decision: what a leaf requests is its usage and
//! the amounts that wait in it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::elastic::ElasticQuotas;
use super::settings::KoordinatorSettings;
use super::stated::{ElasticQuota, ROOT_QUOTA, is_apart};
use crate::model::Amounts;
use crate::quota::books::Books;
use crate::quota::books::tree::{QueueId, QueueTree, Sums};
use crate::quota::dialect::{Dialect, RequestOf};
use crate::quota::engine::give_back::{GiveBack, give_back, without_spare};
use crate::quota::engine::partial::decide_reduced;
use crate::quota::engine::wanted::{flavor_of_group, wanted};
use crate::quota::model::amount::{MOST, UNLIMITED, minus};
use crate::quota::model::claim::{
    AssignmentMode, Claim, FlavorResource, HolderId, QuotaAssignment, QuotaDecision, QuotaVictim,
    Usage, VictimReason,
};
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::{Queue, QueueKind, Quota, Weight};

/// Koordinator's dialect.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Koordinator {
    settings: KoordinatorSettings,
}

/// A queue as an elastic quota. Of each resource the first flavor counts.
fn quota_of(queue: &Queue) -> ElasticQuota {
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

impl ElasticQuota {
    /// The quota as a queue of [`Tenants::koordinator`](crate::quota::Tenants::koordinator), with amounts in one flavor.
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

/// Amounts of a usage by resource.
fn amounts(tree: &QueueTree, usage: &[(FlavorResource, i64)]) -> Amounts {
    let mut sum = Amounts::new();
    for (resource, amount) in tree.named(usage) {
        sum.set(resource, sum.of(resource).saturating_add(amount));
    }
    sum
}

impl Koordinator {
    pub(in crate::quota) fn new(settings: KoordinatorSettings) -> Koordinator {
        Koordinator { settings }
    }

    /// The elastic quotas as the books stand. O(queues · depth · resources).
    fn quotas(&self, books: &Books) -> ElasticQuotas {
        let tree = &books.tree;
        let mut quotas = ElasticQuotas::new();
        quotas.set_scale_min(self.settings.scale_min);
        for kind in [QueueKind::Inner, QueueKind::Leaf] {
            for id in tree.queues(kind).filter(|id| tree.is_stated(*id)) {
                let Some(spec) = tree.spec(id) else { continue };
                if spec.name == ROOT_QUOTA {
                    quotas.set_total(quota_of(spec).min);
                } else {
                    quotas.put(quota_of(spec));
                }
            }
        }
        let none = Amounts::new();
        for leaf in tree.queues(QueueKind::Leaf) {
            let Some(spec) = tree.spec(leaf) else { continue };
            let sums = |of: fn(&Sums) -> i64| {
                let own = tree.books(leaf).map(|(pair, _)| (pair, of(&tree.sums(leaf, pair))));
                let own: Usage = own.filter(|(_, amount)| *amount != 0).collect();
                amounts(tree, &own)
            };
            quotas.add_request(&spec.name, &sums(Sums::requested), &none);
            if is_apart(&spec.name) {
                quotas.add_used(&spec.name, &sums(|sums| sums.used), &none);
            }
        }
        quotas
    }

    /// Amount that a quota may use if so much more were requested in one below it: its runtime, or its
    /// maximum if runtimes are off.
    fn bound(
        &self,
        quotas: &ElasticQuotas,
        name: &str,
        below: &str,
        more: &Amounts,
    ) -> Option<Amounts> {
        quotas.quota(name)?;
        if self.settings.runtime {
            return Some(quotas.runtime_on_path(below, name, more));
        }
        quotas.max(name).cloned()
    }

    /// The usage of a claim, for the resources that its queue has quota of.
    fn usage(
        books: &Books,
        leaf: QueueId,
        claim: &Claim,
        counts: Option<&[u32]>,
    ) -> QuotaAssignment {
        let tree = &books.tree;
        let spec = tree.spec(leaf);
        wanted(tree, claim, counts, |resource| flavor_of_group(spec?, resource))
    }

    /// How a claim can have what it wants, and which holders of its queue have to give back.
    fn judge(
        &self,
        books: &Books,
        quotas: &ElasticQuotas,
        leaf: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> (AssignmentMode, Vec<QuotaVictim>) {
        let tree = &books.tree;
        let Some(spec) = tree.spec(leaf) else { return (AssignmentMode::NoFit, Vec::new()) };
        let more = amounts(tree, usage);
        let path: Vec<QueueId> = tree.path(leaf).filter(|at| tree.parent(*at).is_some()).collect();
        let asked =
            if self.settings.check_parents { &path[..] } else { &path[..path.len().min(1)] };
        let mut mode = AssignmentMode::Fit;
        for &at in asked {
            let Some(name) = tree.spec(at).map(|spec| spec.name.as_str()) else { continue };
            let Some(max) = quotas.max(name) else { return (AssignmentMode::NoFit, Vec::new()) };
            let beyond = |most: &Amounts, used: &dyn Fn(FlavorResource) -> i64| {
                usage.iter().any(|&(of, amount)| {
                    let resource = tree.names(of).1;
                    max.lists(resource) && used(of).saturating_add(amount) > most.of(resource)
                })
            };
            if usage.iter().any(|&(_, amount)| amount > MOST) || beyond(max, &|_| 0) {
                return (AssignmentMode::NoFit, Vec::new());
            }
            let Some(bound) = self.bound(quotas, name, &spec.name, &more) else { continue };
            if beyond(&bound, &|of| tree.sums(at, of).used) {
                mode = AssignmentMode::Preempt;
            }
        }
        if claim.preemptible == Some(false) && is_beyond_min(books, leaf, &more) {
            return (AssignmentMode::Preempt, Vec::new());
        }
        if mode == AssignmentMode::Fit {
            return (mode, Vec::new());
        }
        let bound = self.bound(quotas, &spec.name, &spec.name, &more).unwrap_or_default();
        let used = |&(of, amount): &(FlavorResource, i64)| {
            (of, tree.sums(leaf, of).used.saturating_add(amount))
        };
        // In the order of victims: the least important first.
        let lower = books.holders(leaf).filter(|id| {
            let holder = books.holder(*id);
            holder.is_some_and(|own| own.priority < claim.priority && !own.stays())
        });
        let lower: Vec<(usize, HolderId)> = lower.enumerate().collect();
        let used: Usage = usage.iter().map(used).collect();
        let mut search = Lower { books, bound: &bound, used, rest: lower.into_iter() };
        if search.suffices() {
            return (mode, Vec::new());
        }
        let mut victims = give_back(&mut search).unwrap_or_default();
        victims.sort_unstable();
        let reason = VictimReason::InClusterQueue;
        (mode, victims.into_iter().map(|(_, holder)| QuotaVictim { holder, reason }).collect())
    }
}

/// Whether holders that may not be preempted would come to more than the minimum of a leaf's quota.
/// O(holders of the leaf).
fn is_beyond_min(books: &Books, leaf: QueueId, more: &Amounts) -> bool {
    let tree = &books.tree;
    let Some(quota) = tree.spec(leaf).map(quota_of) else { return false };
    let firm = books.holders(leaf).filter_map(|id| books.holder(id));
    let mut used = Amounts::new();
    for holder in firm.filter(|holder| holder.preemptible == Some(false)) {
        for (resource, amount) in tree.named(&holder.usage) {
            used.set(resource, used.of(resource).saturating_add(amount));
        }
    }
    more.iter().any(|(resource, amount)| {
        let sum = used.of(resource).saturating_add(amount);
        quota.max.lists(resource) && sum > quota.min.of(resource)
    })
}

/// Holders of the claim's own queue and of lower priority, as few as will do. The least important give
/// back first, and each stays if the claim fits all the same.
struct Lower<'a> {
    books: &'a Books,
    bound: &'a Amounts,
    /// Usage of the queue with the claim.
    used: Usage,
    rest: alloc::vec::IntoIter<(usize, HolderId)>,
}

impl Lower<'_> {
    fn count(&mut self, id: HolderId, sign: i64) {
        let Some(holder) = self.books.holder(id) else { return };
        for (of, sum) in &mut self.used {
            let own = holder.usage.iter().find(|(own, _)| own == of).map_or(0, |(_, own)| *own);
            *sum = sum.saturating_add(sign * own);
        }
    }
}

impl GiveBack for Lower<'_> {
    /// By place in the order.
    type Holder = (usize, HolderId);

    fn take_next(&mut self) -> Option<Self::Holder> {
        let next = self.rest.next()?;
        self.count(next.1, -1);
        Some(next)
    }

    fn suffices(&mut self) -> bool {
        self.used.iter().all(|&(of, sum)| {
            let resource = self.books.tree.names(of).1;
            !self.bound.lists(resource) || sum <= self.bound.of(resource)
        })
    }

    fn put_back(&mut self, holder: &Self::Holder) {
        self.count(holder.1, 1);
    }

    fn take_again(&mut self, holder: &Self::Holder) {
        self.count(holder.1, -1);
    }

    fn needed(&mut self, taken: &[Self::Holder]) -> Option<Vec<Self::Holder>> {
        Some(without_spare(self, taken))
    }
}

impl Dialect for Koordinator {
    fn boxed(&self) -> Box<dyn Dialect> {
        Box::new(self.clone())
    }

    /// A queue that names no parent stands in the root, and its name is its alone.
    fn adopt(&mut self, books: &mut Books, mut queue: Queue) -> Result<Queue, QuotaError> {
        books.tree.check_name(&queue)?;
        if queue.parent.is_none() && queue.name != ROOT_QUOTA {
            queue.parent = Some(ROOT_QUOTA.into());
        }
        Ok(queue)
    }

    fn decide(&self, books: &mut Books, leaf: QueueId, claim: &Claim) -> QuotaDecision {
        let quotas = self.quotas(books);
        decide_reduced(claim, |counts| {
            let mut assignment = Koordinator::usage(books, leaf, claim, counts);
            let (mode, victims) = self.judge(books, &quotas, leaf, claim, &assignment.usage);
            assignment.set_mode(mode);
            QuotaDecision { assignment, victims }
        })
    }

    /// The runtime of the leaf less its usage. O(queues · depth · resources).
    fn room(&self, books: &Books, leaf: QueueId, of: FlavorResource, wanted: &Usage) -> i64 {
        let tree = &books.tree;
        let Some(spec) = tree.spec(leaf) else { return 0 };
        let more = amounts(tree, wanted);
        let bound = self.bound(&self.quotas(books), &spec.name, &spec.name, &more);
        let bound = bound.map_or(UNLIMITED, |bound| bound.of(tree.names(of).1));
        minus(bound, tree.sums(leaf, of).used)
    }

    fn limiting(&self, books: &Books, leaf: QueueId) -> Vec<QueueId> {
        let most = if self.settings.check_parents { usize::MAX } else { 1 };
        books.tree.path(leaf).take(most).collect()
    }

    fn requested(&self) -> Option<RequestOf> {
        Some(|books, leaf, claim| Koordinator::usage(books, leaf, claim, None).usage)
    }
}

/// The label by which a pod says, with `false`, that it may not be preempted.
pub const PREEMPTIBLE_LABEL: &str = "quota.scheduling.koordinator.sh/preemptible";
