//! `Job` of `batch`.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

use super::kind::WorkloadKind;
use super::submitted::{Minimum, Role, Submitted, count};
use super::workload_with_job::JobScheduling;
use crate::kubernetes::field::{Fault, Field};
use crate::model::Problem;

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
        let indexed = super::submitted::word(&spec, "completionMode", &["NonIndexed", "Indexed"])?;
        if indexed == "Indexed" && spec.get("completions")?.is_none() {
            return Err(spec.fail_at("completions", Problem::Required));
        }
    }
    job.count_pods(pods, &spec, "parallelism")?;
    let template = job.template(&spec.need("template")?)?;
    let scheduling = JobScheduling::read(root)?;
    let minimum = match min_parallelism(root, pods)? {
        Some(min) => Minimum::Whole(min),
        None if scheduling.is_candidate() => Minimum::Whole(pods),
        // Of Kueue's jobs all pods are admitted together.
        None if job.frame.local_queue.is_some() => Minimum::Whole(pods),
        None => Minimum::Any,
    };
    if scheduling.is_candidate() && min_parallelism(root, pods)?.is_none() {
        job.scheduling = Some(Box::new(scheduling));
    }
    let name = job.workload.name.clone();
    job.add_group(name.clone(), vec![Role::new("main", pods, name, template)], minimum);
    Ok(job.finish())
}

/// The minimum that Kueue's annotation states.
fn min_parallelism(root: &Field<'_>, pods: i64) -> Fault<Option<i64>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    let Some(field) = annotations.get(MIN_PARALLELISM)? else { return Ok(None) };
    let text = field.text()?;
    match text.parse::<i64>() {
        Ok(min) if min >= 1 && min <= pods => Ok(Some(min)),
        _ if !field.strict() => Ok(None),
        Ok(min) if min >= 1 => {
            Err(field.invalid(format!("{min} is more than the {pods} pods of the job")))
        }
        Ok(value) => {
            Err(field.fail(Problem::OutOfRange { value, min: 1, max: i64::from(i32::MAX) }))
        }
        Err(_) => {
            Err(field.invalid(format!("{:?} is not an integer", crate::base::clip::clip(text))))
        }
    }
}
