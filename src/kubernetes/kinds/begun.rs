//! The start of a workload, by its status.

use alloc::string::String;

use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::value::Value;

/// Counters of pods that exist or did, in any of the kinds.
const COUNTERS: [&str; 7] = [
    "active",
    "ready",
    "succeeded",
    "failed",
    "replicas",
    "availableWorkerReplicas",
    "currentNumberScheduled",
];
/// Conditions of workloads that run or have run.
const CONDITIONS: [&str; 7] = [
    "Running",
    "Succeeded",
    "Failed",
    "Complete",
    "Completed",
    "FailureTarget",
    "SuccessCriteriaMet",
];

/// Whether pods of the workload exist or existed, by its status. The status has a start time,
/// counts pods, or has the condition of one that runs or has ended.
pub(super) fn begun(root: &Field<'_>) -> Fault<bool> {
    let Some(status) = root.get("status")? else { return Ok(false) };
    if status.get("startTime")?.is_some() {
        return Ok(true);
    }
    for name in COUNTERS {
        if status.get(name)?.map_or(Ok(0), |count| counted(&count))? > 0 {
            return Ok(true);
        }
    }
    let mut begun = false;
    for list in ["replicatedJobsStatus", "jobsStatus"] {
        status.each(list, |job| {
            for name in ["active", "ready", "succeeded", "failed"] {
                begun |= job.get(name)?.map_or(Ok(0), |count| count.integer())? > 0;
            }
            Ok(())
        })?;
    }
    status.each("conditions", |condition| {
        let is = |word: &String| CONDITIONS.contains(&word.as_str());
        begun |= condition.text_of("status")? == "True" && is(&condition.text_of("type")?);
        Ok(())
    })?;
    let job = status.text_of("jobDeploymentStatus")?;
    begun |= !matches!(job.as_str(), "" | "Suspended" | "Suspending");
    for name in ["activeServiceStatus", "pendingServiceStatus"] {
        if let Some(service) = status.get(name)? {
            begun |= service.name_of("rayClusterName")?.is_some();
        }
    }
    begun |= !matches!(
        application(&status)?.as_str(),
        "" | "NEW" | "PENDING_RERUN" | "SUBMISSION_FAILED" | "SUSPENDED" | "RESUMING"
    );
    let phase = phase(&status)?;
    Ok(begun || !matches!(phase.as_str(), "" | "Pending" | "suspended" | "suspending"))
}

/// Whether the workload has ended by what its status says: it has the condition or the phase of
/// one that has.
pub(super) fn ended(root: &Field<'_>) -> Fault<bool> {
    let Some(status) = root.get("status")? else { return Ok(false) };
    let mut ended = false;
    status.each("conditions", |condition| {
        let kind = condition.text_of("type")?;
        ended |= condition.text_of("status")? == "True"
            && matches!(kind.as_str(), "Complete" | "Completed" | "Failed" | "Succeeded");
        Ok(())
    })?;
    let job = status.text_of("jobDeploymentStatus")?;
    ended |= matches!(job.as_str(), "Complete" | "Failed");
    ended |= matches!(application(&status)?.as_str(), "COMPLETED" | "FAILED");
    let phase = phase(&status)?;
    Ok(ended || matches!(phase.as_str(), "Completed" | "Failed" | "Terminated" | "Aborted"))
}

/// Number of pods, or of objects in a list: a `CronJob` names its jobs.
fn counted(field: &Field<'_>) -> Fault<i64> {
    match field.value {
        Value::List(values) => Ok(i64::from(!values.is_empty())),
        _ => field.integer(),
    }
}

/// The state of a Spark application; empty of other kinds.
pub(super) fn application(status: &Field<'_>) -> Fault<String> {
    status.get("applicationState")?.map_or(Ok(String::new()), |state| state.text_of("state"))
}

/// The phase that Volcano and Ray state.
fn phase(status: &Field<'_>) -> Fault<String> {
    let Some(state) = status.get("state")? else { return Ok(String::new()) };
    match state.text() {
        Ok(word) => Ok(word.into()),
        Err(_) => state.text_of("phase"),
    }
}
