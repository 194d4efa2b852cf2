//! Decisions as Volcano's queue plugins make them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::session::Session;
use super::settings::VolcanoRule;
use super::yields::{Standing, VolcanoSets};
use crate::quota::books::Books;
use crate::quota::books::cells::{Cells, NONE};
use crate::quota::books::share::{ShareOf, ShareValue};
use crate::quota::books::tree::{QueueId, QueueTree};
use crate::quota::dialect::Dialect;
use crate::quota::engine::head_rules::HeadRules;
use crate::quota::engine::rooted::{self, Candidate, has_whole};
use crate::quota::engine::sets::Sets;
use crate::quota::model::claim::{
    AssignmentMode, Claim, FlavorResource, HolderId, QuotaDecision, Usage,
};
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::Queue;

/// Volcano's dialect.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Volcano {
    rule: VolcanoRule,
}

impl Volcano {
    pub(in crate::quota) fn new(rule: VolcanoRule) -> Volcano {
        Volcano { rule }
    }

    /// How a claim of an active leaf can have a usage, and the holders that give back for it.
    fn judge(
        &self,
        books: &Books,
        queue: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> (AssignmentMode, Vec<HolderId>) {
        let session = Session::new(books, self.rule, queue, usage);
        if has_whole(&books.tree, queue, usage, &Usage::new()) && session.admits(usage) {
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

/// The share over what there is in all, by weight.
fn share_of_all(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
) -> ShareValue {
    let weight = tree.slots[at as usize].spec.weight.as_f64();
    rooted::dominant_share(tree, cells, at, more, weight, |of, _| {
        rooted::whole(tree, cells, at, of)
    })
}

/// The share over the amounts that a queue deserves, or its guarantee if that is more. A queue that
/// states nothing of the kind has the share of one that has all that it deserves.
fn share_of_deserved(
    tree: &QueueTree,
    cells: &Cells,
    at: u32,
    more: &[(FlavorResource, i64)],
) -> ShareValue {
    let slot = &tree.slots[at as usize];
    let stated = |of| tree.quota(tree.id(at), of).and_then(|quota| quota.deserved).unwrap_or(0);
    let mut share =
        rooted::dominant_share(tree, cells, at, more, 1.0, |of, cell| stated(of).max(cell.nominal));
    let is_root = slot.parent == NONE;
    if !is_root && !slot.cells.iter().any(|(pair, _)| stated(FlavorResource(*pair)) > 0) {
        share.ratio = share.ratio.max(1000.0);
    }
    share
}

impl Dialect for Volcano {
    fn boxed(&self) -> Box<dyn Dialect> {
        Box::new(self.clone())
    }

    fn share(&self) -> (ShareOf, bool) {
        match self.rule {
            VolcanoRule::Capacity => (share_of_deserved, false),
            VolcanoRule::Proportion | VolcanoRule::Drf => (share_of_all, false),
        }
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

    fn entitled<'b>(
        &self,
        books: &'b mut Books,
        leaf: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> Option<Box<dyn Sets + 'b>> {
        let standing = books
            .beside_reserved(&claim.name, |books| Standing::new(books, self.rule, (leaf, usage)));
        Some(Box::new(VolcanoSets::new(books, standing, (leaf.slot, claim, usage))))
    }

    fn order(&self) -> HeadRules {
        HeadRules { fair: true, non_borrowing_first: false, ..HeadRules::default() }
    }

    fn room(&self, books: &Books, leaf: QueueId, of: FlavorResource, _: &Usage) -> i64 {
        rooted::room(&books.tree, leaf, of)
    }

    fn short(&self, books: &Books, leaf: QueueId, usage: &Usage) -> Option<(FlavorResource, i64)> {
        rooted::short(&books.tree, leaf, usage)
    }
}
