//! Errors of a search for victims over quota and room.

use crate::place::PlaceError;
use crate::quota::QuotaError;

/// Why a search over quota and room makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReclaimError {
    /// The group cannot be asked for.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The claim cannot be decided on.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The dialect does not say which sets may yield: it names victims by its own search alone.
    #[error("the dialect of the tenants names victims by its own search alone")]
    Dialect,
}
