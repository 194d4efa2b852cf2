//! The start of a workload, by its status.

use alloc::string::String;

use crate::kubernetes::field::{Fault, Field};

/// Counters of pods that exist or did, in any of the kinds.
const COUNTERS: [&str; 6] =
    ["active", "ready", "succeeded", "failed", "replicas", "availableWorkerReplicas"];
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
        if status.get(name)?.map_or(Ok(0), |count| count.integer())? > 0 {
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
    let phase = phase(&status)?;
    Ok(ended || matches!(phase.as_str(), "Completed" | "Failed" | "Terminated" | "Aborted"))
}

/// The phase that Volcano and Ray state.
fn phase(status: &Field<'_>) -> Fault<String> {
    let Some(state) = status.get("state")? else { return Ok(String::new()) };
    match state.text() {
        Ok(word) => Ok(word.into()),
        Err(_) => state.text_of("phase"),
    }
}
