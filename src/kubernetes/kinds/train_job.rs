//! `TrainJob` of `trainer.kubeflow.org`, and the runtimes that its templates are in.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use super::job_set;
use super::submitted::{Minimum, Submitted, positive};
use super::training_runtime::{STEP, TrainJob, with_resources};
use crate::kubernetes::account;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::metadata;
use crate::kubernetes::mode::Mode;
use crate::kubernetes::topologies;
use crate::kubernetes::value::Value;
use crate::model::Problem;

/// How long pods of a runtime wait for the rest, in seconds, unless it says so.
const SCHEDULE_TIMEOUT: i64 = 60;

/// A training job, as yet without groups: they follow from its runtime.
pub(super) fn train_job(root: &Field<'_>) -> Fault<Submitted> {
    let mut job = Submitted::new(WorkloadKind::TrainJob, root)?;
    let spec = root.need("spec")?;
    job.workload.suspended = spec.flag("suspend")?;
    let reference = spec.need("runtimeRef")?;
    let name = reference.need("name")?.text()?.to_owned();
    let kinds = ["ClusterTrainingRuntime", "TrainingRuntime"];
    let of_cluster = super::submitted::word(&reference, "kind", &kinds)? == kinds[0];
    let namespace = if of_cluster { String::new() } else { job.workload.namespace.clone() };
    let (mut nodes, mut resources) = (None, None);
    if let Some(trainer) = spec.get("trainer")? {
        let stated = trainer.get("numNodes")?;
        nodes = stated.map(|field| field.within(1, i32::MAX.into())).transpose()?;
        resources = trainer.get("resourcesPerNode")?.map(|field| field.value.clone());
    }
    job.train = Some(TrainJob { runtime: (namespace, name), nodes, resources }.into());
    Ok(job)
}

/// The job with the groups of its runtime; the error names the job or the runtime.
pub(in crate::kubernetes) fn resolve(
    mut job: Submitted,
    runtime: Option<&Value>,
    mode: Mode,
) -> Fault<Submitted> {
    let Some(train) = job.train.take() else { return Ok(job) };
    let mut job = match runtime {
        Some(runtime) => with_groups(job, &train, runtime, mode)?,
        None if mode == Mode::AsWritten => {
            let problem = Problem::Unknown(train.runtime.1.clone());
            return Err(job.fail("spec.runtimeRef.name", problem));
        }
        None => {
            let text = format!("its runtime {:?} does not exist: left out", train.runtime.1);
            let mut job = job.finish();
            job.notes = alloc::vec![text];
            job
        }
    };
    job.train = Some(train);
    Ok(job)
}

/// The job with the groups of a runtime that is there.
fn with_groups(
    mut job: Submitted,
    train: &TrainJob,
    runtime: &Value,
    mode: Mode,
) -> Fault<Submitted> {
    let of_cluster = train.runtime.0.is_empty();
    let kind = if of_cluster { "clustertrainingruntime" } else { "trainingruntime" };
    let object = metadata::object(kind, !of_cluster, runtime, mode);
    let patched = train.resources.as_ref().map(|own| with_resources(runtime.clone(), own));
    let root = Field::root(&object, patched.as_ref().unwrap_or(runtime));
    let spec = root.need("spec")?;
    job.frame.refused.extend(
        account::refused_of(runtime, mode)
            .into_iter()
            .map(|field| format!("{}: {field}", object.name)),
    );
    pod_group_policy(&mut job, &spec)?;
    let policy = Policy::read(&spec, train.nodes)?;
    let template = spec.need("template")?;
    let sets = template.need("spec")?;
    let roles = job_set::roles(&mut job, &sets, |replicated, job_spec| {
        let count = policy.count(replicated, job_spec)?;
        Ok((count, count))
    })?;
    if job.frame.priority_class.is_none() {
        let last = roles.iter().rev().find_map(|role| role.template.priority_class.as_deref());
        job.frame.priority_class = last.map(ToOwned::to_owned);
    }
    let name = job.workload.name.clone();
    job.add_group(name, roles, Minimum::Roles);
    Ok(job.finish())
}

/// Timeout and queue of the pod group that the runtime asks for.
fn pod_group_policy(job: &mut Submitted, spec: &Field<'_>) -> Fault<()> {
    let Some(policy) = spec.get("podGroupPolicy")? else { return Ok(()) };
    let (coscheduling, volcano) = (policy.get("coscheduling")?, policy.get("volcano")?);
    if let Some(volcano) = &volcano {
        job.frame.wish = topologies::volcano(volcano)?;
    }
    if coscheduling.is_some() && volcano.is_some() && policy.strict() {
        return Err(policy.invalid("names both coscheduling and volcano; only one is allowed"));
    }
    if let Some(coscheduling) = coscheduling {
        let seconds = positive(&coscheduling, "scheduleTimeoutSeconds", SCHEDULE_TIMEOUT)?;
        job.frame.timeout = Some(Duration::from_secs(seconds.unsigned_abs()));
    }
    Ok(())
}

/// How many nodes train, by the runtime and the job.
struct Policy {
    /// The runtime's number; `None` without a policy for machine learning.
    runtime: Option<i64>,
    job: Option<i64>,
    /// Whether the nodes are run by MPI, and whether its launcher is one of them.
    mpi: Option<bool>,
}

impl Policy {
    fn read(spec: &Field<'_>, job: Option<i64>) -> Fault<Policy> {
        let (mut runtime, mut mpi) = (None, None);
        if let Some(policy) = spec.get("mlPolicy")? {
            runtime = Some(positive(&policy, "numNodes", 1)?);
            if let Some(of_mpi) = policy.get("mpi")? {
                mpi = Some(of_mpi.flag("runLauncherAsNode")?);
            }
        }
        Ok(Policy { runtime, job, mpi })
    }

    /// How many pods a replicated job has. What `replicas` says does not enter.
    fn count(&self, replicated: &Field<'_>, spec: &Field<'_>) -> Fault<i64> {
        let stated = super::submitted::count(spec, "parallelism", 1)?.max(1);
        let Some(nodes) = self.runtime else { return Ok(stated) };
        let name = replicated.text_of("name")?;
        let trains = step(replicated)? == "trainer";
        let of_runtime = if trains { nodes } else { stated };
        Ok(match (self.job, self.mpi) {
            (Some(nodes), Some(launcher_too)) if name == "node" => {
                (nodes - i64::from(launcher_too)).max(1)
            }
            (Some(nodes), None) if trains => nodes,
            _ => of_runtime,
        })
    }
}

/// The step that the template of a replicated job is labelled with.
fn step(replicated: &Field<'_>) -> Fault<String> {
    let Some(template) = replicated.get("template")? else { return Ok(String::new()) };
    let Some(metadata) = template.get("metadata")? else { return Ok(String::new()) };
    metadata.get("labels")?.map_or(Ok(String::new()), |labels| labels.text_of(STEP))
}
