//! Quota: queues of tenants, what they are promised, and what they may take from each other.
//!
//! A [`QueueTree`] holds the numbers: queues in a tree, what each is promised and allowed of a
//! resource in a flavor, and what is used and waits. [`Tenants`] decides: which claim may have what,
//! whose turn it is, who gives back. Its rules are a dialect over the books:
//!
//! | folder | holds |
//! |---|---|
//! | `model` | queues, flavors, claims and amounts, as they are stated |
//! | `books` | the tree with its sums, holders with their index, quota that is held for claims |
//! | `engine` | trials, flavors, usage, division, and the one search for holders that give back |
//! | `dialect` | the trait: adopt a queue, follow a change, decide, order, share, report, save |
//! | `dialects` | the dialects, one folder each |
//! | `tenants` | [`Tenants`]: the books and a dialect |
//!
//! Folders import those above them in the table.
//!
//! The layer knows claims and amounts, and neither nodes nor placement; `docs/tenants.md` says which
//! rule of Kueue is where.

mod books;
mod dialect;
mod dialects;
mod engine;
mod model;
mod tenants;

pub use books::Holder;
pub use books::owners::OverLimit;
pub use books::share::ShareValue;
pub use books::tree::{QueueId, QueueTree, Removal, Sums};
pub use dialects::koordinator::{
    DEFAULT_QUOTA, ElasticQuota, ElasticQuotaError, ElasticQuotas, KoordinatorSettings,
    PREEMPTIBLE_LABEL, QuotaSums, QuotaTopology, ROOT_QUOTA, SYSTEM_QUOTA, check_amounts,
};
pub use dialects::kueue::effective_priority;
pub use dialects::kueue::settings::{FairStrategy, KueueSettings};
pub use dialects::own::TenantSettings;
pub use dialects::{kai, volcano, yunikorn};
pub use engine::assign::Outlook;
pub use engine::climb::is_candidate;
pub use engine::head_rules::{HeadRules, HeadStanding, LossReason};
pub use engine::partial::reduced_counts;
pub use model::amount::{MOST, UNLIMITED, minus, plus};
pub use model::claim::{
    AssignmentMode, Claim, FlavorChoice, FlavorResource, HolderId, PodSet, PodSetAssignment,
    QuotaAssignment, QuotaDecision, QuotaVictim, Usage, VictimReason,
};
pub use model::error::{LimitProblem, QuotaError};
pub use model::flavor::Flavor;
#[cfg(feature = "kubernetes")]
pub(crate) use model::limit::limit_problem;
pub use model::limit::{ANYONE, Limited, UserLimit};
pub use model::queue::{
    BorrowWithinCohort, FlavorQuotas, Fungibility, Queue, QueueKind, QueuePreemption,
    QueuePreemptionPolicy, QueueingStrategy, Quota, ResourceGroup, Weight,
};
#[cfg(feature = "serde")]
pub use tenants::SavedTenants;
pub use tenants::{Head, Heads, QueueReport, ResourceReport, Searches, Tenants, Yields};
