//! Tenants that decide as KAI does.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::amount::{UNLIMITED, plus};
use super::super::books::Holder;
use super::super::claim::{AssignmentMode, Claim, QuotaDecision, QuotaVictim, Usage, VictimReason};
use super::super::dialect::Dialect;
use super::super::error::QuotaError;
use super::super::kueue::{self, Outlook};
use super::super::queue::{FlavorQuotas, Queue, QueueKind, Quota, ResourceGroup};
use super::super::tenants::Tenants;
use super::super::tree::{FlavorResource, QueueId};
use super::min_runtime::{MinRuntime, RuntimeQueue, is_protected};
use super::queues::{KaiQuantities, QueueShare, QueueShares, Reclaimer, ResourceShare};
use super::settings::{Kai, KaiSettings};
use super::turns::{best_served, first_leaf, give_way, has_room};
use crate::Time;

/// The queue above the top queues, which has the capacity of the cluster.
pub(in crate::quota) const CLUSTER: &str = "(cluster)";

impl Kai {
    pub(super) fn is_preemptible(&self, said: Option<bool>, priority: i64) -> bool {
        said.unwrap_or(priority < self.settings.preemptible_below)
    }

    pub(super) fn may_be_taken(&self, holder: &Holder) -> bool {
        !holder.kept && self.is_preemptible(holder.preemptible, holder.priority)
    }

    pub(super) fn runtimes(&self, tables: &Tables) -> MinRuntime {
        let settings = &self.settings;
        let queue = |queue: &QueueShare| {
            let own = settings.min_runtimes.get(&queue.name).copied().unwrap_or_default();
            RuntimeQueue {
                name: queue.name.clone(),
                parent: queue.parent,
                preempt: own.preempt,
                reclaim: own.reclaim,
            }
        };
        MinRuntime {
            queues: tables.shares.queues.iter().map(queue).collect(),
            default_preempt: settings.default_min_runtime.preempt.unwrap_or_default(),
            default_reclaim: settings.default_min_runtime.reclaim.unwrap_or_default(),
            method: settings.reclaim_method,
        }
    }
}

/// A queue as it stands in the tree: guarantees are the deserved amounts, and nothing is lent.
fn stands(mut queue: Queue) -> Queue {
    if queue.name != CLUSTER {
        queue.parent.get_or_insert_with(|| CLUSTER.into());
        // The amounts of others are worth waiting for.
        queue.preemption.borrow_within_cohort.lower_priority = true;
        let flavors = queue.groups.iter_mut().flat_map(|group| &mut group.flavors);
        for (_, quota) in flavors.flat_map(|flavor| &mut flavor.resources) {
            quota.deserved.get_or_insert(quota.nominal);
            quota.nominal = 0;
        }
    }
    queue
}

/// Queues, by their places in the tables.
pub(in crate::quota) struct Tables {
    pub(super) shares: QueueShares,
    pub(super) places: BTreeMap<QueueId, usize>,
}

impl Tables {
    pub(super) fn quantities(&self, usage: &Usage) -> KaiQuantities {
        let mut amounts: KaiQuantities = self.shares.totals.iter().map(|_| 0).collect();
        for (of, amount) in usage {
            if let Some(own) = amounts.get_mut(of.0 as usize) {
                *own = plus(*own, *amount);
            }
        }
        amounts
    }

    /// Counts what waits with a claim that is not in the sums.
    pub(super) fn ask(&mut self, leaf: usize, amounts: &[i64]) {
        let path: Vec<usize> = self.shares.path(leaf).collect();
        for queue in path {
            for (own, amount) in self.shares.queues[queue].resources.iter_mut().zip(amounts) {
                own.request = plus(own.request, *amount);
            }
        }
    }

    /// The fair share of a queue, of a resource in a flavor.
    pub(in crate::quota) fn fair_share(&self, queue: QueueId, of: FlavorResource) -> i64 {
        let place = self.places.get(&queue).copied();
        place.map_or(0, |place| self.shares.share(place, of.0 as usize).fair_share)
    }

    /// Whether a leaf holds less than is fair of something that another holds more of than it may.
    pub(in crate::quota) fn may_take(&self, queue: QueueId, other: QueueId) -> bool {
        let (Some(&own), Some(&other)) = (self.places.get(&queue), self.places.get(&other)) else {
            return false;
        };
        let (side, others) = self.shares.sides(own, other);
        (0..self.shares.totals.len()).any(|at| {
            let share = self.shares.share(others, at);
            let own = self.shares.share(side, at);
            own.allocated < own.fair_share && share.allocated > share.allocatable()
        })
    }
}

impl Tenants {
    /// KAI-Scheduler's semantics: what is fair by level, priority and remainder; whose turn it is;
    /// what may be taken back. See `docs/tenants/kai.md`.
    ///
    /// [`Quota::deserved`] is the promise to a queue, [`UNLIMITED`] included; without it,
    /// [`Quota::nominal`] is. [`Quota::limit`] is the most it may hold.
    /// [`Quota::over_quota_weight`] is its weight in the surplus; without it, the queue's weight
    /// is.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::model::Amounts;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
    ///
    /// let mut tenants = Tenants::kai();
    /// tenants.set_flavor(Flavor::new("all"));
    /// for team in ["vision", "speech"] {
    ///     tenants.set_queue(Queue::leaf(team).quota("all", "gpu", Quota::nominal(8)))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     let mut requests = Amounts::new();
    ///     requests.set("gpu", gpus);
    ///     Claim::new(name, queue).priority(50).pods(PodSet::new("main", 1, requests))
    /// };
    /// // `speech` is idle, so `vision` goes beyond what it deserves.
    /// for name in ["one", "two", "three"] {
    ///     let claim = gang(name, "vision", 5);
    ///     let decision = tenants.decide(&claim)?;
    ///     assert_eq!(decision.assignment.mode, AssignmentMode::Fit);
    ///     tenants.admit(&claim, &decision.assignment, Time::ZERO)?;
    /// }
    /// // What is fair for `speech` now is 8, and one gang has to make room.
    /// let decision = tenants.decide(&gang("own", "speech", 6))?;
    /// assert_eq!((decision.assignment.mode, decision.victims.len()), (AssignmentMode::Preempt, 1));
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    pub fn kai() -> Tenants {
        Tenants::kai_with(KaiSettings::default())
    }

    /// KAI-Scheduler's semantics with settings.
    pub fn kai_with(settings: KaiSettings) -> Tenants {
        let mut tenants = Tenants::kueue();
        tenants.dialect = Dialect::Kai(Kai { settings, now: Time::ZERO });
        tenants
    }

    /// Sets what there is of a resource in all, for [`Tenants::kai`]; other dialects have it from
    /// their queues.
    ///
    /// # Errors
    /// The amount is negative.
    pub fn set_capacity(
        &mut self,
        resource: impl Into<String>,
        amount: i64,
    ) -> Result<(), QuotaError> {
        let resource = resource.into();
        if amount < 0 {
            return Err(QuotaError::Negative {
                queue: CLUSTER.into(),
                flavor: String::new(),
                resource,
                field: "capacity",
            });
        }
        if let Dialect::Kai(kai) = &mut self.dialect {
            kai.settings.capacity.insert(resource, amount);
        }
        self.state_capacity()
    }

    /// The time to which minimum run times are counted in [`Tenants::kai`]; it does not go back.
    pub fn advance(&mut self, now: Time) {
        if let Dialect::Kai(kai) = &mut self.dialect {
            kai.now = kai.now.max(now);
        }
    }

    /// Adds a queue or changes one. A parent that has not been stated is a top queue. O(queues).
    pub(in crate::quota) fn set_kai_queue(&mut self, queue: Queue) -> Result<QueueId, QuotaError> {
        let queue = stands(queue);
        let id = self.books.set_queue(queue)?;
        let unstated = (self.books.tree.path(id))
            .filter_map(|at| self.books.tree.spec(at))
            .find(|spec| spec.parent.is_none() && spec.name != CLUSTER);
        if let Some(name) = unstated.map(|spec| spec.name.clone()) {
            self.books.set_queue(Queue::inner(name).parent(CLUSTER))?;
        }
        self.state_capacity()?;
        Ok(id)
    }

    /// States the capacity of the cluster at the queue above the top queues.
    fn state_capacity(&mut self) -> Result<(), QuotaError> {
        let Dialect::Kai(kai) = &self.dialect else { return Ok(()) };
        let tree = &self.books.tree;
        let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
        for of in tree.numbers() {
            let (flavor, resource) = tree.names(of);
            let stated = kai.settings.capacity.get(resource).copied();
            let sum = stated.unwrap_or_else(|| {
                // The uppermost queues of each branch that state something.
                let mut open: Vec<QueueId> =
                    tree.queue(QueueKind::Inner, CLUSTER).into_iter().collect();
                let mut sum = 0;
                while let Some(at) = open.pop() {
                    for child in tree.children(at) {
                        match tree.quota(child, of).and_then(|quota| quota.deserved) {
                            Some(UNLIMITED) | None => open.push(child),
                            Some(deserved) => sum = plus(sum, deserved),
                        }
                    }
                }
                sum
            });
            sums.insert((flavor.into(), resource.into()), sum);
        }
        let mut flavors: BTreeMap<String, Vec<(String, Quota)>> = BTreeMap::new();
        for ((flavor, resource), sum) in sums {
            flavors.entry(flavor).or_default().push((resource, Quota::nominal(sum)));
        }
        let mut root = Queue::inner(CLUSTER);
        for (flavor, resources) in flavors {
            // A group for each flavor, since groups of queues may be any.
            root.groups.push(ResourceGroup {
                covered_resources: resources.iter().map(|(name, _)| name.clone()).collect(),
                flavors: alloc::vec![FlavorQuotas { name: flavor, resources }],
            });
        }
        self.books.set_queue(root).map(|_| ())
    }

    /// The queues as tables, without what is fair.
    pub(super) fn tables(&self, kai: &Kai) -> Tables {
        let tree = &self.books.tree;
        let numbers: Vec<FlavorResource> = tree.numbers().collect();
        let root = tree.queue(QueueKind::Inner, CLUSTER);
        let unit =
            |of: &FlavorResource| kai.settings.units.get(tree.names(*of).1).copied().unwrap_or(1);
        let total = |of: &FlavorResource| root.map_or(0, |root| tree.sums(root, *of).nominal);
        let mut shares = QueueShares::new(
            numbers.iter().map(total).collect(),
            numbers.iter().map(unit).collect(),
        );
        shares.saturation = kai.settings.saturation;
        let kinds = [QueueKind::Inner, QueueKind::Leaf];
        let ids: Vec<QueueId> = kinds.iter().flat_map(|kind| tree.queues(*kind)).collect();
        let below: Vec<QueueId> =
            ids.into_iter().filter(|id| Some(*id) != root && tree.is_linked(*id)).collect();
        let places: BTreeMap<QueueId, usize> =
            below.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        for id in below {
            let Some(spec) = tree.spec(id) else { continue };
            let resources = numbers.iter().map(|&of| {
                let sums = tree.sums(id, of);
                let own = ResourceShare {
                    request: sums.requested(),
                    allocated: sums.used,
                    ..ResourceShare::default()
                };
                match tree.quota(id, of) {
                    // The queues below decide.
                    None => ResourceShare { deserved: UNLIMITED, weight: spec.weight, ..own },
                    Some(quota) => ResourceShare {
                        deserved: quota.deserved.unwrap_or(0),
                        limit: quota.limit.unwrap_or(UNLIMITED),
                        weight: quota.over_quota_weight.unwrap_or(spec.weight),
                        ..own
                    },
                }
            });
            shares.queues.push(QueueShare {
                name: spec.name.clone(),
                parent: tree.parent(id).and_then(|parent| places.get(&parent).copied()),
                priority: spec.priority,
                created: u64::from(id.slot),
                resources: resources.collect(),
            });
        }
        Tables { shares, places }
    }

    /// Counts what is held by work that is not preemptible. O(holders).
    pub(super) fn count_non_preemptible(&self, kai: &Kai, tables: &mut Tables) {
        let leaves: Vec<(QueueId, usize)> =
            tables.places.iter().map(|(id, place)| (*id, *place)).collect();
        for (leaf, place) in leaves {
            for holder in self.books.holders(leaf).filter_map(|id| self.books.holder(id)) {
                if kai.may_be_taken(holder) {
                    continue;
                }
                let amounts = tables.quantities(&holder.usage);
                let path: Vec<usize> = tables.shares.path(place).collect();
                for queue in path {
                    let resources = &mut tables.shares.queues[queue].resources;
                    for (own, amount) in resources.iter_mut().zip(&amounts) {
                        own.non_preemptible = plus(own.non_preemptible, *amount);
                    }
                }
            }
        }
    }

    /// The queues as tables, with what is fair now.
    pub(in crate::quota) fn kai_tables(&self, kai: &Kai) -> Tables {
        let mut tables = self.tables(kai);
        tables.shares.divide();
        tables
    }

    /// The leaf whose head goes first: from the top down, the queue that goes first with its head.
    /// O(queues) and the division.
    pub(in crate::quota) fn kai_first<'a>(
        &self,
        kai: &Kai,
        heads: impl Iterator<Item = (u32, &'a Usage)>,
    ) -> Option<u32> {
        let tree = &self.books.tree;
        let mut tables = self.tables(kai);
        let mut asked: BTreeMap<usize, KaiQuantities> = BTreeMap::new();
        let mut slots: BTreeMap<usize, u32> = BTreeMap::new();
        for (slot, usage) in heads {
            // A head of a queue that stands nowhere is not kept waiting.
            let Some(&place) = tables.places.get(&tree.id(slot)) else { return Some(slot) };
            let amounts = tables.quantities(usage);
            tables.ask(place, &amounts);
            asked.insert(place, amounts);
            slots.insert(place, slot);
        }
        tables.shares.divide();
        first_leaf(&tables.shares, &asked).and_then(|leaf| slots.get(&leaf).copied())
    }

    /// The decision on a claim of an active leaf.
    pub(in crate::quota) fn decide_kai(&mut self, queue: QueueId, claim: &Claim) -> QuotaDecision {
        let mut assignment = self.trial(|trial, _| {
            let mut none = |_: &mut kueue::trial::Trial<'_>, _, _| (Outlook::NoCandidates, None);
            kueue::assign(trial, queue.slot, claim, None, &mut none)
        });
        let Dialect::Kai(kai) = &self.dialect else {
            return QuotaDecision { assignment, victims: Vec::new() };
        };
        let mut tables = self.tables(kai);
        let Some(&leaf) = tables.places.get(&queue) else {
            return QuotaDecision { assignment, victims: Vec::new() };
        };
        let preemptible = kai.is_preemptible(claim.preemptible, claim.priority);
        let request = tables.quantities(&assignment.usage);
        if !preemptible {
            self.count_non_preemptible(kai, &mut tables);
        }
        let fits = tables.shares.fits(leaf, &request, preemptible).is_ok();
        if assignment.mode == AssignmentMode::NoFit
            || (assignment.mode == AssignmentMode::Fit && fits)
        {
            return QuotaDecision { assignment, victims: Vec::new() };
        }
        assignment.set_mode(AssignmentMode::Preempt);
        tables.ask(leaf, &request);
        tables.shares.divide();
        let reclaimer = Reclaimer { queue: leaf, request, preemptible };
        let mut victims = Vec::new();
        if tables.shares.may_reclaim(&reclaimer) {
            let reason = VictimReason::InCohortReclamation;
            victims = self.take(kai, &tables, claim, &reclaimer, reason);
        }
        if victims.is_empty() {
            let reason = VictimReason::InClusterQueue;
            victims = self.take(kai, &tables, claim, &reclaimer, reason);
        }
        QuotaDecision { assignment, victims }
    }

    /// Victims of one kind: collected from the best served queues, and put back as far as there is
    /// room without them.
    fn take(
        &self,
        kai: &Kai,
        tables: &Tables,
        claim: &Claim,
        reclaimer: &Reclaimer,
        reason: VictimReason,
    ) -> Vec<QuotaVictim> {
        let own = reason == VictimReason::InClusterQueue;
        let runtimes = kai.runtimes(tables);
        // By leaf, the next to be taken first.
        let mut candidates: BTreeMap<usize, Vec<(QuotaVictim, KaiQuantities)>> = BTreeMap::new();
        for (&id, &place) in &tables.places {
            if (place == reclaimer.queue) != own {
                continue;
            }
            let minimum = if own {
                runtimes.before_preempt(place)
            } else {
                runtimes.before_reclaim(reclaimer.queue, place)
            };
            for holder_id in self.books.holders(id) {
                let Some(holder) = self.books.holder(holder_id) else { continue };
                let protected = is_protected(Some(kai.now.since(holder.reserved)), minimum);
                let lower = !own || holder.priority < claim.priority;
                if kai.may_be_taken(holder) && lower && (!protected || holder.leaving) {
                    let amounts = tables.quantities(&holder.usage);
                    let victim = QuotaVictim { holder: holder_id, reason };
                    candidates.entry(place).or_default().push((victim, amounts));
                }
            }
        }
        for list in candidates.values_mut() {
            list.reverse();
        }
        let mut left = tables.shares.clone();
        let mut taken: Vec<(usize, QuotaVictim, KaiQuantities)> = Vec::new();
        let mut popped: BTreeMap<usize, KaiQuantities> = BTreeMap::new();
        while let Some(leaf) = best_served(&tables.shares, &candidates, &popped) {
            let Some(list) = candidates.get_mut(&leaf) else { break };
            let Some((victim, amounts)) = list.pop() else { break };
            if list.is_empty() {
                candidates.remove(&leaf);
            }
            left.charge(leaf, &amounts, true, -1);
            let sum = popped.entry(leaf).or_insert_with(|| amounts.iter().map(|_| 0).collect());
            for (own, amount) in sum.iter_mut().zip(&amounts) {
                *own = plus(*own, *amount);
            }
            taken.push((leaf, victim, amounts));
            if !has_room(&left, reclaimer.queue, &reclaimer.request, reclaimer.preemptible) {
                continue;
            }
            let Some(kept) = give_way(&left, reclaimer, &taken) else { continue };
            let given: Vec<(usize, KaiQuantities)> =
                kept.iter().map(|(leaf, _, amounts)| (*leaf, amounts.clone())).collect();
            if own || tables.shares.allows_victims(reclaimer, &given) {
                return kept.iter().map(|(_, victim, _)| *victim).collect();
            }
        }
        Vec::new()
    }
}
