//! Kueue's semantics: cohorts that lend and borrow, flavors, preemption, fair sharing.

mod candidates;
mod classical;
pub(in crate::quota) mod decide;
pub(in crate::quota) mod fair;
pub(in crate::quota) mod guarantees;
mod preemptor;
pub(in crate::quota) mod settings;

use alloc::boxed::Box;

use self::decide::SearchRules;
use self::settings::KueueSettings;
use crate::quota::books::Books;
use crate::quota::books::share::{ShareOf, borrowed_share};
use crate::quota::books::tree::QueueId;
use crate::quota::dialect::Dialect;
use crate::quota::engine::head_rules::HeadRules;
use crate::quota::engine::sets::Sets;
use crate::quota::model::claim::{Claim, QuotaDecision, Usage};

/// Kueue's dialect.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Kueue {
    settings: KueueSettings,
}

impl Kueue {
    pub(in crate::quota) fn new(settings: KueueSettings) -> Kueue {
        Kueue { settings }
    }
}

impl Dialect for Kueue {
    fn boxed(&self) -> Box<dyn Dialect> {
        Box::new(self.clone())
    }

    fn limits_borrowing(&self) -> bool {
        true
    }

    fn share(&self) -> (ShareOf, bool) {
        (borrowed_share, self.settings.fair_sharing.is_some())
    }

    fn decide(&self, books: &mut Books, leaf: QueueId, claim: &Claim) -> QuotaDecision {
        decide::decide(books, leaf, claim, SearchRules::new(&self.settings))
    }

    fn entitled<'b>(
        &self,
        books: &'b mut Books,
        leaf: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> Option<Box<dyn Sets + 'b>> {
        let rules = SearchRules::new(&self.settings);
        Some(guarantees::sets(books, leaf, (claim, usage), None, rules))
    }

    fn reduces(&self) -> bool {
        self.settings.partial_admission
    }

    fn order(&self) -> HeadRules {
        self.settings.heads
    }
}

/// A priority with what an annotation adds to it: a decimal integer; anything else adds nothing.
///
/// Source: Kueue's `kueue.x-k8s.io/priority-boost`.
///
/// ```
/// use phalanx::quota::effective_priority;
///
/// assert_eq!(effective_priority(50, Some("200")), 250);
/// assert_eq!(effective_priority(50, Some("much")), 50);
/// ```
pub fn effective_priority(priority: i32, boost: Option<&str>) -> i64 {
    let boost = boost.and_then(|boost| boost.parse::<i32>().ok()).unwrap_or(0);
    i64::from(priority) + i64::from(boost)
}
