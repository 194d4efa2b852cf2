//! The dialect of tenants: the scheduler by whose rules quota is given and taken back.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::Time;
use crate::quota::books::share::{ShareOf, ShareValue, borrowed_share};
use crate::quota::books::tree::QueueId;
use crate::quota::books::{Books, PastShareOf};
use crate::quota::engine::division::deserved;
use crate::quota::engine::head_rules::HeadRules;
use crate::quota::engine::sets::Sets;
use crate::quota::model::claim::{Claim, FlavorResource, QuotaDecision, Usage};
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::Queue;

/// A change that a dialect is told of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// A queue was added or changed.
    Queue(QueueId),
    /// Decisions are made at this time or later.
    Time(Time),
}

/// The head that goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// The first by [`HeadRules`].
    ByRules,
    /// The head of a leaf; `None`: no head.
    Leaf(Option<u32>),
}

/// The usage that a claim requests of its leaf.
pub(super) type RequestOf = fn(&Books, QueueId, &Claim) -> Usage;

/// A queue among others, for a report.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    /// Amounts that the queue would have if all claims were of one unit.
    pub(super) deserved: BTreeMap<FlavorResource, i64>,
    /// Leaves that the queue could take from.
    pub(super) may_take_from: Vec<QueueId>,
}

/// The rules of one scheduler over the books.
///
/// State that is not in the books is the dialect's own. What has no rule of its own is as in Kueue.
pub(super) trait Dialect: fmt::Debug + Send + Sync {
    /// A copy.
    fn boxed(&self) -> Box<dyn Dialect>;

    /// The share of a queue, and whether victims are found by shares.
    fn share(&self) -> (ShareOf, bool) {
        (borrowed_share, false)
    }

    /// A queue as it stands in the tree, before it is set there.
    fn adopt(&mut self, _books: &mut Books, queue: Queue) -> Result<Queue, QuotaError> {
        Ok(queue)
    }

    /// Whether queues have limits on borrowing and lending. Elsewhere those are forgotten.
    fn limits_borrowing(&self) -> bool {
        false
    }

    /// Whether the dialect states a queue itself, so that it is not saved.
    fn makes(&self, _queue: &Queue) -> bool {
        false
    }

    /// The queue above each parent that is named and not set; `None`: such a parent is a root.
    fn above(&self) -> Option<&'static str> {
        None
    }

    /// Follows a change.
    fn changed(&mut self, _books: &mut Books, _change: Change) -> Result<(), QuotaError> {
        Ok(())
    }

    /// The decision on a claim of an active leaf. The books are as before.
    fn decide(&self, books: &mut Books, leaf: QueueId, claim: &Claim) -> QuotaDecision;

    /// The sets of holders that may yield for a claim with a usage, beside quota that is reserved for
    /// others; `None` if only the dialect's own search says.
    fn entitled<'b>(
        &self,
        _books: &'b mut Books,
        _leaf: QueueId,
        _claim: &Claim,
        _usage: &Usage,
    ) -> Option<Box<dyn Sets + 'b>> {
        None
    }

    /// Whether a scheduler searches victims over quota and room at once if its settings do not say.
    fn yields_jointly(&self) -> bool {
        false
    }

    /// Whether a claim may be given fewer pods, where fewer will do.
    fn reduces(&self) -> bool {
        true
    }

    /// The half-life of past usage, if it counts.
    fn half_life(&self) -> Option<Duration> {
        None
    }

    /// The share of a queue by its past usage, which is added to its share in the order of turns.
    fn past_share(&self) -> PastShareOf {
        |_, _, _| ShareValue::NONE
    }

    /// How long a claim waits before quota is put aside for it; `None`: for ever.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// The order of heads.
    fn order(&self) -> HeadRules {
        HeadRules::default()
    }

    /// The head that goes first, of the heads by slots of their leaves.
    fn first(&self, _books: &Books, _heads: &[(u32, &Usage)]) -> First {
        First::ByRules
    }

    /// How much more of a resource a leaf may use, if so much were requested in it.
    fn room(&self, books: &Books, leaf: QueueId, of: FlavorResource, _wanted: &Usage) -> i64 {
        books.tree.available(leaf, of)
    }

    /// The resource that a claim is short of, and the room for it; `None` if sums leave room for all.
    fn short(&self, books: &Books, leaf: QueueId, usage: &Usage) -> Option<(FlavorResource, i64)> {
        let room = |&(of, _): &(FlavorResource, i64)| self.room(books, leaf, of, usage);
        let short = usage.iter().find(|own| own.1 > room(own))?;
        Some((short.0, room(short)))
    }

    /// The queues whose limits bind claims of a leaf, from the leaf up.
    fn limiting(&self, books: &Books, leaf: QueueId) -> Vec<QueueId> {
        books.tree.path(leaf).collect()
    }

    /// The usage that a refused claim requests of its leaf, if all that waits counts; `None` if only the
    /// amount counts that the claim is short of.
    fn requested(&self) -> Option<RequestOf> {
        None
    }

    /// Whether resources that no queue has quota of are not counted.
    fn counts_known_only(&self) -> bool {
        false
    }

    /// Amount that a queue would have of a resource if all claims were of one unit.
    fn deserved(&self, books: &Books, queue: QueueId, of: FlavorResource) -> i64 {
        deserved(&books.tree, queue, of)
    }

    /// A leaf among other leaves of its tree that borrow, for a report.
    fn standing(&self, books: &Books, queue: QueueId, borrowers: &[QueueId]) -> Standing {
        let tree = &books.tree;
        let resources = tree.books(queue).map(|(of, _)| of);
        let is_within = tree.books(queue).any(|(of, _)| {
            let sums = tree.sums(queue, of);
            sums.drawn < sums.subtree
        });
        let share = |queue| books.share_with(queue, &[]);
        let may_take = |other: &&QueueId| {
            let (own, others) = tree.sides(queue, **other);
            is_within || share(own) < share(others)
        };
        Standing {
            deserved: resources.map(|of| (of, self.deserved(books, queue, of))).collect(),
            may_take_from: borrowers.iter().filter(may_take).copied().collect(),
        }
    }

    /// A share in thousandths of what a queue and its siblings could have.
    fn thousandths(&self, share: ShareValue) -> i64 {
        share.rounded()
    }

    /// Amounts that were stated since the dialect was made, by resource.
    fn save(&self) -> BTreeMap<String, i64> {
        BTreeMap::new()
    }

    /// Takes amounts that were saved.
    fn restore(&mut self, _saved: BTreeMap<String, i64>) {}
}

impl Clone for Box<dyn Dialect> {
    fn clone(&self) -> Box<dyn Dialect> {
        self.boxed()
    }
}
