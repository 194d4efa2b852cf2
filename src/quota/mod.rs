//! Quota: queues of tenants, what they are promised, and what they may take from each other.
//!
//! A [`QueueTree`] holds the numbers: queues in a tree, what each is promised and allowed of a
//! resource in a flavor, and what is used and waits. [`Tenants`] decides: which claim may have what,
//! whose turn it is, who gives back.
//!
//! The layer knows claims and amounts, and neither nodes nor placement; `docs/tenants.md` says which
//! rule of Kueue is where.

mod amount;
mod books;
mod cells;
mod claim;
mod dialect;
mod division;
mod error;
mod flavor;
pub mod kai;
mod koordinator;
mod kueue;
mod own;
mod peer;
mod peer_share;
mod queue;
mod reserved;
#[cfg(feature = "serde")]
mod saved;
mod share;
mod tenants;
mod tree;
pub mod volcano;
mod yields;
pub mod yunikorn;

pub use amount::{MOST, UNLIMITED, minus, plus};
pub use books::Holder;
pub use claim::{
    AssignmentMode, Claim, FlavorChoice, HolderId, PodSet, PodSetAssignment, QuotaAssignment,
    QuotaDecision, QuotaVictim, Usage, VictimReason,
};
pub use dialect::TenantSettings;
pub use error::QuotaError;
pub use flavor::Flavor;
pub use koordinator::{
    DEFAULT_QUOTA, ElasticQuota, ElasticQuotaError, ElasticQuotas, KoordinatorSettings,
    PREEMPTIBLE_LABEL, QuotaSums, QuotaTopology, ROOT_QUOTA, SYSTEM_QUOTA, check_amounts,
};
pub use kueue::head_rules::{HeadRules, HeadStanding, LossReason};
pub use kueue::heads::{Head, Heads};
pub use kueue::{FairStrategy, Outlook, effective_priority, is_candidate, reduced_counts};
pub use own::{QueueReport, ResourceReport};
pub use queue::{
    BorrowWithinCohort, FlavorQuotas, Fungibility, Queue, QueueKind, QueuePreemption,
    QueuePreemptionPolicy, QueueingStrategy, Quota, ResourceGroup, Weight,
};
#[cfg(feature = "serde")]
pub use saved::SavedTenants;
pub use share::ShareValue;
pub use tenants::{KueueSettings, Tenants};
pub use tree::{FlavorResource, QueueId, QueueTree, Removal, Sums};
pub use yields::Yields;
