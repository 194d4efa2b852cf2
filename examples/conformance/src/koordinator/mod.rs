//! Cases of Koordinator.

mod load;
mod objects;
mod overcommit;
mod qos;
mod script;
mod validation;

use super::systems::Case;
use super::tenants::{Stop, Verdict};

/// Rules that are left out, by tag; `docs/tenants/koordinator.md` names them.
const LEFT_OUT: [(&str, &str); 4] = [
    ("reservation", "koordinator-reservation"),
    ("quota-admission", "koordinator-quota-admission"),
    ("gang", "koordinator-gang-cache"),
    ("topology", "koordinator-network-topology"),
];

/// Compares a case.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    if let Some((_, rule)) = LEFT_OUT.iter().find(|(tag, _)| case.tags.contains(tag)) {
        return Err(Stop::Verdict(Verdict::Skipped(rule)));
    }
    match (case.family, case.function) {
        ("quota_script", _) => script::run(case),
        (_, "TestRuntimeQuotaCalculator_IterationAdjustQuota") => validation::runtimes(case),
        (_, "TestQuotaTopology_basicItemCheck") => validation::amounts(case),
        (_, "TestQuotaTopology_fillQuotaDefaultInformation") => validation::defaults(case),
        (_, "TestQuotaTopology_checkSubAndParentGroupMaxQuotaKeySame") => {
            validation::resources(case)
        }
        (_, "TestQuotaTopology_checkTreeID") => validation::tree_id(case),
        (_, "TestQuotaTopology_checkMinQuotaSum") => validation::min_sum(case),
        (_, "TestQuotaTopology_checkGuaranteeForMin") => validation::guarantee(case),
        (_, "TestDefaultEstimatorEstimatePod") => load::estimate_pod(case),
        (_, "TestDefaultEstimatorEstimateNode") => load::estimate_node(case),
        (_, "TestGetTargetAggregatedUsage") => load::aggregated(case),
        (_, "TestFilterExpiredNodeMetric" | "TestEnableScheduleWhenNodeMetricsExpired") => {
            load::expired(case)
        }
        (_, "TestFilterUsage") => load::filter(case),
        (_, "TestScore") => load::score(case),
        (_, "TestShouldEstimatePodDeadline") => load::deadline(case),
        (_, "TestPluginCalculate") => overcommit::calculate(case),
        (_, "TestPlugin_isDegradeNeeded") => overcommit::degraded(case),
        ("table", _) => qos::compare(case),
        (family, function) => Err(Stop::Bad(format!("{family} {function}: is not known"))),
    }
}
