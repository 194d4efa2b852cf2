//! Kubeflow's jobs by framework: `TFJob`, `PyTorchJob`, `XGBoostJob`, `MPIJob`, `PaddleJob` and
//! `JAXJob`.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::submitted::{Minimum, Role, Submitted, count, word};
use super::workload::{StartAfter, StartCondition};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::metadata::unsupported;
use crate::model::Problem;

/// Differences between the kinds of training jobs.
struct Framework {
    /// The field with the specifications of replicas.
    replicas: &'static str,
    /// Roles in order, and how many pods each has unless it says so.
    roles: &'static [(&'static str, i64)],
    /// The role that must be there.
    required: Option<&'static str>,
    /// Roles that lead; the first that is there does.
    leaders: &'static [&'static str],
}

const TENSORFLOW: Framework = Framework {
    replicas: "tfReplicaSpecs",
    roles: &[("Chief", 1), ("Master", 1), ("PS", 1), ("Worker", 1), ("Evaluator", 1)],
    required: None,
    leaders: &["Chief", "Master"],
};
const PYTORCH: Framework = Framework {
    replicas: "pytorchReplicaSpecs",
    roles: &[("Master", 1), ("Worker", 1)],
    required: None,
    leaders: &["Master"],
};
const XGBOOST: Framework = Framework {
    replicas: "xgbReplicaSpecs",
    roles: &[("Master", 1), ("Worker", 1)],
    required: Some("Master"),
    leaders: &["Master"],
};
const MPI: Framework = Framework {
    replicas: "mpiReplicaSpecs",
    roles: &[("Launcher", 1), ("Worker", 0)],
    required: Some("Launcher"),
    leaders: &["Launcher"],
};

const PADDLE: Framework = Framework {
    replicas: "paddleReplicaSpecs",
    roles: &[("Master", 1), ("Worker", 1)],
    required: None,
    leaders: &["Master"],
};
const JAX: Framework = Framework {
    replicas: "jaxReplicaSpecs",
    roles: &[("Worker", 1)],
    required: Some("Worker"),
    leaders: &[],
};

/// A job of one framework: one group.
pub(super) fn kubeflow(kind: WorkloadKind, root: &Field<'_>) -> Fault<Submitted> {
    let framework = match kind {
        WorkloadKind::TFJob => &TENSORFLOW,
        WorkloadKind::PyTorchJob => &PYTORCH,
        WorkloadKind::XGBoostJob => &XGBOOST,
        WorkloadKind::PaddleJob => &PADDLE,
        WorkloadKind::JAXJob => &JAX,
        _ => &MPI,
    };
    let mut job = Submitted::new(kind, root)?;
    let spec = root.need("spec")?;
    let mut roles = roles(&mut job, &spec, framework)?;
    if kind == WorkloadKind::MPIJob {
        let policies = ["AtStartup", "WaitForWorkersReady"];
        let ready = workers_ready(root)?;
        let waits = word(&spec, "launcherCreationPolicy", &policies)? == "WaitForWorkersReady";
        let workers = roles.iter().find(|role| role.name == "worker").map_or(0, |role| role.count);
        if waits && workers > 0 {
            let launchers = roles.iter_mut().filter(|role| role.name == "launcher");
            launchers.for_each(|role| {
                role.after.push(StartAfter::new("worker", StartCondition::Ready));
                role.open = ready >= workers;
            });
        }
    }
    let total: i64 = roles.iter().map(|role| role.count).sum();
    let mut min = None;
    if matches!(kind, WorkloadKind::PyTorchJob | WorkloadKind::PaddleJob)
        && let Some(policy) = spec.get("elasticPolicy")?
    {
        min = elastic(&policy, total)?;
    }
    if let Some(policy) = spec.get("runPolicy")? {
        job.workload.suspended = policy.flag("suspend")?;
        if let Some(scheduling) = policy.get("schedulingPolicy")? {
            min = scheduling_policy(&mut job, &scheduling, total)?.or(min);
        }
    }
    let minimum = match min {
        Some(min) if min < total => {
            let masters = roles.iter().find(|role| role.name == "master");
            let masters = masters.map_or(0, |role| role.count);
            let workers = roles.iter_mut().find(|role| role.name == "worker");
            match workers {
                // Of PyTorch the master is needed, and workers for the rest.
                Some(workers) if kind == WorkloadKind::PyTorchJob && min > masters => {
                    workers.min = min - masters;
                    Minimum::WholeAndRoles(min)
                }
                _ => Minimum::Whole(min),
            }
        }
        _ => Minimum::Roles,
    };
    let name = job.workload.name.clone();
    job.add_group(name, roles, minimum);
    Ok(job.finish())
}

/// How many workers run, by the status.
fn workers_ready(root: &Field<'_>) -> Fault<i64> {
    let Some(status) = root.get("status")? else { return Ok(0) };
    let Some(roles) = status.get("replicaStatuses")? else { return Ok(0) };
    roles.get("Worker")?.map_or(Ok(0), |workers| count(&workers, "active", 0))
}

/// The replica specifications of a job as roles, in the order of the framework.
fn roles(job: &mut Submitted, spec: &Field<'_>, framework: &Framework) -> Fault<Vec<Role>> {
    let specs = spec.need(framework.replicas)?;
    let names: Vec<&str> = framework.roles.iter().map(|(name, _)| *name).collect();
    let mut keys: Vec<(usize, String)> = Vec::new();
    let mut seen = BTreeSet::new();
    let of = |key: &str| names.iter().position(|name| name.eq_ignore_ascii_case(key));
    spec.entries(framework.replicas, |key, field| match of(key) {
        Some(at) if !seen.insert(at) => Err(field.fail(Problem::Duplicate(names[at].into()))),
        Some(at) => {
            keys.push((at, key.into()));
            Ok(())
        }
        None if field.strict() => Err(unsupported(&specs, key, &names)),
        None => Ok(()),
    })?;
    keys.sort_unstable();
    if let Some(required) = framework.required
        && spec.strict()
        && !keys.iter().any(|(at, _)| names[*at] == required)
    {
        return Err(specs.fail_at(required, Problem::Required));
    }
    if spec.strict() && keys.is_empty() {
        return Err(spec.fail_at(framework.replicas, Problem::Required));
    }
    let leader =
        framework.leaders.iter().find(|name| keys.iter().any(|(at, _)| names[*at] == **name));
    let mut roles = Vec::new();
    for (at, key) in keys {
        let (name, default) = framework.roles[at];
        let replica = specs.need(&key)?;
        let count = count(&replica, "replicas", default)?;
        job.count_pods(count, &replica, "replicas")?;
        let template = job.template(&replica.need("template")?)?;
        let lower = name.to_lowercase();
        let prefix = format!("{}-{lower}", job.workload.name);
        let mut role = Role::new(&lower, count, prefix, template);
        role.leader = leader == Some(&name);
        roles.push(role);
    }
    Ok(roles)
}

/// The least number of pods of an elastic job.
fn elastic(policy: &Field<'_>, total: i64) -> Fault<Option<i64>> {
    let bound = |name| policy.get(name)?.map(|field| field.within(1, i32::MAX.into())).transpose();
    let (min, max) = (bound("minReplicas")?, bound("maxReplicas")?);
    if let (Some(min), Some(max)) = (min, max)
        && policy.strict()
        && min > max
    {
        let text = format!("{min} is more than the {max} of maxReplicas");
        return Err(policy.fail_at("minReplicas", Problem::Invalid(text)));
    }
    match min {
        Some(min) if policy.strict() && min > total => {
            let text = format!("{min} is more than the {total} replicas of all roles");
            Err(policy.fail_at("minReplicas", Problem::Invalid(text)))
        }
        min => Ok(min),
    }
}

/// Queue, class and timeout of a job; its minimum, if it states one.
fn scheduling_policy(job: &mut Submitted, policy: &Field<'_>, total: i64) -> Fault<Option<i64>> {
    if let Some(queue) = policy.name_of("queue")? {
        job.frame.queue = queue;
    }
    if let Some(class) = policy.name_of("priorityClass")? {
        job.frame.priority_class = Some(class);
        job.frame.class_field = "spec.runPolicy.schedulingPolicy.priorityClass";
    }
    crate::kubernetes::groups::check_quantities(policy, "minResources")?;
    let seconds = count(policy, "scheduleTimeoutSeconds", 0)?;
    if seconds > 0 {
        job.frame.timeout = Some(Duration::from_secs(seconds.unsigned_abs()));
    }
    let Some(field) = policy.get("minAvailable")? else { return Ok(None) };
    let min = field.within(0, i32::MAX.into())?;
    if field.strict() && min > total {
        let text = format!("{min} is more than the {total} replicas of all roles");
        return Err(field.fail(Problem::Invalid(text)));
    }
    Ok(Some(min))
}
