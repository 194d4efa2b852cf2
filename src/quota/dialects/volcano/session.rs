//! The queues of the books as Volcano's plugins see them, with the request of a claim.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::attributes::{Attributes, ROOT};
use super::drf::may_take;
use super::quotas::Quotas;
use super::resources::Resources;
use super::settings::VolcanoRule;
use crate::model::resources::{CPU, MEMORY, PODS};
use crate::quota::books::Books;
use crate::quota::books::tree::{QueueId, QueueTree, Sums};
use crate::quota::engine::give_back::{GiveBack, give_back};
use crate::quota::engine::rooted::{self, Candidate, amount_of, has_whole};
use crate::quota::model::claim::{Claim, FlavorResource, HolderId, Usage, add_usage};
use crate::quota::model::queue::QueueKind;

/// Amounts of a usage in Volcano's units.
pub(super) fn amounts(tree: &QueueTree, usage: &[(FlavorResource, i64)]) -> Resources {
    let mut sum = Resources::default();
    for (resource, amount) in tree.named(usage) {
        match resource {
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
    books: &'a Books,
    /// `None`: `drf`, which holds no queue to anything.
    pub(super) quotas: Option<Quotas>,
    queue: QueueId,
    pub(super) name: String,
    pub(super) request: Resources,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        books: &'a Books,
        rule: VolcanoRule,
        queue: QueueId,
        usage: &Usage,
    ) -> Session<'a> {
        let tree = &books.tree;
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
            own.open = books.is_active(at) || !leaf;
            let stated: Vec<_> = tree.books(at).filter(|(_, stated)| *stated).collect();
            let quota = |amount: &dyn Fn(&crate::quota::model::queue::Quota) -> Option<i64>| {
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
        Session { books, quotas, queue, name, request }
    }

    /// Whether the queue may have what is asked for now.
    pub(super) fn admits(&self, usage: &Usage) -> bool {
        match &self.quotas {
            Some(quotas) => quotas.allocatable(&self.name, &self.request),
            None => self.within_limits(usage, &Freed::default()),
        }
    }

    /// Whether limits on the path let so much more be, once so much is free.
    fn within_limits(&self, usage: &Usage, freed: &Freed) -> bool {
        let tree = &self.books.tree;
        usage.iter().all(|&(of, amount)| {
            tree.path(self.queue).all(|at| {
                let below = freed
                    .by_queue
                    .iter()
                    .filter(|(from, _)| tree.path(**from).any(|above| above == at));
                let amount = below
                    .fold(amount, |amount, (_, freed)| amount.saturating_sub(amount_of(freed, of)));
                let limit = tree.quota(at, of).and_then(|quota| quota.limit);
                limit.is_none_or(|limit| tree.sums(at, of).used.saturating_add(amount) <= limit)
            })
        })
    }

    fn queue_name(&self, queue: QueueId) -> &'a str {
        self.books.tree.spec(queue).map_or("", |spec| &spec.name)
    }

    /// Holders of other queues that the plugin lets go, as many as it takes until all is there; none
    /// if that does not suffice.
    pub(super) fn reclaim(
        &self,
        usage: &Usage,
        may: &dyn Fn(&Candidate<'_>) -> bool,
    ) -> Vec<HolderId> {
        let Some(quotas) = &self.quotas else { return Vec::new() };
        let tree = &self.books.tree;
        let mut all = rooted::candidates(self.books);
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
        self.until_enough(usage, may, &|freed| self.is_allocatable(quotas, freed))
    }

    /// Holders of the claim's queue and of lower priority; with `drf`, of any queue whose share stays
    /// no smaller without them than the claim's is with its request.
    pub(super) fn victims(
        &self,
        claim: &Claim,
        usage: &Usage,
        only: Option<QueueId>,
    ) -> Vec<HolderId> {
        let (all, queue) = (rooted::candidates(self.books), self.queue);
        let taker = self.books.share_with(queue, usage).weighted();
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
            may_take(taker, self.books.share_with(holder.queue, lost).weighted())
        });
        self.until_enough(usage, may, &|freed| match &self.quotas {
            None => self.within_limits(usage, freed),
            Some(quotas) => self.is_allocatable(quotas, freed),
        })
    }

    /// Whether the queue and all above it may have what is asked for, once so much is free.
    fn is_allocatable(&self, quotas: &Quotas, freed: &Freed) -> bool {
        let mut quotas = quotas.clone();
        for (queue, usage) in &freed.by_queue {
            quotas.take(self.queue_name(*queue), &amounts(&self.books.tree, usage));
        }
        quotas.allocatable(&self.name, &self.request)
    }

    /// The first holders that free what is missing of all that there is, and meet a condition.
    fn until_enough<'c>(
        &self,
        usage: &Usage,
        holders: impl Iterator<Item = &'c Candidate<'c>>,
        enough: &dyn Fn(&Freed) -> bool,
    ) -> Vec<HolderId> {
        let mut search = Search { session: self, usage, holders, enough, freed: Freed::default() };
        give_back(&mut search).unwrap_or_default().into_iter().map(|own| own.id).collect()
    }
}

/// Amounts that holders give back.
#[derive(Default)]
struct Freed {
    all: Usage,
    /// By the leaf that they are freed in.
    by_queue: BTreeMap<QueueId, Usage>,
}

/// Holders in the plugin's order, until enough is free.
struct Search<'s, I> {
    session: &'s Session<'s>,
    usage: &'s Usage,
    holders: I,
    enough: &'s dyn Fn(&Freed) -> bool,
    freed: Freed,
}

impl<I> Search<'_, I> {
    fn free(&mut self, own: &Candidate<'_>, sign: i64) {
        let in_queue = self.freed.by_queue.entry(own.holder.queue).or_default();
        for &(of, amount) in &own.holder.usage {
            add_usage(&mut self.freed.all, of, sign * amount);
            add_usage(in_queue, of, sign * amount);
        }
    }
}

impl<'c, I: Iterator<Item = &'c Candidate<'c>>> GiveBack for Search<'_, I> {
    type Holder = &'c Candidate<'c>;

    fn take_next(&mut self) -> Option<Self::Holder> {
        let own = self.holders.next()?;
        self.free(own, 1);
        Some(own)
    }

    fn suffices(&mut self) -> bool {
        let Session { books, queue, .. } = self.session;
        has_whole(&books.tree, *queue, self.usage, &self.freed.all) && (self.enough)(&self.freed)
    }

    fn put_back(&mut self, holder: &Self::Holder) {
        self.free(holder, -1);
    }

    fn take_again(&mut self, holder: &Self::Holder) {
        self.free(holder, 1);
    }
}

/// Whether something is used that is asked for.
pub(super) fn shares_any(has: &Usage, asks: &Usage) -> bool {
    has.iter().any(|(of, amount)| *amount > 0 && asks.iter().any(|(own, _)| own == of))
}
