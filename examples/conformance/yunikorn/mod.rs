//! Cases of YuniKorn.

use super::systems::Case;
use super::tenants::Stop;

/// Compares a case.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    let kind = if case.function.is_empty() { case.family } else { case.function };
    Err(Stop::Bad(format!("{kind}: is not known")))
}
