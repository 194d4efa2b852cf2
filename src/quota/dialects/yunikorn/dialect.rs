//! Decisions as YuniKorn makes them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::guarantees::{Guarantees, is_over_guarantee, is_under_guarantee};
use super::queues::{QueueState, Queues, YuniKornPreemptionPolicy};
use super::resource::Resource;
use super::resources;
use super::settings::YuniKornSettings;
use crate::quota::books::cells::Cells;
use crate::quota::books::share::{ShareOf, ShareValue};
use crate::quota::books::tree::{QueueId, QueueTree};
use crate::quota::books::{Books, Holder};
use crate::quota::dialect::Dialect;
use crate::quota::engine::give_back::{GiveBack, give_back};
use crate::quota::engine::head_rules::HeadRules;
use crate::quota::engine::rooted::{self, Candidate};
use crate::quota::model::amount::UNLIMITED;
use crate::quota::model::claim::{
    AssignmentMode, Claim, FlavorResource, HolderId, QuotaDecision, Usage,
};
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::{Queue, QueueKind};

/// YuniKorn's dialect.
#[derive(Debug, Clone)]
pub(in crate::quota) struct YuniKorn {
    settings: YuniKornSettings,
}

impl YuniKorn {
    pub(in crate::quota) fn new(settings: YuniKornSettings) -> YuniKorn {
        YuniKorn { settings }
    }

    /// How a claim of an active leaf can have a usage, and the holders that give back for it.
    fn judge(
        &self,
        books: &Books,
        queue: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> (AssignmentMode, Vec<HolderId>) {
        if fits(&books.tree, queue, usage, &[]) {
            return (AssignmentMode::Fit, Vec::new());
        }
        (AssignmentMode::Preempt, self.guaranteed_victims(books, queue, claim, usage))
    }

    /// Holders of other queues that are beyond their guarantees, so that the claim's queue has what is
    /// guaranteed to it; none if that does not suffice, or is not so.
    fn guaranteed_victims(
        &self,
        books: &Books,
        queue: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> Vec<HolderId> {
        let tree = &books.tree;
        let queues = states(tree, &self.settings);
        let (path, ask) = (path(tree, queue), amounts(tree, usage));
        let mut left = Guarantees::new(&queues, Some(&path));
        left.add(&path, &ask);
        let Some(fence) = Fence::new(&queues, &path, &ask, claim.priority) else {
            return Vec::new();
        };
        let mut all: Vec<Candidate<'_>> = rooted::candidates(books);
        // The newest first, whatever their priorities.
        all.sort_by_key(|own| Reverse(own.holder.reserved));
        let all = all.into_iter();
        let freed = Vec::new();
        let mut search =
            Search { tree, queues: &queues, queue, path, usage, ask, fence, left, all, freed };
        give_back(&mut search).unwrap_or_default().into_iter().map(|own| own.id).collect()
    }
}

/// Whether limits of the path and the root have room for a usage once others have given back.
fn fits(tree: &QueueTree, queue: QueueId, usage: &Usage, freed: &[Giver]) -> bool {
    usage.iter().all(|&(of, amount)| {
        tree.path(queue).all(|at| {
            let below = freed.iter().filter(|own| tree.path(own.queue).any(|above| above == at));
            let amounts = below.flat_map(|own| &own.usage).filter(|(own, _)| *own == of);
            let freed: i64 = amounts.map(|(_, amount)| *amount).sum();
            let room = rooted::most(tree, at, of).saturating_sub(tree.sums(at, of).used);
            room.saturating_add(freed) >= amount
        })
    })
}

/// The search for holders beyond their guarantees.
struct Search<'a> {
    tree: &'a QueueTree,
    queues: &'a Queues,
    queue: QueueId,
    path: String,
    usage: &'a Usage,
    ask: Resource,
    fence: Fence,
    left: Guarantees,
    all: alloc::vec::IntoIter<Candidate<'a>>,
    freed: Vec<Giver>,
}

/// A holder that gives back.
#[derive(Clone)]
struct Giver {
    id: HolderId,
    queue: QueueId,
    usage: Usage,
    path: String,
    has: Resource,
}

impl GiveBack for Search<'_> {
    type Holder = Giver;

    fn take_next(&mut self) -> Option<Giver> {
        loop {
            let own = self.all.next()?;
            let path = path(self.tree, own.holder.queue);
            let has = amounts(self.tree, &own.holder.usage);
            let may = own.holder.queue != self.queue
                && resources::match_any(Some(&self.ask), Some(&has))
                && self.fence.lets(self.queues, &path, own.holder.priority);
            let before = self.left.remaining(&path);
            if may && (before.is_none() || is_over_guarantee(Some(&self.ask), before.as_ref())) {
                let Holder { queue, usage, .. } = own.holder;
                let giver = Giver { id: own.id, queue: *queue, usage: usage.clone(), path, has };
                self.take_again(&giver);
                return Some(giver);
            }
        }
    }

    fn suffices(&mut self) -> bool {
        let left = self.left.remaining(&self.path);
        fits(self.tree, self.queue, self.usage, &self.freed)
            && is_under_guarantee(Some(&self.ask), left.as_ref())
    }

    fn put_back(&mut self, holder: &Giver) {
        self.left.add(&holder.path, &holder.has);
        self.freed.retain(|own| own.id != holder.id);
    }

    fn take_again(&mut self, holder: &Giver) {
        self.left.take(&holder.path, &holder.has);
        self.freed.push(holder.clone());
    }
}

fn amounts(tree: &QueueTree, usage: &[(FlavorResource, i64)]) -> Resource {
    let mut sum = Resource::new();
    for (resource, amount) in tree.named(usage) {
        let own = sum.entry(resource.to_string()).or_default();
        *own = own.saturating_add(amount);
    }
    sum
}

/// The share over a queue's guarantee, or where it has none over the lowest limit on its path.
fn share_of_guarantee(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
) -> ShareValue {
    rooted::dominant_share(tree, cells, at, more, 1.0, |of, cell| {
        if cell.nominal > 0 {
            return cell.nominal;
        }
        let limit = |at| tree.quota(at, of).and_then(|quota| quota.limit);
        let least = tree.path(tree.id(at)).filter_map(limit).min().unwrap_or(UNLIMITED);
        least.min(rooted::whole(tree, cells, at, of))
    })
}

impl Dialect for YuniKorn {
    fn boxed(&self) -> Box<dyn Dialect> {
        Box::new(self.clone())
    }

    fn share(&self) -> (ShareOf, bool) {
        (share_of_guarantee, false)
    }

    fn adopt(&mut self, books: &mut Books, queue: Queue) -> Result<Queue, QuotaError> {
        rooted::below_root(books, queue)
    }

    fn above(&self) -> Option<&'static str> {
        Some(rooted::ROOT)
    }

    fn decide(&self, books: &mut Books, leaf: QueueId, claim: &Claim) -> QuotaDecision {
        rooted::decide(books, leaf, claim, |usage| self.judge(books, leaf, claim, usage))
    }

    fn order(&self) -> HeadRules {
        let fair = self.settings.fair;
        HeadRules { fair, non_borrowing_first: false, ..HeadRules::default() }
    }

    fn room(&self, books: &Books, leaf: QueueId, of: FlavorResource, _: &Usage) -> i64 {
        rooted::room(&books.tree, leaf, of)
    }

    fn short(&self, books: &Books, leaf: QueueId, usage: &Usage) -> Option<(FlavorResource, i64)> {
        rooted::short(&books.tree, leaf, usage)
    }
}

/// The path of a queue as a text. A name that is a path already is taken as it is.
fn path(tree: &QueueTree, queue: QueueId) -> String {
    let mut names: Vec<QueueId> = tree.path(queue).collect();
    names.reverse();
    let mut path = String::new();
    for name in names.iter().filter_map(|at| tree.spec(*at)).map(|spec| spec.name.as_str()) {
        let below = name.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
        path = if path.is_empty() || below { name.into() } else { format!("{path}.{name}") };
    }
    path
}

/// The queues as YuniKorn has them.
fn states(tree: &QueueTree, settings: &YuniKornSettings) -> Queues {
    let all = tree.queues(QueueKind::Inner).chain(tree.queues(QueueKind::Leaf));
    Queues::new(all.filter_map(|at| {
        let spec = tree.spec(at)?;
        let root = tree.parent(at).is_none();
        let rules = settings.rules.get(&spec.name).copied().unwrap_or_default();
        let (mut most, mut guaranteed) = (Resource::new(), Resource::new());
        let mut used = Vec::new();
        for (of, _) in tree.books(at) {
            let (name, sums) = (tree.names(of).1, tree.sums(at, of));
            used.push((of, sums.used));
            let quota = tree.quota(at, of);
            let limit = quota.and_then(|quota| quota.limit);
            if let Some(limit) = if root { Some(sums.nominal) } else { limit } {
                most.insert(name.into(), limit);
            }
            // Without a guarantee, not one of nothing.
            if let Some(quota) = quota.filter(|quota| !root && quota.nominal > 0) {
                guaranteed.insert(name.into(), quota.nominal);
            }
        }
        let closed = |at: QueueId| {
            let rules = tree.spec(at).and_then(|spec| settings.rules.get(&spec.name));
            rules.is_some_and(|rules| rules.preemption == YuniKornPreemptionPolicy::Disabled)
        };
        let disabled = tree.path(at).any(closed);
        Some(QueueState {
            path: path(tree, at),
            parent: tree.parent(at).map(|above| path(tree, above)),
            leaf: spec.kind == QueueKind::Leaf,
            max: (!most.is_empty()).then_some(most),
            guaranteed: (!guaranteed.is_empty()).then_some(guaranteed),
            allocated: Some(amounts(tree, &used)),
            pending: None,
            priority: rules.priority,
            preemption: if disabled {
                YuniKornPreemptionPolicy::Disabled
            } else {
                rules.preemption
            },
        })
    }))
}

/// How far a claim may take from others: up to the first queue on its path that is fenced, or that is
/// full.
struct Fence {
    top: String,
    /// By path, the priority that counts there.
    priorities: BTreeMap<String, i64>,
}

impl Fence {
    fn new(queues: &Queues, path: &str, ask: &Resource, priority: i64) -> Option<Fence> {
        let mut fence = Fence { top: String::new(), priorities: BTreeMap::new() };
        let mut priority = priority;
        for queue in queues.path(path).into_iter().rev() {
            let offset = i64::from(queue.priority.offset);
            priority = if queue.priority.fence { offset } else { priority.saturating_add(offset) };
            fence.priorities.insert(queue.path.clone(), priority);
            fence.top.clone_from(&queue.path);
            if queue.preemption == YuniKornPreemptionPolicy::Fence || !queues.fits(&queue.path, ask)
            {
                break;
            }
        }
        (!fence.top.is_empty()).then_some(fence)
    }

    /// Whether a holder of a leaf may be taken: it is below the fence, open to preemption, and its
    /// priority is no higher where the two paths meet.
    fn lets(&self, queues: &Queues, leaf: &str, priority: i64) -> bool {
        let mut priority = priority;
        for queue in queues.path(leaf).into_iter().rev() {
            if queue.preemption == YuniKornPreemptionPolicy::Disabled {
                return false;
            }
            if let Some(own) = self.priorities.get(&queue.path) {
                return priority <= *own;
            }
            let offset = i64::from(queue.priority.offset);
            priority = if queue.priority.fence { offset } else { priority.saturating_add(offset) };
        }
        false
    }
}
