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

/// The minimum that a job states: by Kueue's annotation, or by the scheduling of 1.37, since when
/// nothing is inferred.
pub(super) fn minimum_of(
    job: &mut Submitted,
    root: &Field<'_>,
    spec: &Field<'_>,
    pods: i64,
) -> Fault<Option<Minimum>> {
    let all = format_args!("the {pods} pods of the job");
    let stated = annotated_minimum(root, MIN_PARALLELISM, pods, all)?;
    let Some(own) = spec.get("scheduling")? else { return Ok(stated.map(Minimum::Whole)) };
    let by_own = groups::controlled(&own, pods, &mut job.frame)?;
    Ok(Some(stated.or(by_own).map_or(Minimum::Any, Minimum::Whole)))
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
    let stated = minimum_of(&mut job, root, &spec, pods)?;
    let minimum = match stated {
        Some(minimum) => minimum,
        None if scheduling.is_candidate() => Minimum::Whole(pods),
        // Of Kueue's jobs all pods are admitted together.
        None if job.frame.local_queue.is_some() => Minimum::Whole(pods),
        None => Minimum::Any,
    };
    if scheduling.is_candidate() && stated.is_none() {
        job.scheduling = Some(Box::new(scheduling));
    }
    let name = job.workload.name.clone();
    job.add_group(name.clone(), vec![Role::new("main", pods, name, template)], minimum);
    Ok(job.finish())
}
