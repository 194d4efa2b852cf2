//! Koordinator's semantics: elastic quotas with minima that are lent, weights, and maxima.

mod dialect;
mod elastic;
mod stated;
mod validate;

pub(super) use dialect::Koordinator;
pub use dialect::{KoordinatorSettings, PREEMPTIBLE_LABEL, QUOTA_LABEL};
pub use elastic::ElasticQuotas;
pub use stated::{DEFAULT_QUOTA, ElasticQuota, QuotaSums, ROOT_QUOTA, SYSTEM_QUOTA};
pub use validate::{ElasticQuotaError, QuotaTopology, check_amounts};
