//! `CronJob` of `batch`.

use alloc::format;
use alloc::vec;

use super::job::{minimum_of, pods_at_once};
use super::submitted::{Minimum, Role, Submitted};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;

/// The job that is made when it is time: its pods wait for the schedule. Jobs that were made are
/// objects of their own.
pub(super) fn cron_job(root: &Field<'_>) -> Fault<Submitted> {
    let mut cron = Submitted::new(WorkloadKind::CronJob, root)?;
    let outer = root.need("spec")?;
    cron.workload.suspended = outer.flag("suspend")?;
    let job = outer.need("jobTemplate")?;
    if let Some(metadata) = job.get("metadata")? {
        cron.queue_in(&metadata)?;
    }
    let spec = job.need("spec")?;
    let pods = pods_at_once(&spec)?;
    cron.count_pods(pods, &spec, "parallelism")?;
    let template = cron.template(&spec.need("template")?)?;
    let queued = cron.frame.local_queue.is_some();
    let minimum = match minimum_of(&mut cron, &job, &spec, pods)? {
        Some(minimum) => minimum,
        None if queued => Minimum::Whole(pods),
        None => Minimum::Any,
    };
    let name = cron.workload.name.clone();
    cron.add_group(name.clone(), vec![Role::new("main", pods, name, template)], minimum);
    cron.hold(&format!("waits for its schedule, {}", outer.text_of("schedule")?));
    Ok(cron.finish())
}
