//! `Job` of `batch`.

use alloc::boxed::Box;
use alloc::vec;

use super::submitted::{Minimum, Role, Submitted, annotated_minimum, count, word};
use super::workload_with_job::JobScheduling;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::groups;
use crate::kubernetes::membership::WorkloadKind;
use crate::model::Problem;

/// The annotation by which Kueue admits a job with fewer pods.
const MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";

/// How many pods of a job run at once: the parallelism, and no more than are to complete.
///
/// Source: `k8s.io/kubernetes/pkg/apis/batch/v1`, `SetDefaults_Job`.
pub(super) fn pods_at_once(spec: &Field<'_>) -> Fault<i64> {
    let parallelism = count(spec, "parallelism", 1)?;
    Ok(parallelism.min(count(spec, "completions", parallelism)?))
}

/// A job: one role.
pub(super) fn job(root: &Field<'_>) -> Fault<Submitted> {
    let mut job = Submitted::new(WorkloadKind::Job, root)?;
    let spec = root.need("spec")?;
    job.workload.suspended = spec.flag("suspend")?;
    let pods = pods_at_once(&spec)?;
    if let Some(mode) = spec.get("completionMode")?
        && mode.strict()
    {
        let indexed = word(&spec, "completionMode", &["NonIndexed", "Indexed"])?;
        if indexed == "Indexed" && spec.get("completions")?.is_none() {
            return Err(spec.fail_at("completions", Problem::Required));
        }
    }
    job.count_pods(pods, &spec, "parallelism")?;
    let template = job.template(&spec.need("template")?)?;
    let scheduling = JobScheduling::read(root)?;
    let all = format_args!("the {pods} pods of the job");
    let stated = annotated_minimum(root, MIN_PARALLELISM, pods, all)?;
    // Since 1.37 the job says so itself, and nothing is inferred.
    let own = spec.get("scheduling")?;
    let by_own = match &own {
        Some(own) => groups::controlled(own, pods, &mut job.frame)?,
        None => None,
    };
    let minimum = match stated.or(by_own) {
        Some(min) => Minimum::Whole(min),
        None if own.is_some() => Minimum::Any,
        None if scheduling.is_candidate() => Minimum::Whole(pods),
        // Of Kueue's jobs all pods are admitted together.
        None if job.frame.local_queue.is_some() => Minimum::Whole(pods),
        None => Minimum::Any,
    };
    if scheduling.is_candidate() && stated.is_none() && own.is_none() {
        job.scheduling = Some(Box::new(scheduling));
    }
    let name = job.workload.name.clone();
    job.add_group(name.clone(), vec![Role::new("main", pods, name, template)], minimum);
    Ok(job.finish())
}
