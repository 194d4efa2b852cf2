//! Koordinator's semantics: elastic quotas with minima that are lent, weights, and maxima.

pub(in crate::quota) mod dialect;
mod elastic;
mod settings;
mod stated;
mod validate;

pub use dialect::PREEMPTIBLE_LABEL;
pub use elastic::ElasticQuotas;
pub use settings::KoordinatorSettings;
pub use stated::{DEFAULT_QUOTA, ElasticQuota, QuotaSums, ROOT_QUOTA, SYSTEM_QUOTA};
pub use validate::{ElasticQuotaError, QuotaTopology, check_amounts};
