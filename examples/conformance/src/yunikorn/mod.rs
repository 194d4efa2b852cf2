//! Cases of YuniKorn: tables of its arithmetic, its orders, what queues have left, and attempts to
//! preempt.

mod amounts;
mod orders;
mod preemption;
mod queues;
mod tables;

use super::systems::Case;
use super::tenants::Stop;

/// Compares a case.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    match case.family {
        "table" => tables::compare(case),
        "queue_sort" => orders::queues(case),
        "app_sort" => orders::applications(case),
        "queue_query" => queues::compare(case),
        "preemption" => preemption::compare(case),
        family => Err(Stop::Bad(format!("{family}: is not known"))),
    }
}
