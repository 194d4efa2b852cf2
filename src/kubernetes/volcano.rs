//! Volcano's `Job`: the group and the pods it stands for.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::field::{Fault, Field};
use super::groups::{GroupObject, Nature};
use super::membership::{Family, Membership};
use super::metadata::{self, check_label_name};
use super::pod::{self, PodRecord};
use crate::model::{GroupPolicy, Problem};

/// A job: its group, and the pods to make unless they are in the input themselves.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) group: GroupObject,
    pub(super) tasks: Vec<Task>,
}

/// A task of a job.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) replicas: u32,
    pub(super) template: PodRecord,
}

/// The most pods that one job is expanded to.
const MAX_PODS: i64 = 100_000;
/// The most pods that all jobs together are expanded to.
pub(super) const MAX_PODS_IN_ALL: usize = 1_000_000;

/// A job of `batch.volcano.sh`.
pub(super) fn job(root: &Field<'_>) -> Fault<Job> {
    let (name, namespace) = (metadata::name(root)?, metadata::namespace(root)?);
    let label = root.object.name.clone();
    let mut group = GroupObject::new(Family::Volcano, namespace.clone(), name.clone(), label);
    let spec = root.need("spec")?;
    let scheduler = spec.name_of("schedulerName")?.unwrap_or_else(|| "volcano".into());
    group.queue = spec.name_of("queue")?.unwrap_or_else(|| "default".into());
    group.priority_class = spec.name_of("priorityClassName")?;
    if spec.get("networkTopology")?.is_some() {
        group.unmodelled.push("the network topology of hypernodes");
    }
    let mut tasks = Vec::new();
    let mut names = BTreeSet::new();
    let (mut total, mut minima) = (0_i64, 0_i64);
    spec.each("tasks", |field| {
        let task_name = field.name_of("name")?.unwrap_or_else(|| format!("default{}", tasks.len()));
        if field.strict()
            && let Some(at) = field.get("name")?
        {
            check_label_name(&at, &task_name)?;
        }
        if !names.insert(task_name.clone()) {
            return Err(field.fail_at("name", Problem::Duplicate(task_name)));
        }
        let replicas = match field.get("replicas")? {
            Some(replicas) => replicas.within(0, i32::MAX.into())?,
            None => 0,
        };
        let minimum = match field.get("minAvailable")? {
            Some(min) => {
                let value = min.within(0, i32::MAX.into())?;
                if field.strict() && value > replicas {
                    let text = format!("{value} is more than the {replicas} replicas");
                    return Err(min.invalid(text));
                }
                value
            }
            None => replicas,
        };
        total += replicas;
        minima += minimum;
        if total > MAX_PODS {
            let problem = Problem::OutOfRange { value: total, min: 0, max: MAX_PODS };
            return Err(field.fail_at("replicas", problem));
        }
        group.roles.insert(task_name.clone(), minimum as u32);
        let at = field.need("template")?;
        let mut template = pod::template(&at, namespace.clone())?;
        template.scheduler.get_or_insert_with(|| scheduler.clone().into_boxed_str());
        if template.priority_class.is_none() && template.priority.is_none() {
            template.priority_class = group.priority_class.clone().map(String::into_boxed_str);
        }
        template.membership = Some(
            Membership {
                family: Family::Volcano,
                object: name.clone(),
                group: name.clone(),
                role: Some(task_name.clone()),
                inline: None,
                field: "spec.tasks",
            }
            .into(),
        );
        tasks.push(Task { name: task_name, replicas: replicas as u32, template });
        Ok(())
    })?;
    if spec.strict() && tasks.is_empty() {
        return Err(spec.fail_at("tasks", Problem::Required));
    }
    // Zero is what an absent minimum is stored as: all that the tasks need.
    let mut min_available = minima;
    if let Some(field) = spec.get("minAvailable")? {
        let min = field.within(0, i32::MAX.into())?;
        if field.strict() && min > total {
            let text = format!("{min} is more than the {total} replicas of all tasks");
            return Err(field.fail(Problem::Invalid(text)));
        }
        if min > 0 {
            min_available = min;
        }
    }
    if let Ok(min_count @ 1..) = u32::try_from(min_available) {
        group.policy = GroupPolicy::Gang { min_count };
    }
    let phase = match root.get("status")? {
        Some(status) => status.get("state")?.map_or(Ok(String::new()), |s| s.text_of("phase"))?,
        None => String::new(),
    };
    if !matches!(phase.as_str(), "" | "Pending") {
        group.nature = Nature::BegunJob;
    }
    Ok(Job { group, tasks })
}

/// The job that a pod was made for.
pub(super) fn job_of(root: &Field<'_>) -> Fault<Option<String>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    match metadata.get("annotations")? {
        Some(annotations) => annotations.name_of("volcano.sh/job-name"),
        None => Ok(None),
    }
}

impl Job {
    /// The pods of the job, `<job>-<task>-<index>`, in order of task.
    pub(super) fn pods(&self) -> impl Iterator<Item = PodRecord> {
        self.tasks.iter().flat_map(|task| {
            (0..task.replicas).map(|index| {
                let mut record = task.template.clone();
                record.pod.name = format!("{}-{}-{index}", self.group.name, task.name);
                record.source = self.group.source;
                record.order = self.group.order;
                record
            })
        })
    }
}
