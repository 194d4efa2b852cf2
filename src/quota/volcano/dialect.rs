//! Tenants as Volcano's queue plugins have them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::attributes::{Attributes, ROOT};
use super::drf::may_take;
use super::quotas::Quotas;
use super::resources::Resources;
use super::settings::VolcanoRule;
use crate::model::resources::{CPU, MEMORY, PODS};
use crate::quota::claim::{AssignmentMode, Claim, HolderId, Usage, add_usage};
use crate::quota::dialect::Peer;
use crate::quota::peer::Candidate;
use crate::quota::queue::QueueKind;
use crate::quota::tenants::Tenants;
use crate::quota::tree::{FlavorResource, QueueId, QueueTree, Sums};

impl Tenants {
    /// Volcano's `proportion`: what a queue may have is what it deserves by weight, among those that
    /// use or ask for something.
    ///
    /// A queue's guarantee is its `guarantee`, its limit the `capability`. What there is in all is the
    /// guarantee of the inner queue [`ROOT`], in which every queue stands that names no parent.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::model::Amounts;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
    ///
    /// let mut tenants = Tenants::volcano_proportion();
    /// tenants.set_flavor(Flavor::new("all"));
    /// tenants.set_queue(Queue::inner("root").quota("all", "gpu", Quota::nominal(16)))?;
    /// for team in ["vision", "speech"] {
    ///     tenants.set_queue(Queue::leaf(team).quota("all", "gpu", Quota::nominal(0)))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     let mut requests = Amounts::new();
    ///     requests.set("gpu", gpus);
    ///     Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
    /// };
    /// for name in ["one", "two"] {
    ///     let claim = gang(name, "vision", 8);
    ///     let decision = tenants.decide(&claim)?;
    ///     assert_eq!(decision.assignment.mode, AssignmentMode::Fit, "`speech` is idle");
    ///     tenants.admit(&claim, &decision.assignment, Time::ZERO)?;
    /// }
    /// // Half of all is deserved now, and one of two gangs is beyond the other half.
    /// let decision = tenants.decide(&gang("own", "speech", 8))?;
    /// assert_eq!((decision.assignment.mode, decision.victims.len()), (AssignmentMode::Preempt, 1));
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    pub fn volcano_proportion() -> Tenants {
        Tenants::of_peer(Peer::Volcano(VolcanoRule::Proportion))
    }

    /// Volcano's `capacity`, flat or, if queues stand in others than the root, in a tree: a queue
    /// borrows up to its capability, and takes back what it deserves
    /// ([`Quota::deserved`](crate::quota::Quota::deserved)). The rest is as with
    /// [`Tenants::volcano_proportion`].
    pub fn volcano_capacity() -> Tenants {
        Tenants::of_peer(Peer::Volcano(VolcanoRule::Capacity))
    }

    /// Volcano's `drf`, its queues in a tree of weights as with `hdrf`. Limits aside each may have
    /// all, and the smallest dominant share over weight goes first, from the root down. The rest is
    /// as with [`Tenants::volcano_proportion`].
    pub fn volcano_drf() -> Tenants {
        Tenants::of_peer(Peer::Volcano(VolcanoRule::Drf))
    }

    /// The decision on what a claim of an active leaf would use.
    pub(in crate::quota) fn judge_volcano(
        &self,
        rule: VolcanoRule,
        queue: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> (AssignmentMode, Vec<HolderId>) {
        let session = Session::new(self, rule, queue, usage);
        let none = Usage::new();
        if self.has_whole(queue, usage, &none) && session.admits(usage) {
            return (AssignmentMode::Fit, Vec::new());
        }
        let Some(quotas) = &session.quotas else {
            return (AssignmentMode::Preempt, session.victims(claim, usage, None));
        };
        let mut victims = Vec::new();
        if quotas.may_reclaim(&session.name, &session.request) {
            let others = |own: &Candidate<'_>| own.holder.queue != queue;
            victims = session.reclaim(usage, &others);
        }
        if victims.is_empty() {
            victims = session.victims(claim, usage, Some(queue));
        }
        (AssignmentMode::Preempt, victims)
    }
}

/// Amounts of a usage in Volcano's units.
pub(super) fn amounts(tree: &QueueTree, usage: &[(FlavorResource, i64)]) -> Resources {
    let mut sum = Resources::default();
    for &(of, amount) in usage {
        match tree.names(of).1 {
            CPU => sum.milli_cpu += amount as f64,
            MEMORY => sum.memory += amount as f64,
            PODS => sum.add_scalar(PODS, amount as f64),
            name => sum.add_scalar(name, amount as f64 * 1000.0),
        }
    }
    sum
}

/// The queues as they stand, with what a claim asks for.
pub(super) struct Session<'a> {
    tenants: &'a Tenants,
    /// `None`: `drf`, which holds no queue to anything.
    quotas: Option<Quotas>,
    queue: QueueId,
    name: String,
    request: Resources,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        tenants: &'a Tenants,
        rule: VolcanoRule,
        queue: QueueId,
        usage: &Usage,
    ) -> Session<'a> {
        let tree = tenants.tree();
        let name = tree.spec(queue).map(|spec| spec.name.clone()).unwrap_or_default();
        let request = amounts(tree, usage);
        let root = tree.path(queue).last().unwrap_or(queue);
        let of_sums = |at: QueueId, own: &dyn Fn(Sums) -> i64| {
            let sums: Vec<_> = tree.books(at).map(|(of, _)| (of, own(tree.sums(at, of)))).collect();
            amounts(tree, &sums)
        };
        let total = of_sums(root, &|sums| sums.nominal);
        let attributes = |at: QueueId| -> Option<Attributes> {
            let spec = tree.spec(at)?;
            let leaf = spec.kind == QueueKind::Leaf;
            let mut own = Attributes::new(spec.name.clone());
            own.parent = tree
                .parent(at)
                .and_then(|at| tree.spec(at))
                .map_or_else(String::new, |above| above.name.clone());
            (own.weight, own.priority) = (spec.weight.as_f64(), spec.priority);
            own.open = tenants.is_active(at) || !leaf;
            let stated: Vec<_> = tree.books(at).filter(|(_, stated)| *stated).collect();
            let quota = |amount: &dyn Fn(&crate::quota::Quota) -> Option<i64>| {
                let amount =
                    |(of, _): &(FlavorResource, bool)| Some((*of, amount(tree.quota(at, *of)?)?));
                stated.iter().filter_map(amount).collect::<Vec<_>>()
            };
            if at != root {
                own.guarantee = amounts(tree, &quota(&|quota| Some(quota.nominal)));
            }
            own.deserved = amounts(tree, &quota(&|quota| quota.deserved));
            let limits = quota(&|quota| quota.limit);
            own.capability = (!limits.is_empty()).then(|| amounts(tree, &limits));
            if leaf {
                own.allocated = of_sums(at, &|sums| sums.used);
                own.request = of_sums(at, &|sums| sums.requested());
                if at == queue {
                    own.request.add(&request);
                }
            }
            Some(own)
        };
        let leaves: Vec<Attributes> = tree.queues(QueueKind::Leaf).filter_map(attributes).collect();
        let mut guarantees = Resources::default();
        for own in &leaves {
            guarantees.add(&own.guarantee);
        }
        let nested = leaves.iter().any(|own| own.parent != ROOT);
        let quotas = match rule {
            VolcanoRule::Drf => None,
            VolcanoRule::Capacity if nested => {
                let inner = tree.queues(QueueKind::Inner).filter_map(attributes);
                let all = inner.chain(leaves).collect();
                Some(Quotas::capacity_tree(&total, all, 0))
            }
            rule => {
                let asks = |own: &Attributes| own.name == name || !own.request.is_empty();
                let asking: Vec<Attributes> = leaves.into_iter().filter(asks).collect();
                Some(match rule {
                    VolcanoRule::Capacity => Quotas::capacity(&total, &guarantees, asking),
                    _ => Quotas::proportion(&total, &guarantees, asking),
                })
            }
        };
        Session { tenants, quotas, queue, name, request }
    }

    /// The queues, the name of the claim's queue, and its request.
    pub(super) fn into_parts(self) -> (Option<Quotas>, String, Resources) {
        (self.quotas, self.name, self.request)
    }

    /// Whether the queue may have what is asked for now.
    fn admits(&self, usage: &Usage) -> bool {
        match &self.quotas {
            Some(quotas) => quotas.allocatable(&self.name, &self.request),
            None => self.within_limits(usage, &Usage::new()),
        }
    }

    /// Whether limits on the path let so much more be, once so much is free.
    fn within_limits(&self, usage: &Usage, freed: &Usage) -> bool {
        let tree = self.tenants.tree();
        usage.iter().all(|&(of, amount)| {
            let freed = freed.iter().find(|(own, _)| *own == of).map_or(0, |(_, own)| *own);
            let amount = amount.saturating_sub(freed);
            tree.path(self.queue).all(|at| {
                let limit = tree.quota(at, of).and_then(|quota| quota.limit);
                limit.is_none_or(|limit| tree.sums(at, of).used.saturating_add(amount) <= limit)
            })
        })
    }

    fn queue_name(&self, queue: QueueId) -> &'a str {
        self.tenants.tree().spec(queue).map_or("", |spec| &spec.name)
    }

    /// Holders of other queues that the plugin lets go, as many as it takes until all is there; none
    /// if that does not suffice.
    fn reclaim(&self, usage: &Usage, may: &dyn Fn(&Candidate<'_>) -> bool) -> Vec<HolderId> {
        let Some(quotas) = &self.quotas else { return Vec::new() };
        let tree = self.tenants.tree();
        let mut all: Vec<Candidate<'_>> = self.tenants.candidates();
        all.retain(|own| may(own) && shares_any(&own.holder.usage, usage));
        // Tasks of queues that are nearer in the tree come first.
        all.sort_by(|a, b| {
            let names = (self.queue_name(a.holder.queue), self.queue_name(b.holder.queue));
            quotas.compare_victims(names.0, names.1, &self.name)
        });
        let has: Vec<(&str, Resources)> = all
            .iter()
            .map(|own| (self.queue_name(own.holder.queue), amounts(tree, &own.holder.usage)))
            .collect();
        let asked: Vec<(&str, &Resources)> = has.iter().map(|(name, has)| (*name, has)).collect();
        let may = quotas.victims(&self.name, &self.request, &asked);
        let may = all.iter().zip(may).filter(|(_, may)| *may).map(|(own, _)| own);
        self.until_enough(usage, may, &|_| true)
    }

    /// Holders of the claim's queue and of lower priority; with `drf`, of any queue whose share stays
    /// no smaller without them than the claim's is with what it asks for.
    fn victims(&self, claim: &Claim, usage: &Usage, only: Option<QueueId>) -> Vec<HolderId> {
        let all = self.tenants.candidates();
        let (queue, tenants) = (self.queue, self.tenants);
        let taker = tenants.peer_share(queue.slot, usage).weighted();
        let mut lost: BTreeMap<QueueId, Usage> = BTreeMap::new();
        let may = all.iter().filter(|own| {
            let holder = own.holder;
            if !shares_any(&holder.usage, usage) {
                return false;
            }
            if holder.queue == queue || only.is_some() {
                return holder.queue == queue && holder.priority < claim.priority;
            }
            let lost = lost.entry(holder.queue).or_default();
            for &(of, amount) in &holder.usage {
                add_usage(lost, of, -amount);
            }
            may_take(taker, tenants.peer_share(holder.queue.slot, lost).weighted())
        });
        self.until_enough(usage, may, &|freed| match &self.quotas {
            None => self.within_limits(usage, freed),
            Some(quotas) => {
                let mut quotas = quotas.clone();
                quotas.take(&self.name, &amounts(tenants.tree(), freed));
                quotas.allocatable(&self.name, &self.request)
            }
        })
    }

    /// The first holders that free what is missing of all that there is, and meet a condition.
    fn until_enough<'c>(
        &self,
        usage: &Usage,
        holders: impl Iterator<Item = &'c Candidate<'c>>,
        enough: &dyn Fn(&Usage) -> bool,
    ) -> Vec<HolderId> {
        let (mut freed, mut victims) = (Usage::new(), Vec::new());
        for own in holders {
            for &(of, amount) in &own.holder.usage {
                add_usage(&mut freed, of, amount);
            }
            victims.push(own.id);
            if self.tenants.has_whole(self.queue, usage, &freed) && enough(&freed) {
                return victims;
            }
        }
        Vec::new()
    }
}

/// Whether something is used that is asked for.
pub(super) fn shares_any(has: &Usage, asks: &Usage) -> bool {
    has.iter().any(|(of, amount)| *amount > 0 && asks.iter().any(|(own, _)| own == of))
}
