//! Koordinator's semantics: elastic quotas with minima that are lent, weights, and maxima.

mod dialect;
mod elastic;
mod validate;

pub(super) use dialect::Koordinator;
pub use dialect::{KoordinatorSettings, PREEMPTIBLE_LABEL, QUOTA_LABEL};
pub use elastic::{
    DEFAULT_QUOTA, ElasticQuota, ElasticQuotas, QuotaSums, ROOT_QUOTA, SYSTEM_QUOTA,
};
pub use validate::{ElasticQuotaError, QuotaTopology, check_amounts};
