//! The dialect of this crate: guarantees, limits, weighted shares, and age in the end.

mod share;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use self::share::{PLACES, past_share, whole_share};
use crate::quota::books::holds::Hold;
use crate::quota::books::share::{ShareOf, ShareValue};
use crate::quota::books::tree::QueueId;
use crate::quota::books::{Books, PastShareOf};
use crate::quota::dialect::Dialect;
use crate::quota::dialects::kueue::decide::{SearchRules, decide};
use crate::quota::dialects::kueue::guarantees;
use crate::quota::dialects::kueue::settings::{FairStrategy, KueueSettings};
use crate::quota::engine::assign::{Ask, assign_free};
use crate::quota::engine::head_rules::HeadRules;
use crate::quota::engine::sets::Sets;
use crate::quota::engine::trial::on_trial;
use crate::quota::model::claim::{AssignmentMode, Claim, QuotaDecision, Usage};
use crate::quota::model::queue::{BorrowWithinCohort, QueuePreemption, QueuePreemptionPolicy};

/// Settings of [`Tenants::with`](crate::quota::Tenants::with).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct TenantSettings {
    /// How long a claim waits before quota is put aside for it, while it is the oldest. Default 1
    /// hour.
    pub patience: Duration,
    /// The half-life of past usage; `None`, the default: it does not count. With one, the order of
    /// turns adds to the share of a queue the share of its past beyond its guarantee. The past is the average of what it has used, in
    /// which usage counts half as much for each half-life since. Who yields is
    /// decided by shares of the moment all the same.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub half_life: Option<Duration>,
}

impl Default for TenantSettings {
    fn default() -> TenantSettings {
        TenantSettings { patience: Duration::from_secs(3_600), half_life: None }
    }
}

impl TenantSettings {
    /// Sets how long a claim waits before quota is put aside for it.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> TenantSettings {
        self.patience = patience;
        self
    }

    /// Sets the half-life of past usage; one of zero is none.
    #[must_use]
    pub fn half_life(mut self, half_life: Duration) -> TenantSettings {
        self.half_life = Some(half_life).filter(|own| !own.is_zero());
        self
    }
}

/// The dialect: Kueue's search for victims by shares, with a policy of its own.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Own {
    settings: TenantSettings,
}

/// Whose claims a claim may evict: those of lower priority in its own queue, and those of queues that
/// borrow, as shares allow.
const PREEMPTION: QueuePreemption = QueuePreemption {
    within_cluster_queue: QueuePreemptionPolicy::LowerPriority,
    reclaim_within_cohort: QueuePreemptionPolicy::Any,
    borrow_within_cohort: BorrowWithinCohort {
        lower_priority: false,
        max_priority_threshold: None,
    },
};

const RULES: SearchRules<'static> = SearchRules {
    strategies: &[FairStrategy::LessThanOrEqualToFinalShare],
    policy: Some(PREEMPTION),
    keeps_guarantees: true,
    partial: true,
};

impl Own {
    pub(in crate::quota) fn new(settings: TenantSettings) -> Own {
        Own { settings }
    }
}

/// The quota that is put aside for another claim of a queue that is there.
fn aside<'b>(books: &'b Books, claim: &Claim) -> Option<&'b Hold> {
    let aside = books.holds.aside().filter(|(own, _)| *own != claim.name);
    aside.map(|(_, hold)| hold).filter(|hold| books.tree.slot(hold.queue).is_ok())
}

impl Dialect for Own {
    fn boxed(&self) -> Box<dyn Dialect> {
        Box::new(self.clone())
    }

    fn limits_borrowing(&self) -> bool {
        true
    }

    fn share(&self) -> (ShareOf, bool) {
        (whole_share, true)
    }

    /// The decision on a claim, which leaves what is put aside for another, unless it is within its
    /// queue's guarantee.
    fn decide(&self, books: &mut Books, leaf: QueueId, claim: &Claim) -> QuotaDecision {
        let Some(aside) = aside(books, claim).cloned() else {
            return decide(books, leaf, claim, RULES);
        };
        let kept = on_trial(books, |trial| {
            trial.add(aside.queue.slot, &aside.usage);
            let ask = Ask { policy: RULES.policy, ..Ask::new(leaf.slot, claim) };
            let found = assign_free(trial, ask);
            trial.take(aside.queue.slot, &aside.usage);
            found
        });
        if kept.mode == AssignmentMode::Fit {
            return QuotaDecision { assignment: kept, victims: Vec::new() };
        }
        let mut decision = decide(books, leaf, claim, RULES);
        let usage = &decision.assignment.usage;
        let within = aside.queue != leaf && books.tree.is_within(leaf, usage);
        if !within && decision.assignment.mode != AssignmentMode::NoFit {
            decision.assignment.set_mode(AssignmentMode::Preempt);
            decision.victims.clear();
        }
        decision
    }

    /// A claim beyond its queue's guarantee, and one of the same queue, leave what is put aside.
    fn entitled<'b>(
        &self,
        books: &'b mut Books,
        leaf: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> Option<Box<dyn Sets + 'b>> {
        let is_bound = |hold: &&Hold| hold.queue == leaf || !books.tree.is_within(leaf, usage);
        let aside = aside(books, claim).filter(is_bound).cloned();
        Some(guarantees::sets(books, leaf, (claim, usage), aside.as_ref(), RULES))
    }

    fn yields_jointly(&self) -> bool {
        true
    }

    fn half_life(&self) -> Option<Duration> {
        self.settings.half_life
    }

    fn past_share(&self) -> PastShareOf {
        past_share
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.settings.patience)
    }

    fn order(&self) -> HeadRules {
        KueueSettings::default().fair().heads
    }

    fn counts_known_only(&self) -> bool {
        true
    }

    fn thousandths(&self, share: ShareValue) -> i64 {
        if share.weighted().is_infinite() {
            return share.rounded();
        }
        let share = share.rounded().unsigned_abs();
        i64::try_from((u128::from(share) * 1000).div_ceil(1 << PLACES)).unwrap_or(i64::MAX)
    }
}
