//! Trees with one root, whose guarantee is what there is in all.
//!
//! Volcano's and YuniKorn's dialects stand on it. A resource has one flavor. Each queue that names no
//! parent stands in the inner queue `root`. A claim is given all that it asks for, or fewer of its pods
//! if it says that they would do.

use alloc::vec::Vec;

use crate::quota::books::cells::{Cell, Cells, NONE};
use crate::quota::books::share::ShareValue;
use crate::quota::books::tree::{QueueId, QueueTree};
use crate::quota::books::{Books, Holder};
use crate::quota::engine::partial::decide_reduced;
use crate::quota::engine::wanted::{flavor_on_path, wanted};
use crate::quota::model::amount::{MOST, UNLIMITED, minus};
use crate::quota::model::claim::{
    AssignmentMode, Claim, FlavorResource, HolderId, QuotaDecision, QuotaVictim, Usage,
    VictimReason,
};
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::{Queue, QueueKind};

/// The queue that all others stand below.
pub(in crate::quota) const ROOT: &str = "root";

/// A holder that may be named.
pub(in crate::quota) struct Candidate<'a> {
    pub(in crate::quota) id: HolderId,
    pub(in crate::quota) holder: &'a Holder,
}

/// A queue as it stands below the root, as does a parent that is only named. Its name is its alone.
pub(in crate::quota) fn below_root(
    books: &mut Books,
    mut queue: Queue,
) -> Result<Queue, QuotaError> {
    if queue.kind == QueueKind::Inner && queue.name == ROOT {
        return Ok(queue);
    }
    books.tree.check_name(&queue)?;
    let parent = queue.parent.get_or_insert_with(|| ROOT.into());
    if parent != ROOT && books.tree.queue(QueueKind::Inner, parent).is_none() {
        books.set_queue(Queue::inner(parent.as_str()).parent(ROOT))?;
    }
    Ok(queue)
}

/// Amount that limits and the root leave to a leaf of a resource.
pub(in crate::quota) fn room(tree: &QueueTree, leaf: QueueId, of: FlavorResource) -> i64 {
    let left = |at| minus(most(tree, at, of), tree.sums(at, of).used);
    tree.path(leaf).map(left).min().unwrap_or(0)
}

/// The resource that a claim is short of: the first that it asks more of than there is room for, or
/// else the first of all.
pub(in crate::quota) fn short(
    tree: &QueueTree,
    leaf: QueueId,
    usage: &[(FlavorResource, i64)],
) -> Option<(FlavorResource, i64)> {
    let scarce = usage.iter().find(|(of, needed)| *needed > room(tree, leaf, *of));
    scarce.or(usage.first()).map(|&(of, _)| (of, room(tree, leaf, of)))
}

/// The most of a resource that a queue itself may hold: its limit, and at the root what there is in
/// all.
pub(in crate::quota) fn most(tree: &QueueTree, at: QueueId, of: FlavorResource) -> i64 {
    let limit = tree.quota(at, of).and_then(|quota| quota.limit).unwrap_or(UNLIMITED);
    if tree.parent(at).is_none() { limit.min(tree.sums(at, of).nominal) } else { limit }
}

/// Whether so much more fits into what there is in all, once so much is free.
pub(in crate::quota) fn has_whole(
    tree: &QueueTree,
    leaf: QueueId,
    usage: &Usage,
    freed: &Usage,
) -> bool {
    let Some(root) = tree.path(leaf).last() else { return false };
    usage.iter().all(|&(of, amount)| {
        let sums = tree.sums(root, of);
        minus(sums.nominal, sums.used).saturating_add(amount_of(freed, of)) >= amount
    })
}

/// Whether limits, with nothing in use, let so much be.
fn is_possible(tree: &QueueTree, leaf: QueueId, usage: &Usage) -> bool {
    usage.iter().all(|&(of, amount)| {
        amount <= MOST && tree.path(leaf).all(|at| amount <= most(tree, at, of))
    })
}

/// An amount of a usage.
pub(in crate::quota) fn amount_of(usage: &[(FlavorResource, i64)], of: FlavorResource) -> i64 {
    usage.iter().find(|(own, _)| *own == of).map_or(0, |(_, amount)| *amount)
}

/// The holders below the root that may go: those that are leaving first, then lower priority, then the
/// newest.
pub(in crate::quota) fn candidates(books: &Books) -> Vec<Candidate<'_>> {
    let holders = books.tree.queues(QueueKind::Leaf).flat_map(|leaf| books.holders(leaf));
    let candidate = |id| Some(Candidate { id, holder: books.holder(id)? });
    let all = holders.filter_map(candidate).filter(|own| !own.holder.stays());
    let mut all: Vec<Candidate<'_>> = all.collect();
    all.sort_by(|a, b| a.holder.key.cmp(&b.holder.key));
    all
}

/// The decision on a claim of an active leaf. `judge` says how the claim can have a usage that limits
/// allow, and which holders give back for it.
pub(in crate::quota) fn decide(
    books: &Books,
    leaf: QueueId,
    claim: &Claim,
    judge: impl Fn(&Usage) -> (AssignmentMode, Vec<HolderId>),
) -> QuotaDecision {
    let tree = &books.tree;
    decide_reduced(claim, |counts| {
        let flavor = |resource: &str| flavor_on_path(tree, leaf, resource);
        let mut assignment = wanted(tree, claim, counts, flavor);
        let (mode, victims) = if is_possible(tree, leaf, &assignment.usage) {
            judge(&assignment.usage)
        } else {
            (AssignmentMode::NoFit, Vec::new())
        };
        let named = |id| {
            let own = books.holder(id).is_some_and(|holder| holder.queue == leaf);
            let reason =
                if own { VictimReason::InClusterQueue } else { VictimReason::InCohortReclamation };
            QuotaVictim { holder: id, reason }
        };
        assignment.set_mode(mode);
        QuotaDecision { assignment, victims: victims.into_iter().map(named).collect() }
    })
}

/// The largest, over resources, of usage with more over a denominator, in thousandths, with a weight.
/// A root has no share.
pub(in crate::quota) fn dominant_share(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
    weight: f64,
    denominator: impl Fn(FlavorResource, &Cell) -> i64,
) -> ShareValue {
    let slot = &tree.slots[at as usize];
    let mut share = ShareValue { weight, ..ShareValue::NONE };
    if slot.parent == NONE {
        return share;
    }
    for &(pair, cell) in &slot.cells {
        let (of, cell) = (FlavorResource(pair), &cells[cell]);
        let ratio = match (denominator(of, cell), cell.used.saturating_add(amount_of(more, of))) {
            (_, ..=0) => 0.0,
            (..=0, _) => 1000.0,
            (whole, used) => used as f64 * 1000.0 / whole as f64,
        };
        if ratio > share.ratio {
            (share.ratio, share.dominant) = (ratio, tree.resource_of(pair));
        }
    }
    share
}

/// The amount that a queue's tree has of a resource in a flavor.
pub(in crate::quota) fn whole(tree: &QueueTree, cells: &Cells, at: u32, of: FlavorResource) -> i64 {
    let root = &tree.slots[tree.root_of(at) as usize];
    root.cell(of.0).map_or(0, |cell| cells[cell].nominal)
}
