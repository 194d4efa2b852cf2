//! Decisions as KAI makes them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::min_runtime::is_protected;
use super::queues::{KaiQuantities, QueueShares, Reclaimer};
use super::tables::{CLUSTER, Kai, Tables};
use super::turns::{best_served, first_leaf, give_way, has_room};
use super::yields::{KaiSets, Standing as Sides};
use crate::quota::books::Books;
use crate::quota::books::tree::QueueId;
use crate::quota::dialect::{Change, Dialect, First, Standing};
use crate::quota::engine::assign::{Ask, assign_free};
use crate::quota::engine::give_back::{GiveBack, give_back};
use crate::quota::engine::sets::Sets;
use crate::quota::engine::trial::on_trial;
use crate::quota::model::amount::{UNLIMITED, plus};
use crate::quota::model::claim::{
    AssignmentMode, Claim, FlavorResource, QuotaDecision, QuotaVictim, Usage, VictimReason,
};
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::{FlavorQuotas, Queue, QueueKind, Quota, ResourceGroup};

impl Kai {
    /// States what there is in all at the queue above the top queues.
    fn state_capacity(&self, books: &mut Books) -> Result<(), QuotaError> {
        let tree = &books.tree;
        let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
        for of in tree.numbers() {
            let (flavor, resource) = tree.names(of);
            let stated =
                self.stated.get(resource).or(self.settings.capacity.get(resource)).copied();
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
        books.set_queue(root).map(|_| ())
    }

    /// Victims of one kind: collected from the best served queues, and put back as far as there is
    /// room without them.
    fn take(
        &self,
        books: &Books,
        tables: &Tables,
        claim: &Claim,
        reclaimer: &Reclaimer,
        reason: VictimReason,
    ) -> Vec<QuotaVictim> {
        let own = reason == VictimReason::InClusterQueue;
        let runtimes = self.runtimes(tables);
        let mut candidates = Candidates::new();
        for (&id, &place) in &tables.places {
            if (place == reclaimer.queue) != own {
                continue;
            }
            let minimum = if own {
                runtimes.before_preempt(place)
            } else {
                runtimes.before_reclaim(reclaimer.queue, place)
            };
            for holder_id in books.holders(id) {
                let Some(holder) = books.holder(holder_id) else { continue };
                let protected = is_protected(Some(self.now.since(holder.reserved)), minimum);
                let lower = !own || holder.priority < claim.priority;
                if self.may_be_taken(holder) && lower && (!protected || holder.leaving) {
                    let amounts = tables.quantities(&holder.usage);
                    let victim = QuotaVictim { holder: holder_id, reason };
                    candidates.entry(place).or_default().push((victim, amounts));
                }
            }
        }
        for list in candidates.values_mut() {
            list.reverse();
        }
        let (shares, left) = (&tables.shares, tables.shares.clone());
        let popped = BTreeMap::new();
        let mut search = Search { shares, reclaimer, own, candidates, left, popped };
        let victims = give_back(&mut search).unwrap_or_default();
        victims.into_iter().map(|(_, victim, _)| victim).collect()
    }
}

/// By leaf, the holders that may give back, the next to be taken last.
type Candidates = BTreeMap<usize, Vec<(QuotaVictim, KaiQuantities)>>;

/// The search for holders that give back: the best served leaf first.
struct Search<'a> {
    shares: &'a QueueShares,
    reclaimer: &'a Reclaimer,
    /// Whether victims are of the reclaimer's own queue.
    own: bool,
    candidates: Candidates,
    /// The queues without the holders that are taken.
    left: QueueShares,
    /// Amounts taken, by leaf.
    popped: BTreeMap<usize, KaiQuantities>,
}

impl GiveBack for Search<'_> {
    type Holder = (usize, QuotaVictim, KaiQuantities);

    fn take_next(&mut self) -> Option<Self::Holder> {
        let leaf = best_served(self.shares, &self.candidates, &self.popped)?;
        let list = self.candidates.get_mut(&leaf)?;
        let (victim, amounts) = list.pop()?;
        if list.is_empty() {
            self.candidates.remove(&leaf);
        }
        self.left.charge(leaf, &amounts, true, -1);
        let none = || amounts.iter().map(|_| 0).collect();
        let sum: &mut KaiQuantities = self.popped.entry(leaf).or_insert_with(none);
        for (own, amount) in sum.iter_mut().zip(&amounts) {
            *own = plus(*own, *amount);
        }
        Some((leaf, victim, amounts))
    }

    fn suffices(&mut self) -> bool {
        let Reclaimer { queue, request, preemptible } = self.reclaimer;
        has_room(&self.left, *queue, request, *preemptible)
    }

    fn put_back(&mut self, (leaf, _, amounts): &Self::Holder) {
        self.left.charge(*leaf, amounts, true, 1);
    }

    fn take_again(&mut self, (leaf, _, amounts): &Self::Holder) {
        self.left.charge(*leaf, amounts, true, -1);
    }

    /// The holders that have no room when all have had their turn again, if shares allow them.
    fn needed(&mut self, taken: &[Self::Holder]) -> Option<Vec<Self::Holder>> {
        let gone = give_way(&self.left, self.reclaimer, taken)?;
        let given: Vec<(usize, KaiQuantities)> =
            gone.iter().map(|(leaf, _, amounts)| (*leaf, amounts.clone())).collect();
        (self.own || self.shares.allows_victims(self.reclaimer, &given)).then_some(gone)
    }
}

impl Dialect for Kai {
    fn boxed(&self) -> Box<dyn Dialect> {
        Box::new(self.clone())
    }

    fn adopt(&mut self, _: &mut Books, queue: Queue) -> Result<Queue, QuotaError> {
        if self.makes(&queue) {
            let flavors = queue.groups.iter().flat_map(|group| &group.flavors);
            for (resource, quota) in flavors.flat_map(|flavor| &flavor.resources) {
                self.stated.insert(resource.clone(), quota.nominal);
            }
        }
        Ok(stands(queue))
    }

    fn makes(&self, queue: &Queue) -> bool {
        queue.kind == QueueKind::Inner && queue.name == CLUSTER
    }

    fn above(&self) -> Option<&'static str> {
        Some(CLUSTER)
    }

    fn half_life(&self) -> Option<Duration> {
        self.settings.half_life
    }

    /// A parent that has not been stated is a top queue. O(queues).
    fn changed(&mut self, books: &mut Books, change: Change) -> Result<(), QuotaError> {
        let id = match change {
            Change::Time(now) => {
                self.now = self.now.max(now);
                return Ok(());
            }
            Change::Queue(id) => id,
        };
        let unstated = (books.tree.path(id))
            .filter_map(|at| books.tree.spec(at))
            .find(|spec| spec.parent.is_none() && spec.name != CLUSTER);
        if let Some(name) = unstated.map(|spec| spec.name.clone()) {
            books.set_queue(Queue::inner(name).parent(CLUSTER))?;
        }
        self.state_capacity(books)
    }

    fn decide(&self, books: &mut Books, queue: QueueId, claim: &Claim) -> QuotaDecision {
        let ask = Ask::new(queue.slot, claim);
        let mut assignment = on_trial(books, |trial| assign_free(trial, ask));
        let mut tables = self.tables(books);
        let Some(&leaf) = tables.places.get(&queue) else {
            return QuotaDecision { assignment, victims: Vec::new() };
        };
        let preemptible = self.is_preemptible(claim.preemptible, claim.priority);
        let request = tables.quantities(&assignment.usage);
        if !preemptible {
            self.count_non_preemptible(books, &mut tables);
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
            victims = self.take(books, &tables, claim, &reclaimer, reason);
        }
        if victims.is_empty() {
            let reason = VictimReason::InClusterQueue;
            victims = self.take(books, &tables, claim, &reclaimer, reason);
        }
        QuotaDecision { assignment, victims }
    }

    fn entitled<'b>(
        &self,
        books: &'b mut Books,
        leaf: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> Option<Box<dyn Sets + 'b>> {
        let sides = books
            .beside_reserved(&claim.name, |books| Sides::new(self, books, (leaf, claim, usage)))?;
        Some(Box::new(KaiSets::new(books, sides, usage)))
    }

    /// The leaf whose head goes first: from the top down, the queue that goes first with its head.
    /// O(queues) and the division.
    fn first(&self, books: &Books, heads: &[(u32, &Usage)]) -> First {
        let tree = &books.tree;
        let mut tables = self.tables(books);
        let mut asked: BTreeMap<usize, KaiQuantities> = BTreeMap::new();
        let mut slots: BTreeMap<usize, u32> = BTreeMap::new();
        for &(slot, usage) in heads {
            // A head of a queue that stands nowhere is not kept waiting.
            let Some(&place) = tables.places.get(&tree.id(slot)) else {
                return First::Leaf(Some(slot));
            };
            let amounts = tables.quantities(usage);
            tables.ask(place, &amounts);
            asked.insert(place, amounts);
            slots.insert(place, slot);
        }
        tables.shares.divide();
        let leaf = first_leaf(&tables.shares, &asked);
        First::Leaf(leaf.and_then(|leaf| slots.get(&leaf).copied()))
    }

    fn counts_known_only(&self) -> bool {
        true
    }

    fn deserved(&self, books: &Books, queue: QueueId, of: FlavorResource) -> i64 {
        self.fair_tables(books).fair_share(queue, of)
    }

    fn standing(&self, books: &Books, queue: QueueId, borrowers: &[QueueId]) -> Standing {
        let tables = self.fair_tables(books);
        let resources = books.tree.books(queue).map(|(of, _)| of);
        let may_take = |other: &&QueueId| tables.may_take(queue, **other);
        Standing {
            deserved: resources.map(|of| (of, tables.fair_share(queue, of))).collect(),
            may_take_from: borrowers.iter().filter(may_take).copied().collect(),
        }
    }

    fn save(&self) -> BTreeMap<String, i64> {
        self.stated.clone()
    }

    fn restore(&mut self, saved: BTreeMap<String, i64>) {
        self.stated = saved;
    }
}

/// A queue as it stands in the tree: guarantees are what is deserved, and nothing is lent.
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
