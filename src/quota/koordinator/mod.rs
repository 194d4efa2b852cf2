//! Koordinator's semantics: elastic quotas with minima that are lent, weights, and maxima.

mod elastic;
mod validate;

pub use elastic::{DEFAULT_QUOTA, ElasticQuota, ElasticQuotas, QuotaSums, ROOT_QUOTA, SYSTEM_QUOTA};
pub use validate::{ElasticQuotaError, QuotaTopology, check_amounts};
